"""The solvers that tests run: their names, exceptions and short settings."""

from importlib.util import find_spec
from inspect import signature
from itertools import islice

import numpy as np
import pytest

from helpers import each, oracles
from helpers.oracles import plain
from workbench import SOLVERS, as_problem
from workbench.core.stream import watch
from workbench.mrc.risk import minimax_risk

CLOCK = {*"seconds cpu query_seconds build_seconds".split()}
# Solvers that need a package that is no dependency.
EXTRAS = {"vw": "vowpalwabbit", "vw_recall_tree": "vowpalwabbit"}
NAMES = [name for name in SOLVERS if name not in EXTRAS or find_spec(EXTRAS[name])]
# A solver of one's own lies beside the rooms, and no table here knows it.
NEW = {name for name in NAMES if "." not in str(SOLVERS[name].function)}
# The oracle states the problem of each solver whose rows have bounds.
CERTIFIED = [n for n in NAMES if n in oracles.FAMILIES or n.startswith("mrc_")]
DENSE_ONLY = {"mrc_splitting", "mrc_interior_point", "boosting"}
TWO_CLASSES = {"svm_lp", "svm_ccg"}
# A linear program, or one fit; a new solver may be one, too.
ONE_ROUND = NEW.union(
    "mrc_lp svm_lp svm_multi ridge libsvm nystroem_svm centroid".split()
)
# Settings with which a small problem takes more than ten rounds, of every kind the
# method has.
SHORT = {
    "mrc_ccg": {"n_max": 4, "m_max": 4, "eps1": 0.0, "eps2": 0.0},
    "mrc_ccg_fast": {"n_max": 4, "m_max": 4, "eps1": 0.0, "eps2": 0.0},
    "mrc_subgradient": {"steps": 20},
    "mrc_pdhg": {"steps": 20},
    "svm_ccg": {"n_max": 1, "m_max": 1, "eps": 0.0},
    "ls_stagewise": {"n_features": 64, "block": 5},
    "ls_stagewise_passes": {"n_features": 64, "block": 16},
    "ls_columns": {"block": 1, "passes": 4},
    "ls_columns_logistic": {"block": 1, "passes": 4},
    "cuts_exact": {"eps": 1e-12},
    "cuts_exact_fast": {"eps": 1e-12},
    "cuts_linear_time": {"eps": 1e-12, "r": 8},
    "cuts_linear_time_fast": {"eps": 1e-12, "r": 8, "p": 20},
    "cuts_constant_time": {"r": 8},
    "cuts_nystroem": {"eps": 1e-12, "landmarks": 12},
}
# Certified, and not linear by default.
KERNELS = [n for n in CERTIFIED if "kernel" in signature(SOLVERS[n].steps).parameters]
CASES = [pytest.param(name, SHORT.get(name, {}), id=name) for name in NAMES]
CASES += [
    pytest.param(
        "mrc_ccg", SHORT["mrc_ccg"] | {"columns": flag}, id=f"mrc_ccg columns={flag}"
    )
    for flag in (True, False)
]
CASES += [
    pytest.param(name, SHORT.get(name, {}) | {"kernel": "linear"}, id=f"{name} linear")
    for name in KERNELS
]
each_case = each("name, parameters", CASES)
each_solver = each("name", NAMES)
each_certified_case = each(
    "name, parameters", [case for case in CASES if case.values[0] in CERTIFIED]
)


def observe(name, problem, parameters, state=None):
    """Yield each round's row without the clock, and its scores."""
    for row, s in watch(SOLVERS[name].steps(problem, **parameters, state=state)):
        row = plain(row)
        yield (
            {key: row[key] for key in row.keys() - CLOCK},
            s.scores(problem.X).tobytes(),
            s,
        )


def check_bounds(rows, interval):
    """Check that bounds hold an optimum in this interval, and only improve."""
    lower, upper = interval
    best = [[row[key] for row in rows] for key in ("lower", "upper", "gap")]
    assert max(best[0]) <= upper + 1e-6
    assert min(best[1]) >= lower - 1e-6
    assert np.all(np.diff(best[0]) >= 0)
    assert np.all(np.diff(best[1]) <= 0)
    assert np.array_equal(best[2], np.subtract(best[1], best[0]))


def suited(name, problem):
    """Return the problem, with two classes if the solver separates no more."""
    if name not in TWO_CLASSES:
        return problem
    return as_problem(problem.X, problem.y % 2, name=problem.name)


def short(name, blobs):
    """Return a small problem, a solver's function and its short settings."""
    return suited(name, blobs(n=30)), SOLVERS[name].steps, SHORT.get(name, {})


def after(rounds, name, problem, **parameters):
    """Return the state after some rounds, or after the last."""
    *_, state = islice(SOLVERS[name].steps(problem, **parameters), rounds + 1)
    return state


def weight(name):
    """Return the solver's first parameter, which weighs its regularisation."""
    return list(signature(SOLVERS[name].steps).parameters)[1]


# A name that begins so promises the objective of this solver.
FAMILY = {"ww": "ww_walrus", "ls": "ls_generalized", "cuts": "cuts_exact"}
FAMILY["memoir"] = "memoir_pegasos"


def objective(name, problem, M, parameters):
    """Return a family's objective at (k, d + 1) coefficients; None if it is new."""
    if name.startswith("mrc"):
        return minimax_risk(problem, parameters.get("lambda0", 0.01)).upper(M)
    stated = name in oracles.FAMILIES and name not in NEW
    known = name if stated else FAMILY.get(name.split("_")[0])
    return known and oracles.objective(known, problem, M, parameters)


def affine(state, d):
    """Return the (k, d + 1) matrix behind linear scores."""
    b = state.scores(np.zeros((1, d)))
    return np.vstack([state.scores(np.eye(d)) - b, b]).T.astype(float)
