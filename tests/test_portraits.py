"""Portraits of minimax risk, Weston-Watkins and many classes: sound, bounded, and right."""

import pickle
import re
from itertools import islice

import numpy as np
import pytest

from workbench.core.problem import as_problem
from workbench.data import load
from workbench.live.inside import portrait
from workbench.live.inside.classes import BARS
from workbench.live.pictures import Bars, Image, Lines, pack
from workbench.memoir.pegasos import mean_hinge
from workbench.mrc.ccg import subset_sizes
from workbench.runs.run import resolve

NAMES = (
    "mrc_ccg",
    "mrc_lp",
    "mrc_lp_compact",
    "mrc_subgradient",
    "mrc_splitting",
    "mrc_pdhg",
    "mrc_interior_point",
    "svm_ccg",
    "svm_lp",
    "svm_multi",
    "ww_walrus",
    "ww_shark",
    "ww_walrus_fast",
    "ww_kernel",
    "memoir_l2",
    "memoir_l1",
    "memoir_pegasos",
    "cs_working_set",
)
SHORT = {
    "mrc_ccg": {"n_max": 30, "m_max": 20},
    "mrc_subgradient": {"steps": 20},
    "mrc_interior_point": {"splitting_rounds": 3},
    "mrc_pdhg": {"steps": 20},
    "svm_ccg": {"n_max": 1, "m_max": 1, "eps": 0.0},
    "memoir_l1": {"average": True, "dense": False},
    "memoir_l2": {"bias": True, "predict_metric": "cosine"},
}
TWO_CLASSES = "svm_lp", "svm_ccg"
DENSE_ONLY = "mrc_splitting", "mrc_interior_point"
WHOLE_PROGRAMS = "mrc_lp", "mrc_lp_compact", "svm_multi"  # slow beyond a few rows and classes
WW = "ww_walrus", "ww_shark", "ww_walrus_fast"
each_solver = pytest.mark.parametrize("name", NAMES)


def portraits(name, problem, rounds=5, **given):
    """Yield the states of these rounds, from 0 on, and their portraits, once they are sound."""
    steps, parameters = resolve(name, SHORT.get(name, {}) | given)
    for state in islice(steps(problem, **parameters), rounds + 1):
        before = pickle.dumps((state, problem.X, problem.y))
        pictures = portrait(state, problem, parameters)
        assert pickle.dumps((state, problem.X, problem.y)) == before
        assert 3 <= len(pictures) <= 6
        for picture in pictures:
            check(picture)
        assert pack(pictures) == pack(portrait(state, problem, parameters))
        yield state, pictures


def last(name, problem, rounds=5, **given):
    """Return the last of these rounds' state, and its pictures by the first word of their title."""
    *_, (state, pictures) = portraits(name, problem, rounds, **given)
    return state, {picture.title.split()[0]: picture for picture in pictures}


def check(picture):
    """Assert that a picture is small, finite in single precision, and of one shape."""
    assert picture.title
    for value in picture:
        if isinstance(value, np.ndarray):
            assert np.isfinite(value.astype("<f4")).all(), picture.title
    match picture:
        case Bars(_, values, labels, _, _, marked):
            assert values.ndim == 1 and 1 <= len(values) <= BARS, picture.title
            assert len(labels) == len(values) and len(marked) in (0, len(values))
            assert all(isinstance(label, str) for label in labels)
        case Image(_, values, low, high):
            assert values.ndim == 2 and values.size <= 2**18
            assert np.isfinite([low, high]).all() and low < high
        case Lines(_, x, ys, _, _, _, _, points):
            assert ys.shape == (len(ys), len(x)) and points.shape == (len(points), 2)
            assert (np.diff(x) > 0).all()


def suited(name, problem):
    return problem.first_classes(2) if name in TWO_CLASSES else problem


@pytest.fixture(scope="module")
def digits():
    return load("digits", test=0.2, scale="standard").subset(0.1)


@each_solver
def test_every_round_of_digits_has_a_sound_portrait(name, digits):
    problem = digits.first_classes(3).subset(0.5) if name in WHOLE_PROGRAMS else digits
    assert len(list(portraits(name, suited(name, problem)))) > 1


@each_solver
def test_every_round_of_iris_has_a_sound_portrait(name):
    assert len(list(portraits(name, suited(name, load("iris", scale="standard"))))) > 1


@each_solver
@pytest.mark.parametrize("sparse", [False, True])
def test_the_smallest_problems_have_portraits(name, sparse, blobs):
    if sparse and name in DENSE_ONLY:
        pytest.skip("takes dense rows only")
    for k in {2, 2 if name in TWO_CLASSES else 3}:
        assert list(portraits(name, blobs(k=k, sparse=sparse).tiny()))


@pytest.mark.parametrize("name", [n for n in NAMES if n not in (*TWO_CLASSES, *WHOLE_PROGRAMS)])
def test_many_classes_are_cut_and_the_title_says_so(name, blobs):
    _, pictures = last(name, blobs(n=180, d=50, k=60), rounds=2)
    cut = [picture.title for picture in pictures.values() if "of 60 classes" in picture.title]
    assert cut
    assert all(re.search(f"{BARS} (largest )?of 60 classes", title) for title in cut)


@pytest.mark.parametrize("name", WW)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_line_is_the_subproblem_of_the_worst_row(name, sparse, blobs):
    problem = blobs(n=80, k=5, sparse=sparse)
    state, pictures = last(name, problem, rounds=2, C=0.5)
    C, line, held = state.level, pictures["F(γ)"], pictures["Its"]
    i = int(re.search(r"row (\d+)", line.title)[1])
    X = problem.X.toarray() if sparse else problem.X
    x, y, W, B = X[i], problem.y[i], state.W[:, :5], state.B[i, :5]
    Z = 1 + X @ W - np.sum(X * W.T[problem.y], axis=1)[:, None]
    gaps = np.where(np.eye(5)[problem.y], 0, C * np.maximum(Z, 0) - state.B[:, :5] * Z)
    assert i == np.argmax(gaps.sum(axis=1))
    without = W - np.outer(x, B.sum() * np.eye(5)[y] - B)
    v = np.delete((1 - x @ without[:, [y]] + x @ without) / (x @ x), y)
    expected = [np.clip(v - g, 0, C).sum() - g for g in line.x]
    assert np.allclose(line.ys[0], expected, atol=1e-12)
    ends = np.concatenate([v, v - C])
    assert np.isin(np.round(ends[ends > 0], 9), np.round(line.x, 9)).all()
    ((g, zero),) = line.points
    assert zero == 0 and abs(np.interp(g, line.x, line.ys[0])) < 1e-12
    assert np.isclose(held.values.sum(), g) and held.values[y] == 0
    assert np.allclose(np.delete(held.values, y), np.clip(v - g, 0, C))
    assert (held.marked == ((held.values > 0) & (held.values < C))).all()


@pytest.mark.parametrize("name", [*WW, "ww_kernel"])
def test_parts_of_the_gap_add_up_and_the_worst_row_is_shown(name, blobs):
    state, pictures = last(name, blobs(n=BARS, k=3), rounds=4, C=0.1)
    parts = pictures["Parts"].values
    assert state.C == getattr(state, "level", 0.1) == 0.1  # no continuation
    assert np.isclose(parts.sum(), state.primal - state.dual, rtol=1e-6)
    assert (np.diff(parts) <= 0).all()


@pytest.mark.parametrize("name", [*WW, "ww_kernel"])
def test_multipliers_are_counted_by_where_they_stand(name, blobs):
    C = 1.0 if name == "ww_kernel" else 0.05
    state, pictures = last(name, blobs(n=90, k=3), rounds=3, C=C)
    B = state.B.T if name == "ww_kernel" else state.B[:, :3]
    kinds = ["0" if not b.any() else "free" if any(0 < e < C for e in b) else "C" for b in B]
    expected = [kinds.count(kind) / 90 for kind in ("0", "free", "C")]
    assert np.allclose(pictures["Multipliers"].values, expected)
    assert min(expected) > 0


def test_norms_are_those_of_the_columns(digits):
    for name, weights in (
        ("ww_walrus", lambda s: s.W[:, :10]),
        ("memoir_l2", lambda s: s.model()),
        ("memoir_pegasos", lambda s: s.W),
        ("cs_working_set", lambda s: s.model().toarray()),
    ):
        state, pictures = last(name, digits, rounds=2)
        expected = np.linalg.norm(weights(state), axis=0)
        assert np.allclose(pictures["Norm"].values, expected) and expected.min() > 0


def test_norms_of_functions_are_those_of_weights_for_a_linear_kernel(blobs):
    problem = blobs(n=50)
    state, pictures = last("ww_kernel", problem, rounds=2, kernel="linear")
    A = -state.B
    A[problem.y, np.arange(50)] += state.B.sum(axis=0)
    assert np.allclose(pictures["Norm"].values, np.linalg.norm(A @ problem.X, axis=1))


def test_cuts_are_counted(digits):
    state, pictures = last("mrc_ccg", digits)
    sizes = subset_sizes(state)
    assert len(sizes) == len(state.alpha)
    assert (pictures["Constraints"].values == [np.sum(sizes == s) for s in range(1, 11)]).all()
    slack = pictures["Slack"]
    assert slack.values.sum() == digits.n
    violated = np.sum(state.psi + 1 > state.nu)
    assert 0 < violated == slack.values[slack.marked != 0].sum()
    inside = [np.sum(state.features // 65 == c) for c in range(10)]
    assert (pictures["Features"].values == inside).all()
    alpha = pictures["Multipliers"]
    assert alpha.values[0] == state.alpha.max() and alpha.values[-1] == state.alpha.min()
    assert (alpha.marked[alpha.values > 0] == 1).all() and (alpha.marked == 0).any()
    assert f"of {len(state.alpha)} constraints" in alpha.title


def test_multipliers_of_few_constraints_sum_to_one():
    state, pictures = last("mrc_ccg", load("iris"), rounds=0)
    assert len(state.alpha) <= BARS
    assert np.isclose(pictures["Multipliers"].values.sum(), 1)


def test_weights_are_images_class_by_class_and_shades_end_before_the_largest(digits):
    for name, M in (("mrc_ccg", lambda s: s.M), ("ww_walrus", lambda s: s.W.T)):
        state, pictures = last(name, digits, rounds=3)
        image = next(p for p in pictures.values() if isinstance(p, Image))
        for c in range(10):
            row, column = divmod(c, 5)
            tile = image.values[9 * row : 9 * row + 8, 9 * column : 9 * column + 8]
            assert (tile == M(state)[c, :64].reshape(8, 8)).all()
        assert -image.low == image.high < np.abs(image.values).max()


def test_weights_of_no_image_are_a_matrix_with_a_row_a_class(blobs):
    state, pictures = last("ww_walrus", blobs(d=5), rounds=1)
    assert (pictures["Weights"].values == state.W[:, :3].T).all()
    state, pictures = last("memoir_pegasos", blobs(d=200, k=4), rounds=1)
    assert pictures["Weights"].values.shape == (4, BARS)
    sizes = np.sort(np.linalg.norm(state.W, axis=1))[-BARS:]
    shown = np.linalg.norm(pictures["Weights"].values, axis=0)
    assert np.allclose(np.sort(shown), sizes)


@pytest.mark.parametrize(
    "name", ["mrc_subgradient", "mrc_splitting", "mrc_pdhg", "mrc_interior_point"]
)
def test_the_worst_distribution_is_one(name, blobs):
    for state, pictures in portraits(name, blobs(), rounds=8):
        by_class, by_row = [p for p in pictures if p.title.startswith("Worst")] or (None, None)
        if by_class is None:
            assert not state.p.any()
            continue
        p = np.maximum(state.p, 0)
        assert np.isclose(by_class.values.sum(), 1)
        assert np.allclose(by_class.values, p.sum(axis=0) / p.sum())
        assert np.isclose(by_row.values[0], p.sum(axis=1).max() / p.sum())


def test_pairs_of_the_interior_point_method_are_all_there_and_central(blobs):
    state, pictures = last("mrc_interior_point", blobs(), rounds=8)
    pairs = pictures["log₁₀"]
    assert pairs.values.sum() == state.pairs - 1  # without that of alpha
    products = np.concatenate([(state.p * state.s).ravel(), (state.g * state.h).ravel()])
    products = np.concatenate([products, state.a * state.m_plus, state.b * state.m_minus])
    below = sum(v for v, e in zip(pairs.values, pairs.labels, strict=True) if float(e) < 0)
    assert below == np.sum(products < products.mean())


def test_psi_is_told_from_its_largest(blobs):
    problem = blobs(n=50)
    state, pictures = last("mrc_lp", problem)
    V = np.hstack([problem.X, np.ones((50, 1))]) @ state.M.T
    order = -np.sort(-V, axis=1)
    psi = ((np.cumsum(order, axis=1) - 1) / np.arange(1, 4)).max(axis=1)
    bars = pictures["ψ"]
    width = float(bars.labels[1]) - float(bars.labels[0])
    expected = np.bincount(np.floor((psi.max() - psi) / width).astype(int))
    assert len(expected) > 3 and (bars.values == expected).all()


def test_margins_of_cuts_for_two_classes(blobs):
    problem = blobs(k=2)
    state, pictures = last("svm_ccg", problem)
    bars = pictures["Margins"]
    z = np.where(problem.y == 1, 1, -1)
    short = np.sum(z * (problem.X @ state.w + state.b) < 1)
    assert 0 < short == bars.values[bars.marked != 0].sum()


@pytest.mark.parametrize("dense", [False, True])
def test_sparsity_is_counted_by_class_and_by_feature(dense, blobs):
    problem = blobs(n=90, d=30, k=6, sparse=True)
    state, (_, by_class, by_feature, *_) = list(
        portraits("memoir_l1", problem, gamma=0.01, dense=dense)
    )[-1]
    W = state.model()
    W = W if dense else W.toarray()
    for bars, axis in ((by_class, 0), (by_feature, 1)):
        assert (bars.values == -np.sort(-np.count_nonzero(W, axis=axis))).all()
    assert by_class.values[-1] < 30


def test_the_search_is_told(blobs):
    problem = blobs(n=90, k=6)
    state, pictures = last("memoir_l2", problem, mips="random", in_batch="frozen")
    assert 0 < state.recall < 1 and state.epsilon > 0
    expected = [state.recall, state.epsilon, state.updates]
    assert (
        np.allclose(pictures["Search:"].values, expected) and "random" in pictures["Search:"].title
    )


def test_margins_are_of_the_rows_that_the_objective_sees(blobs):
    problem = blobs(n=90, k=6)
    state, pictures = last("memoir_pegasos", problem)
    bars = pictures["Margins"]
    wrong = np.sum(np.argmax(problem.X @ state.W, axis=1) != problem.y)
    assert bars.values.sum() == 90 and 0 < wrong == bars.values[bars.marked != 0].sum()
    ends = np.array([float(end) for end in bars.labels])
    width = ends[1] - ends[0]
    low, high = (bars.values @ np.maximum(1 - e, 0) / 90 for e in (ends + width, ends))
    assert low <= mean_hinge(problem.X, problem.y, state.W) <= high


def test_working_sets_are_counted(blobs):
    problem = blobs(n=200, d=6, k=12)
    rows = (problem.y < 6) | (np.arange(200) < 40)  # half of the classes are rare
    problem = as_problem(problem.X[rows], problem.y[rows])
    given = {"C": 0.3, "working_set": 3, "balance": 0.5}
    state, pictures = last("cs_working_set", problem, **given)
    assert (pictures["Classes"].values == [np.sum(state.held == m) for m in range(1, 4)]).all()
    bars = pictures["−α/C"]
    costs = np.bincount(problem.y)[problem.y] ** -0.5
    costs *= 0.3 / costs.mean()
    shares = [
        -state.alpha[i, j] / costs[i] for i in range(problem.n) for j in range(1, state.held[i])
    ]
    width = float(bars.labels[1]) - float(bars.labels[0])
    expected = np.bincount(np.floor(np.array(shares) / width).astype(int))
    assert len(expected) > 3 and (bars.values == expected).all()
    assert np.allclose(pictures["Last"].values, [state.updates, state.full]) and state.full > 0
