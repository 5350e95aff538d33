"""Traces as a result file of benchopt, so that they can be shown and published on its pages.

>>> to_benchopt(sweep(points).traces(), "runs.parquet", by=["lambda0"])  # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from workbench.core.trace import Trace
from workbench.runs.export import PROBLEM, as_array, as_text, parameters, read_all, value_of, write

CLOCK = ("round", "seconds", "cpu")
FIRST = ("value", "gap", "upper", "lower", "train_error", "test_error")  # of the page's choices
UNTIMED = "Some of these runs may have shared their machine: compare rounds, not times."
# benchopt's page puts names unescaped into attributes of its HTML and looks its plots up by them.
SAFE = str.maketrans('"&<', "'+(")


def to_benchopt(
    traces: Iterable[Trace],
    path: str | os.PathLike,
    *,
    objective: str = "workbench",
    by: Sequence[str] = (),
) -> None:
    """Write traces as a result file of benchopt: for its pages, ``plot``, ``merge``, ``publish``.

    One file is one benchopt benchmark: give traces of solvers that minimise the same function, and
    name in `by` the parameters that change it. Checked against benchopt 1.10.

    A curve there is all that shares a data set, an objective and a solver's name:

    - ``dataset_name`` is what a sweep made the problem from, else the problem's name. It says
      synthetic, and tells data apart that share the name and the seed but not the checksum;
    - ``objective_name`` is `objective` with the values of `by`;
    - ``solver_name`` shows the parameters that differ among the runs of the solver in this file.
      All of them are in ``solver_description`` and in ``p_solver_<name>``;
    - ``idx_rep`` counts the runs that share these three: seeds and repetitions.

    ``time`` is the row's ``seconds`` and ``stop_val`` its ``round``. Every other number but ``cpu``
    becomes ``objective_<column>``. ``objective_value`` is ``upper`` once more, the certified upper
    bound: it needs no other run to be true, and the page's own switch makes it the distance to the
    best curve. The page opens on ``objective_gap``, each run's own certificate, over time, or over
    the rounds where a sweep did not time all the runs.

    benchopt draws a column with holes at wrong times. So a number that was not measured in a row
    is that of the row before; where there is none before, or it is NaN, it is infinite, which is
    not drawn.

    Parameters
    ----------
    traces : may be a generator; its traces are not kept
    path : of the file, which is replaced; ends in ``.parquet``
    objective : what is minimised, the title of the page's plots
    by : names of parameters that belong to the objective, such as ``("lambda0",)``

    Raises
    ------
    ValueError
        If there is no trace, one is there twice, no row holds a number to plot, or the path ends
        in anything else.
    """
    if os.path.splitext(path)[1] != ".parquet":
        raise ValueError(f"path: benchopt reads files that end in .parquet, got {str(path)!r}")
    runs, lengths, rows = read_all(traces)
    index = np.repeat(np.arange(len(runs)), lengths)
    numbers = {name: column for name, column in rows.items() if _is_number(column.type)}
    measured = {name: column for name, column in numbers.items() if name not in CLOCK}
    if not measured or not {"round", "seconds"} <= set(numbers):
        raise ValueError("traces: no row holds its round, its seconds and a number to plot")
    measured.pop("name", None)  # objective_name is taken
    if "upper" in measured:
        measured["value"] = measured["upper"]
    order = [name for name in FIRST if name in measured]
    order += [name for name in measured if name not in FIRST]

    names = _names(runs, objective, by)
    columns = {name: [run[name] for run in names] for name in names[0]}
    columns |= {f"p_obj_{name}": [value_of(run, name) for run in runs] for name in by}
    columns |= parameters(runs, "p_solver_", skip=by)
    for name in (*PROBLEM, "seed"):
        columns[f"p_dataset_{name}"] = [
            run.get(name) if name == "seed" else (run.get("problem") or {}).get(name)
            for run in runs
        ]
    columns |= _system(runs)
    table = {name: as_array(values).take(index) for name, values in columns.items()}
    table["stop_val"] = rows["round"]
    table["time"] = rows["seconds"]
    for name in order:
        worst = -np.inf if name == "lower" else np.inf
        table[f"objective_{name}"] = _without_holes(measured[name], index, worst)
    views = _views(order, "Iteration" if _untimed(runs) else "Time")
    write(pa.table(table).replace_schema_metadata({"_meta_json": json.dumps(views)}), path)


def _names(runs: Sequence[dict], objective: str, by: Sequence[str]) -> list[dict[str, Any]]:
    """Return what benchopt calls the data set, objective, solver and repetition of each run."""
    checksums: dict[tuple, set] = {}
    settings: dict[tuple, set] = {}
    for run in runs:
        problem = run.get("problem") or {}
        checksums.setdefault(_data(run), set()).add(problem.get("checksum"))
        for name, value in (run.get("parameters") or {}).items():
            settings.setdefault((run.get("solver"), name), set()).add(as_text(value))
    count, names = Counter(), []
    for run in runs:
        problem, solver = run.get("problem") or {}, run.get("solver")
        settled = sorted((run.get("parameters") or {}).items())
        own = {name: v for name, v in settled if name not in ("seed", *by)}
        varied = {name: v for name, v in own.items() if len(settings[solver, name]) > 1}
        marks = {"checksum": problem.get("checksum")} if len(checksums[_data(run)]) > 1 else {}
        synthetic = " (synthetic)" if problem.get("synthetic") else ""
        named = {
            "dataset_name": _labelled(f"{_data(run)[0]}{synthetic}", marks),
            "objective_name": _labelled(objective, {name: value_of(run, name) for name in by}),
            "solver_name": _labelled(str(solver), varied),
        }
        curve = tuple(named.values())
        names.append(
            named
            | {
                "idx_rep": count[curve],
                "sampling_strategy": "Iteration",
                "solver_description": _labelled(str(solver), own),
                "obj_description": UNTIMED * _untimed(runs),
                "run": run["run"],
                "run_date": run.get("started") or "",
                "stopped_by": run["stopped_by"],
            }
        )
        count[curve] += 1
    return names


def _data(run: Mapping[str, Any]) -> tuple[str, Any]:
    """What data sets are told apart by; those of other seeds are repetitions."""
    return run.get("data") or (run.get("problem") or {}).get("name") or "unnamed", run.get("seed")


def _labelled(name: str, values: Mapping[str, Any]) -> str:
    inner = ",".join(f"{parameter}={value}" for parameter, value in values.items())
    return (f"{name}[{inner}]" if inner else name).translate(SAFE)


def _system(runs: Sequence[dict]) -> dict[str, list]:
    """Return the machine and the versions under benchopt's names; it needs NumPy's, if any."""
    columns = {}
    machines = [run.get("machine") or {} for run in runs]
    systems = [(machine.get("system") or "").partition(" ") for machine in machines]
    columns["platform"] = [system for system, _, _ in systems]
    columns["platform-release"] = ["" for _ in runs]
    columns["platform-architecture"] = [architecture for _, _, architecture in systems]
    columns["system-cpus"] = [machine.get("cores") for machine in machines]
    columns["system-processor"] = [machine.get("cpu") for machine in machines]
    columns["system-ram (GB)"] = [machine.get("memory_gb") for machine in machines]
    # The page shows it as the number of threads; the header knows that of each library.
    columns["env-OMP_NUM_THREADS"] = [
        max((run.get("threads") or {}).values(), default=None) for run in runs
    ]
    libraries = dict.fromkeys(chain(["numpy"], *(run.get("versions") or {} for run in runs)))
    for name in libraries:
        columns[f"version-{name}"] = [(run.get("versions") or {}).get(name) for run in runs]
    return columns


def _without_holes(column: pa.ChunkedArray, index: np.ndarray, worst: float) -> np.ndarray:
    """Return `column` with the last value of its run in place of each null, and no NaN."""
    missing = column.is_null().to_numpy()
    values = np.array(column.cast(pa.float64()).to_numpy())
    values[~missing & np.isnan(values)] = worst
    first = np.searchsorted(index, index)  # of the run
    last = np.maximum.accumulate(np.where(missing, -1, np.arange(len(index))))
    return np.where(last >= first, values[last], worst)


def _untimed(runs: Sequence[dict]) -> bool:
    return any(run.get("timed") is False for run in runs)


def _views(columns: Sequence[str], x: str) -> dict[str, Any]:
    """Return the view that the page opens with, its plot of the gap over `x`."""
    if "gap" not in columns:
        return {}
    view = {
        "plot_kind": "objective_curve",
        "scale": "semilog-y",
        "objective_curve_objective_column": "objective_gap",
        "objective_curve_X_axis": x,
    }
    return {"plot_configs": {"certified gap": view}}


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)
