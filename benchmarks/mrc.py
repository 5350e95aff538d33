"""Compare minimax risk classifiers with the published code and with our baselines.

``python benchmarks/mrc.py [CASE ...] [--runs 3] [--out results.json]`` runs the arms of
a case in turn (A B A B ...), each in a fresh process with one thread, and prints
medians. README.md in this folder says what is timed and what the peer receives.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import scipy.sparse as sp
from measuring import limit_cpu, load_rows, peak_memory, save_rows
from mrc_cases import CASES, Arm, Case
from peers import MRCPY

from workbench.core.measures import error
from workbench.core.problem import Problem, as_problem
from workbench.core.stream import State, below, rounds
from workbench.core.trace import read_trace
from workbench.mrc.risk import linear_scores, minimax_risk
from workbench.runs.run import machine, run, versions

HERE = Path(__file__).parent
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)
BUSY = 0.2  # cores that other processes may use before a warning is printed
MARKS = (1e-1, 5e-2, 2e-2, 1e-2, 5e-3, 1e-3, 1e-4, 1e-5, 1e-6)


def main() -> None:
    """Measure the cases named on the command line, or all if none is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of every arm (default 3)"
    )
    parser.add_argument("--out", type=Path, help="where all runs are written as JSON")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child)
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    unknown = set(given.cases) - set(CASES)
    if unknown:
        parser.error(
            f"unknown case {', '.join(sorted(unknown))}; known cases: "
            f"{', '.join(CASES)}"
        )
    records = []
    for name in given.cases or CASES:
        records += measure_case(name, CASES[name], given.runs)
        if given.out:
            results = {"machine": machine(), "versions": versions(), "runs": records}
            given.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def measure_case(name: str, case: Case, runs: int) -> list[dict]:
    """Run the arms of a case in turn, `runs` times, print a table and return the
    runs."""
    try:
        problem = case.problem()
        if any(arm.solver == "MRCpy" for arm in case.arms):
            MRCPY.python()
    except OSError as missing:
        print(f"\n{name}: skipped, {missing}")
        return []
    print(f"\n{name}: n = {problem.n}, d = {problem.d}, k = {problem.k}", flush=True)
    records = []
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.npz")
        save_rows(rows, problem.X, problem.y)
        for turn in range(runs):
            for index, arm in enumerate(case.arms):
                place = Path(folder, f"{turn}-{index}")
                record = {"case": name, "arm": arm.label, "turn": turn}
                records.append(
                    record | measure(arm, rows, place) | judge(problem, place)
                )
    print_case(case, records)
    return records


def measure(arm: Arm, rows: Path, folder: Path) -> dict:
    """Run one arm in a fresh process with one thread; return its costs and its end."""
    folder.mkdir()
    (folder / "arm.json").write_text(json.dumps(asdict(arm) | {"rows": str(rows)}))
    if arm.solver == "MRCpy":
        script = [MRCPY.python(), HERE / "mrcpy_fit.py"]
    else:
        script = [sys.executable, HERE / "mrc.py", "--child"]
    # This process waits meanwhile, so whatever is busy now competes with the
    # measurement.
    others = psutil.cpu_percent(interval=1.0) / 100 * os.cpu_count()
    record = {"load": round(os.getloadavg()[0], 2), "others": round(others, 2)}
    command = [str(part) for part in (*script, folder)]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | ONE_THREAD, capture_output=True, text=True
    )
    if done.returncode not in (0, -signal.SIGXCPU):
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return record | {"stopped_by": f"failed: {reason}"}
    if (folder / "trace.jsonl").exists():
        record |= read_certificates(folder / "trace.jsonl")
    if done.returncode == 0:
        return record | json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return record | {
        "cpu": arm.limit,
        "stopped_by": f"killed after {arm.limit:g} CPU s",
    }


def child(folder: Path) -> None:
    """Run one of our arms in this process, which :func:`measure` started."""
    arm = json.loads((folder / "arm.json").read_text(encoding="utf-8"))
    problem = as_problem(*load_rows(Path(arm["rows"])), name=folder.name)
    settings = {"parameters": arm["parameters"], "warm_up": False}
    run(arm["solver"], problem.tiny(), rounds(20), **settings)
    limit_cpu(arm["limit"])
    path = folder / "trace.jsonl"
    _, state = run(
        arm["solver"], problem, below("gap", arm["gap"]), path=path, **settings
    )
    result = {"peak_mb": peak_memory()}
    np.save(folder / "M.npy", coefficients(state, problem.d))
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


def coefficients(state: State, d: int) -> np.ndarray:
    """Return the (k, d + 1) coefficients of linear scores, the intercept last."""
    intercept = state.scores(sp.csr_matrix((1, d)))
    return np.vstack(
        [state.scores(sp.identity(d, format="csr")) - intercept, intercept]
    ).T


def read_certificates(path: Path) -> dict:
    """Return costs and bounds of a trace, and the CPU seconds to each certified gap."""
    trace = read_trace(path)
    gaps = trace.column("gap")
    cpu = trace.column("cpu")
    marks = {f"{g:g}": float(cpu[gaps <= g][0]) for g in MARKS if (gaps <= g).any()}
    kept = ("cpu", "seconds", "lower", "upper", "gap", "stopped_by")
    last = {key: trace.last[key] for key in kept if key in trace.last}
    return last | {
        "rounds": len(trace.rows) - 1,
        "threads": trace.header["threads"],
        "marks": marks,
    }


def judge(problem: Problem, folder: Path) -> dict:
    """Return U(mu) and the test error of an arm's coefficients, in one way for all
    arms."""
    if not (folder / "M.npy").exists():
        return {}
    M = np.load(folder / "M.npy")
    row = {"judged_upper": minimax_risk(problem).upper(M)}
    if problem.X_test is not None:
        row["test_error"] = error(linear_scores(M, problem.X_test), problem.y_test)
    return row


def summarise(case: Case, records: list[dict]) -> list[dict]:
    """Return a row for each arm: medians, and its CPU time over that of the first
    arm."""
    # Every certified lower bound holds for the problem, whichever arm found it.
    lower = max((r["lower"] for r in records if "lower" in r), default=0.0)
    rows = []
    for arm in case.arms:
        mine = [r for r in records if r["arm"] == arm.label]
        cpu = [r["cpu"] for r in mine if "cpu" in r]
        upper = middle(mine, "judged_upper")
        rows.append(
            {
                "arm": arm.label,
                "excess": None if upper is None else upper - lower,
                "cpu": middle(mine, "cpu"),
                "range": (min(cpu), max(cpu)) if cpu else None,
                "seconds": middle(mine, "seconds"),
                "peak_mb": middle(mine, "peak_mb"),
                "ended": mine[-1]["stopped_by"],
            }
        )
        if rows[0]["cpu"] and rows[-1]["cpu"]:
            rows[-1]["ratio"] = rows[-1]["cpu"] / rows[0]["cpu"]
    return rows


def middle(records: list[dict], key: str) -> float | None:
    """Return the median of `key` over the records that have it, or None."""
    values = [r[key] for r in records if key in r]
    return median(values) if values else None


def print_case(case: Case, records: list[dict]) -> None:
    """Print the table of a case and how its targets, if any, were met."""
    rows = summarise(case, records)
    print(
        "| arm | U(mu) - R* at most | CPU s (range) | wall s | peak MB | CPU ratio | "
        "ended |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        more = "> " if row["ended"].startswith("killed") else ""
        spread = (
            "" if row["range"] is None else " ({:.2f}-{:.2f})".format(*row["range"])
        )
        cells = (
            row["arm"],
            number(row["excess"], ".1e"),
            more + number(row["cpu"], ".2f") + spread,
            number(row["seconds"], ".2f"),
            number(row["peak_mb"], ".0f"),
            more + number(row.get("ratio"), ".1f"),
            row["ended"],
        )
        print("|", " | ".join(cells), "|")
    ours, *rivals = rows
    marks = [r.get("marks", {}) for r in records if r["arm"] == ours["arm"]]
    for gap, target in case.targets.items():
        reached = middle(marks, f"{gap:g}")
        print(f"gap {gap:g}: {number(reached, '.1f')} CPU s, target at most {target:g}")
    if case.ratio:
        least = min((row["ratio"] for row in rivals if "ratio" in row), default=None)
        print(f"CPU ratio: {number(least, '.1f')}, target at least {case.ratio:g}")
    if case.memory:
        print(
            f"peak: {number(ours['peak_mb'], '.0f')} MB, target at most {case.memory:g}"
        )
    others = max(r["others"] for r in records)
    if others > BUSY:
        print(
            f"warning: other work kept up to {others:.1f} cores busy; repeat on an "
            "idle machine"
        )


def number(value: float | None, how: str) -> str:
    """Return a number as text, or a dash for None."""
    return "-" if value is None else format(value, how)


if __name__ == "__main__":
    main()
