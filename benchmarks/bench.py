"""Find what got slower: measure some ratios and compare them with the committed ones.

Each case has one of our methods and a rival that it should be faster than. Both run in
turn, in fresh processes of one thread. A ratio is the rival's CPU seconds divided by
ours; its spread is the range over the turns. The exit code is 1 if a ratio is smaller
than the committed one by more than both spreads and a tenth. ``--update`` writes the
new ratios to ``ratios.json``, which should be done on an idle machine. A case whose
data are not available is skipped with a message. The case of all quick figures runs
once, and only if it is named; its times are wall seconds, and its rival is a loop of
plain Python.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import least_squares
import memoir
import psutil
import sampled_cuts

from workbench.core.stream import stopping
from workbench.data import load
from workbench.runs.run import machine, run, versions
from workbench.runs.worker import ONE_THREAD

RATIOS = Path(__file__).with_name("ratios.json")
NOISE = 0.1  # by how much the ratio of the same code changes from day to day
BUSY = 0.2  # cores that other processes may use before a warning is printed
BOARD = {"gamma": 30.0}
SATIMAGE = "satimage @ standard", {"C": 10.0, "gamma": 0.1}


def solver(name: str, data: str, stop: dict[str, float], **parameters: Any) -> float:
    """Return the CPU seconds until a solver of the registry meets its stopping rule."""
    trace, _ = run(name, load(data), *stopping(stop | LIMIT), parameters=parameters)
    if trace.stopped_by.startswith(f"{LIMIT['cpu']:g} "):
        raise TimeoutError(
            f"{name} on {data}: not there after {LIMIT['cpu']:g} CPU seconds"
        )
    return trace.last["cpu"]


def cuts(arm: str) -> float:
    """Return the CPU seconds of an arm of `sampled_cuts.py` on a checkerboard."""
    return sampled_cuts.fit(sampled_cuts.board(6_000), arm, BOARD | {"C": 1.0})["cpu"]


def flat(rows: int, C: float) -> float:
    """Return the median CPU seconds of the constant time algorithm over ten seeds.

    The samples of a seed decide how many rounds a run takes: 190 to 370 for 10,000
    rows.
    """
    problem = sampled_cuts.board(rows)
    settings = [BOARD | {"C": C, "seed": seed} for seed in range(10)]
    return median(
        sampled_cuts.fit(problem, "constant time", setting)["cpu"]
        for setting in settings
    )


def cuts_of_classes(arm: str) -> float:
    """Return the CPU seconds of an arm of `sampled_cuts.py` on six classes."""
    data, parameters = SATIMAGE
    return sampled_cuts.fit(load(data), arm, parameters)["cpu"]


def product(arm: str) -> float:
    """Return the CPU seconds for 1e11 operations of an arm of `least_squares.py`."""
    found = least_squares.measured(arm, load("synthetic 20000x50x10"), 4096)
    return 1e11 * found["cpu"] / found["operations"]


def figures() -> float:
    """Return the wall seconds of all quick figures, with no result stored before."""
    command = [sys.executable, "-m", "workbench.cli", "figures", "--again", "--out"]
    with TemporaryDirectory() as folder:
        own = {"WORKBENCH_RUNS": folder, "WORKBENCH_DATA": ""}
        for name in ONE_THREAD:  # as users have no such limits
            os.environ.pop(name, None)
        tic = perf_counter()
        subprocess.run(
            [*command, folder], env=os.environ | own, check=True, stdout=sys.stderr
        )
        return perf_counter() - tic


def loop() -> float:
    """Return the wall seconds of a loop of plain Python."""
    tic = perf_counter()
    sum(i * i for i in range(10**8))
    return perf_counter() - tic


class Case(NamedTuple):
    """The two sides of a comparison: their names, and functions that return CPU
    seconds.

    A case with its own number of `turns` runs only if it is named, and a case with
    `data` only if they are available.
    """

    ours: str
    rival: str
    own: Callable[[], float]
    other: Callable[[], float]
    turns: int | None = None
    data: str | None = None


def case(data: str, stop: dict, ours: str, rival: str, own: dict, other: dict) -> Case:
    """Return a case of two solvers of the registry."""
    return Case(
        ours,
        rival,
        lambda: solver(ours, data, stop, **own),
        lambda: solver(rival, data, stop, **other),
        data=data,
    )


def classes(name: str, own: dict[str, float], other: dict[str, float]) -> Case:
    """Return a case of `memoir.py`, each arm with one setting of its grid."""
    of = memoir.CASES[name]

    def arm(which: str, parameters: dict[str, float]) -> float:
        return of.arms[which](load(of.data, test=of.test), **parameters)["cpu"]

    ours = memoir.OURS
    rival = memoir.LIBLINEAR
    return Case(
        ours, rival, lambda: arm(ours, own), lambda: arm(rival, other), data=of.data
    )


LIMIT = {"cpu": 120.0}
LOSS = {"C": 1.0}
TEXT = "text 6000x300"
CASES = {
    "minimax risk": case(
        "digits", {"gap": 1e-2}, "mrc_interior_point", "mrc_ccg", {}, {"n_max": 100}
    ),
    "Weston-Watkins": case(
        "synthetic 6000x64x60 @ unit",
        {"gap_ratio": 1e-3},
        "ww_walrus_fast",
        "ww_walrus",
        LOSS,
        LOSS,
    ),
    "MEMOIR": Case(  # both end within 1 of the optimum, LIBLINEAR at its 7th fit
        "cs_working_set",
        "liblinear_cs",
        lambda: solver(
            "cs_working_set", TEXT, {"gap": 1.0}, C=1.0, l1=0.0, working_set=100
        ),
        lambda: solver("liblinear_cs", TEXT, {"rounds": 7}, C=1.0),
        data=TEXT,
    ),
    "MEMOIR, sector": classes(
        "sector", {"C": 1.0, "l1": 0.05, "count": 2}, {"C": 1.0, "tol": 0.5}
    ),
    "MEMOIR, news20": classes(
        "news20", {"C": 1.0, "l1": 0.0, "count": 2}, {"C": 1.0, "tol": 2.0}
    ),
    "MEMOIR, onet_titles": classes(
        "onet_titles", {"C": 1.0, "l1": 0.05, "count": 2}, {"C": 1.0, "tol": 0.5}
    ),
    "MEMOIR, icd10": classes(
        "icd10", {"C": 1.0, "l1": 0.05, "count": 2}, {"C": 1.0, "tol": 0.5}
    ),
    "least squares": Case(
        "stagewise", "sgemm", lambda: product("linear"), lambda: product("sgemm")
    ),
    "sampled cuts": Case(
        "linear time, line search",
        "LIBSVM",
        lambda: cuts("linear time, line search"),
        lambda: cuts("LIBSVM"),
    ),
    "sampled cuts, six classes": Case(
        "linear time, line search",
        "LIBSVM",
        lambda: cuts_of_classes("linear time, line search"),
        lambda: cuts_of_classes("LIBSVM"),
        data=SATIMAGE[0],
    ),
    "constant time, 1,000,000 rows and 10,000": Case(
        "constant time",
        "constant time",
        lambda: flat(1_000_000, 0.01),
        lambda: flat(10_000, 1.0),
    ),
    "quick figures": Case(
        "all quick figures", "a loop of Python", figures, loop, turns=1
    ),
}


def main() -> int:
    """Measure, compare and print; return 1 if something got slower."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(CASES))
    parser.add_argument(
        "--runs", type=int, default=5, help="turns of every case (default 5)"
    )
    parser.add_argument("--update", action="store_true", help=f"write {RATIOS.name}")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, side = given.child
        print(getattr(CASES[name], side)())
        return 0
    if unknown := set(given.cases) - set(CASES):
        parser.error(
            f"unknown case {', '.join(sorted(unknown))}; known cases: "
            f"{'; '.join(CASES)}"
        )
    committed = (
        json.loads(RATIOS.read_text("utf-8")) if RATIOS.exists() else {"ratios": {}}
    )
    found = {}
    load = 0.0
    for name in given.cases or [name for name in CASES if CASES[name].turns is None]:
        if reason := missing(CASES[name].data):
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        busy = psutil.cpu_percent(interval=1.0) / 100 * (os.cpu_count() or 1)
        load = max(load, busy)
        found[name] = measured(name, given.runs)
        print(compared(name, found[name], committed["ratios"].get(name)), flush=True)
    if load > BUSY:
        print(
            f"warning: others kept up to {load:.1f} cores busy; repeat on an idle "
            "machine"
        )
    if "machine" in committed and committed["machine"] != machine():
        print(
            "the committed ratios are those of another machine: "
            f"{committed['machine']['cpu']}"
        )
    if given.update:
        kept = {"ratios": committed["ratios"] | found, "load": round(load, 2)}
        kept |= {"date": datetime.now(UTC).date().isoformat(), "runs": given.runs}
        kept |= {"machine": machine(), "versions": versions()}
        RATIOS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return 0
    slower = [
        name for name in found if is_slower(found[name], committed["ratios"].get(name))
    ]
    print(f"slower: {', '.join(slower) or 'nothing'}")
    return 1 if slower else 0


def missing(data: str | None) -> str | None:
    """Return why the data of a case are not available, or None."""
    try:
        if data:
            load(data)
    # a name of the data folder, which is not available
    except (FileNotFoundError, ValueError) as error:
        return str(error).partition(";")[0]
    return None


def measured(name: str, runs: int) -> dict[str, float]:
    """Return both medians, their ratio, and the smallest and the largest of a turn."""
    runs = CASES[name].turns or runs
    turns = [[seconds(name, side) for side in ("own", "other")] for _ in range(runs)]
    own, other = (median(turn[side] for turn in turns) for side in (0, 1))
    ratios = [rival / ours for ours, rival in turns]
    numbers = {"ours": own, "rival": other, "ratio": other / own}
    numbers |= {"low": min(ratios), "high": max(ratios)}
    return {key: float(f"{value:.4g}") for key, value in numbers.items()}


def seconds(name: str, side: str) -> float:
    """Return the CPU seconds of one side, in a fresh process of one thread."""
    command = [sys.executable, __file__, "--child", name, side]
    done = subprocess.run(
        command,
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout.splitlines()[-1])


def is_slower(now: dict[str, float], before: dict[str, float] | None) -> bool:
    """Return whether the ratio fell by more than both spreads and :data:`NOISE`."""
    if before is None:
        return False
    return now["high"] < before["low"] and now["ratio"] < (1 - NOISE) * before["ratio"]


def compared(name: str, now: dict[str, float], before: dict[str, float] | None) -> str:
    """Return the line of a case in the table."""
    case = CASES[name]
    line = (
        f"{name}: {case.ours} {now['ours']:.3g} CPU s, {case.rival} "
        f"{now['rival']:.3g}: ratio {now['ratio']:.3g} "
        f"({now['low']:.3g}-{now['high']:.3g})"
    )
    if before is None:
        return f"{line}, none committed"
    line += f", was {before['ratio']:.3g} ({before['low']:.3g}-{before['high']:.3g})"
    if is_slower(now, before):
        return (
            f"{line}: SLOWER, {100 * (1 - now['ratio'] / before['ratio']):.0f} % less"
        )
    faster = is_slower(before, now)
    return f"{line}: faster; `--update` keeps that" if faster else f"{line}: as it was"


if __name__ == "__main__":
    sys.exit(main())
