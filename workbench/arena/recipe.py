"""The code that repeats a fit: what `compare` hands over for its best entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.arena.entries import Entry
from workbench.peers.linear import budget

# Estimators whose fit is the solver's for the same number of rounds. A gap that is never reached
# leaves the end to the rounds: those that the validation rows chose.
OURS = {
    "mrc_ccg": 'MinimaxRiskClassifier({lambda0}, solver="ccg", gap=1e-12, max_iter={rounds})',
    "mrc_splitting": (
        'MinimaxRiskClassifier({lambda0}, solver="splitting", gap=1e-12, max_iter={rounds})'
    ),
    "mrc_interior_point": (
        'MinimaxRiskClassifier({lambda0}, solver="interior_point", gap=1e-12, max_iter={rounds})'
    ),
    "ww_walrus": (
        'WestonWatkinsClassifier({C}, solver="walrus", gap_ratio=1e-12, max_iter={rounds}, '
        "random_state={seed})"
    ),
    "ww_walrus_fast": (
        "WestonWatkinsClassifier({C}, gap_ratio=1e-12, max_iter={rounds}, random_state={seed})"
    ),
    "cs_working_set": (
        "WorkingSetClassifier({C}, l1={l1}, truncate=0.0, max_rounds={rounds}, random_state={seed})"
    ),
    "ls_accelerated": (
        "GeneralizedLeastSquares(alpha={alpha}, fit_intercept=False, gap=1e-12, max_iter={rounds})"
    ),
    "centroid": "CentroidClassifier(power={power})",
}
THEIRS = {
    "libsvm": ("svm", "SVC(C={C}, gamma={gamma}, cache_size=512)"),
    "liblinear_l2_dual": (
        "svm",
        "LinearSVC(C={C}, tol={tol}, dual=True, fit_intercept=False, "
        "max_iter={iterations}, random_state={seed})",
    ),
    "logistic_lbfgs": (
        "linear_model",
        "LogisticRegression(C={C}, tol={tol}, fit_intercept=False, max_iter={iterations})",
    ),
    "ridge": ("linear_model", "RidgeClassifier(alpha={alpha_n}, fit_intercept=False)"),
}
SHOWN = 'print(f"test error: {100 * test_error:.2f} %")'


def recipe(rows: str, entry: Entry, parameters: Mapping[str, Any], rounds: int, n: int) -> str:
    """Return a few lines of Python that fit this entry with these parameters, and score it.

    Parameters
    ----------
    rows : the expression that makes the problem
    parameters : those searched and fixed, with the seed
    rounds : after how many the fit ends
    n : number of training rows
    """
    values = parameters | {"rounds": rounds, "iterations": budget(rounds)}
    values |= {"alpha_n": float(f"{parameters.get('alpha', 0.0) * n:.12g}")}
    if entry.solver in OURS:
        expression = OURS[entry.solver].format(**values)
        imported = f"from workbench.estimators import {expression.partition('(')[0]}"
    elif entry.solver in THEIRS:
        module, template = THEIRS[entry.solver]
        expression = template.format(**values)
        imported = f"from sklearn.{module} import {expression.partition('(')[0]}"
    else:
        return _of_the_solver(rows, entry, parameters, rounds)
    first, second = sorted([imported, "from workbench.arena import prepared"])
    return f"""{first}
{second}

problem = {rows}
model = {expression}
model.fit(problem.X, problem.classes[problem.y])
test_error = 1 - model.score(problem.X_test, problem.classes[problem.y_test])
{SHOWN}
"""


def _of_the_solver(rows: str, entry: Entry, parameters: Mapping[str, Any], rounds: int) -> str:
    return f"""from workbench.arena import prepared
from workbench.core.measures import predictions
from workbench.runs.run import run
from workbench.core.stream import rounds

problem = {rows}
parameters = {dict(parameters)!r}
trace, state = run({entry.solver!r}, problem, rounds({rounds}), parameters=parameters)
predicted = problem.classes[predictions(state, problem.X_test, problem.k)]
test_error = (predicted != problem.classes[problem.y_test]).mean()
{SHOWN}
"""
