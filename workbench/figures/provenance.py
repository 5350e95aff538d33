"""The record of how a figure was made (runs, data, machine, versions), also in
words."""

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import partial

from workbench.core.kinds import Record, Values
from workbench.core.names import count
from workbench.core.trace import Trace, encode
from workbench.runs.notebooks import PROFILES, Notebook
from workbench.runs.run import machine, threads, versions

# A machine is busy if its load average exceeds the number of our threads by this much.
MAX_OTHER_LOAD = 0.5
# A machine is busy if the ratio of wall to CPU seconds is above this.
MAX_WALL_OVER_CPU = 1.2
# The largest number of characters on data below a figure; longer lists of data sets are
# replaced by their number.
MAX_BRIEF = 120
# Matches the sizes in the names of generated data.
SIZES = re.compile(r"( of)? \d+x\d+(x\d+)?")


def made_by(traces: list[Trace]) -> Record:
    """Return the data, solvers, machine, versions and conditions of some runs.

    Returns
    -------
    record : dict
        ``timed`` is whether the seconds are timings, None without runs, and
        ``not_timed`` is the reason if they are not. ``machine`` describes the machine
        of the first run, with the names of all processors in ``cpu``, joined by "and".
        ``load`` is the largest load average at the start or the end of a run, without
        the load of untimed notebooks on other cores. ``wall_over_cpu`` is near 1 on an
        idle machine with one thread. ``jobs`` is the number of notebooks that ran in
        parallel. ``traces`` has the settings of the runs. ``versions`` and ``commit``
        belong to the drawing, and ``commits_of_runs`` to the runs.
    """
    headers = [trace.header for trace in traces]
    wall = sum(trace.last.get("seconds", 0.0) for trace in traces)
    cpu = sum(trace.last.get("cpu", 0.0) for trace in traces)
    keys = ("solver", "parameters", "rules")
    machines = [header["machine"] for header in headers] or [machine()]
    cpus = " and ".join(dict.fromkeys(each["cpu"] for each in machines))
    timed = all(header.get("timed") for header in headers) if headers else None
    made = {
        "data": unique(header["problem"] for header in headers),
        "solvers": unique({name: header[name] for name in keys} for header in headers),
        "runs": len(traces),
        "timed": timed,
        "machine": machines[0] | {"cpu": cpus},
        "threads": headers[0]["threads"] if headers else threads(),
        "load": max(filter(None, map(_load, headers)), default=None),
        "wall_over_cpu": round(wall / cpu, 2) if cpu > 0 else None,
        "jobs": int(os.environ.get("WORKBENCH_JOBS", "1")),
        "versions": versions(),
        "commit": versions()["commit"],
        "commits_of_runs": sorted({header["versions"]["commit"] for header in headers}),
        "traces": [_summary(trace) for trace in traces],
    }
    reason = why_not_timed(made)
    if headers and reason:
        made |= {"timed": False, "not_timed": reason}
    return made


def why_not_timed(made: Values) -> str:
    """Return why the seconds of a figure are not timings; empty if they are.

    They are timings if every run was in timing mode, no other notebook ran at the same
    time, the largest load average was below the largest number of threads plus
    :data:`MAX_OTHER_LOAD`, and the wall time of all runs was at most
    :data:`MAX_WALL_OVER_CPU` times their CPU time.
    """
    if made["jobs"] > 1:
        return f"{made['jobs']} notebooks ran side by side"
    if made["timed"] is False:
        return made.get("not_timed") or "the seconds were not measured in timing mode"
    used = _most_threads(made["threads"], made["solvers"])
    if (made["load"] or 0.0) >= used + MAX_OTHER_LOAD:
        load = f"load {made['load']:g}, this run used {count(used, 'thread')}"
        return f"the machine was busy ({load})"
    ratio = made["wall_over_cpu"] or 1.0
    if ratio > MAX_WALL_OVER_CPU:
        return f"the machine was busy (wall time was {ratio:g} times CPU time)"
    return ""


def in_words(made: Values, times: bool = True, brief: bool = False) -> list[str]:
    """Return sentences on the data and the machine behind a figure.

    Parameters
    ----------
    times : bool
        Whether the notebook times anything. If not, the text does not give a reason why
        the seconds are not timings.
    brief : bool
        Whether data sets are only named, or counted if there are many.
    """
    sentences = _data_in_words(made["data"], brief)
    computer = made["machine"]
    used = count(max(made["threads"].values(), default=1), "BLAS thread")
    sentences.append(f"Machine: {computer['cpu']}, {computer['cores']} cores, {used}.")
    if reason := why_not_timed(made):
        sentences.append(f"Not timed: {reason}." if times else "Not timed.")
    return sentences


def _data_in_words(problems: Iterable[Record], brief: bool) -> list[str]:
    """Return a list with a sentence on the data, empty without data."""
    groups: dict[tuple[str, bool], list[Record]] = {}
    for problem in problems:
        # The name is without sizes, because the sentence gives their ranges.
        name = SIZES.sub("", problem["name"])
        groups.setdefault((name, problem["synthetic"]), []).append(problem)
    if not groups:
        return []
    names = []
    for (name, synthetic), group in groups.items():
        words = ["synthetic"] if synthetic and "synthetic" not in name else []
        if not brief:
            words += [f"{size} = {_range(p[size] for p in group)}" for size in "ndk"]
        names.append(f"{name} ({', '.join(words)})" if words else name)
    sentence = f"Data: {'; '.join(names)}."
    if brief and len(sentence) > MAX_BRIEF:
        sets = {re.split(", | [+] ", name)[0]: synthetic for name, synthetic in groups}
        words = next(iter(sets))
        if len(sets) > 1:
            words = f"{len(sets)} sets"
            if made_up := sum(sets.values()):
                words += f", {made_up} of them synthetic"
        sentence = f"Data: {words}."
    return [sentence]


def regenerated_by(notebook: Notebook, values: Values) -> tuple[str | None, str]:
    """Return the profile with these values, or None, and the command that sets them."""
    command = f"workbench figures {notebook.name}"
    for profile in PROFILES:
        if notebook.values(profile) == values:
            return profile, f"{command} --profile {profile}"
    usual = notebook.values("quick")
    changed = {name: values[name] for name in values if values[name] != usual[name]}
    return None, command + _options(changed)


def repeated_by(record: Mapping, only: object) -> str:
    """Return the command that makes a figure again with some changed parameters."""
    narrowed = _options(only) if isinstance(only, dict) else ""
    return f"{record.get('command') or ''} --out runs/one{narrowed}"


def as_json(record: Values) -> str:
    """Return a record as strict JSON: one line per entry, and per item of long
    lists."""
    dumps = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    lines = []
    for name, value in encode(dict(record)).items():
        text = dumps(value)
        if isinstance(value, list) and len(text) > 100:
            text = "[\n  " + ",\n  ".join(map(dumps, value)) + "\n ]"
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def unique(items: Iterable[dict]) -> list[dict]:
    """Return the items without duplicates, in their order."""
    dumps = partial(json.dumps, sort_keys=True, default=str)
    return [*{dumps(item): item for item in items}.values()]


def _summary(trace: Trace) -> Record:
    header = trace.header
    return {
        "key": header.get("key", ""),
        "solver": header["solver"],
        "data": header["problem"]["name"],
        "checksum": header["problem"]["checksum"],
        "seed": header.get("seed"),
        "repetition": header.get("repetition"),
        "parameters": header["parameters"],
        "stopped_by": trace.stopped_by,
    }


def _load(header: Values) -> float | None:
    """Return the larger load average of start and end, or None if it is 0 or unknown.

    The load that untimed notebooks on other cores may have caused is subtracted.
    """
    load = max(header["load"] or 0.0, header.get("load_at_end") or 0.0)
    return max(0.0, round(load - header.get("beside", 0), 2)) if load else None


def _most_threads(threads: Mapping[str, int], solvers: Iterable[Values]) -> int:
    """Return the largest number of threads that a run used, in BLAS or in a solver."""
    numbers = [1, *threads.values()]
    for solver in solvers:
        for name in ("threads", "workers"):
            numbers.append(solver["parameters"].get(name) or 1)
    return max(numbers)


def _range(values: Iterable[int]) -> str:
    values = list(values)
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _options(values: Mapping) -> str:
    """Return parameters as options of a command."""
    texts = ""
    for name, value in values.items():
        value = str(value).lower() if isinstance(value, bool) else str(value)
        texts += f" -p {name}={shlex.quote(value)}"
    return texts
