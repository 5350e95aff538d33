"""The checks of the lesson ls_1b, on Newton steps; they print, see
:mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np

from checks.exercise import array, ask, cases, exercise, need, number, pick, same


@exercise
def check_targets(targets):
    """``targets(u, y)``: what Newton's least squares problem fits, at scores u and
    labels y."""
    u, y = cases().normal(0, 2, 9), np.arange(9) % 2
    p = 1 / (1 + np.exp(-u))
    pull, q = y - p, p * (1 - p)
    z = array(ask(targets, u.copy(), y), u.shape, "z")
    need(np.isfinite(z).all(), "z has entries that are not finite")
    need(
        not same(z, pull / q),
        "that is how far the target is from the score; add the score",
    )
    need(
        not same(z, u + pull), "its slope at u is q (p - y), without the division by q"
    )
    need(not same(z, u - pull / q), "the sign: a row of class 1 is pulled up")
    need(
        not same(z, u + 4 * pull),
        "that is Algorithm 1's, whose rows all have the weight 1/4",
    )
    told = (
        f"for u = {u[0]:.3f}, y = {y[0]} it is {u[0] + (pull / q)[0]:.3f}, not "
        f"{z[0]:.3f}: "
    )
    need(same(z, u + pull / q), told + "the slope q (u - z) has to be p - y")
    return (
        "the more certain a row is, the smaller its weight, and a wrong one's target "
        "is far off"
    )


@exercise
def check_newton(w):
    """From a start beyond `w`, Newton's method on log cosh(w/2) moves away from 0."""
    w = number(w)
    need(w > 0, "give the positive one")
    told = f"from {w:.3f} the step leads to {w - np.sinh(w):.3f}"
    # relative: every w near 0 almost stays there
    near = abs(2 * w - np.sinh(w)) < 0.01 * w
    need(near, told + "; at the border it leads to the mirror image")
    return told + ": closer to 0 it converges, further out it diverges"


@exercise
def check_curvature(curvature):
    """``curvature(X, P)``: the second derivatives (k, d, k, d) of the mean softmax
    loss."""
    rng = cases()
    X, P = rng.normal(size=(30, 4)), rng.dirichlet(np.ones(3), 30)
    n, d, k = len(X), 4, 3
    own, shared = (
        np.einsum("ia,ab,ij,il->ajbl", P, np.eye(k), X, X) / n,
        np.einsum("ia,ib,ij,il->ajbl", P, P, X, X) / n,
    )
    H, truth = (
        array(ask(curvature, X.copy(), P.copy()), (k, d, k, d), "H"),
        own - shared,
    )
    need(not same(H, n * truth), "that is the sum over the rows; the loss is a mean")
    need(
        not same(H, -truth), "the sign: the curvature of a convex loss is not negative"
    )
    need(
        not same(H, own), "a class that gains takes from all others: where is -p_a p_b?"
    )
    need(not same(H, -shared), "for a = b the weight is p_a (1 - p_a)")
    need(
        not same(H, own + shared),
        "the sign of p_a p_b: one class gains what another loses",
    )
    diagonal = np.einsum("ajbl,ab->ajbl", truth, np.eye(k))
    need(not same(H, diagonal), "the blocks of two different classes are missing")
    half = truth * np.tril(np.ones((k, k)))[:, None, :, None]
    need(not same(H, half), "the blocks above the diagonal are missing; H is symmetric")
    a, _, b, _ = np.unravel_index(np.abs(H - truth).argmax(), H.shape)
    need(
        same(H, truth),
        f"the block of the classes {a} and {b} is off: X' diag(weights) X / n",
    )
    return f"{d * k} x {d * k}, with different weights in every step"


@exercise
def check_falls(answer, slope):
    """`answer`: can halving fail? ``slope(G, H)``: of t -> P(W - t D) at 0, with D =
    H^-1 G."""
    rng = cases()
    for m in (2, 5):
        A, G = rng.normal(size=(m, m)), rng.normal(size=m)
        H = A @ A.T + np.eye(m)
        found, truth = (
            number(ask(slope, G.copy(), H.copy())),
            -G @ np.linalg.solve(H, G),
        )
        need(
            not same(found, -truth),
            "the sign: the step is -D, so the chain rule has a minus",
        )
        need(
            not same(found, -G @ G),
            "that is the slope along -G; the step is -D, with D = H^-1 G",
        )
        need(
            not same(found, truth / 2),
            "that is how far the parabola falls; give its slope at 0",
        )
        need(not same(found, -G @ H @ G), "D solves H D = G; it is not H G")
        told = f"for m = {m} it is {truth:.3f}, not {found:.3f}: "
        need(
            same(found, truth),
            told + "the inner product of the gradient with the direction",
        )
    hint = "which sign has the slope, if G is not 0 and H is positive definite?"
    pick(answer, ("never", "sometimes"), "never", hint)
    return "negative unless G is 0, since H is positive definite: a short step lowers P"


@exercise
def check_price(rounds_per_step):
    """``rounds_per_step(n, d, k)``: rounds of Algorithm 1 for the operations of a
    Newton step."""
    for n, d, k in ((1437, 64, 10), (60_000, 300, 5)):
        found = number(ask(rounds_per_step, n, d, k))
        gram, factor = n * d**2, (d * k) ** 3 / 3
        one, pairs = 4 * n * d * k + 2 * d**2 * k, k * (k + 1) / 2
        truth = (pairs * gram + factor) / one
        need(not same(found, one / (pairs * gram + factor)), "invert the fraction")
        need(
            not same(found, pairs * gram / one), "those are the blocks; and the factor?"
        )
        need(not same(found, factor / one), "that is the factor; and the blocks?")
        hint = "H is symmetric: the block of a and b is also that of b and a"
        need(not same(found, (k**2 * gram + factor) / one), hint)
        need(
            not same(found, (pairs * gram + d**3 / 3) / one),
            "the matrix has d k rows, not d",
        )
        need(
            not same(found, pairs * gram + factor),
            "those are operations; divide by a round's",
        )
        case = f"for n = {n}, d = {d}, k = {k}: "
        hint = "k (k + 1) / 2 blocks and one factor"
        need(same(found / truth, 1), case + f"{truth:.1f}, not {found:.1f}; {hint}")
    return "109 rounds on the digits"
