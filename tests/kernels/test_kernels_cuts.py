"""The compiled kernel of the sampled cuts: the quadratic program over a simplex, step
by step."""

import numpy as np
from helpers import each
from numpy.testing import assert_allclose
from pytest import approx

from workbench.sampled_cuts.qp import best_of_face, objective, pairwise, solve_qp


def programs():
    """Programs of up to four cuts: full rank and less, the same cut twice, and a flat
    one."""
    rng = np.random.default_rng(0)
    for trial in range(24):
        T = 1 + trial % 4
        V = rng.normal(size=(T, max(1, T - trial % 3)))
        if trial % 5 == 0 and T > 1:
            V[1] = V[0]
        h = rng.uniform(-0.3, 1.0, T)
        yield V @ V.T, h, (0.2, 1.0, 20.0)[trial % 3]
    yield np.zeros((2, 2)), np.array([1.0, 2.0]), 3.0  # flat: all goes to the larger


def starts(T, C):
    """Feasible points: nothing, a corner, half of the way to it, and the middle of the
    face."""
    yield np.zeros(T)
    yield C * np.eye(T)[0]
    yield C / 2 * np.eye(T)[-1]
    yield np.full(T, C / T)


def check_optimal(G, h, C, alpha, tolerance):
    """Solve from a start; no feasible point may be better than the one found by C
    tolerance."""
    value = solve_qp(G, h, C, alpha)
    assert (alpha >= 0).all() and alpha.sum() <= C * (1 + 1e-12)
    assert value == approx(objective(G, h, alpha), rel=1e-10, abs=1e-12 * C)
    q = h - G @ alpha
    assert C * max(0.0, q.max()) - alpha @ q <= tolerance * C
    return value


def test_the_optimum_is_found_from_any_start():
    for G, h, C in programs():
        for alpha in starts(len(h), C):
            value = check_optimal(G, h, C, alpha, 2e-9)
            assert value == approx(objective(G, h, alpha), rel=1e-14, abs=1e-14)
            assert value == approx(
                h @ alpha - alpha @ G @ alpha / 2, rel=1e-11, abs=1e-11
            )


def one_pair(G, h, C, alpha):
    """One step as it is printed: over all partners of the largest gradient, and the
    slack.

    Nothing where two gradients are the largest up to rounding.
    """
    G = np.pad(G, (0, 1))
    alpha, q = (
        np.append(alpha, max(0.0, C - alpha.sum())),
        np.append(h - G[:-1, :-1] @ alpha, 0.0),
    )
    i = q.argmax()
    if (q > q[i] - 1e-9).sum() > 1:
        return None
    gains = np.zeros(len(q))
    moves = np.zeros(len(q))
    for j in range(len(q)):
        if alpha[j] > 0 and q[j] < q[i]:
            curved = max(
                G[i, i] + G[j, j] - 2 * G[i, j], 1e-15 * G.diagonal().max(), 1e-300
            )
            gains[j] = (q[i] - q[j]) ** 2 / curved
            moves[j] = min((q[i] - q[j]) / curved, alpha[j])
    j = gains.argmax()
    alpha[i] += moves[j]
    alpha[j] -= moves[j]
    return alpha[:-1]


def test_each_step_is_the_second_order_choice():
    for G, h, C in programs():
        for alpha in starts(len(h), C):
            for _ in range(6):
                expected = one_pair(G, h, C, alpha)
                if expected is None:
                    break
                taken = pairwise(G, h, C, alpha, 0.0, 1)
                assert taken in (0, 1)
                assert_allclose(alpha, expected, rtol=0, atol=1e-12 * C)


def test_steps_end_when_no_pair_violates_the_tolerance():
    G = np.diag([1.0, 2.0])
    h = np.array([1.0, 0.5])
    alpha = np.zeros(2)
    # the violation is exactly the tolerance
    assert pairwise(G, h, 10.0, alpha, 1.0, 50) == 0
    assert pairwise(G, h, 10.0, alpha, 0.999, 50) == 1
    assert alpha.tolist() == [1.0, 0.0]
    assert pairwise(G, h, 10.0, alpha, 0.0, 50) == 1
    assert alpha.tolist() == [1.0, 0.25]
    assert pairwise(G, h, 10.0, alpha, 0.0, 50) == 0
    assert pairwise(G, -h, 10.0, np.zeros(2), 0.0, 50) == 0
    many = np.zeros(2)
    assert (
        pairwise(np.array([[1.0, 0.9], [0.9, 1.0]]), np.ones(2), 9.0, many, 1e-12, 3)
        == 3
    )


LAM = (5.0 + 4.0 / 2 + 3.0 / 4 - 5.0) / 1.75
FACES = {  # the diagonal of G, h, C, a point of the face, and the one where it ends
    "what is zero stays": ([1, 2, 4], [1, 1, 1], 10, [0.1, 0.1, 0], [1, 0.5, 0]),
    "the sum is tight, and the solution on it above zero": (
        [1, 2, 4],
        [5, 4, 3],
        5,
        [0.1] * 3,
        [5 - LAM, (4 - LAM) / 2, (3 - LAM) / 4],
    ),
    "the second is not curved at all": ([1, 0], [1, 1], 2, [0.1, 0.1], [0, 2]),
    "the second must end at zero": ([1, 1], [1, -2], 1, [0.5, 0.5], [1, 0]),
    "no step to what is not better": ([1, 1], [1, -2], 1, [1, 0], [1, 0]),
    "nothing": ([1, 1], [1, 1], 1, [0, 0], [0, 0]),
}


@each("case", FACES)
def test_a_face_ends_at_its_best_point_or_where_it_meets_zero(case):
    diagonal, h, C, start, end = (np.array(part, float) for part in FACES[case])
    alpha = start.copy()
    best_of_face(np.diag(diagonal), h, float(C), alpha)
    assert_allclose(alpha, end, atol=1e-9)
    assert (alpha == 0).tolist() == (end == 0).tolist() or case.startswith(
        "the second is"
    )
    assert alpha.sum() <= C * (1 + 1e-15)
    assert "step" not in case or alpha.tolist() == start.tolist()


def test_one_alone_leaves_a_face_and_is_zero_without_rounding(rng):
    for _ in range(20):
        C = 10.0 * rng.random()
        negative = rng.integers(3)
        alpha = C * rng.dirichlet(np.ones(3)) * rng.choice([0.7, 1.0, 1 + 1e-13])
        before = alpha.copy()
        h = C * (3.0 + 0.3 * rng.random(3))
        h[negative] = -4.0 * C
        best_of_face(np.eye(3), h, C, alpha)
        assert (alpha == 0).tolist() == (np.arange(3) == negative).tolist()
        rest = np.flatnonzero(alpha)
        expected = (C - h[rest].sum()) / 2 + h[rest]
        assert_allclose(alpha[rest], expected, rtol=1e-9)
        assert before.all() and alpha.sum() <= C * (1 + 1e-14)


def test_no_feasible_point_is_better_than_the_one_found(rng):
    for trial in range(120):  # the last cuts nearly cancel, and need the face
        T = int(rng.integers(1, 17))
        V = rng.normal(size=(T, rng.integers(0, T + 1))) * 10.0 ** rng.uniform(-2, 1)
        if trial % 4 == 0 and T > 1:
            V[1:] = V[rng.integers(T, size=T - 1)]  # the same cut again
        h = rng.uniform(-0.3, 1.0, T)
        C = 10.0 ** rng.uniform(-2, 2)
        if trial >= 100:
            V = 30.0 * rng.normal(size=(12, 3))
            h = rng.random(12)
            C = 300.0
        G = V @ V.T
        T = len(V)
        alpha = C * rng.dirichlet(np.ones(T + 1))[:T] if trial % 2 else np.zeros(T)
        check_optimal(G, h, C, alpha, 1e-6)
