"""The checks of the lessons ls_1 and ls_2; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.certified import check_certified as check_certified
from checks.exercise import (
    CLOSE,
    array,
    ask,
    cases,
    exercise,
    need,
    number,
    pick,
    same,
    several,
)
from workbench.least_squares.calibrated import project

# Lesson 1: second order


@exercise
def check_whiten(whiten):
    """``whiten(S) -> A`` for which rows X with X'X/n = S have (XA)'(XA)/n = I."""
    X, *_ = _toy()
    S = X.T @ X / len(X)
    A = array(ask(whiten, S.copy()), S.shape, "A")
    need(np.isfinite(A).all(), "A has entries that are not finite")
    need(
        not same(A @ S, np.eye(len(S))),
        "that is the inverse of S; you need a square root of it",
    )
    need(
        not same(A @ S @ A.T, np.eye(len(S))),
        "transpose it: the second moment is A'S A",
    )
    eigenvalues = np.linalg.eigvalsh(A.T @ S @ A).round(3).tolist()
    need(
        same(A.T @ S @ A, np.eye(len(S))),
        f"A'S A has the eigenvalues {eigenvalues}, not ones",
    )
    return "in the new features every direction is equally steep, whatever S was"


@exercise
def check_loss(softmax_loss):
    """``softmax_loss(W, X, Y)``: the mean loss, and its gradient (d, k)."""
    X, Y, W = _toy()
    found, (loss, G) = ask(softmax_loss, W.copy(), X, Y), _loss(W, X, Y)
    several(found, 2, "return two things: loss and gradient")
    value, slope = number(found[0]), array(found[1], W.shape, "the gradient")
    need(not same(value, loss * len(X)), "that is the sum over the rows; take the mean")
    need(same(value, loss), f"the loss is {loss:.4f} here, not {value:.4f}")
    need(
        not same(slope, -G),
        "the gradient has the wrong sign: it is prediction minus target",
    )
    need(same(slope, G), "the gradient is off: each row adds x (g(u) - y)' / n")
    far, truth = number(softmax_loss(1e4 * W, X, Y)[0]), _loss(1e4 * W, X, Y)[0]
    need(
        np.isfinite(far),
        "large scores overflow: subtract the largest of each row from all",
    )
    need(
        same(far / truth, 1),
        f"with large scores the loss is {truth:.0f}, not {far:.0f}",
    )
    return "the gradient of linear regression, except for the link g"


@exercise
def check_algorithm_1(algorithm_1):
    """``algorithm_1(X, Y, L, alpha, rounds)``: a list of the W of round 0, 1, ...,
    rounds."""
    X, Y, _ = _toy()
    L, alpha = 0.8, 0.3
    found, truth = (
        ask(algorithm_1, X, Y, L, alpha, 4),
        _steps(X, Y, alpha / L, alpha, 1 / L),
    )
    several(found, 5, "return a list of rounds + 1 weights")
    need(
        found[0] is not found[-1],
        "all entries are one array; a step in place changes them all",
    )
    found = [array(W, truth[0].shape, "W") for W in found]
    for hint, ridge, pull, step in (
        ("the matrix lacks its ridge: S + alpha/L I", 0, alpha, 1 / L),
        ("with 1/L in front, the ridge of the matrix is alpha/L", alpha, alpha, 1 / L),
        ("the gradient of alpha/2 |W|^2 is missing: add alpha W", alpha / L, 0, 1 / L),
        ("the steps lack their 1/L", alpha / L, alpha, 1),
        ("use the given L; this is 1/2", alpha / 0.5, alpha, 1 / 0.5),
        (
            "S is a mean: divide X'X by the number of rows",
            alpha / L / 30,
            alpha,
            1 / L / 30,
        ),
        ("the step goes uphill: where is the minus?", alpha / L, alpha, -1 / L),
        ("L is both in the matrix and in front of it", alpha / L, alpha, 1 / L**2),
    ):
        need(not same(found[2], _steps(X, Y, ridge, pull, step)[2]), hint)
    for t in range(5):
        need(same(found[t], truth[t]), f"W_{t} is the first that is off; W_0 is 0")
    return "one factor, and two triangular solves per round"


@exercise
def check_too_small(W, X: np.ndarray, Y: np.ndarray, L: float):
    """One step of Algorithm 1 with this L, and no penalty, raises the loss from `W`."""
    W = array(W, (X.shape[1], Y.shape[1]), "W").astype(float)
    need(np.isfinite(W).all(), "W should hold finite numbers")
    before, G = _loss(W, X, Y)
    p = np.exp(W[0] - W.max()) / np.exp(W[0] - W.max()).sum()
    after = _loss(W - np.linalg.solve(X.T @ X / len(X), G) / L, X, Y)[0]
    told = f"the loss goes from {before:.3f} to {after:.3f}"
    case = f"{told}, from the probabilities {p.round(3).tolist()}: "
    still = np.abs(p - Y.mean(axis=0)).max() < 0.02
    hint = "how far are they from the point where the curvature is 1/2?"
    hint = (
        "the minimum is so close that nothing happens; begin further away"
        if still
        else hint
    )
    need(after > before + CLOSE, case + hint)
    return told + ": the step overshoots"


@exercise
def check_scaled(answer, in_other_units):
    """`answer`: how the loss falls; ``in_other_units(S, G, D, A)``: all three for rows
    XA."""
    X, Y, W = _toy()
    rng = cases()
    for A in (
        rng.normal(size=(4, 4)) + 2 * np.eye(4),
        np.diag([1000.0, 30.0, 2.0, 0.1]),
    ):
        S, G = X.T @ X / len(X), _loss(W, X, Y)[1]
        D = np.linalg.solve(S, G)
        found = ask(in_other_units, S.copy(), G.copy(), D.copy(), A.copy())
        several(found, 3, "return three things: S, G and D")
        names, old = ("S", "G", "D"), (S, G, D)
        S2, G2, D2 = (array(f, o.shape, name) for f, o, name in zip(found, old, names))
        hint = "S is the mean of xx', and both x become A'x"
        need(same(S2, A.T @ S @ A), f"the new S is not right: {hint}")
        need(not same(G2, G), "G is X'(g - Y) / n, and the rows in it change")
        need(
            same(G2, A.T @ G),
            "the new G is not right: each row adds A'x (g(u) - y)' / n",
        )
        need(not same(D2, D), "D is a step of W', and W' = A^-1 W")
        need(
            not same(D2, A.T @ D),
            "D is a step of weights: like W', it changes by A^-1",
        )
        need(
            same(D2, np.linalg.solve(A, D)),
            "the new D is not right: solve S' D' = G'",
        )
    hint = "how do S, the gradient and the scores change with the feature?"
    pick(answer, ("the same", "faster", "slower"), "the same", hint)
    return "the new step changes the scores as the old one did"


@exercise
def check_lower(lower):
    """``lower(P, G, alpha)``: the least value that strong convexity allows."""
    for P, G, alpha in (
        (1.0, np.array([[1.0, -2.0]]), 0.5),
        (0.3, np.full((3, 2), 0.1), 0.01),
    ):
        found, truth = (
            number(ask(lower, P, G.copy(), alpha)),
            P - (G**2).sum() / (2 * alpha),
        )
        given = f"P = {P}, |G|^2 = {(G**2).sum():.2f}, alpha = {alpha}"
        told = f"for {given} it is {truth:.2f}, not {found:.2f}: "
        need(same(found, truth), told + "which D minimises the right-hand side?")
    return "the gradient alone bounds the distance to the optimum"


# Lesson 2: calibration


@exercise
def check_by_hand(theta, p, v):
    """`p` is the point of the simplex nearest to `v`, and `theta` its threshold."""
    v = np.asarray(v, dtype=float)
    theta, p = number(theta), array(p, v.shape, "p").astype(float)
    total = np.maximum(v - theta, 0).sum()
    hint = f"with your theta the positive parts sum to {total:.3g}, not to 1: "
    need(same(total, 1), hint + ("raise it" if total > 1 else "lower it"))
    need(
        same(p, np.maximum(v - theta, 0)), "theta is right; now p is max(v - theta, 0)"
    )
    return "two entries share the excess, the third is cut off"


@exercise
def check_project(project):
    """``project(V)``: every row of V moved to the nearest point of the simplex."""
    rng = cases()
    for k in (2, 3, 6):
        V = np.vstack([rng.normal(0.3, 1, (20, k)), np.eye(k), np.full((1, k), -2.0)])
        found, truth = (
            array(ask(project, V.copy()), V.shape, "the result"),
            _projected(V),
        )
        rows = V[~np.isfinite(found).all(axis=1)].round(2).tolist()
        need(
            not rows,
            f"{rows[:1]} goes to nan: rows with no positive entry have a nearest point",
        )
        need(
            found.min() > -CLOSE, f"an entry is {found.min():.3f}; none may be negative"
        )
        i = int(np.argmax(np.abs(found - truth).max(axis=1)))
        case = f"{V[i].round(2).tolist()} goes to {found[i].round(2).tolist()}"
        need(same(found.sum(axis=1), 1), case + ": every row must sum to 1")
        need(same(found, truth), case + f", but {truth[i].round(2).tolist()} is nearer")
    return "the package's projection, row by row"


@exercise
def check_shortcut(v, c):
    """The positive parts of `v` over their sum are further from class `c` than `v`
    is."""
    v, c = array(v, (3,), "v").astype(float), number(c)
    need(
        np.isfinite(v).all() and v.max() > 0,
        "give finite numbers, one of them positive",
    )
    need(c in (0, 1, 2), f"the class is 0, 1 or 2, not {c:g}")
    y, short = np.eye(3)[int(c)], np.maximum(v, 0) / np.maximum(v, 0).sum()
    before, after, nearest = (
        ((u - y) ** 2).sum() for u in (v, short, _projected(v[None])[0])
    )
    told = f"the squared error goes from {before:.3g} to {after:.3g}"
    need(
        after > before + CLOSE,
        told + ": which small numbers does the division make large?",
    )
    need(after > 1.5 * before, told + ", which is not one and a half times as much")
    return told + f", and by the projection to {nearest:.3g}"


@exercise
def check_round(one_round):
    """``one_round(X, Y, now, basis) -> W, V, fitted, refitted, projected``."""
    X, Y, _ = _toy()
    now = np.full(Y.shape, 1 / 3)
    found = ask(one_round, X, Y, now.copy(), _powers)
    several(found, 5, "return W, V, fitted, refitted, projected")
    names = "W", "V", "fitted", "refitted", "projected"
    truth = dict(zip(names, _round(X, Y, now)))
    found = {name: array(a, truth[name].shape, name) for name, a in zip(names, found)}
    straight = np.linalg.lstsq(X, Y, rcond=None)[0]
    need(
        not same(found["W"], straight),
        "W fits Y; step (18) fits the residuals, Y - now",
    )
    V = np.linalg.lstsq(_powers(truth["fitted"]), Y - now, rcond=None)[0]
    need(not same(found["V"], V), "V fits the residuals; step (19) fits Y itself")
    need(same(found["W"], truth["W"]), "W is off; the others depend on it")
    for name in ("fitted", "V", "refitted", "projected"):  # in the order of their use
        right = same(found[name], truth[name])
        need(right, f"{name} is off; what comes before it is right")
    return "two least squares problems and a projection"


@exercise
def check_rises(answer, fitted):
    """`answer`: does the error rise? `fitted`: four values that a refit by squares
    makes worse."""
    f, t = (
        array(fitted, (4,), "the fitted values").astype(float),
        np.array([0.0, 0.0, 1.0, 1.0]),
    )
    need(np.isfinite(f).all() and f.any(), "give four numbers, not all of them 0")
    before, squares = ((f - t) ** 2).sum(), f**2
    after = ((squares * (squares @ t) / (squares @ squares) - t) ** 2).sum()
    told = f"the error goes from {before:.3g} to {after:.3g}"
    need(
        after > before + CLOSE,
        told + ": let the two of target 1 differ, and their squares more",
    )
    need(
        after >= 2 * before,
        told + ", which is not twice as much: be closer to the targets first",
    )
    hint = "which V makes step (19) change nothing, and is it still a choice?"
    pick(answer, ("rises", "never rises"), "rises", hint)
    return told + ": no multiple of the squares gives the fitted values back"


@exercise
def check_replay(replay):
    """``replay(X, Ws, Vs, basis)``: the predictions of other rows."""
    X, Y, _ = _toy()
    now, Ws, Vs = np.zeros(Y.shape), [], []
    for _ in range(3):
        W, V, *_, now = _round(X, Y, now)
        Ws, Vs = [*Ws, W], [*Vs, V]
    found = array(ask(replay, X[:9], Ws, Vs, _powers), Y[:9].shape, "the result")
    X, now = X[:9], now[:9]
    alone = _projected(_powers(X @ Ws[-1]) @ Vs[-1])
    need(
        not same(found, alone),
        "that is the last round alone; it starts from the previous round",
    )
    need(
        same(found, now),
        "not what training predicted: begin at 0, project in every round",
    )
    return "the rows of training get the predictions of training"


@exercise
def check_binned(binned):
    """``binned(Y, edges)``: a basis whose refit has the mean of Y in each bin of each
    class."""
    rng = cases()
    fitted, Y = rng.random((200, 3)), np.eye(3)[rng.integers(3, size=200)]
    edges = np.array([0.2, 0.5])
    G = np.asarray(ask(binned, fitted.copy(), edges), dtype=float)
    need(G.ndim == 2 and len(G) == 200, "give an array with a row for each row of Y")
    need(
        same(G[:, :3], fitted), "the first columns are Y itself, or the error may rise"
    )
    need(
        G.shape[1] <= 100,
        "with as many functions as rows, nothing is learnt about other rows",
    )
    V = G @ np.linalg.lstsq(G, Y, rcond=None)[0]
    bins = np.digitize(fitted, edges)
    for c, b in np.ndindex(3, 3):
        mean, share = V[bins[:, c] == b, c].mean(), Y[bins[:, c] == b, c].mean()
        case = (
            f"bin {b} of class {c}: the mean of v is {mean:.4f}, the fraction "
            f"{share:.4f}"
        )
        need(
            same(mean, share),
            case + "; which function makes the residuals of a bin sum to 0?",
        )
    return "the indicator of a bin is orthogonal to the residuals: they sum to 0 there"


# What several checks use


def _toy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = cases()
    X = rng.normal(size=(30, 4)) @ (np.eye(4) + np.triu(np.ones((4, 4))))
    return X, np.eye(3)[np.arange(30) % 3], rng.normal(size=(4, 3))


def _loss(W: np.ndarray, X: np.ndarray, Y: np.ndarray) -> tuple[float, np.ndarray]:
    U = X @ W
    E = np.exp(U - U.max(axis=1, keepdims=True))
    mass = E.sum(axis=1, keepdims=True)
    loss = np.log(mass[:, 0]) + U.max(axis=1) - (Y * U).sum(axis=1)
    return loss.mean(), X.T @ (E / mass - Y) / len(X)


def _steps(X, Y, ridge: float, pull: float, step: float) -> list[np.ndarray]:
    H = X.T @ X / len(X) + ridge * np.eye(X.shape[1])
    Ws = [np.zeros((X.shape[1], Y.shape[1]))]
    for _ in range(4):
        Ws.append(
            Ws[-1] - step * np.linalg.solve(H, _loss(Ws[-1], X, Y)[1] + pull * Ws[-1])
        )
    return Ws


def _powers(Y: np.ndarray) -> np.ndarray:
    return np.hstack([Y, Y**2])


def _projected(V: np.ndarray) -> np.ndarray:
    V = V.copy()
    project(V)
    return V


def _round(X, Y, now: np.ndarray) -> tuple[np.ndarray, ...]:
    W = np.linalg.lstsq(X, Y - now, rcond=None)[0]
    fitted = now + X @ W
    V = np.linalg.lstsq(_powers(fitted), Y, rcond=None)[0]
    refitted = _powers(fitted) @ V
    return W, V, fitted, refitted, _projected(refitted)
