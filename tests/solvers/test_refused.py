"""Parameters outside their range: every solver refuses them by name and says what it
accepts."""

import re
from dataclasses import replace
from importlib.util import find_spec
from inspect import signature
from itertools import islice

import numpy as np
import pytest
from helpers import each, refuses
from helpers.solvers import NAMES, SHORT, suited

from workbench import SOLVERS

COUNT = "must be a (positive )?whole number"
POSITIVE = "must be a positive number"
NOT_NEGATIVE = "must be a number that is not negative"
KERNEL = {"kernel": "one of", "gamma": POSITIVE}
LSH = {"mips": "simple_lsh"}
GRAPH = {"mips": "hnsw"}
FRACTIONS = (0, 0.5, True)
SMALL = (0, -1.0, np.nan)
CUTS = (
    "cuts_exact cuts_exact_fast cuts_linear_time cuts_linear_time_fast "
    "cuts_constant_time"
)
CUTS += " cuts_nystroem"
LIBLINEAR = (
    "liblinear_cs liblinear_ovr liblinear_lr liblinear_l2_dual liblinear_l2_primal"
)
LOGISTIC = "liblinear_l1 logistic_lbfgs logistic_saga"
# Solvers, parameters, values, what is accepted, and settings that go with them if any.
TABLE = [
    ("mrc_ccg mrc_ccg_fast", "n_max m_max k_max", FRACTIONS, COUNT),
    ("mrc_subgradient mrc_splitting mrc_pdhg", "steps", FRACTIONS, COUNT),
    ("mrc_ccg mrc_ccg_fast", "eps1 eps2", (-1e-9, np.nan), NOT_NEGATIVE),
    ("svm_ccg", "eps", (-1e-9, np.nan), NOT_NEGATIVE),
    ("svm_ccg", "n_max m_max", (0,), COUNT),
    ("cuts_linear_time", "r", (*FRACTIONS, "2", np.nan), COUNT),
    (
        "cuts_linear_time_fast cuts_constant_time",
        "r p",
        (*FRACTIONS, "2", np.nan),
        COUNT,
    ),
    ("cuts_nystroem nystroem_svm", "landmarks", (0, None), COUNT),
    (CUTS, "eps", (0.0, np.nan, "small"), POSITIVE),
    (
        "cuts_linear_time cuts_linear_time_fast",
        "cache_mb",
        (-1.0, np.nan, "1"),
        "must be a number",
    ),
    ("libsvm", "cache_mb", (0,), "must be a (positive )?number"),
    *(
        (f"{CUTS} libsvm nystroem_svm", name, ("strange", b"x"), accepted, {})
        for name, accepted in KERNEL.items()
    ),
    ("boosting", "l2", (-0.1, np.nan), NOT_NEGATIVE),
    ("memoir_l2", "lam", (-0.1, np.nan), NOT_NEGATIVE),
    ("memoir_l2", "lam", (11.0,), "lam . eta_1 must be below 1"),
    ("memoir_l2", "lam", (5.0,), "lam . eta_1 must be .* 0.294118", {"eta0": 0.3}),
    ("memoir_l1", "lam", (-1e-9, np.nan, np.inf), NOT_NEGATIVE),
    ("memoir_l1 memoir_l2 memoir_averaged", "eta0", (0.0, np.nan), POSITIVE),
    ("memoir_l1 memoir_l2 memoir_averaged", "eta_step", (-1.0, np.nan), NOT_NEGATIVE),
    ("memoir_pegasos memoir_l1 memoir_l2", "batch_size", (0, 2.5), COUNT),
    ("memoir_l1 memoir_l2", "mips", ("x",), "must be one of"),
    ("memoir_l2", "bits", (-2, 1.5), COUNT, LSH),
    ("memoir_l2", "ef", (0, -1), COUNT, GRAPH),
    ("cs_working_set", "l1", (-0.1, np.nan), NOT_NEGATIVE),
    ("cs_working_set", "working_set", (1, 256), "must be from 2 to 255"),
    ("cs_working_set", "inner", (-1,), COUNT),
    ("cs_working_set", "added", (0,), COUNT),
    ("ls_generalized ls_stagewise ls_stagewise_passes", "link", ("x",), "unknown name"),
    ("ls_calibrated", "basis", (0,), "must be a whole number of at least 1"),
    (
        "ls_stagewise_passes ls_columns ls_columns_logistic",
        "passes block",
        FRACTIONS,
        COUNT,
    ),
    ("ls_stagewise ls_stagewise_passes", "inner n_features", FRACTIONS, COUNT),
    ("ls_calibrated", "hinges", ("x",), "must be True or False"),
    ("ls_stagewise", "features", ("wavelets",), "unknown name"),
    (f"{LIBLINEAR} {LOGISTIC} ridge libsvm nystroem_svm", "tol", SMALL, POSITIVE),
    ("vw vw_recall_tree", "learning_rate", (0, np.nan), POSITIVE),
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
    steps = SOLVERS[name].steps
    parameters = SHORT.get(name, {})
    if "C" in signature(steps).parameters:  # so small that every row counts
        parameters = parameters | {"C": 1e-3}
    try:
        for given in (problem, weighed):
            *_, state = islice(steps(given, **parameters), 3)
            ends.append(state.scores(problem.X))
    except ValueError as error:
        assert len(ends) == 1 and str(error).startswith("weights: must be ones")
    else:
        assert not np.array_equal(*ends)
