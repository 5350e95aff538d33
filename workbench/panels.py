"""What figure notebooks share: lists and data sets as text parameters, and a run that reports.

>>> for spec in listed("digits, breast_cancer + 400 fourier"):             # doctest: +SKIP
...     trace = attempt("mrc_ccg", panel(spec), below("gap", 1e-2))
"""

from __future__ import annotations

import re
from typing import Any

from threadpoolctl import threadpool_limits

from workbench.data import load
from workbench.data.synthetic import synthetic
from workbench.features import fourier, standardise
from workbench.measures import errors
from workbench.problem import Problem
from workbench.run import run
from workbench.stream import Row, Rule
from workbench.trace import Trace

SPEC = re.compile(r"(?P<name>[^+]+?)\s*(\+\s*(?P<waves>\d+) fourier)?")
SIZES = re.compile(r"synthetic (\d+)x(\d+)x(\d+)")


def listed(text: str | float, kind: type = str) -> list:
    """Return the items of a comma-separated parameter, each as `kind`: ``"1e-2, 1e-3"``.

    A single number is taken too: papermill's ``-p grid 1e-2`` passes one.

    Raises
    ------
    ValueError
        If an item is empty or not of this kind.
    """
    items = [item.strip() for item in str(text).split(",")]
    if "" in items:
        raise ValueError(f"list: an item is empty in {text!r}")
    return [int(float(item)) if kind is int else kind(item) for item in items]


def panel(spec: str, seed: int = 0, test: float | None = 0.3) -> Problem:
    """Return the standardised problem that `spec` describes.

    Parameters
    ----------
    spec : a name of :func:`workbench.data.load`, or ``synthetic NxDxK`` for a generated problem of
        that size; ``+ M fourier`` appends M random Fourier features, as the paper on minimax risk
        classifiers does
    seed : of the split, of the Fourier features and of generated rows
    test : random share of test rows, in (0, 1), or None for none

    Raises
    ------
    ValueError, FileNotFoundError
        As ``load``, and for a text that is no such description.
    """
    parts = SPEC.fullmatch(spec.strip())
    if not parts:
        raise ValueError(f"data: {spec!r} is not 'NAME' or 'NAME + M fourier'")
    if sizes := SIZES.fullmatch(parts["name"]):
        problem = synthetic(*map(int, sizes.groups()), seed=seed)
        problem = standardise(problem.split(test, seed) if test else problem)
    else:
        problem = load(parts["name"], test=test, seed=seed, scale="standard")
    return fourier(problem, int(parts["waves"]), seed) if parts["waves"] else problem


def processor_seconds(limit: float) -> Rule:
    """Stop at the first row after `limit` CPU seconds, which other work does not disturb."""

    def rule(row: Row) -> str | None:
        return rule.__name__ if row["cpu"] >= limit else None

    rule.__name__ = f"{limit:g} processor seconds"
    return rule


def attempt(solver: str, problem: Problem, *rules: Rule, **parameters: Any) -> Trace | None:
    """Run a solver, print in one line how it went, and return its trace, the last row judged.

    It runs with one thread in every library, so that the seconds of solvers compare. Returns None
    where the solver refuses the problem, as too large or as sparse, or did not finish one round in
    its own time.
    """
    label = f"{problem.name} (n = {problem.n:,}): {solver}"
    try:
        with threadpool_limits(1):
            trace, state = run(solver, problem, *rules, parameters=parameters)
    except ValueError as refusal:
        if not str(refusal).startswith("problem: "):
            raise
        print(f"{label}: refused, {refusal}", flush=True)
        return None
    if state is None:
        raise KeyboardInterrupt
    if trace.last["round"] == 0 and trace.stopped_by == "finished":
        print(f"{label}: no solution in its time", flush=True)
        return None
    trace.last.update(errors(problem)(state))
    last = trace.last
    print(
        f"{label}: gap {last['gap']:.1e} after {last['cpu']:.2f} s and {last['round']} rounds, "
        f"{last['stopped_by']}",
        flush=True,
    )
    return trace
