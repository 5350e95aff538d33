"""Pictures that fit any method, and the portraits of least squares, sampled cuts and peers."""

import pickle
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.metrics import confusion_matrix

from workbench.core.problem import as_problem
from workbench.data.panels import panel
from workbench.data.sequences import as_sequences
from workbench.data.synthetic import synthetic
from workbench.live.inside import common as portraits
from workbench.live.inside import least_squares, portrait
from workbench.live.inside.common import confusion, margins, plane, scored, weight_images
from workbench.live.inside.peers import portrait as of_peer
from workbench.live.pictures import Bars, Image, Lines, Plane, pack
from workbench.runs.run import resolve

NAMES = (
    "ls_generalized",
    "ls_accelerated",
    "ls_calibrated",
    "ls_stagewise",
    "ls_columns",
    "cuts_exact",
    "cuts_linear_time",
    "cuts_constant_time",
    "cuts_nystroem",
    "libsvm",
    "nystroem_svm",
    "liblinear_cs",
    "liblinear_lr",
    "logistic_lbfgs",
    "ridge",
    "centroid",
)
SMALL = {
    "ls_stagewise": {"n_features": 64, "block": 16},
    "ls_columns": {"block": 1, "passes": 4},
    "cuts_linear_time": {"r": 40},
    "cuts_constant_time": {"r": 40},
    "cuts_nystroem": {"landmarks": 30},
}
ROUNDS = 5
each_solver = pytest.mark.parametrize("name", NAMES)


@dataclass
class Given:
    """A state whose scores are some function of the rows; it notes how many it was asked for."""

    of: object
    asked: int = 0

    def scores(self, X):
        self.asked = max(self.asked, X.shape[0])
        return self.of(X)


def after(name, problem, rounds, **parameters):
    """Return the state after some rounds, or the last one, and the complete parameters."""
    steps, parameters = resolve(name, SMALL.get(name, {}) | parameters)
    *_, state = islice(steps(problem, **parameters), rounds + 1)
    return state, parameters


def looked_at(name, problem, rounds, **parameters):
    """Return the pictures after some rounds, checked, with state and parameters."""
    state, parameters = after(name, problem, rounds, **parameters)
    before = pickle.dumps((state, problem))
    pictures = portrait(state, problem, parameters)
    assert pickle.dumps((state, problem)) == before
    assert len(pictures) <= 6
    for picture in pictures:
        check(picture)
    return pictures, state, parameters


def check(picture):
    """Fail unless shapes agree and all numbers are finite as the page gets them."""
    words, buffers = pack([picture])
    assert words[0]["title"]
    for (_, shape), buffer in zip(words[0]["arrays"], buffers, strict=True):
        numbers = np.frombuffer(buffer, "<f4")
        assert numbers.size == np.prod(shape) and np.isfinite(numbers).all()
    if isinstance(picture, Bars):
        assert picture.values.ndim == 1 and len(picture.values)
        assert len(picture.labels) in (0, len(picture.values))
        assert len(picture.marked) in (0, len(picture.values))
    elif isinstance(picture, Image):
        assert picture.values.ndim == 2 and picture.values.size and picture.low < picture.high
        assert np.isfinite([picture.low, picture.high]).all()
    elif isinstance(picture, Lines):
        assert picture.ys.shape == (len(picture.labels), len(picture.x))
        assert picture.points.shape[1] == 2
    else:
        left, right, bottom, top = picture.extent
        assert picture.regions.ndim == 2 and left < right and bottom < top
        assert picture.points.shape == (len(picture.classes), 2)
        assert picture.marked.shape == picture.classes.shape


def first(pictures, kind, title=""):
    return next(p for p in pictures if isinstance(p, kind) and p.title.startswith(title))


def sequences(n=12, d=3):
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, size=rng.integers(2, 6)) for _ in range(n)]
    X = [rng.normal(size=(len(labels), d)) + labels[:, None] for labels in y]
    return as_sequences(X, y, name="chains")


@each_solver
@pytest.mark.parametrize("data", ["digits | 20 % rows", "iris", "checkers 200"])
@pytest.mark.parametrize("rounds", [0, ROUNDS])
def test_a_portrait_is_finite_and_leaves_the_state_alone(name, data, rounds):
    pictures, state, _ = looked_at(name, panel(data), rounds)
    assert len(pictures) >= 2
    if rounds and "cuts" in name:
        assert {Bars, Lines} < set(map(type, pictures)) and state.round


@each_solver
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rounds", [0, ROUNDS])
def test_a_portrait_takes_sparse_rows_two_classes_tiny_problems_and_sequences(
    name, sparse, rounds, blobs
):
    for problem in (
        blobs(n=30, d=9, k=2, sparse=sparse),
        blobs(n=30, d=2, k=3, sparse=sparse, dtype=np.float32),
        blobs(sparse=sparse).tiny(),
    ):
        looked_at(name, problem, rounds)
    if not sparse:
        looked_at(name, sequences(), rounds)


def test_confusion_counts_as_scikit_learn_does():
    problem = panel("digits")
    state, _ = after("ridge", problem, 1)
    (image,) = confusion(state, problem)
    rows = np.linspace(0, len(problem.y_test) - 1, 500).astype(int)
    said = state.scores(problem.X_test)[rows].argmax(axis=1)
    truth = confusion_matrix(problem.y_test[rows], said, labels=range(10))
    assert np.array_equal(image.values, truth)
    assert image.written and (image.rows, image.columns) == ("true", "predicted")
    wrong = truth - np.diag(truth.diagonal())
    assert image.title == f"Confusion: {wrong.sum()} of 500 test rows wrong"
    assert image.high == 2 * wrong.max()
    (image,) = confusion(state, replace(problem, X_test=None, y_test=None))
    assert "training rows" in image.title and image.values.sum() == 500


def test_confusion_of_many_classes_shows_those_with_most_rows():
    problem = synthetic(400, 5, 50, seed=1)
    problem = problem.subset(0.5).split(0.5)
    state, _ = after("ridge", problem, 1)
    (image,) = confusion(state, problem)
    assert image.values.shape == (40, 40) and image.title.endswith("40 of 50 classes")
    assert not image.written
    often = np.bincount(problem.y_test, minlength=50)
    shown = np.sort(np.argsort(-often, kind="stable")[:40])
    said = state.scores(problem.X_test).argmax(axis=1)
    assert np.array_equal(image.values, confusion_matrix(problem.y_test, said, labels=shown))


def test_margins_are_counted_and_the_wrong_ones_marked(blobs):
    problem = blobs(n=90)
    state, _ = after("logistic_lbfgs", problem, 5)
    (bars,) = margins(state, problem)
    F = state.scores(problem.X)
    each = np.arange(90)
    margin = F[each, problem.y] - np.array([np.delete(f, c).max() for f, c in zip(F, problem.y)])
    ends = np.array([float(label) for label in bars.labels])
    width = ends[1] - ends[0]
    counts, _ = np.histogram(margin, np.append(ends, ends[-1] + width))
    assert np.array_equal(bars.values, counts) and bars.values.sum() == 90
    assert np.array_equal(bars.marked, ends < -width / 2) and 5 < len(ends) < 30
    assert bars.values[bars.marked > 0].sum() == np.sum(F.argmax(axis=1) != problem.y)


def test_regions_are_the_classes_of_highest_score():
    problem = panel("checkers 2000")
    state, _ = after("cuts_linear_time", problem, 12)
    marked = np.array([1999, 3, 17])
    (picture,) = plane(state, problem, marked, why="these")
    check(picture)
    h, w = picture.regions.shape
    left, right, bottom, top = picture.extent
    low, high = problem.X.min(axis=0), problem.X.max(axis=0)
    assert left < low[0] and bottom < low[1] and right > high[0] and top > high[1]
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, h, 200), rng.integers(0, w, 200)
    X = np.stack(
        [left + (j + 0.5) / w * (right - left), bottom + (i + 0.5) / h * (top - bottom)], axis=1
    )
    said = state.scores(X.astype(np.float32)).argmax(axis=1)
    assert len(np.unique(said)) == 2 and np.array_equal(picture.regions[i, j], said)
    place = {tuple(x): row for row, x in enumerate(problem.X)}
    rows = np.array([place[tuple(x)] for x in picture.points.astype(np.float32)])
    assert np.array_equal(problem.y[rows], picture.classes) and 300 < len(rows) <= 400
    assert set(rows[picture.marked > 0]) == set(marked) and "marked: these" in picture.title
    assert plane(state, panel("iris")) == []


def test_a_plane_of_one_point_and_of_sparse_rows_has_an_extent():
    X = np.ones((6, 2))
    for rows in (X, sp.csr_matrix(X)):
        problem = as_problem(rows, np.arange(6) % 2)
        (picture,) = plane(Given(lambda X: np.asarray(X @ np.eye(2))), problem)
        check(picture)
        assert picture.extent == (0.0, 2.0, 0.0, 2.0)
        # The second of two equal features wins above the diagonal.
        assert np.array_equal(picture.regions > 0, ~np.tri(*picture.regions.shape, dtype=bool).T)


def test_weights_are_square_images_side_by_side():
    W = np.random.default_rng(0).normal(size=(25, 7))
    (image,) = weight_images(W, "all")
    check(image)
    down, across = (np.array(image.values.shape) + 1) // 6
    assert down * across >= 7
    for c in range(7):
        top, left = 6 * (c // across), 6 * (c % across)
        tile = image.values[top : top + 5, left : left + 5]
        assert np.array_equal(tile, W[:, c].reshape(5, 5))
    assert image.low == -np.abs(W).max() == -image.high
    assert np.abs(image.values).sum() == pytest.approx(np.abs(W).sum())  # and nothing between
    (image,) = weight_images(sp.csr_matrix(np.tile(W, 10)))
    assert "40 of 70 classes" in image.title
    check(weight_images(np.full((9, 2), np.inf))[0])
    assert weight_images(W[:24]) == weight_images(W[:4]) == []  # no square; too small for one


def test_large_problems_are_looked_at_in_part():
    problem = as_problem(np.random.default_rng(0).normal(size=(3000, 2)), np.arange(3000) % 3)
    state = Given(lambda X: np.asarray(X @ np.ones((2, 3))))
    assert len(scored(state, problem).y) == state.asked == portraits.ROWS
    for cost in (1e5, 1e7, 1e12):
        state.asked = 0
        scored(state, problem, cost)
        assert state.asked == max(portraits.FEWEST, min(portraits.ROWS, int(2**26 / cost)))
        (picture,) = plane(state, problem, cost=cost)
        side = len(picture.regions)
        assert side == 20 or side**2 * cost <= portraits.WORK
    assert set(scored(state, problem).y) == {0, 1, 2}


@pytest.mark.parametrize("name", ["ls_generalized", "ls_calibrated", "ls_stagewise", "ls_columns"])
def test_residuals_are_those_of_some_rows_of_many(name, blobs):
    pictures, *_ = looked_at(name, blobs(n=1100), 2)
    bars = first(pictures, Bars, "Residuals of 500 training rows")
    assert bars.values.sum() == 500 * 3
    assert len(pictures) >= 4


def test_scores_that_are_not_finite_give_pictures_that_are(blobs):
    problem = blobs(n=30, d=2, k=3)
    for broken in (np.nan, np.inf, -np.inf, 1e300):
        state = Given(
            lambda X, b=broken: np.where(np.arange(3) == 1, b, 1.0) * np.ones(X.shape[0])[:, None]
        )
        for picture in of_peer(state, problem, {}):
            check(picture)


@pytest.mark.parametrize("name", ["ls_generalized", "ls_accelerated", "ls_columns"])
def test_residual_images_are_the_steepest_descent_of_the_loss(name, blobs):
    problem = blobs(n=80, d=5)
    pictures, state, _ = looked_at(name, problem, 3, link="softmax")

    def loss(W):
        F = problem.X @ W
        return float(np.mean(logsumexp(F, axis=1) - F[np.arange(80), problem.y]))

    descent = np.empty((5, 3))
    for j, c in np.ndindex(5, 3):
        step = np.zeros((5, 3))
        step[j, c] = 1e-5
        descent[j, c] = -(loss(state.W + step) - loss(state.W - step)) / 2e-5
    image = first(pictures, Image, "What each class")
    assert image.values.T == pytest.approx(descent, abs=1e-6)
    F = problem.X @ state.W
    R = np.eye(3)[problem.y] - np.exp(F - logsumexp(F, axis=1)[:, None])
    bars = first(pictures, Bars, "Residuals")
    assert bars.logarithmic and bars.values.sum() == R.size
    assert bars.values[bars.marked > 0].sum() == np.sum(R < 0)


def test_momentum_is_drawn_where_there_is_any(blobs):
    pictures, state, _ = looked_at("ls_accelerated", blobs(d=5), 4)
    assert np.array_equal(first(pictures, Image, "Momentum").values, (state.W - state.stepped).T)
    pictures, *_ = looked_at("ls_generalized", blobs(d=5), 4)
    assert not [p for p in pictures if p.title.startswith("Momentum")]


def test_the_learnt_link_and_the_corrections_of_calibrated_least_squares(blobs):
    problem = blobs()
    pictures, state, _ = looked_at("ls_calibrated", problem, 4, basis=2)
    lines = first(pictures, Lines)
    u, V = lines.x, state.V[-1]
    for c in range(3):
        a, b = (r for r in range(3) if r != c)
        both = [
            V[c, c] * u + V[3 + c, c] * u**2 + V[r, c] * (1 - u) + V[3 + r, c] * (1 - u) ** 2
            for r in (a, b)
        ]
        assert lines.ys[c] == pytest.approx(np.mean(both, axis=0), abs=1e-12)
    assert np.array_equal(lines.ys[3], u) and lines.labels == ("0", "1", "2", "unchanged")
    assert "round 4" in lines.title
    sizes = first(pictures, Bars, "Size").values
    assert sizes == pytest.approx([np.linalg.norm(W) for W in state.W])
    R = np.eye(3)[problem.y] - state.predictions
    image = first(pictures, Image, "What each class")
    assert image.values == pytest.approx((problem.X.T @ R / problem.n).T, abs=1e-12)
    said = state.predictions.argmax(axis=1)
    assert np.array_equal(first(pictures, Image).values, confusion_matrix(problem.y, said))


def test_a_link_of_ones_own_functions_is_drawn_too(blobs):
    problem = blobs()
    steps, parameters = resolve("ls_calibrated", {"basis": lambda Y: np.hstack([Y, np.abs(Y)])})
    *_, state = islice(steps(problem, **parameters), 3)
    for picture in least_squares.calibrated(state, problem, parameters):
        check(picture)


def test_stagewise_shows_its_blocks_and_how_far_it_is(blobs):
    pictures, state, _ = looked_at("ls_stagewise", blobs(), 6)  # four blocks, three passes
    bars = first(pictures, Bars, "Blocks")
    norms = [np.linalg.norm(state.W[b : b + 16]) for b in range(0, 64, 16)]
    assert bars.values == pytest.approx(norms) and bars.values.all()
    assert np.array_equal(bars.marked, [0, 1, 0, 0]) and bars.title.endswith(
        "pass 2 of 3, block 2 of 4"
    )
    pictures, *_ = looked_at("ls_stagewise", blobs(), 0)
    assert not first(pictures, Bars, "Blocks").marked.any()


def test_columns_are_drawn_in_the_order_of_the_pass_and_named(blobs):
    problem = replace(blobs(d=6), features=tuple("abcdef"))
    pictures, state, _ = looked_at("ls_columns", problem, 4, block=2)
    bars = first(pictures, Bars, "Blocks")
    norms = [np.linalg.norm(state.W[state.order[b : b + 2]]) for b in (0, 2, 4)]
    assert bars.values == pytest.approx(norms) and np.array_equal(bars.marked, [1, 0, 0])
    assert "pass 2 of 4, block 1 of 3" in bars.title
    heaviest = first(pictures, Bars, "The columns")
    own = {name: np.linalg.norm(w) for name, w in zip("abcdef", state.W)}
    assert dict(zip(heaviest.labels, heaviest.values)) == pytest.approx(own)
    assert np.all(np.diff(heaviest.values) <= 0)


def test_many_blocks_share_bars():
    problem = synthetic(60, 700, 2)
    pictures, state, _ = looked_at("ls_columns", problem, 3, block=1)
    bars = first(pictures, Bars, "Blocks")
    assert len(bars.values) == 234 and "3 a bar" in bars.title and bars.marked[0] == 1
    assert np.sum(bars.values**2) == pytest.approx(np.sum(state.W**2))


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("cuts")])
def test_cuts_are_drawn_with_multipliers_losses_and_slacks(name, blobs):
    problem = blobs(n=80, d=4, k=3)
    pictures, s, _ = looked_at(name, problem, 8)
    bars, lines = first(pictures, Bars, "Multipliers"), first(pictures, Lines)
    assert np.array_equal(bars.values, np.sort(s.alpha)[::-1])
    assert np.array_equal(bars.marked > 0, bars.values > 0)
    assert f"{np.sum(s.alpha > 0)} of {len(s.h)} active" in bars.title
    assert np.array_equal(lines.ys[0], s.h)
    # A cut's inner product with the iterate, by the iterate's scores of the rows in the cut.
    F = s.scores(problem.X).astype(float)
    if len(s.root):
        F = np.linalg.pinv(s.root) @ s.expansion()[1]  # the iterate's coordinates in the span
        F = dict(zip(s.landmarks, F))
    for t in range(len(s.h)):
        lines_of = slice(s.ends[t], s.ends[t + 1])
        product = sum(F[u] @ b for u, b in zip(s.rows[lines_of], s.B[lines_of]))
        assert lines.ys[1, t] == pytest.approx(s.h[t] - product, abs=1e-4)
    active = np.flatnonzero(s.alpha)
    assert np.array_equal(lines.points, np.stack([active + 1, lines.ys[1, active]], axis=1))


def test_the_rows_of_most_weight_are_marked_and_drawn():
    problem = panel("checkers 200")
    pictures, s, _ = looked_at("cuts_linear_time", problem, 8)
    weights = np.zeros(problem.n)
    np.add.at(weights, s.rows, np.repeat(s.w, np.diff(s.ends)) * s.B[:, 0])
    weights = np.abs(weights)
    picture, bars = first(pictures, Plane), first(pictures, Bars, "Weight by rank")
    assert bars.values[0] == pytest.approx(weights.max())
    assert f"{np.sum(weights > 0)} of 200 rows in the expansion" in bars.title
    place = {tuple(x): row for row, x in enumerate(problem.X)}
    marked = [place[tuple(x)] for x in picture.points[picture.marked > 0].astype(np.float32)]
    assert len(marked) == 60 and weights[marked].min() >= np.sort(weights)[-60]
    problem = panel("digits | 20 % rows")
    pictures, s, _ = looked_at("cuts_exact", problem, 4)
    rows, A = s.expansion()
    heaviest = rows[np.linalg.norm(A, axis=1).argmax()]
    faces = first(pictures, Image, "The 12 rows")
    assert np.array_equal(faces.values[:8, :8], problem.X[heaviest].reshape(8, 8))


def test_landmarks_are_marked_from_the_start():
    problem = panel("checkers 200")
    for rounds in (0, ROUNDS):
        pictures, s, _ = looked_at("cuts_nystroem", problem, rounds)
        picture = first(pictures, Plane)
        marked = picture.points[picture.marked > 0].astype(np.float32)
        assert np.array_equal(marked, problem.X[s.landmarks]) and len(marked) == 30
        assert picture.title.endswith("marked: landmarks")


def test_a_chain_shows_how_labels_follow_each_other():
    pictures, s, _ = looked_at("cuts_exact", sequences(), ROUNDS)
    image = first(pictures, Image, "Weights of transitions")
    expected = np.tensordot(s.w, s.explicit, 1).reshape(3, 3)
    assert np.array_equal(image.values, expected) and image.written and expected.any()


def test_a_peer_shows_its_weights(blobs):
    problem = blobs(d=9)
    for name in ("ridge", "centroid"):
        pictures, state, _ = looked_at(name, problem, 1)
        W = state.W.toarray().T if sp.issparse(state.W) else state.W
        image = first(pictures, Image, "Weights")
        assert np.array_equal(image.values[:3, :3], W[:, 0].reshape(3, 3))
