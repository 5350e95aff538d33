"""Advice on lowering the excess of a fitted classifier; every proposal was tried."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from workbench.certification.problems import Part, Settings, by_hand, by_scikit
from workbench.certification.references import (
    Bounds,
    Limit,
    by_ours,
    by_stream,
    references,
    total,
)
from workbench.core.kinds import Given, Model, Record
from workbench.core.names import count
from workbench.core.problem import Problem
from workbench.estimators.base import Classifier
from workbench.proofs.checker import Arrays
from workbench.proofs.verification import most_excess

NEGLIGIBLE = 1e-3  # an excess that is not worth lowering


@dataclass(frozen=True)
class Case:
    """A fitted classifier, or weights with the settings of their problem, and its rows.

    The classifier was fitted with ``weights`` to ``X``, which ``base`` contains after
    checks. The problem has the ``rows`` of ``base``, each as often as its weight says.
    """

    model: Model
    X: Given
    base: Problem
    weights: Record
    rows: np.ndarray
    problem: Problem
    settings: Settings | None
    limit: Limit

    def parts(self, model: Model, problem: Problem) -> Iterable[Part]:
        """Return the parts of the problem of a model, or of weights."""
        if isinstance(model, Classifier):
            return [by_ours(model, problem, self.limit)]
        if self.settings:
            return by_hand(model, problem, self.settings)
        return by_scikit(model, problem, self.rows, self.base.n)

    def solve(self, bounds: Iterable[Bounds]) -> None:
        """Improve the bounds by reference solutions, as long as there is time."""
        for bound in bounds:
            if bound.is_close():
                continue
            if self.limit.left():
                bound.solve(self.references(bound.part))
            else:
                self.limit.cut = True

    def references(self, part: Part) -> Iterable[Arrays]:
        """Return the arrays of proofs of a part's problem."""
        if isinstance(self.model, Classifier):
            return [by_stream(self.model, part.X, part.y, self.limit)[1]]
        return references(part, self.limit)


def percent(fraction: float) -> str:
    """Return a fraction in %, with two digits or, from 100 % on, as a whole number."""
    return f"{100 * fraction:.2g} %" if fraction < 0.995 else f"{100 * fraction:,.0f} %"


def changes(model: Model) -> list[Record]:
    """Return the settings to try, the cheap ones first.

    The model has all of these parameters, at least one of them with another value.
    """
    parameters = model.get_params()
    longer = {}
    if (parameters.get("max_iter") or -1) > 0:
        longer["max_iter"] = 10 * parameters["max_iter"]
    tol = (parameters.get("tol") or 1e-3) / 1000
    finer = longer | {"tol": float(f"{tol:.1g}")}
    solvers: list[Record] = [{"dual": False}, {"solver": "newton-cholesky"}]
    plans = [*solvers, longer, finer]
    plans += [solver | finer for solver in solvers]
    plans.append({"eta0": 0.01, "learning_rate": "adaptive"} | finer)
    known = [plan for plan in plans if plan.keys() <= parameters.keys()]
    return [plan for plan in known if plan != {name: parameters[name] for name in plan}]


def advised(case: Case, at_most: float, lower: Fraction) -> str:
    """Return a sentence of advice for a bound `at_most` on the excess over `lower`."""
    if at_most <= NEGLIGIBLE:
        return "none needed: no weights lower the objective by more than this excess"
    if case.settings:
        return "none: weights alone cannot be fitted again, so nothing was tried"
    plans = changes(case.model)
    scale = StandardScaler(with_mean=False).fit(case.problem.X).scale_
    if not np.allclose(scale, 1.0):
        plans.append({})
    best = min(at_most / 10, 0.1)
    advice = ""
    tried = 0
    left = len(plans)
    with case.limit as limit:
        for change in plans:
            if best <= NEGLIGIBLE or (advice and not change):
                left = 0
            if not left or not limit.left():
                break
            left -= 1
            excess, spent = trial(case, change, lower)
            if excess < math.inf:
                tried += 1
            if excess < best:
                best = excess
                what = ", ".join(f"{name}={value!r}" for name, value in change.items())
                what = what or "scale the features (StandardScaler), another problem"
                reached = f"an excess of at most {percent(excess)} in {spent:.1f} s"
                advice = f"{what}: tried, {reached}"
    if not advice:
        advice = f"none found in {count(tried, 'trial')}"
    if left:
        advice += f"; {limit.reason()} left no time for {left} more"
    return advice


def trial(case: Case, change: Record, lower: Fraction) -> tuple[float, float]:
    """Return the excess of a fit with other settings, and the seconds it took.

    If `change` is empty, the rows are scaled instead. The excess is infinite if the fit
    fails or the time runs out.
    """
    X = case.X
    base = case.base
    problem = case.problem
    if not change:
        scaler = StandardScaler(with_mean=not problem.is_sparse)
        scaler.set_output(transform="default")
        X = scaler.fit(problem.X).transform(base.X)
        problem = replace(problem, X=X[case.rows])
    model = clone(case.model).set_params(**change)
    labels = base.classes[base.y]
    model, spent = case.limit.fit(model, X, labels, np.inf, **case.weights)
    if model is None:
        return math.inf, spent
    bounds = [Bounds(part) for part in case.parts(model, problem)]
    if not change:
        case.solve(bounds)
        lower = total(bounds, "lower")
    return most_excess(total(bounds, "high"), lower), spent
