"""How a figure came to be: its runs, data, machine and versions, as a record and in words."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.core.trace import Trace, encode
from workbench.data.cache import state_of_folders
from workbench.figures.curves import time_to
from workbench.figures.reference import FOLDER as PRINTED
from workbench.runs.keys import key, package_code
from workbench.runs.notebooks import PROFILES, Notebook
from workbench.runs.run import machine, threads, versions

TOLERANCES = tuple(f"1e-0{digits}" for digits in range(1, 7))


def made_by(traces: list[Trace]) -> dict[str, Any]:
    """Return the data, solvers, machine, versions and conditions that lie behind some runs.

    ``timed`` tells whether all of them were measured in timing mode. ``wall_over_cpu`` is the
    ratio of their wall to CPU seconds: near 1 on an idle machine with one thread. ``jobs`` is the
    number of notebooks that ran side by side. ``traces`` has of each run what it was and the CPU
    seconds until its certified gap was below 1e-1, 1e-2, ... as far as it came; where the solver
    measures the gap over its first one, that ratio. The versions and the commit are those of who
    draws; runs that were made before have their own commits.
    """
    headers = [trace.header for trace in traces]
    wall = sum(trace.last.get("seconds", 0.0) for trace in traces)
    cpu = sum(trace.last.get("cpu", 0.0) for trace in traces)
    loads = [header["load"] for header in headers if header["load"] is not None]
    keys = ("solver", "parameters", "rules")
    machines = unique(header["machine"] for header in headers) or [machine()]
    return {
        "data": unique(header["problem"] for header in headers),
        "solvers": unique({name: header[name] for name in keys} for header in headers),
        "runs": len(traces),
        "timed": all(header.get("timed", False) for header in headers) if headers else None,
        "machine": machines[0],
        **({"other_machines": machines[1:]} if machines[1:] else {}),
        "threads": headers[0]["threads"] if headers else threads(),
        "load": max(loads, default=None),
        "wall_over_cpu": round(wall / cpu, 2) if cpu > 0 else None,
        "jobs": int(os.environ.get("WORKBENCH_JOBS", "1")),
        "versions": versions(),
        "commit": versions()["commit"],
        "commits_of_runs": sorted({header["versions"]["commit"] for header in headers}),
        "traces": [_summary(trace) for trace in traces],
    }


def in_words(made: Mapping[str, Any]) -> list[str]:
    """Return sentences on the data and the machine that lie behind a figure."""
    sentences = []
    if made["data"]:
        groups: dict[tuple[str, bool], list[dict]] = {}
        for problem in made["data"]:
            # Generators put the size into the name; here one phrase tells the range of sizes.
            name = re.sub(r" \d+x\d+(x\d+)?", "", problem["name"])
            groups.setdefault((name, problem["synthetic"]), []).append(problem)
        described = [
            f"{name} ({'synthetic, ' if synthetic and 'synthetic' not in name else ''}"
            + ", ".join(f"{size} = {_range(p[size] for p in problems)}" for size in "ndk")
            + ")"
            for (name, synthetic), problems in groups.items()
        ]
        sentences.append(f"Data: {'; '.join(described)}.")
    computer = made["machine"]
    most = max(made["threads"].values(), default=1)
    sentences.append(
        f"Machine: {computer['cpu']}, {computer['cores']} cores, "
        f"{most} BLAS thread{'s' if most > 1 else ''}."
    )
    if others := made.get("other_machines"):
        sentences.append(f"Other machines that runs are from: {len(others)}.")
    if made["timed"] is False:
        sentences.append("Not timed: the seconds were not measured in timing mode.")
    elif made["jobs"] > 1:
        sentences.append(f"Not timed: {made['jobs']} notebooks ran side by side.")
    elif (made["wall_over_cpu"] or 1) > 1.2:
        sentences.append(
            "Not a clean timing: the machine was busy "
            f"(wall time was {made['wall_over_cpu']} times CPU time)."
        )
    return sentences


def notebook_key(notebook: Notebook, values: Mapping[str, Any]) -> str:
    """Return the key of all that a notebook's figures depend on, whatever it does inside.

    Its code and parameters, the package with its libraries, the papers' printed numbers, and the
    names, sizes and dates of the files in the data folders and of those that the parameters name.
    """
    return key(
        notebook=notebook.code,
        parameters=dict(values),
        package=package_code(),
        printed=[path.read_text(encoding="utf-8") for path in sorted(PRINTED.glob("*.csv"))],
        data=state_of_folders(str(value) for value in values.values()),
    )


def regenerated_by(notebook: Notebook, values: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the profile that has these values, or None, and the command that sets them."""
    command = f"workbench figures {notebook.name}"
    for profile in PROFILES:
        if notebook.values(profile) == values:
            return profile, f"{command} --profile {profile}"
    usual = notebook.values("quick")
    changed = [f"-p {n}={_quoted(v)}" for n, v in values.items() if v != usual[n]]
    return None, " ".join([command, *changed])


def as_json(record: Mapping[str, Any]) -> str:
    """Return a record as strict JSON, a line for each entry and for each item of a long list."""
    lines = []
    for name, value in encode(dict(record)).items():
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if isinstance(value, list) and len(text) > 100:
            items = (json.dumps(item, ensure_ascii=False, allow_nan=False) for item in value)
            text = "[\n  " + ",\n  ".join(items) + "\n ]"
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def unique(items: Iterable[dict]) -> list[dict]:
    """Return the items without repeats, in their order."""
    return list({json.dumps(item, sort_keys=True, default=str): item for item in items}.values())


def _summary(trace: Trace) -> dict[str, Any]:
    header, last = trace.header, trace.last
    gap = "gap_ratio" if "gap_ratio" in last else "gap"
    reached = {t: time_to(trace, gap, float(t), "cpu") for t in TOLERANCES}
    return {
        "key": header.get("key", ""),
        "solver": header["solver"],
        "data": header["problem"]["name"],
        "checksum": header["problem"]["checksum"],
        "seed": header.get("seed"),
        "repetition": header.get("repetition"),
        "parameters": header["parameters"],
        "timed": header.get("timed", False),
        "stopped_by": last.get("stopped_by"),
        "times": {t: round(cpu, 4) for t, cpu in reached.items() if cpu < float("inf")},
    }


def _range(values: Iterable[int]) -> str:
    values = list(values)
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _quoted(value: Any) -> str:
    return shlex.quote(str(value).lower() if isinstance(value, bool) else str(value))
