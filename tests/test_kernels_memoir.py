"""MEMOIR's compiled steps and hash blocks on problems of a few rows, step by step."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
import test_memoir
from numba import config
from test_blocks import slot_of
from test_memoir import SHARED, SHRINKING, documents, literal

from workbench.memoir import descent
from workbench.memoir.blocks import WHOLE, empty, slots_for
from workbench.memoir.solvers import memoir_l1, memoir_l2
from workbench.memoir.steps import (
    LEAST,
    NO_MARGINS,
    NOBODY,
    SCALE,
    SQUARE,
    STEP,
    UPDATES,
    Plan,
    begin,
    empty_class,
    eta_of,
    finish,
    search,
    take,
)
from workbench.memoir.weights import zeros
from workbench.rows import rows_of

CASES = {
    "projected": (memoir_l2, {"lam": 1.0, "eta0": 0.9}),
    "sizes of steps": (memoir_l2, {"lam": 0.2, "eta0": 0.7, "eta_step": 0.5, "eta_power": 2.0}),
    "shrinking": (memoir_l2, SHRINKING | {"project": False}),
    "average": (memoir_l2, SHRINKING | {"average": True, "batch_size": 2, "lam": 1.2}),
    "every row, one batch a round": (memoir_l2, {"lam": 0.1, "hinge": False, "batch_size": 7}),
    "last batch of a pass": (memoir_l2, {"batch_size": 4, "lam": 0.1} | SHARED),
    "empty classes": (memoir_l2, {"empty": True, "lam": 0.1, "batch_size": 1}),
    "random classes": (memoir_l2, {"mips": "random", "lam": 0.1, "empty": True}),
    "l1": (memoir_l1, {"gamma": 0.02, "eta0": 1.0}),
}


@pytest.mark.parametrize("form", ["dense", "sparse", "full rows"])
@pytest.mark.parametrize("case", CASES)
def test_few_rows_take_the_literal_update(case, form, monkeypatch):
    for module in (descent, test_memoir):
        monkeypatch.setattr(module, "MANY", 2)  # batches from which on a round is a pass
    solver, given = CASES[case]
    given = {"batch_size": 3, "seed": 1} | given
    problem = documents(14, 9, 5, sparse=form == "sparse", words=9 if form == "full rows" else 3)
    *_, state = islice(solver(problem, dense=form == "dense", **given), 5)
    expected, norms = literal(problem, 4, **given)
    W = state.model()
    W = W.toarray() if sp.issparse(W) else W
    atol = 2e-5 if given.get("average") else 1e-6
    np.testing.assert_allclose(W, expected, atol=atol * abs(expected).max(), rtol=0)
    assert state.step == len(norms)
    assert state.info()["norm"] == pytest.approx(norms[-1], rel=1e-6)


def plan(**given):
    chosen = {"eta0": 0.5, "eta_step": 0.1, "eta_power": 2.0, "lam": 0.25, "hinge": True}
    return Plan(**chosen | {"div_by_batch": False, "project": True} | given)


def test_a_step_begins_smaller_and_ends_in_the_ball():
    numbers = np.array([0.8, 100.0, 3.0, 0.0, 4.0])  # scale, |U|^2, mass, violated, steps
    begin(plan(), numbers)
    assert numbers[STEP] == 5 and eta_of(plan(), 5) == 0.5 / 1.5**2
    assert numbers[SCALE] == pytest.approx(0.8 * (1 - 0.25 * 0.5 / 1.5**2), rel=1e-15)
    w = zeros(2, 2, dense=True, average=True)
    numbers = np.array([0.8, 100.0, 3.0, 0.0, 5.0])
    finish(w, plan(), numbers)  # |W| = 8, in a ball of radius 2
    np.testing.assert_allclose(numbers, [0.2, 100.0, 3.2, 0.0, 5.0], rtol=1e-15)
    numbers = np.array([0.8, 1.0, 3.0, 0.0, 5.0])
    finish(w, plan(), numbers)  # inside
    np.testing.assert_allclose(numbers, [0.8, 1.0, 3.8, 0.0, 5.0], rtol=1e-15)
    numbers = np.array([0.8, 0.01, 3.0, 0.0, 5.0])
    finish(w, plan(lam=4.0), numbers)  # inside of a ball of radius 1/2
    assert numbers[SCALE] == 0.8
    finish(w, plan(project=False), given := np.array([0.8, 100.0, 3.0, 0.0, 5.0]))
    assert given[SCALE] == 0.8
    finish(w, plan(lam=0.0), given := np.array([0.8, 1e9, 3.0, 0.0, 5.0]))
    assert given[SCALE] == 0.8
    finish(w, plan(), given := np.array([0.8, -1e-9, 3.0, 0.0, 5.0]))  # by rounding
    assert given[SCALE] == 0.8


def test_a_small_scale_is_multiplied_into_the_weights():
    w = zeros(2, 3, dense=True, average=True)
    w.dense[:] = 4.0
    w.dense_sums[:] = 1.0
    numbers = np.array([LEAST / 2, 16.0, 2.0, 7.0, 5.0])
    finish(w, plan(project=False), numbers)
    mass = 2.0 + LEAST / 2
    np.testing.assert_allclose(w.dense_sums, 1.0 - 4.0 * mass, rtol=1e-6)
    np.testing.assert_allclose(w.dense, 4.0 * LEAST / 2, rtol=1e-6)
    np.testing.assert_allclose(numbers, [1.0, 16.0 * (LEAST / 2) ** 2, 0.0, 7.0, 5.0], rtol=1e-12)
    numbers = np.array([LEAST, 16.0, 2.0, 7.0, 5.0])
    finish(w, plan(project=False), numbers)
    assert numbers[SCALE] == LEAST


@pytest.mark.skipif(not config.DISABLE_JIT, reason="would compile anew; with NUMBA_DISABLE_JIT=1")
def test_what_steps_carry_along():
    X = np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], np.float32)
    rows, y, k = rows_of(X), np.array([0, 1, 2, 0], np.int32), 4
    w, numbers = zeros(2, k, dense=True, average=False), np.array([0.5, 0.0, 0.0, 0.0, 0.0])
    touched, met = np.zeros(k, bool), np.zeros(k, bool)
    drawn, none = np.array([0, 1, 2, 3]), np.zeros(0)
    given = NOBODY, NO_MARGINS, plan(lam=0.0), numbers, touched, met, none
    at, lack = take(w, rows, y, drawn, 2, 0, True, *given, k)
    assert (at, lack) == (4, 0) and numbers[STEP] == 2
    W = np.zeros((2, k))
    updates = 0
    for t, i in ((1, 0), (1, 1), (2, 2), (2, 3)):
        scores = X[i] @ W
        margin = scores[y[i]] - np.delete(scores, y[i]).max()
        r = np.argmax(np.where(np.arange(k) == y[i], -np.inf, scores))
        if 0.5 * margin < 1:
            updates += 1
            step = 0.5 / (1 + 0.1 * t) ** 2 / 0.5
            W[:, y[i]] += step * X[i]
            W[:, r] -= step * X[i]
    np.testing.assert_allclose(w.dense, W, rtol=1e-6, atol=1e-6)
    assert numbers[UPDATES] == updates < 4
    assert numbers[SQUARE] == pytest.approx((W**2).sum(), rel=1e-6)
    out = np.empty(k + 1, np.float32)
    found = search(w, rows, 1, 1, 0, NOBODY, np.array([1, 1, 1, 0], bool), np.zeros(2), out, k)
    best = max((X[1] @ W)[[0, 2, 3]])
    assert best > 0 and found[1] == pytest.approx((X[1] @ W)[1] - best, rel=1e-6)
    w.dense[:] = [[-1.0] * 4, [-2.0] * 4]
    found = search(w, rows, 1, 1, 0, NOBODY, np.array([1, 1, 1, 0], bool), np.zeros(2), out, k)
    assert found == (3, -2.0)  # the class without weights, whose score is zero
    found = search(w, rows, 1, 1, 0, NOBODY, np.array([0, 1, 1, 1], bool), np.zeros(2), out, k)
    assert found == (0, -2.0)


def test_the_empty_class_at_each_share():
    met = np.array([False, True, False, False, True])
    assert [empty_class(met, 0, share) for share in (0.0, 0.49, 0.5, 0.99)] == [2, 2, 3, 3]
    assert [empty_class(met, 1, share) for share in (0.0, 0.34, 0.67)] == [0, 2, 3]
    assert empty_class(np.ones(5, bool), 0, 0.0) == -1
    assert empty_class(np.arange(3) > 0, 0, 0.0) == -1  # only its own is left


def test_blocks_grow_when_they_are_nearly_full():
    k = 100
    b = empty(1, k, sums=True, slots=200)
    sizes = []
    for met in range(1, 60):
        p = slot_of(b, 0, 7 * met % k, k)
        b.values[p] += met
        b.sums[p] -= met
        sizes.append(int(b.sizes[0]))
    assert [sizes.count(size) for size in (2, 3, 4, 5)] == [3, 3, 6, 13]  # up to 0.8 of the slots
    assert sizes[25:] == [WHOLE] * 34  # 64 slots would be more than half of all classes
    dense = np.zeros(k)
    dense[[7 * met % k for met in range(1, 60)]] = range(1, 60)
    start = b.starts[0]
    np.testing.assert_array_equal(b.values[start : start + k], dense)
    np.testing.assert_array_equal(b.sums[start : start + k], -dense)
    assert start == 4 + 8 + 16 + 32 and b.end[0] == start + k
    assert slots_for(b, 0, 1000, k) == WHOLE
