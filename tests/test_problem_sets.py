"""The problem sets: every claim is computed."""

import contextlib
import io
import re

import cvxpy as cp
import numpy as np
import pytest

import course

SETS = [path for path in course.lessons() if path.parent.name == course.PROBLEMS]
each_set = pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)


def defined(name, *ids):
    """Return the definitions of these cells of a problem set."""
    namespace = {}
    for cell in course.read(course.LEARN / course.PROBLEMS / f"{name}.ipynb").cells:
        if cell.id in ("imports", *ids):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(cell.source, namespace)
    return namespace


@each_set
def test_a_set_has_problems_with_solutions_a_time_and_references(path):
    cells = course.read(path).cells
    text = "\n".join(cell.source for cell in cells)
    numbers = re.findall(r"^## Problem (\d+) · ", text, flags=re.M)
    assert numbers == [str(i + 1) for i in range(len(numbers))] and 5 <= len(numbers) <= 8
    assert text.count("<summary>Worked solution</summary>") == len(numbers)
    for word in ("*Time*: ", "*Assumed*: ", "## References", "](https://"):
        assert word in text


@each_set
def test_every_cell_of_a_set_computes_what_it_claims(path):
    namespace = {}
    for cell in course.read(path).cells:
        if cell.cell_type == "code":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(cell.source, f"{path.stem}:{cell.id}", "exec"), namespace)
            solution = "solution" in cell.metadata.get("tags", ())
            assert solution == printed.getvalue().startswith("right"), cell.id
    copy = course.student_copy(path).cells
    with contextlib.redirect_stdout(io.StringIO()):  # needs nothing of the solutions
        exec("\n".join(cell.source for cell in copy if cell.cell_type == "code"), {})


# What the worked solutions claim, and no cell computes.


def test_p0_has_no_gap_for_weston_watkins_and_its_duplicated_row():
    parts = defined("p0_duality", "ww-see")["parts"]
    rng = np.random.default_rng(0)
    X, y, C = rng.normal(size=(7, 2)), np.arange(7) % 3, 0.7
    B, own = cp.Variable((7, 3), nonneg=True), np.eye(3)[y]
    A = cp.multiply(own, cp.sum(B, axis=1, keepdims=True)) - B
    best = cp.Maximize(cp.sum(B) - cp.sum_squares(X.T @ A) / 2)
    cp.Problem(best, [B <= C * (1 - own)]).solve(solver=cp.CLARABEL)
    multipliers = np.clip(B.value, 0, C) * (1 - own)
    W = X.T @ (own * multipliers.sum(axis=1, keepdims=True) - multipliers)
    P, D, quadratic, _ = parts(W, multipliers, X, y, C)
    assert quadratic < 1e-20 and P == pytest.approx(D, abs=1e-5)
    for _ in range(100):  # part 4
        V, other = rng.normal(size=(2, 3)), C * rng.random((7, 3)) * (1 - own)
        assert parts(V, other, X, y, C)[0] - P >= ((V - W) ** 2).sum() / 2 - 1e-4
        worse, half = parts(W, other, X, y, C)[1:3]
        assert half <= D - worse + 1e-4
    twice, first = np.ones((2, 1)), np.zeros(2, dtype=int)
    for share in (0.0, 0.2, 0.5):  # part 5: the label is the first of two classes
        B = np.array([[0, share], [0, 0.5 - share]])
        W = np.array([[0.5, -0.5]])
        P, D, *_ = parts(W, B, twice, first, 1.0)
        assert P == pytest.approx(D) == pytest.approx(0.25)


def test_p0_mixes_nested_subsets_to_any_distribution():
    rng = np.random.default_rng(0)
    for p in rng.dirichlet(np.ones(5), size=50):
        order = np.argsort(-p)
        steps = np.arange(1, 6) * -np.diff(np.r_[p[order], 0])  # alpha of the nested subsets
        uniform = np.array([np.isin(range(5), order[:j]) / j for j in range(1, 6)])
        np.testing.assert_allclose(steps @ uniform, p)
        assert (steps / np.arange(1, 6)).sum() == pytest.approx(p.max()) and steps.min() >= 0


def test_p3_holds_where_the_minimisers_are_a_polytope():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(2, 3))[:, [0, 0, 1, 2]]  # a multiplier twice: S is a segment
    Q, c, C = A.T @ A, np.ones(4), 2.0
    solved = defined("p3_linear_rate", "set-see")["solved"]
    star = solved(Q, c, C)
    slope, t = Q @ star - c, A @ star
    x = cp.Variable(4)
    point = cp.Parameter(4)
    inside = [x >= 0, x <= C, A @ x == t, slope @ x == slope @ star]
    nearest = cp.Problem(cp.Minimize(cp.sum_squares(x - point)), inside)
    gains, terms, away = [], [], []
    for b in rng.uniform(0, C, size=(40, 4)):
        point.value = b
        away.append(nearest.solve(solver=cp.CLARABEL))
        gains.append((b @ Q @ b - star @ Q @ star) / 2 - c @ (b - star))
        ell = slope @ (b - star)
        terms.append(2 * gains[-1] - 2 * ell + ell**2)
        residual = ((A @ b - t) ** 2).sum() + ell**2
        assert residual == pytest.approx(terms[-1], abs=1e-6)
    theta2 = (np.array(away) / terms).max()  # Hoffman's constant is at least this
    kappa = 2 / (theta2 * max(2, max(gains)))
    assert (np.array(gains) >= kappa / 2 * np.array(away) - 1e-9).all()
    assert np.linalg.matrix_rank(Q) == 2


def test_p4_counts_no_more_cuts_than_either_bound():
    given = defined("p4_cutting_planes")
    rng = np.random.default_rng(2)
    for weight, eps in ((0.02, 0.3), (1.0, 0.05), (20.0, 0.01)):
        y = rng.choice([-1, 1], 40)
        X = rng.normal(size=(40, 4)) + y[:, None]
        rho = np.linalg.norm(X, axis=1).max()
        v, D, curvature, _ = given["cutting_planes"](given["hinge_cut"](X, y), 4, weight, eps)
        cuts = len(v) - 1
        assert cuts <= max(8 * weight * rho**2 / eps**2, 2 / eps)
        assert cuts < 16 * weight * rho**2 / eps + np.log2(1 / eps) + 3
        slopes = weight * v[:-1]  # problem 2: the best step along the direction is not too long
        step = np.minimum(1, slopes / curvature[:-1])
        assert (np.diff(D) >= step * slopes - step**2 * curvature[:-1] / 2 - 1e-6).all()


def test_p7_bounds_the_tails_of_sums_of_any_bounded_variable():
    rng = np.random.default_rng(3)
    for _ in range(20):
        values = rng.choice([0, rng.random(), 1], size=7) * rng.exponential()
        spread, mean, var = np.ptp(values), values.mean(), values.var()
        assert var <= mean * (values.max() - mean) + 1e-12
        off = values[rng.integers(7, size=(4000, 20))].mean(axis=1) - mean
        for eta in spread * np.array([0.05, 0.1, 0.2]) + 1e-12:
            slack = 4 * (1 / 4000) ** 0.5  # of the frequencies
            assert np.mean(off >= eta) <= np.exp(-40 * eta**2 / max(spread, 1e-9) ** 2) + slack
            exponent = 20 * eta**2 / (2 * (var + mean * eta / 3) + 1e-12)
            assert np.mean(off <= -eta) <= np.exp(-exponent) + slack
