"""Pictures of the inside of methods: sound, small, and what their titles say."""

import pickle
import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.metrics import confusion_matrix

from workbench.core.problem import as_problem
from workbench.data.panels import panel
from workbench.data.sequences import as_sequences
from workbench.live import pictures as drawing
from workbench.live.inside import portrait
from workbench.live.pictures import (
    MAX_BARS,
    Bars,
    Image,
    Lines,
    Plane,
    pack,
    plane,
    scored,
    weights,
)
from workbench.registry import SOLVERS
from workbench.runs.run import resolve

EXTRAS = {"vw": "vowpalwabbit", "vw_recall_tree": "vowpalwabbit", "mrcpy": "MRCpy"}
NAMES = [name for name in SOLVERS if name not in EXTRAS or find_spec(EXTRAS[name])]
SHORT = {
    "mrc_ccg": {"n_max": 30, "m_max": 20},
    "mrc_subgradient": {"steps": 20},
    "mrc_interior_point": {"splitting_rounds": 3},
    "mrc_pdhg": {"steps": 20},
    "svm_ccg": {"n_max": 1, "m_max": 1, "eps": 0.0},
    "memoir_l1": {"average": True, "dense": False},
    "memoir_l2": {"bias": True, "predict_metric": "cosine"},
    "ls_stagewise": {"n_features": 64, "block": 16},
    "ls_columns": {"block": 1, "passes": 4},
    "cuts_linear_time": {"r": 40},
    "cuts_constant_time": {"r": 40},
    "cuts_nystroem": {"landmarks": 30},
}
TWO_CLASSES = "svm_lp", "svm_ccg"
DENSE_ONLY = "mrc_splitting", "mrc_interior_point", "mrcpy"
WHOLE_PROGRAMS = "mrc_lp", "mrc_lp_compact", "svm_multi", "mrcpy"  # slow beyond a few rows
CUTS = [name for name in NAMES if name.startswith("cuts")]
WW = "ww_walrus", "ww_shark", "ww_walrus_fast"


@dataclass
class Given:
    """A state whose scores are some function of the rows; it notes how many it was asked for."""

    of: object
    asked: int = 0

    def scores(self, X):
        self.asked = max(self.asked, X.shape[0])
        return self.of(X)


def portraits(name, problem, rounds=5, **given):
    """Yield the states of these rounds, from 0 on, and their pictures, once they are sound."""
    steps, parameters = resolve(name, SHORT.get(name, {}) | given)
    for state in islice(steps(problem, **parameters), rounds + 1):
        before = pickle.dumps((state, problem))
        pictures = portrait(state, problem, parameters)
        assert pickle.dumps((state, problem)) == before
        assert 1 <= len(pictures) <= 6
        for picture in pictures:
            check(picture)
        assert pack(pictures) == pack(portrait(state, problem, parameters))
        yield state, pictures


def last(name, problem, rounds=5, **given):
    """Return the last of these rounds' state, and its pictures by the first word of their title."""
    *_, (state, pictures) = portraits(name, problem, rounds, **given)
    return state, {picture.title.split()[0].rstrip(":"): picture for picture in pictures}


def check(picture):
    """Fail unless shapes agree and all numbers are finite in single precision, as the page's."""
    words, buffers = pack([picture])
    assert words[0]["title"]
    for (_, shape), buffer in zip(words[0]["arrays"], buffers, strict=True):
        numbers = np.frombuffer(buffer, "<f4")
        assert numbers.size == np.prod(shape) and np.isfinite(numbers).all()
    match picture:
        case Bars(_, values, labels, _, _, marked):
            assert values.ndim == 1 and 1 <= len(values) <= 256
            assert len(labels) in (0, len(values)) and len(marked) in (0, len(values))
            assert all(isinstance(label, str) for label in labels)
        case Image(_, values, low, high):
            assert values.ndim == 2 and 1 <= values.size <= 2**18
            assert np.isfinite([low, high]).all() and low < high
        case Lines(_, x, ys, labels, _, _, points):
            assert ys.shape == (len(labels) or 1, len(x)) and points.shape == (len(points), 2)
            assert (np.diff(x) > 0).all()
        case Plane(_, regions, (left, right, bottom, top), points, classes, marked):
            assert regions.ndim == 2 and left < right and bottom < top
            assert points.shape == (len(classes), 2) and marked.shape == classes.shape


def values_of(bars):
    """Return a histogram's lower ends, and their distance."""
    ends = np.array([float(label) for label in bars.labels])
    return ends, ends[1] - ends[0]


def sequences(n=12, d=3):
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, size=rng.integers(2, 6)) for _ in range(n)]
    X = [rng.normal(size=(len(labels), d)) + labels[:, None] for labels in y]
    return as_sequences(X, y, name="chains")


PROBLEMS = {
    "digits": lambda blobs: panel("digits | 5 % rows"),
    "plane": lambda blobs: blobs(n=30, d=2, k=3),
    "sparse plane": lambda blobs: blobs(n=30, d=2, k=2, sparse=True),
    "tiny": lambda blobs: blobs().tiny(),
    "many classes": lambda blobs: blobs(n=180, d=50, k=60, sparse=True),
}


@pytest.mark.parametrize("data", PROBLEMS)
@pytest.mark.parametrize("name", NAMES)
def test_every_round_has_sound_pictures_that_leave_the_state_alone(name, data, blobs):
    problem = PROBLEMS[data](blobs)
    if name in DENSE_ONLY and problem.is_sparse:
        problem = replace(problem, X=problem.X.toarray())
    if name in TWO_CLASSES or (name in WHOLE_PROGRAMS and problem.k > 3):
        problem = problem.first_classes(2)
    *_, (_, pictures) = portraits(name, problem)
    if problem.k == 60:
        assert any(re.search(r"\b40 (largest )?of 60 classes", p.title) for p in pictures)


def test_sequences_show_how_labels_follow_each_other():
    state, pictures = last("cuts_exact", sequences())
    expected = np.tensordot(state.w, state.explicit, 1).reshape(3, 3)
    image = pictures["Weights"]
    assert np.array_equal(image.values, expected) and image.written and expected.any()


# Pictures that fit any classifier.


@pytest.mark.parametrize("k", [10, 50])
@pytest.mark.parametrize("tested", [False, True])
def test_confusion_counts_as_scikit_learn_does(k, tested, blobs):
    problem = panel("digits") if k == 10 else blobs(n=900, d=5, k=50).split(0.5)
    problem = problem if tested else replace(problem, X_test=None, y_test=None)
    state, pictures = last("ridge", problem, 1)
    X, y = (problem.X_test, problem.y_test) if tested else (problem.X, problem.y)
    rows = np.linspace(0, len(y) - 1, min(500, len(y))).astype(int)
    said, y, image = state.scores(X[rows]).argmax(axis=1), y[rows], pictures["Confusion"]
    often = np.argsort(-np.bincount(y, minlength=k), kind="stable")[:40]
    truth = confusion_matrix(y, said, labels=np.sort(often))
    assert np.array_equal(image.values, truth) and image.written == (k == 10)
    which = "test rows" if tested else "training rows"
    assert f"{np.sum(said != y)} of {len(rows)} {which} wrong" in image.title
    assert image.high == max(1, min(truth.max(), 2 * (truth - np.diag(np.diag(truth))).max()))
    assert ("40 of 50 classes" in image.title) == (k == 50)


@pytest.mark.parametrize("name", ["logistic_lbfgs", "memoir_pegasos", "ls_stagewise"])
def test_margins_are_counted_and_the_wrong_ones_marked(name, blobs):
    problem = blobs(n=90)
    state, pictures = last(name, problem)
    F = state.scores(problem.X)
    margin = [f[c] - np.delete(f, c).max() for f, c in zip(F, problem.y)]
    bars = pictures["Margins"]
    ends, width = values_of(bars)
    counts, _ = np.histogram(margin, np.append(ends, ends[-1] + width))
    assert np.array_equal(bars.values, counts) and bars.values.sum() == 90
    assert np.array_equal(bars.marked, ends < -width / 2) and 5 < len(ends) < 30


def test_regions_are_the_classes_of_highest_score():
    problem = panel("checkers 2000")
    state, _ = last("cuts_linear_time", problem, 12)
    marked = np.array([1999, 3, 17])
    picture = plane(state, problem, marked=marked, why="these")
    check(picture)
    h, w = picture.regions.shape
    left, right, bottom, top = picture.extent
    low, high = problem.X.min(axis=0), problem.X.max(axis=0)
    assert left < low[0] and bottom < low[1] and right > high[0] and top > high[1]
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, h, 200), rng.integers(0, w, 200)
    x, y = left + (j + 0.5) / w * (right - left), bottom + (i + 0.5) / h * (top - bottom)
    said = state.scores(np.stack([x, y], axis=1).astype(np.float32)).argmax(axis=1)
    assert len(np.unique(said)) == 2 and np.array_equal(picture.regions[i, j], said)
    rows = rows_of(problem, picture.points)
    assert np.array_equal(problem.y[rows], picture.classes) and 300 < len(rows) <= 400
    assert {*rows[picture.marked > 0]} == {*marked} and "marked: these" in picture.title


def rows_of(problem, points):
    """Return which rows of a problem these are."""
    place = {tuple(x): row for row, x in enumerate(problem.X)}
    return np.array([place[tuple(x)] for x in points.astype(problem.X.dtype)])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_plane_of_one_point_has_an_extent(kind):
    problem = as_problem(kind(np.ones((6, 2))), np.arange(6) % 2)
    picture = plane(Given(lambda X: np.asarray(X @ np.eye(2))), problem)
    check(picture)
    assert picture.extent == (0.0, 2.0, 0.0, 2.0)
    # The second of two equal features wins above the diagonal.
    assert np.array_equal(picture.regions > 0, ~np.tri(*picture.regions.shape, dtype=bool).T)


def test_weights_are_square_images_side_by_side_and_shades_end_before_the_largest():
    W = np.random.default_rng(0).normal(size=(25, 7))
    for kind in (np.asarray, sp.csr_matrix):
        image = weights(kind(W), "all")
        check(image)
        down, across = (np.array(image.values.shape) + 1) // 6
        assert down * across >= 7
        for c in range(7):
            top, left = 6 * (c // across), 6 * (c % across)
            tile = image.values[top : top + 5, left : left + 5]
            assert np.array_equal(tile, W[:, c].reshape(5, 5))
        assert np.abs(image.values).sum() == pytest.approx(np.abs(W).sum())  # nothing between
        assert -image.low == image.high < np.abs(W).max()
    assert "40 of 70 classes" in weights(np.tile(W, 10), "all").title
    check(weights(np.full((9, 2), np.inf), "broken"))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_weights_that_are_not_images_are_a_matrix_with_a_row_per_class(kind):
    W = np.random.default_rng(0).normal(size=(200, 4))
    assert np.array_equal(weights(kind(W[:5]), "few").values, W[:5].T)
    image = weights(kind(W), "many")
    largest = np.sort(np.argsort(-np.linalg.norm(W, axis=1))[:MAX_BARS])
    assert np.array_equal(image.values, W[largest].T) and "40 largest of 200" in image.columns


def test_large_problems_are_looked_at_in_part():
    problem = as_problem(np.random.default_rng(0).normal(size=(3000, 2)), np.arange(3000) % 3)
    state = Given(lambda X: np.asarray(X @ np.ones((2, 3))))
    assert len(scored(state, problem).y) == state.asked == drawing.MAX_ROWS
    for cost in (1e5, 1e7, 1e12):
        state.asked = 0
        scored(state, problem, cost)
        expected = max(drawing.MIN_ROWS, min(drawing.MAX_ROWS, int(drawing.MAX_WORK / cost)))
        assert state.asked == expected
        side = len(plane(state, problem, cost).regions)
        assert side == 20 or side**2 * cost <= drawing.MAX_WORK
    assert {*scored(state, problem).y} == {0, 1, 2}


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf, 1e300])
def test_scores_that_are_not_finite_give_pictures_that_are(broken, blobs):
    state = Given(lambda X: np.where(np.arange(3) == 1, broken, 1.0) * np.ones((X.shape[0], 1)))
    for d in (2, 4):
        for picture in portrait(state, blobs(n=30, d=d), {}):
            check(picture)


# Families.


@pytest.mark.parametrize("name", WW)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_line_is_the_subproblem_of_the_row_with_most_of_the_gap(name, sparse, blobs):
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
def test_parts_of_the_gap_add_up(name, blobs):
    state, pictures = last(name, blobs(n=MAX_BARS, k=3), rounds=4, C=0.1)
    parts = pictures["Parts"].values
    assert state.C == getattr(state, "level", 0.1) == 0.1  # not a continuation
    assert np.isclose(parts.sum(), state.primal - state.dual, rtol=1e-6)
    assert (np.diff(parts) <= 0).all()


def test_cuts_of_minimax_risk_are_counted_by_slack_and_ranked_by_multiplier():
    problem = panel("digits | 20 % rows")
    state, pictures = last("mrc_ccg", problem)
    slack, alpha = pictures["Slack"], pictures["Multipliers"]
    violated = np.sum(state.psi + 1 > state.nu)
    assert slack.values.sum() == problem.n
    assert 0 < violated == slack.values[slack.marked != 0].sum()
    assert alpha.values[0] == state.alpha.max() and alpha.values[-1] == state.alpha.min()
    assert (alpha.marked[alpha.values > 0] == 1).all() and (alpha.marked == 0).any()
    assert f"of {len(state.alpha)} constraints" in alpha.title


@pytest.mark.parametrize(
    "name", ["mrc_subgradient", "mrc_splitting", "mrc_pdhg", "mrc_interior_point"]
)
def test_the_worst_distribution_is_one(name, blobs):
    for state, pictures in portraits(name, blobs(n=MAX_BARS), rounds=8):
        found = [p for p in pictures if p.title.startswith("Worst")]
        assert len(found) == np.any(state.p)
        p = np.maximum(state.p, 0)
        for bars in found:
            assert np.isclose(bars.values.sum(), 1) and (np.diff(bars.values) <= 0).all()
            assert np.isclose(bars.values[0], p.sum(axis=1).max() / p.sum())


def test_pairs_of_the_interior_point_method_are_all_there_and_central(blobs):
    state, pictures = last("mrc_interior_point", blobs(), rounds=8)
    pairs = pictures["log₁₀"]
    assert pairs.values.sum() == state.pairs - 1  # without that of alpha
    products = np.concatenate([(state.p * state.s).ravel(), (state.g * state.h).ravel()])
    products = np.concatenate([products, state.a * state.m_plus, state.b * state.m_minus])
    below = pairs.values[values_of(pairs)[0] < 0].sum()
    assert below == np.sum(products < products.mean())


@pytest.mark.parametrize("dense", [False, True])
def test_sparsity_is_counted_by_class(dense, blobs):
    state, pictures = last(
        "memoir_l1", blobs(n=90, d=30, k=6, sparse=True), gamma=0.01, dense=dense
    )
    W = state.model() if dense else state.model().toarray()
    bars = pictures["Nonzero"]
    assert (bars.values == -np.sort(-np.count_nonzero(W, axis=0))).all() and bars.values[-1] < 30


def test_working_sets_are_counted(blobs):
    problem = blobs(n=200, d=6, k=12)
    rows = (problem.y < 6) | (np.arange(200) < 40)  # half of the classes are rare
    problem = as_problem(problem.X[rows], problem.y[rows])
    state, pictures = last("cs_working_set", problem, C=0.3, working_set=3, balance=0.5)
    assert (pictures["Classes"].values == [np.sum(state.held == m) for m in range(1, 4)]).all()
    costs = np.bincount(problem.y)[problem.y] ** -0.5
    costs *= 0.3 / costs.mean()
    shares = [-a[1:held] / cost for a, held, cost in zip(state.alpha, state.held, costs)]
    bars = pictures["−α/C"]
    expected = np.bincount(np.floor(np.concatenate(shares) / values_of(bars)[1]).astype(int))
    assert len(expected) > 3 and (bars.values == expected).all()


@pytest.mark.parametrize("name", ["ls_generalized", "ls_accelerated", "ls_columns"])
def test_what_classes_ask_for_is_the_steepest_descent_of_the_loss(name, blobs):
    problem = blobs(n=80, d=5)
    state, pictures = last(name, problem, 3, link="softmax")

    def loss(W):
        F = problem.X @ W
        return float(np.mean(logsumexp(F, axis=1) - F[np.arange(80), problem.y]))

    descent = np.empty((5, 3))
    for j, c in np.ndindex(5, 3):
        step = np.zeros((5, 3))
        step[j, c] = 1e-5
        descent[j, c] = -(loss(state.W + step) - loss(state.W - step)) / 2e-5
    assert pictures["What"].values.T == pytest.approx(descent, abs=1e-6)


def test_the_learnt_link_of_calibrated_least_squares(blobs):
    problem = blobs()
    state, pictures = last("ls_calibrated", problem, 4, basis=2)
    lines = pictures["The"]
    u, V = lines.x, state.V[-1]
    for c in range(3):
        both = [
            V[c, c] * u + V[3 + c, c] * u**2 + V[r, c] * (1 - u) + V[3 + r, c] * (1 - u) ** 2
            for r in range(3)
            if r != c
        ]
        assert lines.ys[c] == pytest.approx(np.mean(both, axis=0), abs=1e-12)
    assert np.array_equal(lines.ys[3], u) and lines.labels == ("0", "1", "2", "unchanged")
    assert "round 4" in lines.title
    R = np.eye(3)[problem.y] - state.predictions
    assert pictures["What"].values == pytest.approx((problem.X.T @ R / problem.n).T, abs=1e-12)
    said = state.predictions.argmax(axis=1)
    assert np.array_equal(pictures["Confusion"].values, confusion_matrix(problem.y, said))
    last("ls_calibrated", problem, 3, basis=np.abs)  # a function of one's own


def test_blocks_of_features_and_how_far_the_pass_is(blobs):
    state, pictures = last("ls_stagewise", blobs(), 6)  # four blocks, three passes
    bars = pictures["Blocks"]
    norms = [np.linalg.norm(state.W[b : b + 16]) for b in range(0, 64, 16)]
    assert bars.values == pytest.approx(norms) and bars.values.all()
    assert np.array_equal(bars.marked, [0, 1, 0, 0])
    assert bars.title.endswith("pass 2 of 3, block 2 of 4")
    _, pictures = last("ls_stagewise", blobs(), 0)
    assert not pictures["Blocks"].marked.any()


def test_columns_are_drawn_in_the_order_of_the_pass_and_named(blobs):
    problem = replace(blobs(d=6), features=tuple("abcdef"))
    state, pictures = last("ls_columns", problem, 4, block=2)
    bars, heaviest = pictures["Blocks"], pictures["The"]
    norms = [np.linalg.norm(state.W[state.order[b : b + 2]]) for b in (0, 2, 4)]
    assert bars.values == pytest.approx(norms) and np.array_equal(bars.marked, [1, 0, 0])
    assert "pass 2 of 4, block 1 of 3" in bars.title
    own = {name: np.linalg.norm(w) for name, w in zip("abcdef", state.W)}
    assert dict(zip(heaviest.labels, heaviest.values)) == pytest.approx(own)
    assert np.all(np.diff(heaviest.values) <= 0)
    state, pictures = last("ls_columns", blobs(d=700), 3)  # more blocks than bars
    bars = pictures["Blocks"]
    assert len(bars.values) == 234 and "3 per bar" in bars.title and bars.marked[0] == 1
    assert np.sum(bars.values**2) == pytest.approx(np.sum(state.W**2))


@pytest.mark.parametrize("name", CUTS)
def test_cuts_are_drawn_with_multipliers_losses_and_slacks(name, blobs):
    problem = blobs(n=80, d=4, k=3)
    s, pictures = last(name, problem, 8)
    bars, lines = pictures["Multipliers"], pictures["The"]
    assert np.array_equal(bars.values, np.sort(s.alpha)[::-1])
    assert np.array_equal(bars.marked > 0, bars.values > 0)
    assert f"{len(s.h)} cuts, {np.sum(s.alpha > 0)} active" in bars.title
    assert np.array_equal(lines.ys[0], s.h)
    # A cut's inner product with the iterate, by the iterate's scores of the rows in the cut.
    F = s.scores(problem.X).astype(float)
    if len(s.root):
        F = np.linalg.pinv(s.root) @ s.expansion()[1]  # the iterate's coordinates in the span
        F = dict(zip(s.landmarks, F))
    for t in range(len(s.h)):
        part = slice(s.ends[t], s.ends[t + 1])
        product = sum(F[u] @ b for u, b in zip(s.rows[part], s.B[part]))
        assert lines.ys[1, t] == pytest.approx(s.h[t] - product, abs=1e-4)
    active = np.flatnonzero(s.alpha)
    assert np.array_equal(lines.points, np.stack([active + 1, lines.ys[1, active]], axis=1))


def test_the_rows_of_most_weight_are_marked_and_drawn():
    problem = panel("checkers 200")
    s, pictures = last("cuts_linear_time", problem, 8)
    sizes = np.zeros(problem.n)
    np.add.at(sizes, s.rows, np.repeat(s.w, np.diff(s.ends)) * s.B[:, 0])
    sizes = np.abs(sizes)
    picture, bars = pictures["Regions"], pictures["Weight"]
    assert bars.values[0] == pytest.approx(sizes.max())
    assert f"{np.sum(sizes > 0)} of 200 rows in the expansion" in bars.title
    marked = rows_of(problem, picture.points[picture.marked > 0])
    assert len(marked) == 60 and sizes[marked].min() >= np.sort(sizes)[-60]
    problem = panel("digits | 20 % rows")
    s, pictures = last("cuts_exact", problem, 4)
    rows, A = s.expansion()
    heaviest = rows[np.linalg.norm(A, axis=1).argmax()]
    assert pictures["The"].title.startswith("The 12 rows")
    assert np.array_equal(pictures["The"].values[:8, :8], problem.X[heaviest].reshape(8, 8))


@pytest.mark.parametrize("rounds", [0, 5])
def test_landmarks_are_marked_from_the_start(rounds):
    problem = panel("checkers 200")
    s, pictures = last("cuts_nystroem", problem, rounds)
    picture = pictures["Regions"]
    marked = picture.points[picture.marked > 0].astype(np.float32)
    assert np.array_equal(marked, problem.X[s.landmarks]) and len(marked) == 30
    assert picture.title.endswith("marked: landmarks")
