"""MEMOIR's compiled steps against Algorithms 1 and 2 written out, a row and a class at a time."""

from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from workbench.core.problem import as_problem
from workbench.memoir.algorithms import algorithm_1, algorithm_2
from workbench.memoir.descent import LEAST, MANY, draw
from workbench.memoir.mips.oracle import Random
from workbench.memoir.solvers import PRESETS, memoir_l1, memoir_l2

SOLVERS = {"l1": memoir_l1, "l2": memoir_l2}


def documents(n=150, d=40, k=12, *, seed=0, sparse=True, words=6):
    """Return rows of unit length with a few features each, which depend on the class."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    X = rng.random((n, d)) * (rng.random((n, d)) < words / d)
    X[np.arange(n), y % d] += rng.random(n)
    X /= np.linalg.norm(X, axis=1)[:, None]
    return as_problem(sp.csr_matrix(X) if sparse else X, y, synthetic=True)


def array(W):
    return W.toarray() if sp.issparse(W) else W


def literal(
    problem,
    rounds,
    *,
    eta0=0.1,
    eta_step=0.02,
    eta_power=1.0,
    lam=0.0,
    gamma=0.0,
    batch_size=20,
    sampling="uniform",
    in_batch="sequential",
    hinge=True,
    div_by_batch=False,
    project=True,
    average=False,
    bias=False,
    empty=False,
    mips="exact",
    predict_metric="dot",
    seed=0,
):
    """Return the (d, C) weights after some rounds, in double precision, and |W| at each step."""
    X = problem.X.toarray() if problem.is_sparse else problem.X
    X = np.column_stack([X, np.ones(problem.n)]) if bias else X
    y, k = problem.y, problem.k
    rng = np.random.default_rng(seed)
    reader = SimpleNamespace(rng=rng, order=np.zeros(0, int), position=0)
    W, total, met, norms = np.zeros((X.shape[1], k)), 0.0, np.zeros(k, bool), []
    batches = 1 if batch_size * MANY >= problem.n else -(-problem.n // batch_size)
    for _ in range(rounds):
        drawn = draw(problem, reader, sampling, batches * batch_size)
        spare = rng.random(len(drawn)) if empty else None
        for first in range(0, len(drawn), batch_size):
            batch = drawn[first : first + batch_size]
            eta = eta0 / (1 + eta_step * (len(norms) + 1)) ** eta_power
            step = eta / len(batch) if div_by_batch else eta
            found = Random(k, 1, rng).others(y[batch]) if mips == "random" else None
            W *= 1 - lam * eta
            V, known = (W.copy(), met.copy()) if in_batch == "frozen" else (W, met)
            R = set()
            for at, i in enumerate(batch):
                x, own = X[i], y[i]
                scores = x @ V
                margin = scores[own]
                scores[own] = -np.inf
                r = np.argmax(scores) if found is None else found[at]
                best = scores[r]
                others = [c for c in range(k) if not known[c] and c != own]
                if empty and best <= 0 and others:
                    r, best = others[int(spare[first + at] * len(others))], 0.0
                if 1 + best - margin > 0 or not hinge:
                    W[:, r] -= step * x
                    W[:, own] += step * x
                    met[[own, r]] = True
                R |= {own, r}
            for c in R:
                threshold = k / len(R) * gamma * eta
                W[:, c] = np.sign(W[:, c]) * np.maximum(np.abs(W[:, c]) - threshold, 0)
            length = np.sqrt(lam) * np.linalg.norm(W)
            if project and length > 1:
                W /= length
            norms.append(np.linalg.norm(W))
            total = total + W
    return (total / len(norms) if average else W), norms


FROZEN = {"in_batch": "frozen"}
SHARED = {"sampling": "passes", "div_by_batch": True}
SHRINKING = {"lam": 1.0, "eta0": 0.5, "eta_step": 0.0}  # by half each step: scales are folded in
CASES = {
    "l2 paper": ("l2", {"lam": 1.0}),
    "l2 no lam": ("l2", {"lam": 0.0, "eta0": 1.0}),
    "l2 shrinking": ("l2", SHRINKING),
    "l2 shrinking, not projected": ("l2", SHRINKING | {"project": False}),
    "l2 frozen": ("l2", {"lam": 0.3, "eta0": 1.0} | FROZEN),
    "l2 frozen, always": ("l2", SHRINKING | FROZEN | {"hinge": False}),
    "l2 reference": ("l2", PRESETS["l2", "reference"] | {"batch_size": 30}),
    "l2 averaged": ("l2", PRESETS["l2", "averaged"]),
    "l2 single rows, shrinking": ("l2", SHRINKING | {"batch_size": 1, "lam": 0.02}),
    "l2 small batches": ("l2", {"batch_size": 2, "lam": 0.1} | SHARED),
    "l2 balanced": ("l2", {"sampling": "balanced", "lam": 0.1}),
    "l2 passes": ("l2", {"sampling": "passes", "lam": 0.1, "batch_size": 40, "eta_power": 0.5}),
    "l2 last batch of a pass": ("l2", {"batch_size": 40, "lam": 0.1} | SHARED),
    "l2 bias": ("l2", {"bias": True, "lam": 0.1}),
    "l2 empty": ("l2", {"empty": True, "lam": 0.1, "batch_size": 5}),
    "l2 empty, single rows": ("l2", {"empty": True, "lam": 0.1, "batch_size": 1}),
    "l2 empty, frozen": ("l2", {"empty": True, "lam": 0.1} | FROZEN),
    "l2 random": ("l2", {"mips": "random", "lam": 0.1}),
    "l2 random, frozen": ("l2", {"mips": "random", "lam": 0.1, "empty": True} | FROZEN),
    "l2 average": ("l2", {"average": True, "lam": 0.1}),
    "l2 average, frozen": ("l2", {"average": True, "lam": 0.1} | FROZEN),
    "l1 paper": ("l1", {"gamma": 1e-3}),
    "l1 sparse": ("l1", {"gamma": 0.02, "eta0": 1.0}),
    "l1 reference": ("l1", PRESETS["l1", "reference"] | {"gamma": 1e-3, "batch_size": 30}),
    "l1 single rows": ("l1", {"gamma": 1e-3, "batch_size": 1}),
    "l1 average": ("l1", {"gamma": 0.01, "average": True}),
    "l1 bias, random": ("l1", {"gamma": 0.01, "bias": True, "mips": "random"}),
}


# Storage of the rows, features in each, and whether the weights are dense.
FORMS = {"dense": (False, 6, True), "sparse": (True, 6, False), "full rows": (False, 40, False)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_literal_update(case, form):
    (penalty, given), (sparse, words, dense) = CASES[case], FORMS[form]
    given = {"batch_size": 20, "seed": 3} | given
    problem = documents(sparse=sparse, words=words)
    rounds = 4 if given["batch_size"] < 5 else 25
    *_, state = islice(SOLVERS[penalty](problem, dense=dense, **given), rounds + 1)
    expected, norms = literal(problem, rounds, **given)
    W = array(state.model())
    np.testing.assert_allclose(W, expected, atol=1e-6 * abs(expected).max(), rtol=0)
    assert state.step == len(norms)
    assert state.info()["norm"] == pytest.approx(norms[-1], rel=1e-6)


PLAIN = {
    "1": (algorithm_1, memoir_l2, {"lam": 1.0}),
    "1, smaller ball": (algorithm_1, memoir_l2, {"lam": 3.0, "eta0": 0.3, "eta_step": 0.1}),
    "2": (algorithm_2, memoir_l1, {"gamma": 1e-3}),
    "2, sparser": (algorithm_2, memoir_l1, {"gamma": 0.02, "eta0": 1.0}),
}


@pytest.mark.parametrize("mips", ["exact", "random"])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("case", PLAIN)
def test_every_iterate_is_that_of_the_printed_algorithm(case, dense, mips):
    plain, fast, given = PLAIN[case]
    problem = documents(sparse=not dense)
    given = given | {"mips": mips, "batch_size": 20, "seed": 3}
    pairs = zip(plain(problem, **given), fast(problem, dense=dense, **given), strict=False)
    for one, other in islice(pairs, 20):
        W = array(other.model())
        np.testing.assert_allclose(W, one.W, atol=1e-6 * max(abs(one.W).max(), 1e-9), rtol=0)
        assert one.round == other.step
        assert one.info()["updates"] == pytest.approx(other.info()["updates"])
        np.testing.assert_allclose(one.scores(problem.X), problem.X @ one.W)


def test_the_printed_algorithms_resume_and_refuse():
    problem = documents()
    for plain in (algorithm_1, algorithm_2):
        *_, whole = islice(plain(problem, mips="random"), 7)
        *_, half = islice(plain(problem, mips="random"), 4)
        *_, rest = islice(plain(problem, mips="random", state=half), 4)
        assert np.array_equal(whole.W, rest.W)
        with pytest.raises(ValueError, match="eta0: must be a positive number"):
            next(plain(problem, eta0=0.0))
    with pytest.raises(ValueError, match=r"lam: lam . eta_1 must be below 1"):
        next(algorithm_1(problem, lam=20.0))


@pytest.mark.parametrize("dense", [True, False])
def test_scales_are_multiplied_in_before_digits_are_lost(dense):
    problem = documents()
    states = islice(memoir_l2(problem, dense=dense, batch_size=20, **SHRINKING), 26)
    scales = [state.numbers[0] for state in states]
    assert min(scales) >= LEAST and scales.count(1.0) > 2
    given = {"batch_size": 20, "average": True} | SHRINKING
    *_, state = islice(memoir_l2(problem, dense=dense, **given), 26)
    W = array(state.model())
    expected, _ = literal(problem, 25, **given)
    # An average is the difference of numbers that are up to 1 / LEAST as large.
    np.testing.assert_allclose(W, expected, atol=2e-5 * abs(expected).max(), rtol=0)
