"""Measure how much a dashboard slows a solver: the time to a round, with and without.

``python benchmarks/live.py [CASE ...] [--runs 5]`` runs both arms in turn, each in a
fresh process with one thread: the stream alone, and the same stream on a dashboard that
evaluates, keeps states, draws portraits and sends ten updates a second in a kernel's
format. It prints medians.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from statistics import median
from time import perf_counter

from jupyter_client.session import json_packer

from workbench.core.stream import watch
from workbench.data import load
from workbench.live import explore
from workbench.live.chart import Chart, Inside
from workbench.live.lane import closed
from workbench.runs.run import resolve, warm

SECONDS = 10.0  # about as long as either arm takes
PATIENCE = 120.0
CASES = {
    "walrus": ("ww_walrus", "synthetic 2000x50x300", {"C": 1.0}),
    "walrus, short rounds": ("ww_walrus", "digits", {"C": 64.0}),
    "walrus, tiny rounds": ("ww_walrus", "iris", {"C": 64.0}),
    "subgradient": ("mrc_subgradient", "digits", {}),
    "splitting": ("mrc_splitting", "digits", {}),
    "accelerated least squares": ("ls_accelerated", "digits", {"alpha": 1e-8}),
    "memoir": ("memoir_l2", "text 5000x300", {}),
    "sampled cuts": (
        "cuts_constant_time",
        "checkers 10000",
        {"gamma": 30.0, "p": 1000},
    ),
}


def alone(solver: str, data: str, parameters: dict, last: int | None) -> dict:
    """Run the stream to round `last`; if that is None, for SECONDS or to its end."""
    problem = load(data)
    steps, parameters = resolve(solver, parameters)
    warm(steps, problem, parameters)
    tic = perf_counter()
    for row, _ in watch(steps(problem, **parameters)):
        wall = perf_counter() - tic
        if row["round"] == last or (last is None and (wall > SECONDS or closed(row))):
            break
    return {"wall": wall, "solver": row["seconds"], "round": row["round"]}


def watched(solver: str, data: str, parameters: dict, last: int) -> dict:
    """Run the stream on a dashboard, timed from the solver's start."""
    sent = []
    for view in (Chart, Inside):
        view.send = lambda self, content, buffers=(): sent.append(
            len(json_packer(content)) + sum(map(len, buffers))
        )
    dashboard = explore((solver,), data, parameters, seconds=3600)
    on_rows = dashboard.player._on_rows
    times = []
    over = threading.Event()

    def heard(lane, rows):
        on_rows(lane, rows)
        if rows and not over.is_set():
            times.append((perf_counter(), rows[-1]["seconds"]))
            if rows[-1]["round"] >= last:
                over.set()
                dashboard.player.stop()

    dashboard.player._on_rows = heard
    dashboard.run()
    if not over.wait(PATIENCE):
        raise RuntimeError(f"round {last} was not reached: {dashboard.player.error}")
    (begin, first), (end, seconds) = times[0], times[-1]
    # The evaluation of the first row, which always happens, is not counted.
    wall = end - begin + first
    return {
        "wall": wall,
        "solver": seconds,
        "updates": len(sent) / wall,
        "bytes": sum(sent),
    }


def measure(name: str, runs: int) -> str:
    """Return a line of the table."""
    last = child("alone", name, None)["round"]
    found = {"alone": [], "watched": []}
    for _ in range(runs):
        for arm, results in found.items():
            results.append(child(arm, name, last))
    middle = lambda arm, key: median(result[key] for result in found[arm])  # noqa: E731
    wall, solver = (
        middle("watched", key) / middle("alone", key) for key in ("wall", "solver")
    )
    each = 1e3 * middle("alone", "wall") / last
    updates = middle("watched", "updates")
    return f"{name:27} {last:8,} {each:9.3g} {wall:8.3f} {solver:8.3f} {updates:8.1f}"


def child(arm: str, name: str, last: int | None) -> dict:
    """Run one arm in a fresh process."""
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
    )
    order = [sys.executable, __file__, "--arm", arm, "--last", json.dumps(last), name]
    done = subprocess.run(
        order, env=os.environ | threads, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{arm} of {name} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--arm", choices=("alone", "watched"), help=argparse.SUPPRESS)
    parser.add_argument("--last", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := [case for case in arguments.cases if case not in CASES]:
        parser.error(f"unknown {', '.join(unknown)}; known cases: {', '.join(CASES)}")
    if arguments.arm:
        (name,) = arguments.cases
        print(json.dumps(globals()[arguments.arm](*CASES[name], arguments.last)))
        return
    print(
        f"{'case':27} {'rounds':>8} {'ms each':>9} {'wall':>8} {'solver':>8} "
        f"{'updates':>8}"
    )
    for name in arguments.cases or CASES:
        print(measure(name, arguments.runs), flush=True)


if __name__ == "__main__":
    main()
