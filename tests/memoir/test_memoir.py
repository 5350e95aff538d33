"""MEMOIR: the boxes and averaged steps, iterate by iterate against their plain form;
runs."""

import inspect
from itertools import islice

import numpy as np
import pytest
from helpers import each, module_fixture, refuses
from helpers.problems import documents
from helpers.solvers import after
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from scipy.sparse import csr_matrix

from workbench import SOLVERS, as_problem, load
from workbench.core.matrices import as_dense
from workbench.core.measures import error
from workbench.figures.reference import printed
from workbench.memoir.algorithms import MAX_BATCHES, memoir_l2
from workbench.memoir.mips.oracle import Random
from workbench.memoir.state import default_batch


def plain(problem, kind, *, lam=0.0, eta0=0.1, eta_step=0.02, batch_size=20, **given):
    """Yield W (d, C), in double precision, after every step: both printed boxes, line
    by line.

    Of averaged steps, one a row in random order, it is the mean of all W after every
    pass.
    """
    X = as_dense(problem.X)
    y = problem.y
    k = problem.k
    rng = np.random.default_rng(given["seed"])
    W = np.zeros((X.shape[1], k))
    t = 0
    search = Random(k, 1, rng)
    total = np.zeros_like(W)
    power = 0.5 if kind == "averaged" else 1.0
    while True:
        if kind == "averaged":
            b = rng.permutation(problem.n)
        else:
            b = rng.integers(problem.n, size=batch_size)
        found = search.others(y[b]) if given.get("mips") == "random" else None
        R = set()
        for j, i in enumerate(b):
            if j == 0 or kind == "averaged":
                t += 1
                eta = eta0 / (1 + eta_step * t) ** power
                W *= 1 - lam * eta * (kind == "l2")
            x = X[i]
            own = y[i]
            r = np.argmax(np.where(np.arange(k) == own, -np.inf, x @ W))
            r = r if found is None else found[j]
            if 1 + x @ (W[:, r] - W[:, own]) > 0:
                W[:, r] -= eta * x
                W[:, own] += eta * x
            R |= {own, r}
            total += W
        if kind == "l1":
            for c in R:
                threshold = k / len(R) * lam * eta
                W[:, c] = np.sign(W[:, c]) * np.maximum(abs(W[:, c]) - threshold, 0)
        W /= max(1, np.sqrt(lam) * np.linalg.norm(W) * (kind == "l2"))
        yield total / t if kind == "averaged" else W


# by half each step: scales are folded in
SHRINKING = {"lam": 1.0, "eta0": 0.5, "eta_step": 0.0}
CASES = {  # the method is the first word
    "l2": {"lam": 1.0},
    "l2, smaller ball": {"lam": 3.0, "eta0": 0.3, "eta_step": 0.1},
    "l2, no lam": {"lam": 0.0, "eta0": 1.0},
    "l2, shrinking": SHRINKING,
    "l2, single rows": SHRINKING | {"batch_size": 1, "lam": 0.02},
    "l2, random": {"mips": "random", "lam": 0.1},
    "l1": {"lam": 1e-3},
    "l1, sparse": {"lam": 0.02, "eta0": 1.0},
    "l1, single rows": {"lam": 1e-3, "batch_size": 1},
    "l1, random": {"lam": 0.01, "mips": "random"},
    "averaged": {"eta0": 1.0, "eta_step": 0.1},
}
# Storage of the rows, features in each, and whether the weights are dense.
FORMS = {
    "dense": (False, 6, True),
    "sparse": (True, 6, False),
    "full rows": (False, 20, False),
}


@each("form", FORMS)
@each("case", CASES)
def test_every_iterate_is_that_of_the_printed_box(case, form):
    kind = case.split(",")[0]
    sparse, words, dense = FORMS[form]
    averaged = kind == "averaged"
    given = {"seed": 3} | CASES[case]
    near = 2e-6 if averaged else 1e-6
    given |= {} if averaged or "batch_size" in given else {"batch_size": 20}
    problem = documents(60, 20, sparse=sparse, words=words)
    many = given.get("batch_size", 20) * MAX_BATCHES < problem.n
    every = problem.n if many else 1
    steps = islice(plain(problem, kind, **given), every - 1, None, every)
    run = SOLVERS[f"memoir_{kind}"].steps(problem, dense=dense, **given)
    states = islice(run, 1, 3 if many else 10)
    for place, (state, W) in enumerate(zip(states, steps), 1):
        own = as_dense(state.model())
        assert_allclose(own, W, atol=near * max(abs(W).max(), 1e-9), rtol=0)
        assert state.step == place * (problem.n if averaged else every)
        assert averaged or state.info()["norm"] == approx(np.linalg.norm(W), rel=1e-6)


def test_sparse_weights_take_few_bytes_and_forget_zeros():
    problem = documents(2000, 400, 150)
    given = {"dense": False, "batch_size": 100, "eta0": 1.0}
    whole = after(20, "memoir_l1", problem, lam=0.0, **given)
    cut = after(20, "memoir_l1", problem, lam=0.3, **given)
    for state in (whole, cut):
        entries = state.info()["nonzeros"]
        assert entries == state.model().nnz
        slots = state.end[0]  # of six bytes; a pool has others that are free
        assert entries <= slots <= 5 * entries + 4 * problem.d
    assert cut.model().nnz < whole.model().nnz / 2


def test_the_shortfall_of_a_search_is_in_its_rows():
    problem = documents(300, 60)
    given = {"batch_size": 100, "lam": 0.1, "eta0": 1.0}
    exact = after(5, "memoir_l2", problem, **given)
    assert (exact.recall, exact.epsilon) == (1.0, 0.0)
    chance = after(5, "memoir_l2", problem, mips="random", **given)
    assert chance.recall < 0.4 and chance.epsilon > 0.01
    hashed = after(5, "memoir_l2", problem, mips="simple_lsh", bits=256, **given)
    assert chance.recall < hashed.recall < 1 and 0 < hashed.epsilon < chance.epsilon


def test_dense_weights_that_do_not_fit_are_refused():
    n = 300
    k = 300
    X = csr_matrix(
        (np.ones(n), (np.arange(n), np.arange(n) * 10**6)), shape=(n, 3 * 10**8)
    )
    # a list of their places alone would be 2.4 GB
    problem = as_problem(X, np.arange(n) % k)
    with refuses(r"^problem: too large for dense weights of 3"):
        next(memoir_l2(problem, dense=True))


NAMES = {"lambda": "lam", "hash_length": "bits"}  # of Table 4 and ours


@each("name", ["memoir_l2", "memoir_l1", "memoir_lsh"])
def test_the_defaults_are_those_of_table_4(name):
    solver = SOLVERS[name]
    table = printed("memoir").query("table == '4'")
    own = solver.label.replace("ℓ", "l")
    given = {
        p.name: p.default for p in inspect.signature(solver.steps).parameters.values()
    }
    # A batch of None has 100 sqrt(C) rows; T is for `rounds`.
    given |= {"b": default_batch(documents(2000, 40, 12)) / np.sqrt(12)}
    of = table["method"].isin(["MEMOIR-*", own]) & (table["setting"] != "parameter=T")
    for row in table[of].itertuples():
        parameter = row.setting.removeprefix("parameter=")
        assert given[NAMES.get(parameter, parameter)] == approx(row.value, rel=2e-3)
    assert of.sum() == 5 * (5 if name == "memoir_lsh" else 4)


def test_memoir_lsh_is_algorithm_1_with_hashes():
    problem = documents(300, 60)
    given = {"batch_size": 50, "seed": 4}
    own = after(4, "memoir_lsh", problem, **given)
    same = after(4, "memoir_l2", problem, mips="simple_lsh", **given)
    assert_array_equal(own.values, same.values)
    assert own.recall < 1


@module_fixture
def sector():
    try:
        return load("sector @ unit")
    except FileNotFoundError:
        pytest.skip(
            "needs sector, not on this machine; WORKBENCH_DATA may name its folder"
        )


@each(
    "kind, count, dense, accuracy",
    [
        ("l2", 25, None, 0.66),
        ("l1", 25, None, 0.93),
        ("averaged", 5, False, 0.939),
        ("averaged", 5, True, 0.939),
    ],
)
def test_accuracies_on_sector(kind, count, dense, accuracy, sector):
    state = after(count, f"memoir_{kind}", sector, dense=dense)
    reached = 1 - error(state.scores(sector.X_test), sector.y_test)
    assert reached == approx(accuracy, abs=0.015)
