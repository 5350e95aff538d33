"""A match is one entry on one split of one data set, and a task of the engine."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from workbench.arena.entries import FAMILY, Entry
from workbench.arena.search import search
from workbench.core.kinds import Record
from workbench.core.measures import held_out
from workbench.core.problem import Problem
from workbench.core.stream import geometric, processor_seconds, rounds
from workbench.core.trace import Trace, read_finished, write_trace
from workbench.data import load
from workbench.data.features import constant, fourier
from workbench.kernels.mercer import scale
from workbench.registry import SOLVERS
from workbench.runs.engine import code, key, place_of
from workbench.runs.run import machine, resolve, run, warm
from workbench.runs.sweep import TIMED_RUNS
from workbench.runs.worker import Limits, Task

# The fit of all training rows may take this many times the seconds of a run.
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
        return folder / place_of(self.key)

    def task(self) -> Task:
        """Return the task of the sweep engine that plays the match."""
        check = partial(read_finished, key=self.key)
        return Task(self.key, self.label, str(self.path(Path())), self.play, check)

    def play(self, path: Path, limits: Limits) -> str:
        """Search, fit all training rows, evaluate on the test rows, write the trace."""
        problem = problem_of(self.data, self.partition, self.test)
        if match_key(self, problem) != self.key:
            raise ValueError(
                "data, code or versions have changed since the contest was planned"
            )
        if self.entry.fourier:
            problem = fourier(problem, self.entry.fourier)
        training = replace(problem, X_test=None, y_test=None)
        steps, parameters = resolve(self.entry.solver, self.entry.fixed)
        if "seed" in parameters and "seed" not in self.entry.fixed:
            parameters["seed"] = self.partition
        warm(steps, training, parameters)
        ranges = dict(self.entry.ranges)
        if "gamma" in ranges:
            unit = scale(training)
            low, high = ranges["gamma"]
            ranges["gamma"] = unit * low, unit * high
        fixed = {name: v for name, v in parameters.items() if name not in ranges}
        choice = search(
            steps,
            fixed,
            ranges,
            training,
            budget=self.budget,
            fit=self.fit,
            seed=self.partition,
        )
        fitted = partial(
            run,
            self.entry.solver,
            training,
            rounds(choice["rounds"]),
            processor_seconds(FINAL_FIT_FACTOR * self.fit),
            parameters=parameters | choice["values"],
            warm_up=False,
        )
        evaluate = held_out(problem)
        curve, state = fitted(measure=evaluate, when=geometric())
        curve.last.update(evaluate(state))
        result = _result(problem, choice, curve)
        result["d"] -= self.entry.fourier
        if self.entry.family == FAMILY["mrc"]:
            result["worst_case"] = curve.last["upper"]
        if self.timed:
            ends = [curve.last]
            ends += [fitted()[0].last for _ in range(TIMED_RUNS - 1)]
            result["fit_cpu"] = float(np.median([end["cpu"] for end in ends]))
            result["fit_seconds"] = float(np.median([end["seconds"] for end in ends]))
        curve.header |= {"timed": self.timed, "key": self.key, "contest": result}
        write_trace(path, curve)
        error = f"error {100 * result['test_error']:.2f} %"
        return f"{error}, fit {result['fit_cpu']:.2g} s, {result['settings']}"


def _result(problem: Problem, choice: Record, curve: Trace) -> Record:
    """Return the measurements of a match, by column of the frame."""
    last = curve.last
    n_test = np.size(problem.y_test)
    error = last["test_error"]
    # The standard error assumes at least one wrong row and one right row.
    wrong = max(error, 1 / n_test)
    right = max(1 - error, 1 / n_test)
    return {
        "n": problem.n,
        "d": problem.d,
        "k": problem.k,
        "n_test": n_test,
        "sparse": problem.is_sparse,
        "synthetic": problem.synthetic,
        "settings": ", ".join(f"{name}={v:g}" for name, v in choice["values"].items()),
        "rounds": last["round"],
        "fit_cpu": last["cpu"],
        "fit_seconds": last["seconds"],
        "search_cpu": choice["search_cpu"],
        "validation_error": choice["validation_error"],
        "trials": len(choice["trials"]),
        "at_edge": ", ".join(choice["at_edge"]),
        "cut": choice["cut"] or curve.cut,
        "test_error": error,
        "standard_error": float(np.sqrt(wrong * right / n_test)),
        "search": choice["trials"],
    }


def match_key(match: Match, problem: Problem) -> str:
    """Return the key of a match, a hash of all that decides its result."""
    e = match.entry
    steps = SOLVERS[e.solver].steps
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
        code=code(steps, "arena"),
    )


@lru_cache(maxsize=2)
def problem_of(data: Data, seed: int, test: float | None) -> Problem:
    """Return the problem of a match.

    Rows of a file are standardised and get a constant column.
    """
    if isinstance(data, Path):
        return constant(load(data, test=test, seed=seed, scale="standard"))
    return load(data, seed=seed, test=test)
