"""The checks of the lessons cuts_1 and cuts_2 tell right from wrong."""

import numpy as np
import pytest

from checks import sampled_cuts as teach
from workbench.core.stream import rounds
from workbench.core.trace import Trace
from workbench.data.synthetic import checkers
from workbench.runs.run import run
from workbench.sampled_cuts.qp import solve_qp
from workbench.sampled_cuts.tasks import Binary, Multiclass

# Right answers, and those that a student is likely to give.


def cut(w, X, y):
    violates = y * (X @ w) < 1
    return violates.mean(), -X.T @ (y * violates) / len(y)


def changed(offset=lambda c, n: c, slope=lambda g, n, c: g):
    def found(w, X, y):
        c, g = cut(w, X, y)
        return offset(c, len(y)), slope(g, len(y), c)

    return found


def height(w, X, y):
    c, g = cut(w, X, y)
    return c + w @ g, g


def all_rows(w, X, y):
    return 1.0, -X.T @ y / len(y)


def gap(c, g, w, xi, Cn):
    return Cn * (c + w @ g - xi)


def step(G, h, alpha, i, j, share=1.0, most=True, copy=True, gains=True):
    q = h - G @ alpha
    delta = share * (q[i] - q[j]) / (G[i, i] + G[j, j] - 2 * G[i, j])
    delta = min(delta, alpha[j]) if most else delta
    alpha = alpha.copy() if copy else alpha
    alpha[i] += delta * gains
    alpha[j] -= delta
    return alpha


def step_with(**changes):
    return lambda *given: step(*given, **changes)


def rise(Cn, eps, rho, most=1):
    s = min(most, eps / (4 * Cn * rho**2))
    return s * Cn * eps - 2 * (s * Cn * rho) ** 2


def algorithm_1(find, d, Cn, eps):
    h, g, alpha, w, xi = np.zeros(0), np.zeros((0, d)), np.zeros(0), np.zeros(d), 0.0
    visited = []
    while True:
        c, new = find(w)
        visited.append(w)
        if c + w @ new <= xi + eps:
            return visited
        h, g, alpha = np.append(h, c), np.vstack([g, new]), np.append(alpha, 0.0)
        solve_qp(g @ g.T, h, Cn, alpha, 0.01 * eps)
        w = -alpha @ g
        xi = max(0.0, (h + g @ w).max())


def cut_many(w, X, y, K, loss=1, sign=1, n=None):
    n, own = n or len(y), np.eye(K)[y]
    answers = np.argmax(loss * (1 - own) + X @ w.reshape(-1, K), axis=1)
    return np.sum(answers != y) / n, sign * (X.T @ (np.eye(K)[answers] - own)).ravel() / n


def transposed(w, X, y, K):
    c, g = cut_many(w, X, y, K)
    return c, g.reshape(-1, K).T.ravel()


def cut_many_with(**changes):
    return lambda *given: cut_many(*given, **changes)


def sampled_cut(w, X, y, r, rng, replace=True, sign=-1, among=None, over=None):
    s = rng.choice(among or len(y), size=r, replace=replace)
    violates = y[s] * (X[s] @ w) < 1
    return violates.mean(), sign * X[s].T @ (y[s] * violates) / (over or r)


def exact_slope(w, X, y, r, rng):
    return sampled_cut(w, X, y, r, rng)[0], cut(w, X, y)[1]


def two_samples(*given):
    return sampled_cut(*given)[0], sampled_cut(*given)[1]


def sampled_with(**changes):
    return lambda *given: sampled_cut(*given, **changes)


def spread(q, m2, r):
    return (q - q**2 * m2) / r, (q**2 - q**2 * m2) / r


def linear(T, n, r):
    return T * n * r


def constant(T, r):
    return sum(t * r**2 for t in range(1, T + 1))


def repeat(R, draw, xi, eps):
    while True:
        value = draw()
        if R <= xi + eps or value > xi + eps:
            return value


def insistent(R, draw, xi, eps):
    while (value := draw()) <= xi + eps:
        pass
    return value


def forgetful(R, draw, xi, eps):
    repeat(R, draw, xi, eps)
    return R


def wait(u, p):
    return (u**-p - 1) / (1 - u)


LINE = (np.array([[2.5], [-1.6], [1.1], [0.8]]), np.array([1, -1, 1, -1]))
UP, ZIGZAG = np.array([9.0, 5.0, 4.0]), np.array([9.0, 3.0, 5.0, 4.0])
STUCK = np.tile([1, 3], (101, 1))  # bounds of 100 rounds
MOVING = np.array([[0, 9], [1, 5], [2, 4], [2.9, 3]])
LOW, HIGH = (Trace({}, [{"model": 1.0}, {"model": most}]) for most in (1.9, 2.4))

CHECKS = [
    # Lesson 1
    ("check_touching", (5, *LINE), "right: 4 bends, 5 pieces, and 11 lines never seen"),
    ("check_touching", (16, *LINE), "most of them are nowhere the highest"),
    ("check_touching", (4, *LINE), "count the straight pieces"),
    ("check_touching", (7, *LINE), "where a row's hinge bends"),
    ("check_touching", (..., *LINE), "not yet"),
    ("check_cut", (cut,), "right"),
    ("check_cut", (lambda *a: cut(*a)[0],), "two things"),
    ("check_cut", (changed(lambda c, n: c * n),), "c is a sum"),
    ("check_cut", (all_rows,), "only rows whose hinge is positive"),
    ("check_cut", (height,), "the part without w"),
    ("check_cut", (changed(lambda c, n: c / 2),), "c is the share of rows that violate"),
    ("check_cut", (changed(slope=lambda g, n, c: -g),), "g has the wrong sign"),
    ("check_cut", (changed(slope=lambda g, n, c: g * n),), "g is a sum"),
    ("check_cut", (changed(slope=lambda g, n, c: g / c),), "divide by all n rows"),
    ("check_cut", (changed(slope=lambda g, n, c: g + 1),), "g is off"),
    ("check_cut", (changed(slope=lambda g, n, c: g[0]),), "shape"),
    ("check_cut", (lambda w, X, y: cut(w, 2 * X, y),), "c is the share of rows that violate"),
    ("check_cut", (lambda w, X, y: (np.nan, w),), "c is the share of rows that violate"),
    ("check_gap", (gap,), "right"),
    ("check_gap", (lambda *a: gap(*a[:4], 1),), "the slack times Cn"),
    ("check_gap", (lambda c, g, w, xi, Cn: gap(c, g, w, 0, Cn),), "that is Cn R(w)"),
    ("check_gap", (lambda c, g, w, xi, Cn: Cn * (c - xi),), "R(w) is c + w'g"),
    ("check_gap", (lambda c, g, w, xi, Cn: gap(c, g, w, xi, Cn) + w @ w / 2,), "is in both"),
    ("check_step", (step,), "right"),
    ("check_step", (step_with(copy=False),), "copy it first"),
    ("check_step", (step_with(gains=False),), "what j loses, i gains"),
    ("check_step", (step_with(most=False),), "alpha_j is the most that can move"),
    ("check_step", (step_with(share=0.5),), "derivative of D(delta)"),
    ("check_step", (lambda *a: step(*a)[0],), "shape"),
    ("check_step", (lambda G, h, alpha, i, j: alpha.copy(),), "0.000 moved"),
    ("check_step", (lambda G, h, alpha, i, j: step(1e-9 * G, h, alpha, i, j),), "is best"),
    ("check_step", (lambda G, h, alpha, i, j: step(G, h, alpha, j, i),), "is negative"),
    ("check_rise", (rise,), "right"),
    ("check_rise", (lambda Cn, eps, rho: eps**2 / (8 * rho**2),), "the best s is 1 there"),
    ("check_rise", (lambda Cn, eps, rho: Cn * eps / 2,), "where is the derivative 0"),
    ("check_bound", (0.01, 0.5, algorithm_1), "right: cuts made: 1, allowed: 0.32"),
    ("check_bound", (10, 0.5, algorithm_1), "Make the weight of the risk small"),
    ("check_bound", (1e9, 1e-3, algorithm_1), "far more than a single row can need"),
    ("check_bound", (0.01, 2.0, algorithm_1), "between 0 and 1"),
    ("check_zigzag", ("both", ZIGZAG), "right: it rises in 1 of 3 rounds"),
    ("check_zigzag", ("falls", UP), "right"),
    ("check_zigzag", ("falls", ZIGZAG), "at its own lowest point"),
    ("check_zigzag", ("up", ZIGZAG), 'answer "falls"'),
    ("check_stall", (0, lambda mu: STUCK), "right: after 100 rounds the gap still is 2.000"),
    ("check_stall", (0.5, lambda mu: STUCK[:2]), "it ends after 1 rounds"),
    ("check_stall", (0.1, lambda mu: MOVING), "it ends after 3 rounds"),
    ("check_stall", (2, lambda mu: STUCK), "from 0 to 1"),
    ("check_cut_many", (cut_many,), "right"),
    ("check_cut_many", (cut_many_with(loss=0),), "add the loss"),
    ("check_cut_many", (cut_many_with(n=1),), "c is a sum"),
    ("check_cut_many", (cut_many_with(loss=3),), "c is the mean loss of the answers"),
    ("check_cut_many", (cut_many_with(sign=-1),), "g has the wrong sign"),
    ("check_cut_many", (cut_many_with(sign=30),), "g is a sum"),
    ("check_cut_many", (cut_many_with(sign=2),), "g is off"),
    ("check_cut_many", (lambda *a: cut_many(*a)[1],), "two things"),
    ("check_cut_many", (transposed,), "g is off"),
    # Lesson 2
    ("check_sampled", (sampled_cut,), "right"),
    ("check_sampled", (lambda *a: sampled_cut(*a)[1],), "two things"),
    ("check_sampled", (lambda w, X, y, r, rng: cut(w, X, y),), "c is always the same"),
    ("check_sampled", (sampled_with(among=7),), "draw from all rows"),
    ("check_sampled", (sampled_with(sign=1),), "g has the wrong sign"),
    ("check_sampled", (sampled_with(over=30),), "divide by r"),
    ("check_sampled", (sampled_with(replace=False),), "with replacement"),
    ("check_sampled", (lambda w, X, y, r, rng: sampled_cut(w, X, y, r - 1, rng),), "draw so many"),
    ("check_sampled", (lambda w, X, y, r, rng: sampled_cut(w, X, y, 2 * r, rng),), "r rows of all"),
    ("check_sampled", (exact_slope,), "g, too, is a mean over the r rows"),
    ("check_sampled", (two_samples,), "of the same sample"),
    ("check_spread", (spread,), "right"),
    ("check_spread", (lambda q, m2, r: spread(q, m2, r)[0],), "two things"),
    ("check_spread", (lambda q, m2, r: spread(1, m2, r),), "0 with probability 1 - q"),
    ("check_spread", (lambda q, m2, r: (q / r, 0),), "from all rows it is"),
    ("check_spread", (lambda q, m2, r: (spread(q, m2, r)[0], (1 - m2) / r),), "multiplied by q"),
    ("check_spread", (lambda q, m2, r: (spread(q, m2, r)[0], 0),), "from the violators it is"),
    ("check_values", (linear, constant), "right"),
    ("check_values", (lambda T, n, r: n * r, constant), "5 rounds take 100000"),
    ("check_values", (lambda T, n, r: T * n * r**2 / 20, constant), "12 rounds take 25200"),
    ("check_values", (linear, lambda T, r: 3 * T * r**2), "12 rounds take 3822, not 1764"),
    ("check_values", (linear, lambda T, r: (T * r) ** 2), "that is the order"),
    ("check_values", (linear, lambda T, r: constant(T - 1, r)), "with itself"),
    ("check_values", (linear, lambda T, r: T * r**2), "5 rounds take 6000, not 2000"),
    ("check_above", ("above", HIGH, 2.0), "right: it goes up to 1.20 times"),
    ("check_above", ("below", HIGH, 2.0), "Is the largest right on average"),
    ("check_above", ("below", LOW, 2.0), "right"),
    ("check_above", ("never", LOW, 2.0), 'answer "below"'),
    ("check_repeat", (repeat,), "right"),
    ("check_repeat", (insistent,), "take number 1; 2 were drawn"),
    ("check_repeat", (lambda R, draw, xi, eps: draw(),), "take number 3; 1 were drawn"),
    ("check_repeat", (lambda R, draw, xi, eps: R,), "draw at least once"),
    ("check_repeat", (forgetful,), "the last one"),
    ("check_wait", (wait,), "right"),
    ("check_wait", (lambda u, p: u**-p,), "all starts again"),
    ("check_wait", (lambda u, p: 3 * p,), "it takes 2 rounds, not 3"),
    ("check_wait", (lambda u, p: wait(u, p + 1),), "it takes 2 rounds, not 6"),
    ("check_stopped", (1, 25, 0, lambda *a: (0.1, 5e-3)), "right: the exact cut is violated by 20"),
    ("check_stopped", (9, 25, 0, lambda *a: (0.01, 5e-3)), "let one small sample decide"),
    ("check_stopped", (9, 25, 0, lambda *a: (None, 5e-3)), "did not stop by itself"),
    ("check_stopped", (..., 25, 0, lambda *a: (0.1, 5e-3)), "not yet"),
]


@pytest.mark.parametrize(("check", "answers", "told"), CHECKS)
def test_check(check, answers, told, capsys):
    getattr(teach, check)(*answers)
    printed = capsys.readouterr().out
    assert told in printed
    assert printed.startswith(("right: ", "try again: ", "not yet: "))
    assert "raised" not in printed


# What the lessons say of the package.


@pytest.mark.parametrize("K", [2, 3])
def test_the_cuts_of_the_lessons_are_the_packages(K):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(40, 3)), np.arange(40) % K
    if K == 2:
        y, w = 2 * codes - 1, rng.normal(size=3)
        task, F, ours = Binary(np.arange(40), y), (X @ w)[:, None], cut(w, X, y)
    else:
        w = rng.normal(size=9)
        task = Multiclass(np.arange(40), codes, 3)
        F, ours = X @ w.reshape(3, 3), cut_many(w, X, codes, 3)
    answers = task.answers(F, np.zeros(0))
    theirs = task.cut(answers, np.arange(40), 1 / 40)
    assert answers.losses.mean() == pytest.approx(ours[0])
    np.testing.assert_allclose(-X[theirs.parts].T @ theirs.B, ours[1].reshape(3, -1), atol=1e-12)


def test_kernel_values_stay_below_what_lesson_2_derives():
    n, T, r = 500, 8, 30
    limits = {"cuts_linear_time": linear(T, n, r), "cuts_constant_time": constant(T, r)}
    for name, limit in limits.items():
        chosen = {"gamma": 30.0, "r": r, "p": T + 1}
        trace, _ = run(name, checkers(n), rounds(T), parameters=chosen)
        assert trace.last["round"] == T
        assert 0.3 * limit < trace.last["kernel_values"] <= limit
