"""Prove how far a classifier's objective is above its optimum, and give advice.

The classifier's problem is stated in independent parts
(:mod:`workbench.certification.problems`). Reference solutions
(:mod:`workbench.certification.references`) bound the optimum of each part from both
sides by weak duality (:mod:`workbench.proofs.checker`), rounding included.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm import tqdm

from workbench.certification.advice import Case, advised, percent
from workbench.certification.problems import Settings, check_model, matrix
from workbench.certification.references import Bounds, Limit, total
from workbench.core.blocks import pieces
from workbench.core.checks import check_positive, shown
from workbench.core.kinds import Given, Matrix, Model
from workbench.core.problem import Problem, as_problem
from workbench.proofs import checker
from workbench.proofs.checker import above, below, words
from workbench.proofs.verification import least_excess, most_excess

MAX_VALUES = 3 * 10**8  # most values in repeated rows; a row counts as 100 more


@dataclass(frozen=True)
class Certificate:
    """The result of :func:`certify`: the optimum is proved to be in [lower, upper].

    ``at_least`` and ``at_most`` bound the excess of the objective, as a fraction of the
    optimum. ``errors`` has the training error and, if rows were held out, their error:
    for the given and for the best known weights, as fractions.
    """

    problem: str
    objective: float
    lower: float
    upper: float
    at_least: float
    at_most: float
    errors: dict[str, tuple[float, ...]]
    advice: str

    def __str__(self) -> str:
        at_most = "" if self.at_least > 0.9 * self.at_most else "at most "
        interval = checker.digits(self.lower, self.upper)
        lines = [
            self.problem,
            f"  objective       {self.objective:.6g}; the optimum is proved to be in "
            f"{interval}",
            f"  excess          {at_most}{percent(self.at_most)}",
        ]
        for rows, (given, best) in self.errors.items():
            lines.append(
                f"  {rows}  {100 * given:.2f} %; at the optimum {100 * best:.2f} %"
            )
        return "\n".join([*lines, f"  advice          {self.advice}"])


def certify(
    model: Given,
    X: Given,
    y: Given,
    *,
    held_out: tuple[Given, Given] | None = None,
    sample_weight: Given = None,
    loss: str | None = None,
    C: float = 1.0,
    b: Given = None,
    intercept: float | str = "free",
    max_seconds: float = 60.0,
) -> Certificate:
    """Prove how far the objective of a classifier, or of weights, is from its optimum.

    Model, rows and labels are not changed. Progress is printed to standard error. If
    the excess is above 0.1 %, other settings of a model are tried, to give advice. When
    the time is up, or after Ctrl-C, the certificate contains what has been proved by
    then, if the objective has been evaluated; before that, an error is raised.

    Parameters
    ----------
    model : a fitted LinearSVC, SVC (rbf or linear), LogisticRegression, RidgeClassifier
        or SGDClassifier of scikit-learn, one of this package's classifiers, a pipeline
        that ends in one, or a search that found one; or weights W, (d,) or (d, k), with
        a `loss`
    X, y : (n, d) rows and (n,) labels that the model was fitted to, before a pipeline's
        scalers; the columns of a frame must be the same, in the same order
    held_out : (X, y), rows and labels on which errors are compared, too
    sample_weight : (n,) whole numbers, if the model was fitted with them: each row is
        repeated that often
    loss : for W, one of :data:`workbench.proofs.checker.LOSSES`. The problem is to
        minimise C sum_i loss + 1/2 |W|^2. If two classes have one score, two columns
        of W are replaced by their difference
    C : float > 0, the weight of the loss, for W only
    b : (k,) or a number, the intercepts that belong to W; None means no intercept
    intercept : "free" if `b` is not penalised, or the constant s of a column whose
        weight is b/s
    max_seconds : float > 0, the limit in wall seconds, from the call on

    Raises
    ------
    ValueError
        If the settings state no such problem, X or y does not fit the model, the rows
        are too many, or `max_seconds` is too short to evaluate the objective.
    """
    limit = Limit(check_positive(max_seconds, "max_seconds"))
    is_list = isinstance(model, list | tuple)
    settings = None
    if hasattr(model, "__array__") or sp.issparse(model) or is_list:
        settings = Settings(loss, C, b, intercept)
    elif b is not None or (loss, C, intercept) != (None, 1.0, "free"):
        raise ValueError("loss, C, b, intercept: describe weights; a model has its own")
    case = case_of(model, X, y, held_out, sample_weight, settings, limit)
    problem = case.problem
    size = f"{problem.n:,} rows of {problem.d:,} features, {problem.k} classes"
    print(f"certify: {size}, up to {max_seconds:g} s", file=sys.stderr, flush=True)
    bounds = []
    for part in case.parts(case.model, problem):
        if not limit.left():
            raise ValueError(
                "X: is too large to evaluate the objective in "
                f"max_seconds={max_seconds:g}; give fewer rows, or more time"
            )
        bounds.append(Bounds(part))
    limit.reserve()
    with limit:
        case.solve(tqdm(bounds, "certify", leave=False, disable=None))
    return certificate(case, bounds)


def certificate(case: Case, bounds: list[Bounds]) -> Certificate:
    """Return the certificate of a case from the bounds of its parts."""
    limit = case.limit
    cut = f"; {limit.reason()} ended the search for the optimum" if limit.cut else ""
    high = total(bounds, "high")
    lower = total(bounds, "lower")
    upper = total(bounds, "upper")
    at_most = most_excess(high, lower)
    text = words(bounds[0].part.header)
    if len(bounds) > 1:
        text += f"; the sum of {len(bounds)} such problems"
    if case.settings is None:
        text = f"{type(case.model).__name__}: {text}"
    return Certificate(
        problem=text,
        objective=above(high),
        lower=below(lower),
        upper=above(upper),
        at_least=least_excess(total(bounds, "low"), upper),
        at_most=at_most,
        errors=errors(bounds, case.problem),
        advice=advised(case, at_most, lower) + cut,
    )


def case_of(
    model: Given,
    X: Given,
    y: Given,
    held_out: Given,
    sample_weight: Given,
    settings: Settings | None,
    limit: Limit,
) -> Case:
    """Return the case that the arguments of :func:`certify` describe, after checks."""
    sets = [X]
    if held_out is not None:
        if not isinstance(held_out, tuple | list) or len(held_out) != 2:
            raise ValueError(
                f"held_out: must be rows and labels, (X, y), got {shown(held_out)}"
            )
        sets.append(held_out[0])
    classes = None
    if settings is None:
        model, sets = opened(model, sets)
        check_model(model)
        check_is_fitted(model)
        classes = model.classes_
    test = {}
    if held_out is not None:
        test = {"X_test": sets[1], "y_test": held_out[1]}
    base = as_problem(sets[0], y, classes=classes, **test)
    if settings is None:
        for rows in sets:
            check_names(model, rows)
    weights = {}
    repeated = np.arange(base.n)
    problem = base
    if sample_weight is not None:
        weights["sample_weight"] = counts(base, sample_weight, model)
        repeated = np.repeat(repeated, weights["sample_weight"].astype(int))
        problem = replace(base, X=base.X[repeated], y=base.y[repeated], weights=None)
    return Case(model, sets[0], base, weights, repeated, problem, settings, limit)


def opened(model: Given, sets: list[Given]) -> tuple[Given, list[Given]]:
    """Return the classifier in pipelines and searches, and the rows that it receives.

    Pipelines of a subclass are not opened: it may fit its classifier to other
    rows than its steps return later.
    """
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif type(model) is Pipeline and model.steps:
            check_is_fitted(model)
            if len(model) > 1:  # steps may overwrite the rows
                sets = [model[:-1].transform(deepcopy(rows)) for rows in sets]
            model = model[-1]
        else:
            return model, sets


def check_names(model: Model, rows: Given) -> None:
    """Raise scikit-learn's ValueError unless rows have the columns of the fit."""
    try:
        validate_data(model, rows, reset=False, skip_check_array=True)
    except TypeError as error:  # names of several types
        raise ValueError(f"X: {error}") from None


def counts(problem: Problem, sample_weight: Given, model: Model) -> np.ndarray:
    """Return how often each row is repeated; raise a ValueError for other weights."""
    times = matrix(sample_weight, "sample_weight", (1, problem.n))[0]
    if (times < 0).any() or (times % 1).any():
        raise ValueError("sample_weight: must be a whole number >= 0 for each row")
    if getattr(model, "class_weight", None) == "balanced":
        raise ValueError(
            "sample_weight: cannot be combined with class_weight='balanced'"
        )
    max_rows = max(problem.n, MAX_VALUES // (problem.d + 100))
    if times.sum() > max_rows:
        raise ValueError(
            f"sample_weight: must have a sum of at most {max_rows:,}, got "
            f"{times.sum():.4g}; divide the weights by a common factor"
        )
    if not np.bincount(problem.y, times, problem.k).all():
        raise ValueError("sample_weight: must be positive for a row of each class")
    return times


def errors(bounds: list[Bounds], problem: Problem) -> dict[str, tuple[float, ...]]:
    """Return the errors of the given and the best known weights, by kind of error."""
    sets = {"training error": (problem.X, problem.y)}
    if problem.X_test is not None:
        sets["held-out error"] = problem.X_test, problem.y_test
    result: dict[str, tuple[float, ...]] = {}
    for name, (X, y) in sets.items():
        given = predicted(bounds, "given", X, problem.k)
        best = predicted(bounds, "best", X, problem.k)
        result[name] = float(np.mean(given != y)), float(np.mean(best != y))
    return result


def predicted(bounds: list[Bounds], which: str, X: Matrix, k: int) -> np.ndarray:
    """Return the codes of the classes that have the highest scores.

    With pairs of classes, they are the classes with the most votes. `which` is the
    name of the weights, "given" or "best".
    """
    scorers = [getattr(bound, which) for bound in bounds]
    blocks = [X[rows] for rows in pieces(X.shape[0], checker.BLOCK)]
    F = np.vstack([np.hstack([scores(rows) for scores in scorers]) for rows in blocks])
    if F.shape[1] == 1:
        return (F[:, 0] > 0).astype(int)
    if bounds[0].part.pair is not None:
        first, second = np.array([bound.part.pair for bound in bounds]).T
        winners = np.where(F >= 0, second, first)
        F = (winners[:, :, None] == np.arange(k)).sum(axis=1)
    return F.argmax(axis=1)
