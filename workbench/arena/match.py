"""A match: one entry on one random split of one data set, as a task of the sweep engine."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from workbench.arena import memory
from workbench.arena.entries import FAMILY, Entry
from workbench.arena.search import search
from workbench.core.measures import held_out, predictions
from workbench.core.problem import Problem
from workbench.core.stream import geometric, processor_seconds, rounds
from workbench.core.trace import Trace, decode, read_finished, write_trace
from workbench.data import load
from workbench.data.features import constant, fourier
from workbench.data.panels import panel
from workbench.kernels.functions import scale
from workbench.registry import SOLVERS
from workbench.runs.keys import code, key
from workbench.runs.run import machine, resolve, run, warm
from workbench.runs.sweep import TIMED_RUNS
from workbench.runs.worker import Limits, Task

# The fit of all training rows may take this many times the seconds of a trial.
FINAL_FIT_FACTOR = 5.0

Data = str | Path


@dataclass(frozen=True)
class Match:
    """One entry on one partition of one data set."""

    data: Data
    partition: int
    name: str
    entry: Entry
    budget: float
    fit: float
    test: float | None
    timed: bool
    key: str = ""

    @property
    def set_name(self) -> str:
        """The name of the data set in tables."""
        return self.data.stem if isinstance(self.data, Path) else self.data

    @property
    def label(self) -> str:
        return f"{self.name}, {self.set_name}, partition {self.partition}"

    def path(self, folder: Path) -> Path:
        return folder / self.key[:2] / f"{self.key}.jsonl"

    def task(self) -> Task:
        """Return the task of the sweep engine that plays the match."""
        return Task(self.key, self.label, str(self.path(Path())), self.play, self.check)

    def check(self, path: Path) -> None:
        read_finished(path, self.key)
        read_result(path)

    def play(self, path: Path, limits: Limits) -> str:
        """Search, fit all training rows, evaluate on the test rows, and write the trace."""
        problem = problem_of(self.data, self.partition, self.test)
        if match_key(self, problem) != self.key:
            raise ValueError("data, code or versions have changed since the contest was planned")
        if self.entry.fourier:
            problem = fourier(problem, self.entry.fourier)
        blind = replace(problem, X_test=None, y_test=None)
        steps, parameters = resolve(self.entry.solver, self.entry.fixed)
        if "seed" in parameters and "seed" not in self.entry.fixed:
            parameters["seed"] = self.partition
        warm(steps, blind, parameters)
        ranges = dict(self.entry.ranges)
        if "gamma" in ranges:
            unit = scale(blind)
            ranges["gamma"] = tuple(unit * end for end in ranges["gamma"])
        fixed = {name: value for name, value in parameters.items() if name not in ranges}
        settings = {"budget": self.budget, "fit": self.fit, "seed": self.partition}
        found = search(steps, fixed, ranges, blind, **settings)

        def fitted(**judged) -> tuple[Trace, Any]:
            last = rounds(found["rounds"]), processor_seconds(FINAL_FIT_FACTOR * self.fit)
            chosen = parameters | found["values"]
            solver = self.entry.solver
            return run(solver, blind, *last, parameters=chosen, warm_up=False, **judged)

        held = memory.begin()
        trace, state = fitted()
        peak = None if held is None else memory.peak() - held
        result = _result(problem, found, trace, state) | {"memory_mb": peak}
        result["d"] -= self.entry.fourier
        if self.entry.family == FAMILY["mrc"]:
            result["worst_case"] = trace.last["upper"]
        judge = held_out(problem)
        curve, state = fitted(measure=judge, when=geometric())
        curve.last.update(judge(state))
        if self.timed:
            ends = [trace.last, curve.last, *(fitted()[0].last for _ in range(TIMED_RUNS - 2))]
            clocks = {"fit_cpu": "cpu", "fit_seconds": "seconds"}
            result |= {n: float(np.median([end[x] for end in ends])) for n, x in clocks.items()}
        own = {"timed": self.timed, "key": self.key, "load": trace.header["load"]}
        curve.header |= own | {"contest": result}
        write_trace(path, curve)
        error = result["test_error"]
        return f"error {100 * error:.2f} %, fit {result['fit_cpu']:.2g} s, {result['settings']}"


def _result(problem: Problem, found: dict, fitted: Trace, state) -> dict[str, Any]:
    """Predict the test rows, and return the entries of the frame that this match measured."""
    tic = perf_counter()
    wrong = predictions(state, problem.X_test, problem.k) != problem.y_test
    took = perf_counter() - tic
    error, m = float(np.mean(wrong)), len(wrong)
    last = fitted.last
    # The standard error is that of at least one wrong row, and one right.
    spread = float(np.sqrt(max(error, 1 / m) * max(1 - error, 1 / m) / m))
    row = {"n": problem.n, "d": problem.d, "k": problem.k, "n_test": m}
    row |= {"sparse": problem.is_sparse, "synthetic": problem.synthetic}
    row |= {"settings": ", ".join(f"{name}={v:g}" for name, v in found["values"].items())}
    row |= {"rounds": last["round"], "fit_cpu": last["cpu"], "fit_seconds": last["seconds"]}
    row |= {name: found[name] for name in ("search_cpu", "validation_error")}
    row |= {"trials": len(found["trials"]), "at_edge": ", ".join(found["at_edge"])}
    row |= {"cut": found["cut"] or "processor" in fitted.stopped_by, "predict_seconds": took}
    row |= {"wrong": np.packbits(wrong).tobytes().hex()}  # a bit for each test row, eight a byte
    return row | {"test_error": error, "standard_error": spread, "search": found["trials"]}


def match_key(match: Match, problem: Problem) -> str:
    """Return the content key of a match on its problem."""
    e, steps = match.entry, SOLVERS[match.entry.solver].steps
    return key(
        solver=e.solver,
        steps=steps.__qualname__,
        fixed=dict(e.fixed),
        fourier=e.fourier,
        ranges={name: list(ends) for name, ends in e.ranges.items()},
        data=problem.checksum,
        partition=match.partition,
        budget=match.budget,
        fit=match.fit,
        timed=match.timed and machine(),
        code=code(steps.__module__, __name__),
    )


def read_result(path: Path) -> dict[str, Any]:
    """Return the measurements of a match from its trace, without reading the curve."""
    with open(path, encoding="utf-8") as file:
        try:
            return dict(decode(json.loads(file.readline()))["contest"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{path}: line 1 is damaged") from None


@lru_cache(maxsize=2)
def problem_of(data: Data, seed: int, test: float | None) -> Problem:
    """Return the problem of a match; rows of a file are standardised, with a constant column."""
    if isinstance(data, Path):
        return constant(load(data, test=test, seed=seed, scale="standard"))
    return panel(data, seed, test)
