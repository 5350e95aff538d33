"""The checks of the lesson ls_3b, on links; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.exercise import array, ask, cases, exercise, need, number, same


@exercise
def check_leftover(ratio):
    """``ratio(q, alpha)``: a ridge fit of Y - g(F), over the step of Algorithm 1 with L
    = 1/2."""
    for q, alpha in cases().uniform(0.05, 1, (4, 2)):
        found, truth = number(ask(ratio, q, alpha)), (q + 2 * alpha) / (2 * (q + alpha))
        case = f"for q = {q:.3g} and alpha = {alpha:.3g}: "
        need(not same(found, 1 / truth), case + "invert the fraction")
        hint = (
            "that holds without a penalty; the two matrices do not have the same ridge"
        )
        need(not same(found, 1 / 2), case + hint)
        need(not same(found, 2 * truth), case + "the step has 1/L = 2 in front")
        hint = "with 1/L in front, the ridge of the step's matrix is alpha/L"
        need(not same(found, (q + alpha / 2) / (2 * (q + alpha))), case + hint)
        told = f"it is {truth:.4f}, not {found:.4f}: divide G / (q + alpha) by the step"
        need(same(found, truth), case + told)
    return (
        "it is the step with L = 1: too short by a factor of up to 2, and only one step"
    )


@exercise
def check_visit(visit):
    """``visit(Z, F, Y, W, alpha, inner)``: the change of W after plain steps of
    Algorithm 1."""
    rng = cases()
    Z, F, W = (
        rng.normal(size=(30, 5)),
        rng.normal(size=(30, 3)),
        rng.normal(size=(5, 3)),
    )
    Y = np.eye(3)[np.arange(30) % 3]
    for inner in (3, 1):
        given = Z.copy(), F.copy(), Y.copy(), W.copy(), 0.1, inner
        V = array(ask(visit, *given), W.shape, "the correction")
        case = f"after {inner} step{'s' * (inner > 1)}: "
        for name, before, after in zip("ZFYW", (Z, F, Y, W), given):
            need(same(before, after), case + f"do not change the array {name}")
        truth = _visit(Z, F, Y, W, 0.1, inner)
        need(
            not same(V, W + truth),
            case + "that is the new W; return what is added to it",
        )
        for hint, settings in (
            ("the gradient of the penalty is alpha (W + V), not alpha V", {"pull": 0}),
            ("the gradient of the penalty is missing", {"pull": None}),
            ("L is 1/2, both in the matrix and in front of it", {"L": 1}),
            ("the ridge of the matrix is alpha/L = 2 alpha", {"ridge": 0.1}),
            ("the ridge of the matrix is missing", {"ridge": 0}),
            ("the scores change with V: g(F + Z V)", {"moving": False}),
            ("the scores so far are missing: g(F + Z V)", {"offset": 0}),
            ("the step goes uphill: where is the minus?", {"sign": -1}),
        ):
            wrong = _visit(Z, F, Y, W, 0.1, inner, **settings)
            need(not same(V, wrong) or same(wrong, truth), case + hint)
        need(
            same(V, truth),
            case + "V is off; begin with V = 0, and subtract (1/L) H^-1 gradient",
        )
    return "one factor for all steps; with W = 0 it is a first visit"


@exercise
def check_inner(two_blocks):
    """``two_blocks(alpha, passes)``: the weights w_1, w_2 of two equal blocks."""
    for alpha, passes in zip(cases().uniform(0.05, 1, 4), (1, 2, 3, 40)):
        found = array(ask(two_blocks, alpha, passes), (2,), "the result").astype(float)
        visits, at_once = [np.zeros(2)], np.zeros(2)
        for _ in range(passes):
            first, second = (1 - visits[-1][1]) / (1 + alpha), visits[-1][1]
            visits += [
                np.array([first, w]) for w in (second, (1 - first) / (1 + alpha))
            ]
            at_once = (1 - at_once[::-1]) / (1 + alpha)
        path = visits[::2]
        case, joint = (
            f"for alpha = {alpha:.3g} and {passes} passes: ",
            np.full(2, 1 / (2 + alpha)),
        )
        need(not same(found, at_once), case + "the second visit uses the new w_1")
        exact = passes > 30 or not same(found, joint)
        need(exact, case + "that is the joint solution, to which the passes converge")
        need(passes == 1 or not same(found, path[1]), case + "that is one pass")
        need(
            not same(found, visits[passes]),
            case + "those are visits; a pass visits both blocks",
        )
        told = (
            f"w is {np.round(path[-1], 4).tolist()}, not {np.round(found, 4).tolist()}"
        )
        need(same(found, path[-1]), case + told + ": set the derivative by w_b to 0")
    return (
        "after one pass the first block has nearly all the weight; in the end they "
        "share it"
    )


@exercise
def check_outvoted(scores):
    """Four of five models' `scores` (5, 2) are right, class 0, and their average is
    wrong."""
    F = array(scores, (5, 2), "the scores").astype(float)
    need(np.isfinite(F).all(), "the scores should be finite numbers")
    need((F[:, 0] != F[:, 1]).all(), "a model has equal scores: it has not decided")
    right, mean = int((F[:, 0] > F[:, 1]).sum()), F.mean(axis=0)
    need(
        right == 4,
        f"{right} of the models are right (class 0 has their larger score), not 4",
    )
    told = f"the average is {mean.round(3).tolist()}"
    need(
        mean[1] > mean[0],
        told + ", which is right: let the wrong model be more certain",
    )
    losses = np.logaddexp(F[:, 0], F[:, 1]) - F[:, 0]
    own = np.logaddexp(*mean) - mean[0]
    return (
        told + f"; its loss is {own:.3g}, "
        f"and the mean of the five losses {losses.mean():.3g}"
    )


def _visit(
    Z, F, Y, W, alpha, inner, L=0.5, pull=1, ridge=None, moving=True, offset=1, sign=1
) -> np.ndarray:
    """Return the change of W by a visit; the last arguments are mistakes."""
    n = len(Z)
    H = Z.T @ Z / n + (alpha / L if ridge is None else ridge) * np.eye(Z.shape[1])
    V = np.zeros(W.shape)
    for _ in range(inner):
        U = offset * F + moving * (Z @ V)
        E = np.exp(U - U.max(axis=1, keepdims=True))
        G = Z.T @ (E / E.sum(axis=1, keepdims=True) - Y) / n
        G += 0 if pull is None else alpha * (pull * W + V)
        V = V - sign * np.linalg.solve(H, G) / L
    return V
