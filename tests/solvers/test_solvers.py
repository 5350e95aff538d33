"""Promises of every solver of the registry, whatever its method."""

import copy
import inspect
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from multiprocessing import get_context

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import each, refuses, sparse_or_not
from helpers.oracles import PRECISION, optimum, plain
from helpers.problems import documents
from helpers.solvers import (
    CASES,
    CERTIFIED,
    DENSE_ONLY,
    KERNELS,
    NAMES,
    NEW,
    ONE_ROUND,
    SHORT,
    TWO_CLASSES,
    affine,
    after,
    check_bounds,
    each_case,
    each_certified_case,
    each_solver,
    objective,
    observe,
    suited,
    weight,
)
from numba import njit
from numba.core.dispatcher import Dispatcher
from numpy.testing import assert_allclose

from workbench import SOLVERS, as_problem, below, rounds, run
from workbench.core.stream import until, watch


def test_a_parameter_has_one_kind_of_value_in_all_solvers():
    kinds = {}
    for solver in SOLVERS.values():
        for name, parameter in inspect.signature(solver.steps).parameters.items():
            if isinstance(parameter.default, int | float | str):
                kinds.setdefault(name, set()).add(type(parameter.default))
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


SEARCHED = product(("memoir_l1", "memoir_l2"), (True, False), ("random", "simple_lsh"))
PAUSED = [(name, {"dense": dense, "mips": mips}) for name, dense, mips in SEARCHED]
PAUSED += [("memoir_averaged", {"dense": dense}) for dense in (True, False)]
# The first starts with most of a small problem, the others are of second order.
SOON = "svm_ccg liblinear_lr liblinear_l2_primal liblinear_l1 logistic_lbfgs".split()


@sparse_or_not
@each("name, parameters", CASES + PAUSED)
def test_a_copied_state_goes_on_bit_for_bit(name, parameters, sparse, blobs):
    if sparse and name in DENSE_ONLY:
        pytest.skip(f"{name} takes dense rows")
    problem = suited(name, blobs(sparse=sparse))
    whole = []
    cuts = {0: None, 2: None, 5: None}
    for *seen, s in islice(observe(name, problem, parameters), 11):
        for cut in cuts:
            if len(whole) <= cut:
                cuts[cut] = copy.deepcopy(s)
        whole.append(seen)
    assert whole[0][0]["round"] == 0
    assert len(whole) == 11 or name in ONE_ROUND.union(SOON)
    for cut, copied in cuts.items():
        resumed = islice(observe(name, problem, parameters, copied), 11 - cut)
        # The copied state comes first, as the last one before the cut did.
        assert [seen for *seen, _ in resumed] == whole[min(cut, len(whole) - 1) :], cut


@each_certified_case
def test_bounds_are_certified_and_only_improve(name, parameters, blobs):
    problem = suited(name, blobs())
    seen = list(islice(observe(name, problem, parameters), 15))
    rows = [row for row, *_ in seen]
    check_bounds(rows, (0.0, np.inf))
    least = rows[0]["lower"]
    assert least >= 0, "a lower bound below 0: no objective is, start from 0"
    assert rows[-1]["gap"] >= 0
    if name in KERNELS and "kernel" not in parameters:
        return  # its scores are not linear: tests of its own ask the same of it
    # This classifier is the one whose bound is claimed.
    row, _, state = seen[-1]
    claimed = objective(name, problem, affine(state, problem.d), parameters)
    if claimed is None:
        assert name in NEW  # a test of its own asks it
        return
    assert claimed == pytest.approx(row.get("primal", row["upper"]), abs=1e-9)


@each_case
def test_a_state_scores_rows_of_any_kind(name, parameters, blobs):
    problem = suited(name, blobs(n=30, d=5, k=4))
    state = after(3, name, problem, **parameters)
    scores = state.scores(problem.X)
    assert scores.shape == (30, problem.k) and np.isfinite(scores).all()
    rounding = 1e-5 if scores.dtype == np.float32 else 1e-12
    for X in (
        problem.X.astype("f4"),
        sp.csr_matrix(problem.X),
        sp.csr_array(problem.X),
    ):
        assert isinstance(state.scores(X), np.ndarray)
        assert_allclose(state.scores(X), scores, atol=rounding)
    assert_allclose(state.scores(problem.X[7:8]), scores[7:8], atol=rounding)
    damaged = sp.csr_matrix(problem.X)
    damaged.indices[0] = 10**8
    with refuses(r"^X: is damaged; "):
        state.scores(damaged)


@each_solver
def test_parameters_are_keywords_and_wrong_ones_are_refused(name, blobs):
    problem = suited(name, blobs())
    steps = SOLVERS[name].steps
    first, *rest = inspect.signature(steps).parameters.values()
    assert first.name == "problem" and rest[-1].name == "state"
    for parameter in rest:
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default is not parameter.empty
    with refuses(rf"{name} has no 'lambda_0'; .*{weight(name)}"):
        run(name, problem, parameters={"lambda_0": 0.1})
    refused = f"{weight(name)}: must be a positive number, got .* are accepted"
    for value in (0.0, -1.0, np.nan, np.inf, 1e-31, 1e31, 1e308, 10**400):
        with refuses(refused):
            next(steps(problem, **{weight(name): value}))
    for parameter in rest[:-1]:
        for value in (10**400, None, "1", b"x", [], object()):
            given = SHORT.get(name, {}) | {parameter.name: value}
            try:
                list(islice(steps(problem, **given), 2))
            except ValueError as error:
                assert parameter.name in str(error)


SAMPLED = re.compile("cuts_[lcn]")  # their cuts and landmarks are in single precision


@each_case
def test_precision_and_storage_do_not_matter_nor_to_the_warm_up(
    name, parameters, blobs
):
    # Zeros among the entries, and single precision holds all of them exactly.
    problem = blobs(n=40, d=12, sparse=True)
    problem = suited(name, as_problem(problem.X.toarray(), problem.y))
    own = ["squared_error" if name == "ls_calibrated" else "primal"]
    columns = ["lower", "upper"] if name in CERTIFIED else own
    # its steps are of the rows' type
    limit = rounds(60 if name == "cuts_nystroem" else 12)
    ends = []
    for dtype, kind in product((np.float64, np.float32), (np.asarray, sp.csr_matrix)):
        variant = as_problem(kind(problem.X.astype(dtype)), problem.y)
        if variant.is_sparse and name in DENSE_ONLY:
            with refuses("takes dense rows; use "):
                next(SOLVERS[name].steps(variant))
            continue
        tiny = variant.tiny()
        assert tiny.k == problem.k and tiny.X.dtype == variant.X.dtype
        assert len(list(islice(SOLVERS[name].steps(tiny, **parameters), 3))) >= 2
        trace, _ = run(name, variant, limit, parameters=parameters, warm_up=False)
        ends.append([plain(trace.last)[column] for column in columns])
    assert np.ptp(ends, axis=0).max() < (1e-3 if SAMPLED.match(name) else 1e-5)


@njit()
def nothing():
    """Give Numba something to compile."""


def kernels():
    """Return all compiled functions of the package."""
    modules = [
        m for name, m in list(sys.modules.items()) if name.startswith("workbench")
    ]
    found = {id(v): v for m in modules for v in vars(m).values()}
    return {v for v in found.values() if isinstance(v, Dispatcher)}


def compiled_late(name, kind, dtype, given):
    """Return names of what a run compiles that its warm-up had not: of a fresh
    process."""
    if given:
        problem = documents(n=900, d=300, words=30)
    else:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 20)) * (rng.random((80, 20)) < 0.5)
        problem = suited(name, as_problem(kind(X.astype(dtype)), np.arange(80) % 4))
    for _ in islice(SOLVERS[name].steps(problem.tiny(), **given), 3):
        pass
    compiled = {kernel for kernel in kernels() if kernel.signatures}
    for kernel in compiled:
        kernel.disable_compile()
    late = []
    try:
        for _ in islice(SOLVERS[name].steps(problem, **given), 15):
            pass
    except Exception as error:  # a kernel that was there is called with other types
        late = [repr(error)]
    late += [kernel.__name__ for kernel in kernels() - compiled if kernel.signatures]
    return name, kind.__name__, dtype.__name__, late


def all_compiled_late():
    """Return the same for every solver, each in a fork of its own of this process."""
    import sklearn.linear_model, sklearn.svm  # noqa: E401, F401, I001 # once, not in every fork

    nothing()  # the same of what Numba begins with, a third of a second
    runs = []
    for place, name in enumerate(NAMES):  # each type with each kind, in turns
        kinds = np.asarray, np.asarray if name in DENSE_ONLY else sp.csr_matrix
        types = (np.float64, np.float32)[:: (-1) ** place]
        runs += [(name, kind, dtype, {}) for kind, dtype in zip(kinds, types)]
    for name in ("memoir_l2", "memoir_l1", "memoir_averaged"):
        runs.append((name, sp.csr_matrix, np.float64, {"dense": False}))
    with get_context("fork").Pool(1, maxtasksperchild=1) as forks:
        return [
            found
            for found in forks.starmap(compiled_late, runs, chunksize=1)
            if found[-1]
        ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks one process for each solver")
def test_the_warm_up_compiles_all_that_the_run_needs():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as clean:
        assert clean.submit(all_compiled_late).result() == []


@each_case
def test_two_hundred_classes(name, parameters, blobs):
    problem = blobs(n=200, k=200)
    steps = SOLVERS[name].steps
    if name == "mrc_lp" or name in TWO_CLASSES:
        with refuses(f"problem: .*(large for mrc_lp|{name} separates two .* got 200)"):
            next(steps(problem))
        return
    parameters = {k: v for k, v in parameters.items() if k not in ("n_max", "m_max")}
    if "max_seconds" in inspect.signature(steps).parameters:
        parameters["max_seconds"] = 2.0
    *_, (row, state) = until(watch(steps(problem, **parameters)), rounds(4))
    row = plain(row)
    assert "stopped_by" in row or name in ONE_ROUND
    assert ("gap" in row) == (name in CERTIFIED), "state its problem in oracles.py"
    if name in CERTIFIED:
        assert 0 <= row["lower"] <= row["upper"] < np.inf
        assert row["lower"] <= 1 - 1 / 200 or not name.startswith("mrc")
    scores = state.scores(problem.X)
    assert scores.shape == (200, 200) and np.isfinite(scores).all()


def repeated(X, y):
    """Return rows of which some have other labels, zeros, and constant columns."""
    X[10:] = X[:20]
    X[::4] = 0
    X[y == 1, 0] = 0  # a feature absent from a class
    return np.column_stack([np.full(30, 2.5), X, np.zeros(30), np.full(30, -1.0)])


AWKWARD = {  # rows and columns that break careless code
    "duplicate, zero and constant": repeated,
    "all columns constant": lambda X, y: np.ones((30, 2)),
    "one row per class": lambda X, y: X[:3],
    "wide": lambda X, y: np.hstack([np.roll(X, i, axis=0) for i in range(15)]),
    "offset": lambda X, y: X + 1e4,
}


EXACT = re.compile("svm_.*|mrc_(lp|ccg.*|interior_point)")  # others are in the limit


@each("kind", AWKWARD)
@each("name", CERTIFIED)
def test_awkward_data_give_bounds_around_the_right_answer(
    name, kind, blobs, record_property
):
    made = blobs(n=30, d=3)
    X = AWKWARD[kind](made.X.copy(), made.y)
    problem = suited(name, as_problem(X, made.y[: len(X)], name=kind))
    takes = inspect.signature(SOLVERS[name].steps).parameters
    parameters = {
        eps: 0.0 for eps in ("eps", "eps1", "eps2") if eps in takes and "ccg" in name
    }
    trace, state = run(
        name, problem, below("gap", 1e-6), rounds(50), parameters=parameters
    )
    least, most = optimum(name, problem, parameters, state)
    assert most - least <= 10 * PRECISION * max(1.0, most)  # the oracle has an answer
    for row in map(plain, trace.rows):
        assert row["lower"] <= row["upper"]
        assert row["lower"] <= most
        assert least <= row["upper"]
    assert not EXACT.fullmatch(name) or trace.last["gap"] <= 1e-6
    record_property("certified rounds against independent optima", len(trace.rows))
