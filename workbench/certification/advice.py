"""Advise what lowers the excess of a fitted classifier; all that is proposed has been
tried."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from workbench.certification.problems import Part, by_hand, by_scikit
from workbench.certification.references import (
    Bounds,
    Limit,
    by_ours,
    by_stream,
    excess,
    references,
)
from workbench.core.kinds import Given, Model, Record
from workbench.core.names import count
from workbench.core.problem import Problem
from workbench.estimators.base import Classifier
from workbench.proofs.checker import Arrays

CLOSE = 1e-3  # an excess that is not worth lowering


@dataclass(frozen=True)
class Case:
    """A fitted classifier, or weights with the settings of their problem, and its rows.

    It was fitted to ``X``, checked in ``base``, with ``weights``; the problem has these
    ``rows`` of them, each as often as its weight.
    """

    model: Model
    X: Given
    base: Problem
    weights: Record
    rows: np.ndarray
    problem: Problem
    settings: tuple | None
    limit: Limit

    def parts(self, model: Model, problem: Problem) -> Iterable[Part]:
        """Return the parts of the problem of a model, or of weights."""
        if isinstance(model, Classifier):
            return [by_ours(model, problem, self.limit)]
        if self.settings:
            return by_hand(model, problem, *self.settings)
        return by_scikit(model, problem, self.rows, self.base.n)

    def solve(self, bounds: Iterable[Bounds]) -> None:
        """Take the bounds of reference solutions, as long as there is time."""
        for each in bounds:
            if each.is_close():
                continue
            self.limit.cut |= not self.limit.left()
            if self.limit.left():
                each.solve(self.references(each.part))

    def references(self, part: Part) -> Iterable[Arrays]:
        if isinstance(self.model, Classifier):
            return [by_stream(self.model, part.X, part.y, self.limit)[1]]
        return references(part, self.limit)


def percent(fraction: float) -> str:
    """Return a fraction in per cent, with two digits or whole."""
    return f"{100 * fraction:.2g} %" if fraction < 1 else f"{100 * fraction:,.0f} %"


def changes(model: Model) -> list[Record]:
    """Return the settings that are tried, the cheap ones first."""
    p = model.get_params()
    longer = {"max_iter": 10 * p["max_iter"]} if (p.get("max_iter") or -1) > 0 else {}
    tol = (p.get("tol") or 1e-3) / 1000
    finer = longer | {"tol": float(f"{tol:.1g}")}
    solvers: list[Record] = [{"dual": False}, {"solver": "newton-cholesky"}]
    adaptive = {"eta0": 0.01, "learning_rate": "adaptive"} | finer
    tried = [*solvers, longer, finer, *(change | finer for change in solvers), adaptive]
    return [
        c
        for c in tried
        if c.keys() <= p.keys() and any(p[name] != c[name] for name in c)
    ]


def advised(case: Case, at_most: float, lower: Fraction) -> str:
    """Return a sentence of advice for an excess of `at_most` above the lower bound."""
    if at_most <= CLOSE:
        return "none needed: no weights lower the objective by more than this excess"
    if case.settings:
        return "none: weights alone cannot be fitted again, so nothing was tried"
    plans = changes(case.model)
    if not np.allclose(StandardScaler(with_mean=False).fit(case.problem.X).scale_, 1.0):
        plans.append({})
    best, advice, tried, left = min(at_most / 10, 0.1), "", 0, len(plans)
    with case.limit as limit:
        for change in plans:
            if best <= CLOSE or (advice and not change):
                left = 0
            if not left or not limit.left():
                break
            left -= 1
            reached, spent = trial(case, change, lower)
            tried += reached < math.inf
            if reached < best:
                what = ", ".join(f"{name}={value!r}" for name, value in change.items())
                what = what or "scale the features (StandardScaler), another problem"
                advice = f"{what}: tried, an excess of at most {percent(reached)} in {spent:.1f} s"
                best = reached
    advice = advice or f"none found in {count(tried, 'trial')}"
    return advice + (f"; {limit.reason()} left no time for {left} more" if left else "")


def trial(case: Case, change: Record, lower: Fraction) -> tuple[float, float]:
    """Return the excess of a fit with other settings, or of scaled rows, and its
    seconds.

    The excess is infinite if there is no such fit, or not in time.
    """
    X, problem = case.X, case.problem
    if not change:
        scaler = StandardScaler(with_mean=not problem.is_sparse).set_output(
            transform="default"
        )
        X = scaler.fit(problem.X).transform(case.base.X)
        problem = replace(problem, X=X[case.rows])
    model = clone(case.model).set_params(**change)
    model, spent = case.limit.fit(
        model, X, case.base.classes[case.base.y], np.inf, **case.weights
    )
    if model is None:
        return math.inf, spent
    found = [Bounds(part) for part in case.parts(model, problem)]
    if not change:
        case.solve(found)
        lower = sum((each.lower for each in found), Fraction(0))
    return excess(sum((each.high for each in found), Fraction(0)), lower), spent
