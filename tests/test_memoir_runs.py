"""Runs of MEMOIR: memory, pauses, inexact search, presets on real text, and what is refused."""

from copy import deepcopy
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from test_memoir import array, documents

from workbench.core.measures import error
from workbench.core.problem import as_problem
from workbench.core.stream import rounds
from workbench.data.panels import panel
from workbench.memoir import descent
from workbench.memoir.descent import default_batch
from workbench.memoir.solvers import PRESETS, memoir_l1, memoir_l2
from workbench.runs.run import run

SOLVERS = {"l1": memoir_l1, "l2": memoir_l2}
each_preset = pytest.mark.parametrize(("penalty", "preset"), PRESETS)
each_form = pytest.mark.parametrize("dense", [True, False])


def after(count, penalty, problem, **given):
    """Return the state after `count` rounds."""
    *_, state = islice(SOLVERS[penalty](problem, **given), count + 1)
    return state


def without_clock(state):
    return {name: value for name, value in state.info().items() if "seconds" not in name}


@each_preset
@each_form
@pytest.mark.parametrize("mips", ["exact", "random", "simple_lsh"])
def test_a_pause_changes_nothing(penalty, preset, dense, mips):
    given = PRESETS[penalty, preset] | {"mips": mips, "dense": dense, "seed": 4}
    if preset != "reference":  # passes, whose batches end in the middle of one
        given |= {"sampling": "passes", "batch_size": 70}
    problem = documents(300, 60)
    whole = after(6, penalty, problem, **given)
    half = deepcopy(after(3, penalty, problem, **given))
    resumed = after(3, penalty, problem, **given, state=half)
    assert array(resumed.model()).tobytes() == array(whole.model()).tobytes()
    assert without_clock(resumed) == without_clock(whole) and resumed.round == 6
    assert resumed.rng.bit_generator.state == whole.rng.bit_generator.state


def test_sparse_weights_take_few_bytes_and_forget_zeros():
    problem, given = documents(2000, 400, 150), {"dense": False, "batch_size": 100}
    whole, cut = (after(20, "l1", problem, gamma=g, eta0=1.0, **given) for g in (0.0, 0.3))
    for state in (whole, cut):
        entries = state.info()["nonzeros"]
        assert entries == state.model().nnz
        slots = state.end[0]  # of six bytes; a pool has others that are free
        assert entries <= slots <= 5 * entries + 4 * problem.d
    assert cut.model().nnz < whole.model().nnz / 2


@each_preset
def test_what_predicts_is_the_model_or_its_directions(penalty, preset):
    problem = documents(300, 60)
    state = after(4, penalty, problem, **PRESETS[penalty, preset])
    W = array(state.model()).astype(float)
    if PRESETS[penalty, preset].get("predict_metric") == "cosine":
        W /= np.linalg.norm(W, axis=0)
    np.testing.assert_allclose(state.scores(problem.X), problem.X @ W, atol=1e-5)


@each_preset
def test_primal_is_the_objective_of_what_is_judged(penalty, preset):
    problem = documents(300, 60)
    given = PRESETS[penalty, preset] | {"bias": True}
    state = after(3, penalty, problem, **given)
    W = array(state.model()).astype(float)
    V = np.column_stack([problem.X.toarray(), np.ones(problem.n)]) @ W
    own = V[np.arange(problem.n), problem.y]
    V[np.arange(problem.n), problem.y] = -np.inf
    hinge = np.maximum(0, 1 + V.max(axis=1) - own).mean()
    weight = given["gamma"] * np.abs(W).sum() if penalty == "l1" else given["lam"] * (W**2).sum()
    assert state.info()["primal"] == pytest.approx(weight / 2 + hinge, rel=1e-5)


def test_the_shortfall_of_a_search_is_in_its_rows():
    problem = documents(300, 60)
    given = {"batch_size": 100, "lam": 0.1, "eta0": 1.0}
    exact = after(5, "l2", problem, **given)
    assert (exact.recall, exact.epsilon) == (1.0, 0.0)
    chance = after(5, "l2", problem, mips="random", **given)
    assert chance.recall < 0.4 and chance.epsilon > 0.01
    hashed = after(5, "l2", problem, mips="simple_lsh", bits=256, **given)
    assert chance.recall < hashed.recall < 1 and 0 < hashed.epsilon < chance.epsilon


@each_form
@pytest.mark.parametrize("in_batch", ["frozen", "sequential"])
def test_a_search_among_all_classes_is_exact(dense, in_batch):
    given = {"in_batch": in_batch, "lam": 0.1, "batch_size": 50, "dense": dense}
    problem = documents(300, 60)
    hashed = after(5, "l2", problem, mips="simple_lsh", rerank=problem.k, **given)
    assert (hashed.recall, hashed.epsilon) == (1.0, 0.0)
    exact = after(5, "l2", problem, **given)
    same = np.allclose(array(hashed.model()), array(exact.model()), atol=1e-6)
    assert same == (in_batch == "frozen")  # rows of a batch are searched for in the same weights


@each_form
@pytest.mark.parametrize("mips", ["sw_graph", "hnsw"])
def test_graphs_find_nearly_the_same_classes(mips, dense):
    pytest.importorskip("nmslib")
    problem = documents(d=60, n=600, k=40)
    given = PRESETS["l2", "reference"] | {"batch_size": 60, "dense": dense}
    state = after(6, "l2", problem, mips=mips, **given)
    exact = after(6, "l2", problem, **given)
    assert 0.5 < state.recall <= 1 and 0 <= state.epsilon < 0.1
    errors = [error(s.scores(problem.X), problem.y) for s in (state, exact)]
    assert abs(errors[0] - errors[1]) < 0.1
    assert state.build_seconds > 0 and state.query_seconds > 0
    assert after(1, "l2", problem, mips=mips, **given, state=state).round == 7


def test_threads_change_nothing():
    given = PRESETS["l2", "reference"] | {"dense": False, "batch_size": 100}
    one, many = (after(4, "l2", documents(300, 60), threads=t, **given) for t in (1, 3))
    assert one.model().data.tobytes() == many.model().data.tobytes()


def test_a_batch_may_be_larger_than_the_set():
    problem = documents(d=60, n=50)
    assert default_batch(problem) == 50 and default_batch(documents(d=60, n=5000)) == 346
    drawn = after(2, "l2", problem, batch_size=120)
    assert drawn.step == 2
    # Of a pass there are n rows at most, and the step is divided by their number.
    given = {"sampling": "passes", "div_by_batch": True}
    one, two = (after(2, "l2", problem, batch_size=size, **given) for size in (50, 10**6))
    assert array(one.model()).tobytes() == array(two.model()).tobytes()


@each_preset
@pytest.mark.parametrize("mips", ["exact", "simple_lsh"])
def test_a_warm_up_takes_any_batch(penalty, preset, mips):
    given = PRESETS[penalty, preset] | {"batch_size": 200, "mips": mips}
    trace, _ = run(f"memoir_{penalty}", documents(300, 60), rounds(2), parameters=given)
    assert trace.stopped_by == "2 rounds"


@each_preset
@each_form
@pytest.mark.parametrize("mips", ["exact", "random", "simple_lsh"])
def test_awkward_rows(penalty, preset, dense, mips):
    problem = documents(d=60, n=40, k=10)
    X, y = problem.X, problem.y
    some_empty = sp.diags((np.arange(40) % 3 > 0).astype(float)) @ X
    for rows, labels in ((some_empty, y), (X[:10], y[:10]), (X, y % 2), (0 * X, y)):
        given = PRESETS[penalty, preset] | {"dense": dense, "mips": mips}
        state = after(3, penalty, as_problem(sp.csr_matrix(rows), labels), **given)
        assert np.isfinite(state.scores(X)).all()
        assert np.isfinite(list(state.info().values())).all()
    assert state.info()["primal"] == 1 and state.info()["nonzeros"] == 0  # of zeros alone


@pytest.mark.parametrize(("penalty", "preset"), [("l2", "paper"), ("l2", "reference")])
def test_class_numbers_beyond_sixteen_bits(penalty, preset, monkeypatch):
    monkeypatch.setattr(descent, "JUDGED", 50)
    n, d = 66_000, 20
    rng = np.random.default_rng(0)
    X = sp.csr_matrix((rng.random(2 * n), rng.integers(d, size=2 * n), np.arange(0, 2 * n + 1, 2)))
    problem = as_problem(X, np.arange(n))
    given = PRESETS[penalty, preset] | {"batch_size": 1400, "sampling": "uniform"}
    listed, dense = (after(2, penalty, problem, dense=form, **given) for form in (False, True))
    assert listed.classes.dtype == np.uint32
    W = dense.model()
    np.testing.assert_allclose(listed.model().toarray(), W, atol=1e-6 * abs(W).max())


def test_dense_weights_that_do_not_fit_are_refused():
    n, k = 300, 300
    X = sp.csr_matrix((np.ones(n), (np.arange(n), np.arange(n) * 10**6)), shape=(n, 3 * 10**8))
    problem = as_problem(X, np.arange(n) % k)  # a list of their places alone would be 2.4 GB
    with pytest.raises(ValueError, match=r"^dense: weights of 300000000 features and 300 classes"):
        next(memoir_l2(problem, dense=True))


@pytest.fixture(scope="module")
def sector():
    try:
        return panel("sector @ unit", test=None)
    except FileNotFoundError:
        pytest.skip("needs sector, not on this machine; WORKBENCH_DATA may name its folder")


@pytest.mark.parametrize(("penalty", "accuracy"), [("l2", 0.89), ("l1", 0.91)])
def test_the_reference_has_the_accuracy_of_the_prototype_on_sector(penalty, accuracy, sector):
    state = after(25, penalty, sector, **PRESETS[penalty, "reference"])
    reached = 1 - error(state.scores(sector.X_test), sector.y_test)
    assert reached == pytest.approx(accuracy, abs=0.015)


@each_form
def test_the_averaged_preset_is_the_best_on_sector_in_either_form(dense, sector):
    state = after(5, "l2", sector, dense=dense, **PRESETS["l2", "averaged"])
    assert 1 - error(state.scores(sector.X_test), sector.y_test) == pytest.approx(0.939, abs=0.004)
