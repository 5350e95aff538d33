"""A match: one entry on one partition of one data set, from its search to its trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from workbench.arena import memory
from workbench.arena.entries import Entry
from workbench.arena.search import LONGER, Found, search
from workbench.core.measures import held_out, predictions
from workbench.core.problem import Problem
from workbench.core.stream import geometric, processor_seconds, rounds
from workbench.core.trace import Trace, decode, read_finished, write_trace
from workbench.data import load
from workbench.data.features import constant
from workbench.data.panels import panel
from workbench.registry import SOLVERS
from workbench.runs.keys import code, key
from workbench.runs.run import machine, resolve, run, warm
from workbench.runs.worker import Limits

Data = str | Path


@dataclass(frozen=True)
class Match:
    """One entry on one partition of one data set: the task that the engine runs."""

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
    def label(self) -> str:
        return f"{self.name}, {shown(self.data)}, partition {self.partition}"

    def path(self, folder: Path) -> Path:
        return folder / self.key[:2] / f"{self.key}.jsonl"

    def check(self, path: Path) -> None:
        read_finished(path, self.key)
        read_result(path)

    def run(self, folder: Path, limits: Limits) -> str:
        """Search, fit all training rows, judge on the test rows, and write the trace."""
        problem = made(self.data, self.partition, self.test)
        if match_key(self, problem) != self.key:
            made.cache_clear()  # a worker that rested may hold a file as it was before
            problem = made(self.data, self.partition, self.test)
        if match_key(self, problem) != self.key:
            raise ValueError("data, code or versions have changed since the contest was planned")
        blind = replace(problem, X_test=None, y_test=None)
        steps, parameters = resolve(self.entry.solver, self._own())
        warm(steps, blind, parameters)
        units = {name: unit(blind) for name, unit in self.entry.units.items()}
        found = search(
            steps,
            {name: v for name, v in parameters.items() if name not in self.entry.ranges},
            _ranges(self.entry, units),
            blind,
            budget=self.budget,
            fit=self.fit,
            seed=self.partition,
        )
        chosen = parameters | found.values
        last = rounds(found.rounds), processor_seconds(LONGER * self.fit)
        held = memory.begin()
        trace, state = run(self.entry.solver, blind, *last, parameters=chosen, warm_up=False)
        peak = None if held is None else memory.peak() - held
        result = self._result(problem, found, trace, state) | {"memory_mb": peak}
        judge = held_out(problem)
        curve, state = run(
            self.entry.solver,
            blind,
            *last,
            parameters=chosen,
            measure=judge,
            when=geometric(),
            warm_up=False,
        )
        curve.last.update(judge(state))
        own = {"timed": self.timed, "key": self.key, "load": trace.header["load"]}
        curve.header |= own | {"contest": result}
        self.path(folder).parent.mkdir(exist_ok=True)
        write_trace(self.path(folder), curve)
        error = result["test_error"]
        return f"error {100 * error:.2f} %, fit {result['fit_cpu']:.2g} s, {result['settings']}"

    def _own(self) -> dict[str, Any]:
        """Return what the entry fixes, and the partition where the solver draws at random."""
        own = dict(self.entry.fixed)
        if "seed" in resolve(self.entry.solver, {})[1]:
            own.setdefault("seed", self.partition)
        return own

    def _result(self, problem: Problem, found: Found, fitted: Trace, state) -> dict[str, Any]:
        """Predict the test rows, and put down all that the frame has of this match."""
        tic = perf_counter()
        wrong = predictions(state, problem.X_test, problem.k) != problem.y_test
        took = perf_counter() - tic
        error, m = float(np.mean(wrong)), len(wrong)
        return {
            "n": problem.n,
            "d": problem.d,
            "k": problem.k,
            "n_test": m,
            "sparse": problem.is_sparse,
            "synthetic": problem.synthetic,
            "settings": ", ".join(f"{name}={v:g}" for name, v in found.values.items()),
            "rounds": fitted.last["round"],
            "trials": len(found.trials),
            "search_cpu": found.search_cpu,
            "validation_error": found.validation_error,
            "at_edge": ", ".join(found.at_edge),
            "cut": found.cut or "processor" in fitted.stopped_by,
            "fit_cpu": fitted.last["cpu"],
            "fit_seconds": fitted.last["seconds"],
            "predict_seconds": took,
            "test_error": error,
            "standard_error": standard_error(error, m),
            "search": found.trials,
        }


def match_key(match: Match, problem: Problem) -> str:
    """Return the content key of a match on its problem."""
    e, steps = match.entry, SOLVERS[match.entry.solver].steps
    return key(
        solver=e.solver,
        steps=steps.__qualname__,
        fixed=dict(e.fixed),
        ranges={name: list(ends) for name, ends in e.ranges.items()},
        units={name: unit(problem) for name, unit in e.units.items()},
        data=problem.checksum,
        partition=match.partition,
        budget=match.budget,
        fit=match.fit,
        timed=match.timed and machine(),
        code=code(steps.__module__, __name__),
    )


def read_result(path: Path) -> dict[str, Any]:
    """Return what the trace of a match says of it, without reading the curve."""
    with open(path, encoding="utf-8") as file:
        try:
            return dict(decode(json.loads(file.readline()))["contest"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{path}: line 1 is damaged") from None


def standard_error(error: float, rows: int) -> float:
    """Return the standard error of an error rate, as if at least one row were wrong."""
    return float(np.sqrt(max(error, 1 / rows) * max(1 - error, 1 / rows) / rows))


@lru_cache(maxsize=2)
def made(data: Data, seed: int, test: float | None) -> Problem:
    """Return the problem of a match; rows of a file are standardised, with a constant column."""
    if isinstance(data, Path):
        return constant(load(data, test=test, seed=seed, scale="standard"))
    return panel(data, seed, test)


def _ranges(e: Entry, units: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    return {
        name: (low * units.get(name, 1.0), high * units.get(name, 1.0))
        for name, (low, high) in e.ranges.items()
    }


def shown(data: Data) -> str:
    """Return how a data set is called in tables."""
    return data.stem if isinstance(data, Path) else data
