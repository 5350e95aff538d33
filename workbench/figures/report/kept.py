"""The runs that were kept on a dashboard: their curves, and the code that repeats each."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas

from workbench.core.trace import Trace, read_trace
from workbench.figures.plots import log_axes
from workbench.figures.style import LABELS, STYLE, look

PLOTTED = ("gap", "test_error", "primal", "squared_error")


def collect(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read a folder of kept runs.

    Returns
    -------
    groups : one per problem, with its ``problem``, ``labels``, the ``picture`` of its runs as a
        data address, and its ``runs``: name of the file -> (summary, code)
    faults : one line per file that was left out
    """
    problems: dict[str, dict[str, Trace]] = {}
    faults = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            trace = read_trace(path)
            problem = trace.header["problem"]
            entries = (trace.header["solver"], trace.header["code"], problem["name"])
            if not trace.rows or not all(isinstance(entry, str) for entry in entries):
                raise ValueError("it is not a kept run")
            problems.setdefault(str(problem.get("checksum")), {})[path.stem] = trace
        except (OSError, ValueError, KeyError, TypeError) as error:
            faults.append(f"kept/{path.name}: left out; {error}")
    return [_group(traces) for traces in problems.values()], faults


def _group(traces: Mapping[str, Trace]) -> dict[str, Any]:
    return {
        "problem": next(iter(traces.values())).header["problem"],
        "labels": [look(trace.header["solver"]).label for trace in traces.values()],
        "picture": _picture(traces),
        "runs": {name: (_summary(t), t.header["code"]) for name, t in traces.items()},
    }


def _summary(trace: Trace) -> str:
    last = {k: f"{v:.4g}" for k, v in trace.last.items() if isinstance(v, int | float)}
    shown = [f"{key} {last[key]}" for key in ("round", "gap", "test_error") if key in last]
    cpu = trace.header.get("machine", {}).get("cpu", "unknown")
    shown.append(f"{last.get('seconds', '?')} s of solver time on {cpu}")
    return f"{look(trace.header['solver']).label}: {', '.join(shown)}"


def _picture(traces: Mapping[str, Trace]) -> str:
    """Draw the first of :data:`PLOTTED` that all runs have; return it as a data address."""
    shared = [k for k in PLOTTED if all(_known(trace, k) for trace in traces.values())]
    key = shared[0] if shared else "test_error"
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(6.2, 3.2))
        ax = canvas.subplots()
        for i, (name, trace) in enumerate(traces.items()):
            label, colour, _ = look(trace.header["solver"])
            rows = [row for row in trace.rows if key in row]
            x, y = ([row[column] for row in rows] for column in ("seconds", key))
            name = f"{label} ({name})".replace("$", r"\$")  # not a formula
            line = ("-", "--", ":", "-.")[i % 4]
            ax.step(x, y, line, where="post", color=colour, label=name)
        ax.set(xlabel=LABELS["seconds"], ylabel=LABELS.get(key, "objective"))
        log_axes(ax)
        ax.legend()
        sink = BytesIO()
        canvas.savefig(sink, format="png", dpi=160)
    return "data:image/png;base64," + base64.b64encode(sink.getvalue()).decode("ascii")


def _known(trace: Trace, key: str) -> bool:
    return any(math.isfinite(value) for value in trace.column(key))
