"""The checks of the Weston-Watkins lessons tell right from wrong."""

import numpy as np
import pytest

from workbench.trace import Trace
from workbench.weston_watkins import teach, teach_descent
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


CHECKS = vars(teach) | vars(teach_descent)
AT_ZERO = {"Weston-Watkins": 9, "Crammer-Singer": 1, "one-vs-rest": 10}
LOSSES = {"Weston-Watkins": ww_loss, "Crammer-Singer": cs_loss, "one-vs-rest": ovr_loss}
HAND = ([2, 1.5, 0.4], 0.7)
FALLS, RISES = np.array([3.0, 2.0, 1.0]), np.array([3.0, 1.0, 2.0])

SIMPLE = [
    # Lesson 1
    ("check_loss", (ww_loss,), "right"),
    ("check_loss", (cs_loss,), "the largest hinge"),
    ("check_loss", (lambda V, y: ww_loss(V, y) + 1,), "own class has the margin 0"),
    ("check_loss", (lambda V, y: ww_loss(V, y) / 3,), "the mean over the wrong classes"),
    ("check_loss", (ovr_loss,), "a row with the margins"),
    ("check_loss", (lambda V, y: ww_loss(V, y).sum(),), "shape"),
    ("check_loss", (lambda V, y: ...,), "not yet"),
    ("check_at_zero", (AT_ZERO, LOSSES), "right"),
    ("check_at_zero", (AT_ZERO | {"Weston-Watkins": 10}, LOSSES), "how many hinges count"),
    ("check_at_zero", (AT_ZERO | {"one-vs-rest": ...}, LOSSES), "not yet"),
    ("check_right_but_costly", ([0.1, 0.0, 0.0],), "right: class 0 wins, and the loss is 1.800"),
    ("check_right_but_costly", ([0.0, 0.1, 0.0],), "class 0 must win"),
    ("check_right_but_costly", ([0.1, 0.0],), "take more classes"),
    ("check_right_but_costly", ([3, 0.0, 0.0],), "bring the rivals closer"),
    ("check_centred", (centred,), "right"),
    ("check_centred", (lambda W: W - W.mean(axis=0),), "the margins change"),
    ("check_centred", (lambda W: W - W[:, :1],), "the least is"),
    ("check_binary_C", (lambda C: 2 * C,), "right"),
    ("check_binary_C", (lambda C: C / 2,), "how much of"),
    ("check_dual", (dual,), "right"),
    ("check_dual", (lambda B, X, y: dual(B, X, y, sign=-1),), "wrong sign"),
    ("check_dual", (lambda B, X, y: dual(B, X, y, own=False),), "own classes are missing"),
    ("check_dual", (lambda B, X, y: (X.T @ B, 0.0),), "W is off"),
    ("check_dual", (lambda B, X, y: (dual(B, X, y)[0], B.sum()),), "D should be"),
    ("check_dual", (lambda B, X, y: dual(B, X, y)[0],), "two things"),
    # Lesson 2
    ("check_block", (block,), "right"),
    ("check_block", (block_without_own,), "add beta_j + S"),
    ("check_block", (block_without_norm,), "divide 1 - m_j"),
    ("check_block", (lambda x, y, W, b: block(x, y, W, b) - b.sum(),), "S is missing"),
    ("check_block", (lambda x, y, W, b: 2 * block(x, y, W, b),), "for a row with |x|^2"),
    ("check_block", (lambda x, y, W, b: x @ W,), "k - 1 entries"),
    ("check_second", ("both", [2, 1.4]), "right: b_2 climbs to 0.46"),
    ("check_second", ("rises", [2, 1.4]), "once it has left the diagonal"),
    ("check_second", ("rises", [1, 1]), "right"),
    ("check_second", ("up", [2, 1.4]), 'answer "rises"'),
    ("check_by_hand", (1.1, [0.7, 0.4, 0], *HAND), "right"),
    ("check_by_hand", (1.0, [0.7, 0.4, 0], *HAND), "raise g"),
    ("check_by_hand", (1.2, [0.7, 0.4, 0], *HAND), "lower g"),
    ("check_by_hand", (1.1, [0.9, 0.4, 0], *HAND), "clip every"),
    ("check_by_hand", (..., [..., ..., ...], *HAND), "not yet"),
    ("check_solve", (bisection,), "right"),
    ("check_solve", (sweep,), "right"),
    ("check_solve", (careless,), "no v_j is positive"),
    ("check_solve", (lambda v, C: max(careless(v, C), 0.0),), "some v_j are equal"),
    ("check_solve", (lambda v, C: v.max(),), "the root is"),
    ("check_careless", ([1, 1], careless, 0.7), "equal entries count as one"),
    ("check_careless", ([-1], careless, 0.7), "line 3"),
    ("check_careless", ([1, 2], careless, 0.7), "it finds 0.85, the root"),
    ("check_careless", ([1, 1], sweep, 0.7), "What does a set do"),
    ("check_careless", (..., careless, 0.7), "not yet"),
    ("check_cycle", ([2.5, 2.2, 1.9], 1.0), "right: 0 -> 3 -> 0 -> 3"),
    ("check_cycle", ([0.5, 0.2, 0.1], 1.0), "Newton stops after"),
    ("check_cycle", ([2.5, 2.2], 1.0), "three numbers"),
    # Lesson 3
    ("check_visit", (visit,), "right"),
    ("check_visit", (never,), "change it in place"),
    ("check_visit", (lambda *a: visit(*a, update=False),), "no longer W(B)"),
    ("check_visit", (lambda *a: visit(*a, told=True),), "has not changed"),
    ("check_visit", (lambda *a: visit(*a, told=False),), "has changed"),
    ("check_visit", (lambda *a: ...,), "not yet"),
    ("check_primal", ("both", RISES), "right: it rises in 1 of 2"),
    ("check_primal", ("falls", RISES), "which objective"),
    ("check_primal", ("falls", FALLS), "right"),
    ("check_primal", ("down", FALLS), 'answer "falls"'),
    ("check_epochs", (lambda rate, factor: np.log(factor) / -np.log(rate),), "right"),
    ("check_epochs", (lambda rate, factor: factor * (1 - rate),), "multiply the distance by"),
    ("check_row_gaps", (row_gaps,), "right"),
    ("check_row_gaps", (lambda *a: row_gaps(*a) - 9,), "a part is -"),
    ("check_row_gaps", (lambda *a: row_gaps(*a) + 1,), "your parts sum to"),
    ("check_row_gaps", (lambda *a: row_gaps(*a)[::-1],), "not every row's part"),
    ("check_scale", (lambda old, new: new / old,), "right"),
    ("check_scale", (lambda old, new: 1.0,), "up to the new C"),
    ("check_scale", (lambda old, new: 2.0,), "up to the new C"),
    ("check_scale", (lambda old, new: 9.0,), "outside the new box"),
]


@pytest.mark.parametrize(("check", "answers", "told"), SIMPLE)
def test_check(check, answers, told, capsys):
    CHECKS[check](*answers)
    assert told in capsys.readouterr().out


def test_check_of_the_box(blobs, capsys):
    problem = blobs(n=30, d=2, k=3, seed=1)
    inside = np.where(np.eye(3)[problem.y] == 1, 0.0, 1e-3)
    optimum = objectives(problem, dual(inside, problem.X, problem.y)[0], inside, 0.05)[0]
    teach.check_outside(inside, problem, 0.05, optimum)
    assert "is not above the optimum" in capsys.readouterr().out
    teach.check_outside(inside, problem, 0.05, inside.sum() / 2)
    assert "right: D(B)" in capsys.readouterr().out
    teach.check_outside(np.ones((30, 3)), problem, 0.05, optimum)
    assert "0 at the own classes" in capsys.readouterr().out
    teach.check_outside(np.ones(3), problem, 0.05, optimum)
    assert "shape" in capsys.readouterr().out


def test_checks_of_whole_runs(capsys):
    def descend(C, patience):
        return np.array([1.0, 0.1 if patience == 1 else 1e-4])

    teach_descent.check_stall(1, 0.1, descend)
    assert "right: the gap ends at 0.1" in capsys.readouterr().out
    teach_descent.check_stall(2, 0.1, descend)
    assert "not 100 times as large" in capsys.readouterr().out
    teach_descent.check_stall(0, 0.1, descend)
    assert "at least 1" in capsys.readouterr().out
    teach_descent.check_stall(..., ..., descend)
    assert "not yet" in capsys.readouterr().out

    few, many = Trace({}, [{"round": 50}]), Trace({}, [{"round": 100}])
    teach_descent.check_rounds("fewer", few, many)
    assert "right: 50 and 100 rounds" in capsys.readouterr().out
    teach_descent.check_rounds("about as many", few, many)
    assert "how far from exact" in capsys.readouterr().out
    teach_descent.check_rounds("equal", few, many)
    assert 'answer "fewer"' in capsys.readouterr().out
