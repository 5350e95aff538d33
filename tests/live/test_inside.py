"""Pictures of the inside of methods: sound, small, and what their titles say."""

import pickle
import re
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from helpers import dense_or_sparse, each
from helpers.solvers import DENSE_ONLY, NAMES, SHORT, TWO_CLASSES
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import approx
from sklearn.metrics import confusion_matrix

from workbench import as_problem, load
from workbench.core.matrices import as_dense
from workbench.live import pictures as room
from workbench.live.inside import portrait
from workbench.live.pictures import (
    MAX_BARS,
    Bars,
    Image,
    Lines,
    Plane,
    pack,
    plane,
    weights,
)
from workbench.runs.run import resolve

OWN = SHORT | {"memoir_l1": {"dense": False}}
WHOLE_PROGRAMS = "mrc_lp", "svm_multi"  # slow beyond a few rows
WW = "ww_walrus", "ww_shark", "ww_walrus_fast"


@dataclass
class Given:
    """A state whose scores are a function of the rows; it notes how many it was asked
    for."""

    of: object
    asked: int = 0

    def scores(self, X):
        self.asked = max(self.asked, X.shape[0])
        return self.of(X)


def portraits(name, problem, rounds=5, **given):
    """Yield the states of these rounds, from 0 on, and their pictures, once they are
    sound."""
    steps, parameters = resolve(name, OWN.get(name, {}) | given)
    for state in islice(steps(problem, **parameters), rounds + 1):
        before = pickle.dumps((state, problem))
        pictures = portrait(state, problem)
        assert pickle.dumps((state, problem)) == before
        assert 1 <= len(pictures) <= 6
        for picture in pictures:
            check(picture)
        assert pack(pictures) == pack(portrait(state, problem))
        yield state, pictures


def last(name, problem, rounds=5, **given):
    """Return the last of these rounds' state, and its pictures by the first word of
    their title."""
    *_, (state, pictures) = portraits(name, problem, rounds, **given)
    return state, {
        picture.title.split()[0].rstrip(":"): picture for picture in pictures
    }


def check(picture):
    """Fail unless shapes agree and all numbers are finite in single precision, as the
    page's."""
    words, buffers = pack([picture])
    assert words[0]["title"]
    for (_, shape), buffer in zip(words[0]["arrays"], buffers, strict=True):
        numbers = np.frombuffer(buffer, "<f4")
        assert numbers.size == np.prod(shape) and np.isfinite(numbers).all()
    match picture:
        case Bars(_, values, labels, _, _, _, marked):
            assert values.ndim == 1 and 1 <= len(values) <= 256
            assert len(labels) in (0, len(values)) and len(marked) in (0, len(values))
            assert all(isinstance(label, str) for label in labels)
        case Image(_, values, low, high):
            assert values.ndim == 2 and 1 <= values.size <= 2**18
            assert np.isfinite([low, high]).all() and low < high
        case Lines(_, x, ys, labels, _, _, points):
            assert ys.shape == (len(labels) or 1, len(x)) and (np.diff(x) > 0).all()
            assert points.shape == (len(points), 2)
        case Plane(_, regions, (left, right, bottom, top), points, classes, marked):
            assert regions.ndim == 2 and left < right and bottom < top
            assert points.shape == (len(classes), 2) and marked.shape == classes.shape


PROBLEMS = {
    "digits": lambda blobs: load("digits | 5 % rows", test=0.3),
    "plane": lambda blobs: blobs(n=30, d=2),
    "sparse plane": lambda blobs: blobs(n=30, d=2, k=2, sparse=True),
    "tiny": lambda blobs: blobs().tiny(),
    "many classes": lambda blobs: blobs(n=180, d=50, k=60, sparse=True),
}


@each("data", PROBLEMS)
@each("name", NAMES)
def test_every_round_has_sound_pictures(name, data, blobs):
    problem = PROBLEMS[data](blobs)
    if name in DENSE_ONLY:
        problem = replace(problem, X=as_dense(problem.X))
    if name in TWO_CLASSES or (name in WHOLE_PROGRAMS and problem.k > 3):
        problem = problem.first_classes(2)
    *_, (_, pictures) = portraits(name, problem, 3)
    if problem.k == 60:
        assert any("40 of 60 classes" in p.title for p in pictures)


@each("k", [10, 50])
def test_confusion_counts_rows_as_scikit_learn_does(k, blobs):
    problem = load("digits", test=0.3) if k == 10 else blobs(n=900, d=5, k=50)
    state, pictures = last("ridge", problem, 1)
    X, y = (problem.X_test, problem.y_test) if k == 10 else (problem.X, problem.y)
    rows = np.linspace(0, len(y) - 1, min(500, len(y))).astype(int)
    said = state.scores(X[rows]).argmax(axis=1)
    y = y[rows]
    image = pictures["Confusion"]
    often = np.argsort(-np.bincount(y, minlength=k), kind="stable")[:40]
    truth = confusion_matrix(y, said, labels=np.sort(often))
    assert np.array_equal(image.values, truth)
    which = "500 of 539 test rows" if k == 10 else "500 of 900 training rows"
    assert f": {np.sum(said != y)} wrong among {which}" in image.title
    assert image.high == max(
        1, min(truth.max(), 2 * (truth - np.diag(np.diag(truth))).max())
    )
    assert ("40 of 50 classes" in image.title) == (k == 50)


def test_regions_are_the_classes_of_highest_score(rng):
    problem = load("checkers 2000", test=0.3)
    state, _ = last("cuts_linear_time", problem, 12)
    marked = np.array([1999, 3, 17])
    picture = plane(state, problem, marked=marked, why="these")
    check(picture)
    h, w = picture.regions.shape
    left, right, bottom, top = picture.extent
    low = problem.X.min(axis=0)
    high = problem.X.max(axis=0)
    assert left < low[0] and bottom < low[1] and right > high[0] and top > high[1]
    i = rng.integers(0, h, 200)
    j = rng.integers(0, w, 200)
    x = left + (j + 0.5) / w * (right - left)
    y = bottom + (i + 0.5) / h * (top - bottom)
    said = state.scores(np.stack([x, y], axis=1).astype(np.float32)).argmax(axis=1)
    assert len(np.unique(said)) == 2 and np.array_equal(picture.regions[i, j], said)
    rows = rows_of(problem, picture.points)
    assert np.array_equal(problem.y[rows], picture.classes) and 300 < len(rows) <= 400
    assert {*rows[picture.marked > 0]} == {*marked} and "marked: these" in picture.title


def rows_of(problem, points):
    """Return which rows of a problem these are."""
    place = {tuple(x): row for row, x in enumerate(problem.X)}
    return np.array([place[tuple(x)] for x in points.astype(problem.X.dtype)])


@dense_or_sparse
def test_a_plane_of_one_point_and_weights_of_any_shape(kind):
    problem = as_problem(kind(np.ones((6, 2))), np.arange(6) % 2)
    picture = plane(Given(lambda X: np.asarray(X @ np.eye(2))), problem)
    check(picture)
    assert picture.extent == (0.0, 2.0, 0.0, 2.0)
    # The second of two equal features wins above the diagonal.
    assert np.array_equal(
        picture.regions > 0, ~np.tri(*picture.regions.shape, dtype=bool).T
    )
    W = default_rng(0).normal(size=(25, 7))
    image = weights(kind(W), "all")
    check(image)
    down, across = (np.array(image.values.shape) + 1) // 6
    assert down * across >= 7
    for c in range(7):  # square images side by side
        top = 6 * (c // across)
        left = 6 * (c % across)
        assert np.array_equal(
            image.values[top : top + 5, left : left + 5], W[:, c].reshape(5, 5)
        )
    # nothing between
    assert np.abs(image.values).sum() == approx(np.abs(W).sum())
    assert -image.low == image.high < np.abs(W).max()
    assert "40 of 70 classes" in weights(np.tile(W, 10), "all").title
    check(weights(np.full((9, 2), np.inf), "broken"))
    W = default_rng(0).normal(size=(200, 4))  # not images: a row for each class
    assert np.array_equal(weights(kind(W[:5]), "few").values, W[:5].T)
    image = weights(kind(W), "many")
    largest = np.sort(np.argsort(-np.linalg.norm(W, axis=1))[:MAX_BARS])
    assert np.array_equal(image.values, W[largest].T)
    assert "40 largest of 200" in image.columns


def test_pictures_are_finite_and_large_problems_are_cut(
    blobs,
):
    for broken in (np.nan, np.inf, -np.inf, 1e300):
        state = Given(
            lambda X, b=broken: np.where(np.arange(3) == 1, b, np.ones((len(X), 1)))
        )
        for d in (2, 4):
            for picture in portrait(state, blobs(n=30, d=d)):
                check(picture)
    problem = as_problem(default_rng(0).normal(size=(3000, 2)), np.arange(3000) % 3)
    state = Given(lambda X: np.asarray(X @ np.ones((2, 3))))
    assert {*room.scored(state, problem)[0]} == {0, 1, 2}
    assert state.asked == room.MAX_ROWS


# What pictures show of a state, as pairs of what they say and what the state says.


def margins(s, problem, shown):
    bars = shown["Margins"]
    F = s.scores(problem.X)
    ends = np.array([float(label) for label in bars.labels])  # the lower ones
    width = ends[1] - ends[0]
    margin = [f[c] - np.delete(f, c).max() for f, c in zip(F, problem.y)]
    yield bars.values, np.histogram(margin, np.append(ends, ends[-1] + width))[0]
    yield bars.values.sum(), problem.n
    yield bars.marked, ends < -width / 2


def subproblem(s, problem, shown):
    """The line is the subproblem of the row with most of the gap."""
    C = s.level
    k = problem.k
    line = shown["F(γ)"]
    held = shown["Its"]
    i = int(re.search(r"row (\d+)", line.title)[1])
    X = as_dense(problem.X)
    x = X[i]
    y = problem.y[i]
    W = s.W[:, :k]
    B = s.B[i, :k]
    Z = 1 + X @ W - np.sum(X * W.T[problem.y], axis=1)[:, None]
    gaps = np.where(np.eye(k)[problem.y], 0, C * np.maximum(Z, 0) - s.B[:, :k] * Z)
    yield i, gaps.sum(axis=1).argmax()
    without = W - np.outer(x, B.sum() * np.eye(k)[y] - B)
    v = np.delete((1 - x @ without[:, [y]] + x @ without) / (x @ x), y)
    yield line.ys[0], [np.clip(v - g, 0, C).sum() - g for g in line.x]
    ((g, zero),) = line.points
    yield [zero, np.interp(g, line.x, line.ys[0])], [0, 0]
    yield held.values, -np.sort(-np.append(np.clip(v - g, 0, C), 0))
    yield held.marked, (held.values > 0) & (held.values < C)


def parts_of_the_gap(s, problem, shown):
    parts = shown["Parts"].values
    yield parts.sum(), s.primal - s.dual
    yield parts, -np.sort(-parts)


def constraints(s, problem, shown):
    slack = shown["Slack"]
    alpha = shown["Multipliers"]
    yield slack.values.sum(), problem.n
    yield slack.values[slack.marked != 0].sum(), np.sum(s.psi + 1 > s.nu)
    yield alpha.values[[0, -1]], [s.alpha.max(), s.alpha.min()]
    yield alpha.marked, alpha.values > 0


def worst_distribution(s, problem, shown):
    values = shown["Worst"].values
    p = s.p
    yield values.sum(), 1
    yield values, -np.sort(-p.sum(axis=1) / p.sum())[: len(values)]


def cuts(s, problem, shown):
    bars = shown["Multipliers"]
    yield bars.values, np.sort(s.alpha)[::-1]
    yield bars.marked, bars.values > 0


def heaviest_rows(s, problem, shown):
    sizes = np.zeros(problem.n)
    np.add.at(sizes, s.rows, np.repeat(s.w, np.diff(s.ends)) * s.B[:, 0])
    sizes = np.abs(sizes)
    picture = shown["Regions"]
    yield shown["Weight"].values[0], sizes.max()
    marked = rows_of(problem, picture.points[picture.marked > 0])
    yield np.sort(sizes[marked]), np.sort(sizes)[-len(marked) :]


SAYS = [  # the pictures, solvers, a problem's shape or name, rounds, parameters
    (margins, ["logistic_lbfgs", "memoir_pegasos", "ls_stagewise"], {"n": 90}, 5, {}),
    (subproblem, WW, {"n": 80, "k": 5}, 2, {"C": 0.5}),
    (subproblem, WW, {"n": 80, "k": 5, "sparse": True}, 2, {"C": 0.5}),
    (parts_of_the_gap, WW, {"n": MAX_BARS}, 4, {"C": 0.1}),
    (constraints, ["mrc_ccg"], "digits | 20 % rows", 5, {}),
    (worst_distribution, ["mrc_subgradient"], {"n": MAX_BARS}, 8, {}),
    (cuts, [n for n in NAMES if n.startswith("cuts")], {"n": 80}, 8, {}),
    (heaviest_rows, ["cuts_linear_time"], "checkers 200", 8, {}),
]


@each(
    "says, solver, problem, rounds, given",
    [(says, solver, *rest) for says, solvers, *rest in SAYS for solver in solvers],
)
def test_pictures_say_what_the_state_says(says, solver, problem, rounds, given, blobs):
    problem = load(problem, test=0.3) if isinstance(problem, str) else blobs(**problem)
    state, shown = last(solver, problem, rounds, **given)
    for found, expected in says(state, problem, shown):
        assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
        assert np.any(expected) or np.size(expected) == 2
