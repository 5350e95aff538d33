"""Parameters outside their range: every solver refuses them by name and says what it
accepts."""

import re
from dataclasses import replace
from importlib.util import find_spec
from inspect import signature

import numpy as np
import pytest
from helpers import each, refuses
from helpers.solvers import NAMES, SHORT, after, suited

from workbench import SOLVERS

COUNT = "must be a (positive )?whole number"
POSITIVE = "must be a positive number"
KERNEL = {"kernel": "one of", "gamma": POSITIVE}
LSH = {"mips": "simple_lsh"}
GRAPH = {"mips": "hnsw"}
CUTS = (
    "cuts_exact cuts_exact_fast cuts_linear_time cuts_linear_time_fast "
    "cuts_constant_time cuts_nystroem"
)
LIBLINEAR = (
    "liblinear_cs liblinear_ovr liblinear_lr liblinear_l2_dual liblinear_l2_primal"
)
LOGISTIC = "liblinear_l1 logistic_lbfgs logistic_saga"
# Parameters by what is accepted, and solvers that have them.
COUNTS = {
    "n_max m_max k_max": "mrc_ccg mrc_ccg_fast",
    "n_max m_max": "svm_ccg",
    "steps": "mrc_subgradient mrc_splitting mrc_pdhg",
    "r": "cuts_linear_time",
    "r p": "cuts_linear_time_fast cuts_constant_time",
    "landmarks": "cuts_nystroem nystroem_svm",
    "batch_size": "memoir_pegasos memoir_l1 memoir_l2",
    "added": "cs_working_set",
    "passes block": "ls_stagewise_passes ls_columns ls_columns_logistic",
    "inner n_features": "ls_stagewise ls_stagewise_passes",
}
NOT_NEGATIVE = {
    "eps1 eps2": "mrc_ccg mrc_ccg_fast",
    "eps": "svm_ccg",
    "l2": "boosting",
    "lam": "memoir_l1 memoir_l2",
    "eta_step": "memoir_l1 memoir_l2 memoir_averaged",
    "l1": "cs_working_set",
}
POSITIVES = {
    "eps": CUTS,
    "eta0": "memoir_l1 memoir_l2 memoir_averaged",
    "tol": f"{LIBLINEAR} {LOGISTIC} ridge libsvm nystroem_svm",
    "learning_rate": "vw vw_recall_tree",
}
KINDS = [  # with values that are refused
    (COUNTS, (0, 0.5, True, "2", np.nan), COUNT),
    (NOT_NEGATIVE, (-1e-9, np.nan, np.inf), "must be a number that is not negative"),
    (POSITIVES, (0, -1.0, np.nan, "small"), POSITIVE),
]
# Solvers, parameters, values, what is accepted, and settings that go with them if any.
TABLE = [
    (solvers, names, values, accepted)
    for kind, values, accepted in KINDS
    for names, solvers in kind.items()
]
TABLE += [
    (
        "cuts_linear_time cuts_linear_time_fast",
        "cache_mb",
        (-1.0, np.nan, "1"),
        "must be a number",
    ),
    ("libsvm", "cache_mb", (0,), "must be a (positive )?number"),
    *(
        (f"{CUTS} libsvm nystroem_svm", name, ("strange", b"x"), accepted)
        for name, accepted in KERNEL.items()
    ),
    ("memoir_l2", "lam", (11.0,), "lam . eta_1 must be below 1"),
    ("memoir_l2", "lam", (5.0,), "lam . eta_1 must be .* 0.294118", {"eta0": 0.3}),
    ("memoir_l1 memoir_l2", "mips", ("x",), "must be one of"),
    ("memoir_l2", "bits", (-2, 1.5), COUNT, LSH),
    ("memoir_l2", "ef", (0, -1), COUNT, GRAPH),
    ("cs_working_set", "working_set", (1, 256), "must be from 2 to 255"),
    ("cs_working_set", "inner", (-1,), COUNT),
    ("ls_generalized ls_stagewise ls_stagewise_passes", "link", ("x",), "unknown name"),
    ("ls_calibrated", "basis", (0,), "must be a whole number of at least 1"),
    ("ls_calibrated", "hinges", ("x",), "must be True or False"),
    ("mrc_ccg", "columns", ("x",), "must be True or False"),
    ("memoir_l2", "dense", ("x",), "must be True or False"),
    ("ls_stagewise", "features", ("wavelets",), "unknown name"),
    ("vw_recall_tree", "bit_precision", (0, 2.5, 32), "must be"),
]
CASES = [
    pytest.param(
        solver, name, value, accepted, dict(*given), id=f"{solver} {name} {value}"
    )
    for solvers, names, values, accepted, *given in TABLE
    for solver in solvers.split()
    for name in names.split()
    for value in values
]


@each("solver, name, value, accepted, given", CASES)
def test_a_value_outside_the_range_is_refused_by_name(
    solver, name, value, accepted, given, blobs
):
    if given == GRAPH and not find_spec("nmslib"):
        pytest.skip("needs nmslib")
    with refuses(f"^{name}: .*{accepted}") as refused:
        next(SOLVERS[solver].steps(suited(solver, blobs()), **{name: value} | given))
    assert re.search(r"got |known names", str(refused.value))


@each("name", NAMES)
def test_weights_of_rows_are_used_or_refused(name, blobs):
    problem = suited(name, blobs())
    ends = []
    weighed = replace(problem, weights=1.0 + np.arange(problem.n) % 3)
    parameters = SHORT.get(name, {})
    if (
        "C" in signature(SOLVERS[name].steps).parameters
    ):  # so small that every row counts
        parameters = parameters | {"C": 1e-3}
    try:
        for given in (problem, weighed):
            ends.append(after(2, name, given, **parameters).scores(problem.X))
    except ValueError as error:
        assert len(ends) == 1 and str(error).startswith("weights: must be ones")
    else:
        assert not np.array_equal(*ends)
