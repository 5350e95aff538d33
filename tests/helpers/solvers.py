"""The solvers that tests run: their names, what each is excused from, and short settings."""

import inspect
from importlib.util import find_spec

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
# Their rows have no bounds but an objective, which need not be the least one so far.
UNCERTIFIED = {
    *"memoir_l2 memoir_l1 memoir_lsh memoir_averaged ls_calibrated ls_stagewise ls_columns".split(),
    *"ls_stagewise_passes ls_columns_logistic cuts_linear_time cuts_linear_time_fast".split(),
    *"cuts_constant_time libsvm nystroem_svm liblinear_cs liblinear_ovr".split(),
    *"liblinear_lr liblinear_l2_dual liblinear_l2_primal liblinear_l1 logistic_lbfgs".split(),
    *"logistic_saga ridge centroid random_forest boosting".split(),
    *EXTRAS,
}
DENSE_ONLY = {"mrc_splitting", "mrc_interior_point", "boosting"}
FIRST_ORDER = {  # exact in the limit
    *"mrc_subgradient mrc_splitting mrc_pdhg memoir_pegasos cs_working_set ww_walrus".split(),
    *"ww_shark ww_walrus_fast ls_generalized ls_accelerated cuts_nystroem".split(),
    *("cuts_exact", "cuts_exact_fast"),
}
EXACT = {
    *"mrc_lp mrc_ccg mrc_ccg_fast mrc_interior_point svm_lp svm_ccg svm_multi".split()
}
# Solvers that no line here knows. Whether one certifies its rows is what its first
# state says.
NEW = set(NAMES) - UNCERTIFIED - FIRST_ORDER - EXACT
PAIR = as_problem(np.eye(2), [0, 1])
UNCERTIFIED |= {
    name for name in NEW if "gap" not in next(SOLVERS[name].steps(PAIR)).info()
}
CERTIFIED = [name for name in NAMES if name not in UNCERTIFIED]
TWO_CLASSES = {"svm_lp", "svm_ccg"}
REFUSES_MANY_CLASSES = {"mrc_lp": "too large for mrc_lp"} | {
    name: f"{name} separates two classes, got 200" for name in TWO_CLASSES
}
ONE_ROUND = {
    *"mrc_lp svm_lp svm_multi ridge libsvm nystroem_svm centroid".split()
} | NEW  # or so
# The first starts with most of a small problem, the others are of second order, or
# nearly.
FEW_ROUNDS = ONE_ROUND | {"svm_ccg"}
FEW_ROUNDS |= {*"liblinear_lr liblinear_l2_primal liblinear_l1 logistic_lbfgs".split()}
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
KERNELS = (
    "cuts_exact",
    "cuts_exact_fast",
    "cuts_nystroem",
)  # certified, and not linear by default
SINGLE = [
    *"cuts_linear_time cuts_linear_time_fast cuts_constant_time cuts_nystroem".split()
]
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
    steps = SOLVERS[name].steps(problem, **parameters, state=state)
    for row, s in watch(steps):
        row = plain(row)
        yield (
            {key: row[key] for key in row.keys() - CLOCK},
            s.scores(problem.X).tobytes(),
            s,
        )


def suited(name, problem):
    """The problem, its classes merged into two for a solver that separates no more."""
    if name not in TWO_CLASSES:
        return problem
    return as_problem(problem.X, problem.y % 2, name=problem.name)


def weight(name):
    """The solver's parameter that weighs its regularisation, or plays that part: its
    first."""
    return list(inspect.signature(SOLVERS[name].steps).parameters)[1]


# A name that begins so promises the objective of this solver.
FAMILY = {"ww": "ww_walrus", "ls": "ls_generalized", "cuts": "cuts_exact"}
FAMILY["memoir"] = "memoir_pegasos"


def objective(name, problem, M, parameters):
    """The objective of a solver's family at (k, d + 1) coefficients; None for a new
    family."""
    if name.startswith("mrc"):
        return minimax_risk(problem, parameters.get("lambda0", 0.01)).upper(M)
    stated = name in oracles.FAMILIES and name not in NEW
    known = name if stated else FAMILY.get(name.split("_")[0])
    return known and oracles.objective(known, problem, M, parameters)


def affine(state, d):
    """Return the (k, d + 1) matrix behind linear scores."""
    b = state.scores(np.zeros((1, d)))
    return np.vstack([state.scores(np.eye(d)) - b, b]).T.astype(float)
