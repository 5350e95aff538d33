"""The checks of the Weston-Watkins lessons tell right from wrong."""

import numpy as np
import pytest

from checks import weston_watkins as teach
from checks import weston_watkins_descent as teach_descent
from workbench.core.problem import as_problem
from workbench.core.trace import Trace
from workbench.weston_watkins.dual import objectives
from workbench.weston_watkins.walrus import subproblem, sweep

# Right answers, and those that a student is likely to give.


def hinges(V, y):
    rows = np.arange(len(y))
    losses = np.maximum(0, 1 - V[rows, y][:, None] + V)
    losses[rows, y] = 0
    return losses


def ww_loss(V, y):
    return hinges(V, y).sum(axis=1)


def cs_loss(V, y):
    return hinges(V, y).max(axis=1)


def ovr_loss(V, y):
    return np.maximum(0, 1 - (2 * np.eye(V.shape[1])[y] - 1) * V).sum(axis=1)


def centred(W):
    return W - W.mean(axis=1, keepdims=True)


def dual(B, X, y, sign=1, own=True):
    W = sign * (X.T @ (-B if not own else np.eye(B.shape[1])[y] * B.sum(axis=1)[:, None] - B))
    return W, B.sum() - (W**2).sum() / 2


def block(x, y, W, beta):
    scores = x @ W
    return np.delete((1 - scores[y] + scores) / (x @ x) + beta + beta.sum(), y)


def block_without_own(x, y, W, beta):
    return block(x, y, W, 0 * beta)


def block_without_norm(x, y, W, beta):
    return block_without_own(x, y, W, beta) * (x @ x) + np.delete(beta, y) + beta.sum()


def bisection(v, C):
    low, high = 0.0, max(v.max(), 0.0)
    for _ in range(60):
        middle = (low + high) / 2
        if np.clip(v - middle, 0, C).sum() > middle:
            low = middle
        else:
            high = middle
    return low


def careless(v, C):
    points = sorted({(t, 1) for t in v} | {(t - C, 0) for t in v}, reverse=True)
    n_u, n_m, S = 0, 0, 0.0
    for (at, enters), after in zip(points, [*points[1:], (-np.inf, 0)]):
        if enters:
            n_m, S = n_m + 1, S + at
        else:
            n_u, n_m, S = n_u + 1, n_m - 1, S - (at + C)
        g = (C * n_u + S) / (n_m + 1)
        if g >= after[0]:
            return g


def visit(x, y, W, beta, C, update=True, told=None):
    b = np.insert(subproblem(block(x, y, W, beta), C), y, 0)
    delta = b - beta
    beta[:] = b
    if update:
        delta[y] = -delta.sum()
        W -= np.outer(x, delta)
    return bool(np.abs(delta).max() > 1e-9) if told is None else told


def row_gaps(X, y, W, B, C):
    V, rows = X @ W, np.arange(len(y))
    z = 1 - V[rows, y][:, None] + V
    z[rows, y] = 0
    return (C * np.maximum(0, z) - B * z).sum(axis=1)


def never(x, y, W, beta, C):
    return False


def away(x, y, W, beta, C):
    before = W.copy()
    changed = visit(x, y, W, beta, C)
    W[:] = before - (W - before)
    return changed


def epochs(rate, factor):
    return np.log(factor) / -np.log(rate)


def descend(C, patience):
    """Gaps of a descent: of full sweeps, of one with hardly any patience, of one with some."""
    return C * np.array([1.0, {np.inf: 1e-4, 1: 0.1}.get(patience, 1e-3)])


def inside(objective):
    """Return the arguments of check_outside for a B in the box, with this value of an optimum."""
    X, y, _ = teach.toy()
    B = np.where(np.eye(4)[y] == 1, 0.0, 1e-3)
    return (
        B,
        as_problem(X, y),
        0.05,
        objective(objectives(as_problem(X, y), dual(B, X, y)[0], B, 0.05)),
    )


CHECKS = vars(teach) | vars(teach_descent)
AT_ZERO = {"Weston-Watkins": 9, "Crammer-Singer": 1, "one-vs-rest": 10}
HAND = ([2, 1.5, 0.4], 0.7)
FEW, MANY = Trace({}, [{"round": 50}]), Trace({}, [{"round": 100}])
FALLS, RISES = np.array([3.0, 2.0, 1.0]), np.array([3.0, 1.0, 2.0])

SIMPLE = [
    # Lesson 1
    ("check_loss", (ww_loss,), "right"),
    ("check_loss", (cs_loss,), "the largest hinge"),
    ("check_loss", (lambda V, y: ww_loss(V, y) + 1,), "own class has the margin 0"),
    ("check_loss", (lambda V, y: ww_loss(V, y) / 3,), "the mean over the wrong classes"),
    ("check_loss", (ovr_loss,), "a row with the margins"),
    ("check_loss", (lambda V, y: ww_loss(V, y).sum(),), "shape"),
    ("check_loss", (lambda V, y: np.full(len(y), np.nan),), "a row with the margins"),
    ("check_loss", (lambda V, y: ww_loss(-V, y),), "a row with the margins"),
    ("check_loss", (lambda V, y: ww_loss(V, y) * 3 / (V.shape[1] - 1),), "a row with the margins"),
    ("check_loss", (lambda V, y: ...,), "not yet"),
    ("check_at_zero", (AT_ZERO, 10), "right"),
    ("check_at_zero", (AT_ZERO | {"Weston-Watkins": 10}, 10), "how many hinges count"),
    ("check_at_zero", (AT_ZERO | {"Crammer-Singer": 0}, 10), "Crammer-Singer: every margin"),
    ("check_at_zero", (AT_ZERO | {"one-vs-rest": 1}, 10), "one-vs-rest: every margin"),
    ("check_at_zero", (AT_ZERO | {"one-vs-rest": ...}, 10), "not yet"),
    ("check_right_but_costly", ([0.1, 0.0, 0.0],), "right: class 0 wins, and the loss is 1.800"),
    ("check_right_but_costly", ([0.0, 0.1, 0.0],), "class 0 must win"),
    ("check_right_but_costly", ([0.1, 0.0],), "take more classes"),
    ("check_right_but_costly", ([3, 0.0, 0.0],), "bring the rivals closer"),
    ("check_centred", (centred,), "right"),
    ("check_centred", (lambda W: W - W.mean(axis=0),), "the margins change"),
    ("check_centred", (lambda W: W - W[:, :1],), "the least is"),
    ("check_centred", (lambda W: W,), "the least is"),
    ("check_centred", (lambda W: W - W.mean(),), "the least is"),
    ("check_centred", (lambda W: 0 * W,), "the margins change"),
    ("check_binary_C", (lambda C: 2 * C,), "right"),
    ("check_binary_C", (lambda C: C / 2,), "how much of"),
    ("check_binary_C", (lambda C: C,), "how much of"),
    ("check_binary_C", (lambda C: C + 1,), "how much of"),
    ("check_dual", (dual,), "right"),
    ("check_dual", (lambda B, X, y: dual(B, X, y, sign=-1),), "wrong sign"),
    ("check_dual", (lambda B, X, y: dual(B, X, y, own=False),), "own classes are missing"),
    ("check_dual", (lambda B, X, y: (X.T @ B, 0.0),), "W is off"),
    ("check_dual", (lambda B, X, y: (dual(B, X, y)[0], B.sum()),), "D should be"),
    ("check_dual", (lambda B, X, y: dual(B, X, y)[0],), "two things"),
    ("check_dual", (lambda B, X, y: (dual(B, X, y)[0].T, 0.0),), "shape"),
    ("check_outside", inside(lambda bounds: bounds[1] - 1), "right: D(B)"),
    ("check_outside", inside(lambda bounds: bounds[0]), "is not above the optimum"),
    ("check_outside", (np.ones((12, 4)), *inside(max)[1:]), "0 at the own classes"),
    ("check_outside", (np.full((12, 4), np.nan), *inside(max)[1:]), "0 at the own classes"),
    ("check_outside", (np.ones(4), *inside(max)[1:]), "shape"),
    # Lesson 2
    ("check_block", (block,), "right"),
    ("check_block", (block_without_own,), "add beta_j + S"),
    ("check_block", (block_without_norm,), "divide 1 - m_j"),
    ("check_block", (lambda x, y, W, b: block(x, y, W, b) - b.sum(),), "S is missing"),
    ("check_block", (lambda x, y, W, b: 2 * block(x, y, W, b),), "for a row with |x|^2"),
    ("check_block", (lambda x, y, W, b: block(x, 0, W, b),), "for a row with |x|^2"),
    ("check_block", (lambda x, y, W, b: np.full(3, np.nan),), "for a row with |x|^2"),
    ("check_block", (lambda x, y, W, b: x @ W,), "k - 1 entries"),
    ("check_second", ("both", [2, 1.4]), "right: b_2 climbs to 0.46"),
    ("check_second", ("rises", [2, 1.4]), "once it has left the diagonal"),
    ("check_second", ("falls", [2, 1.4]), "once it has left the diagonal"),
    ("check_second", ("rises", [1, 1]), "right"),
    ("check_second", ("up", [2, 1.4]), 'answer "rises"'),
    ("check_by_hand", (1.1, [0.7, 0.4, 0], *HAND), "right"),
    ("check_by_hand", (1.0, [0.7, 0.4, 0], *HAND), "raise g"),
    ("check_by_hand", (1.2, [0.7, 0.4, 0], *HAND), "lower g"),
    ("check_by_hand", (1.1, [0.9, 0.4, 0], *HAND), "clip every"),
    ("check_by_hand", (np.nan, [np.nan] * 3, *HAND), "the clipped entries sum to nan"),
    ("check_by_hand", (..., [..., ..., ...], *HAND), "not yet"),
    ("check_solve", (bisection,), "right"),
    ("check_solve", (sweep,), "right"),
    ("check_solve", (careless,), "no v_j is positive"),
    ("check_solve", (lambda v, C: max(careless(v, C), 0.0),), "some v_j are equal"),
    ("check_solve", (lambda v, C: v.max(),), "the root is"),
    ("check_solve", (lambda v, C: np.nan,), "the root is"),
    ("check_solve", (lambda v, C: sweep(v, 2 * C),), "the root is"),
    ("check_careless", ([1, 1], careless, 0.7), "right: it finds 0.5, the root is 0.6667: equal"),
    ("check_careless", ([-1], careless, 0.7), "right: it finds -0.5: no v_j is positive"),
    ("check_careless", ([1, 2], careless, 0.7), "it finds 0.85, the root"),
    ("check_careless", ([1.7, 1.0], careless, 0.7), "the root"),
    ("check_careless", ([np.inf, 1], careless, 0.7), "a list of numbers"),
    ("check_careless", ([1, 1], sweep, 0.7), "What does a set do"),
    ("check_careless", (..., careless, 0.7), "not yet"),
    ("check_cycle", ([2.5, 2.2, 1.9], 1.0), "right: 0 -> 3 -> 0 -> 3"),
    ("check_cycle", ([0.5, 0.2, 0.1], 1.0), "Newton stops after"),
    ("check_cycle", ([5.0, 4.5, 4.0], 1.0), "Newton stops after 1 steps"),
    ("check_cycle", ([2.5, 2.2], 1.0), "three numbers"),
    # Lesson 3
    ("check_visit", (visit,), "right"),
    ("check_visit", (never,), "change it in place"),
    ("check_visit", (lambda *a: visit(*a, update=False),), "no longer W(B)"),
    ("check_visit", (away,), "no longer W(B)"),
    ("check_visit", (lambda *a: visit(*a[:4], 0.5),), "after a visit beta should be"),
    ("check_visit", (lambda *a: visit(*a, told=True),), "has not changed"),
    ("check_visit", (lambda *a: visit(*a, told=False),), "has changed"),
    ("check_visit", (lambda *a: ...,), "not yet"),
    ("check_primal", ("both", RISES), "right: it rises in 1 of 2"),
    ("check_primal", ("falls", RISES), "which objective"),
    ("check_primal", ("falls", FALLS), "right"),
    ("check_primal", ("down", FALLS), 'answer "falls"'),
    ("check_epochs", (epochs,), "right"),
    ("check_epochs", (lambda rate, factor: np.ceil(epochs(rate, factor) - 1e-9),), "right"),
    ("check_epochs", (lambda rate, factor: epochs(rate, factor) - 1,), "multiply the distance by"),
    ("check_epochs", (lambda rate, factor: np.log(factor) / (1 - rate),), "multiply the distance"),
    ("check_epochs", (lambda rate, factor: factor * (1 - rate),), "multiply the distance by"),
    ("check_row_gaps", (row_gaps,), "right"),
    ("check_row_gaps", (lambda *a: row_gaps(*a) - 9,), "a part is -"),
    ("check_row_gaps", (lambda *a: row_gaps(*a) + 1,), "your parts sum to"),
    ("check_row_gaps", (lambda *a: row_gaps(*a)[::-1],), "not every row's part"),
    ("check_row_gaps", (lambda *a: np.full(12, row_gaps(*a).mean()),), "not every row's part"),
    ("check_row_gaps", (lambda *a: np.full(12, np.nan),), "your parts sum to nan"),
    ("check_scale", (lambda old, new: new / old,), "right"),
    ("check_scale", (lambda old, new: 1.0,), "up to the new C"),
    ("check_scale", (lambda old, new: 2.0,), "up to the new C"),
    ("check_scale", (lambda old, new: 9.0,), "outside the new box"),
    ("check_scale", (lambda old, new: old / new,), "up to the new C"),
    ("check_stall", (1, 0.1, descend), "right: the gap ends at 0.01"),
    ("check_stall", (2, 0.1, descend), "not 100 times as large"),
    ("check_stall", (1, 1e-9, descend), "not 100 times as large"),
    ("check_stall", (0, 0.1, descend), "at least 1"),
    ("check_stall", (1.5, 0.1, descend), "a whole number"),
    ("check_stall", (1, -1.0, descend), "must be positive"),
    ("check_stall", (..., ..., descend), "not yet"),
    ("check_rounds", ("fewer", FEW, MANY), "right: 50 and 100 rounds"),
    ("check_rounds", ("more", MANY, FEW), "right"),
    ("check_rounds", ("about as many", MANY, MANY), "right"),
    ("check_rounds", ("about as many", FEW, MANY), "how far from exact"),
    ("check_rounds", ("more", FEW, MANY), "how far from exact"),
    ("check_rounds", ("equal", FEW, MANY), 'answer "fewer"'),
]


@pytest.mark.parametrize(("check", "answers", "told"), SIMPLE)
def test_check(check, answers, told, capsys):
    CHECKS[check](*answers)
    assert told in capsys.readouterr().out
