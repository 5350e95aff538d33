"""The runs that were kept on a dashboard: their curves, and the code that repeats each."""

from __future__ import annotations

import base64
import math
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas

from workbench.core.trace import Trace, read_trace
from workbench.figures.papers import token
from workbench.figures.plots import log_axes
from workbench.figures.report.markup import Html, tag
from workbench.figures.style import LABELS, STYLE, look

Runs = dict[str, Trace]  # by the name of the file


def collect(folder: Path) -> tuple[Runs, list[str]]:
    """Read a folder of kept runs; one line on each file that is none."""
    runs, faults = {}, []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            trace = read_trace(path)
            problem = trace.header["problem"]
            entries = (trace.header["solver"], trace.header["code"], problem["name"])
            if not trace.rows or not all(isinstance(entry, str) for entry in entries):
                raise ValueError("it is no run that was kept")
            runs[path.stem] = trace
        except (OSError, ValueError, KeyError, TypeError) as error:
            faults.append(f"kept/{path.name}: left out; {error}")
    return runs, faults


def section(runs: Runs) -> Html | None:
    """Return the section of kept runs, one picture for each problem; None without any."""
    if not runs:
        return None
    problems: dict[str, Runs] = {}
    for name, trace in runs.items():
        problems.setdefault(str(trace.header["problem"].get("checksum")), {})[name] = trace
    return tag(
        "section",
        tag("h2", "Runs that were kept", id="kept", tabindex="-1"),
        tag("p", EXPLAINED),
        [_card(group) for group in problems.values()],
    )


EXPLAINED = (
    "Kept by hand on a dashboard, from explorations and not from a protocol: parameters were "
    "chosen while watching. Beside each is the code that repeats it."
)


def _card(group: Runs) -> Html:
    first = next(iter(group.values()))
    problem = first.header["problem"]
    kind = "synthetic data" if problem.get("synthetic") else "data"
    name = problem["name"]
    return tag(
        "article",
        tag("h4", name),
        tag(
            "figure",
            tag("img", src=_picture(group), alt=f"Kept runs on {name}", width=620),
            tag("figcaption", f"{name}, {kind}: n = {problem.get('n')}, k = {problem.get('k')}."),
        ),
        [_program(stem, trace) for stem, trace in group.items()],
        class_="item card",
        data_sets=token(name.split(",")[0]),
        data_methods=" ".join(token(look(t.header["solver"]).label) for t in group.values()),
        data_ran="yes",
    )


def _program(stem: str, trace: Trace) -> Html:
    last = {k: f"{v:.4g}" for k, v in trace.last.items() if isinstance(v, int | float)}
    shown = [f"{key} {last[key]}" for key in ("round", "gap", "test_error") if key in last]
    cpu = trace.header.get("machine", {}).get("cpu", "unknown")
    seconds = f"{last.get('seconds', '?')} s of solver time on {cpu}"
    summary = f"{look(trace.header['solver']).label}: {', '.join([*shown, seconds])}"
    program = tag("pre", tag("code", trace.header["code"]))
    return tag("details", tag("summary", summary), tag("p", tag("code", f"{stem}.jsonl")), program)


def _picture(group: Runs) -> str:
    """Return the gaps where all have them, or else the test errors or objectives, as an image."""
    keys = ("gap", "test_error", "primal", "squared_error")
    shared = [k for k in keys if all(_known(trace, k) for trace in group.values())]
    key = shared[0] if shared else "test_error"
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(6.2, 3.2))
        ax = canvas.subplots()
        styles = ("-", "--", ":", "-.")
        for i, (stem, trace) in enumerate(group.items()):
            label, colour, _ = look(trace.header["solver"])
            rows = [row for row in trace.rows if key in row]
            x = [row["seconds"] for row in rows]
            y, line = [row[key] for row in rows], styles[i % len(styles)]
            name = f"{label} ({stem})".replace("$", r"\$")  # not a formula
            ax.step(x, y, line, where="post", color=colour, label=name)
        ax.set(xlabel=LABELS["seconds"], ylabel=LABELS.get(key, "objective"))
        log_axes(ax)
        ax.legend()
        sink = BytesIO()
        canvas.savefig(sink, format="png", dpi=160)
    return "data:image/png;base64," + base64.b64encode(sink.getvalue()).decode("ascii")


def _known(trace: Trace, key: str) -> bool:
    return any(math.isfinite(value) for value in trace.column(key))
