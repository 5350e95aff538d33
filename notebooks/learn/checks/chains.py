"""The checks of the lesson cuts_3; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

from itertools import product

import numpy as np

from checks.exercise import (
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


@exercise
def check_product(inner):
    """``inner(K, y, z, k)``: of the joint features of two labelled chains.

    ``K[s, t]`` is the kernel of positions s of the first and t of the second, k the
    labels.
    """
    rng, k = cases(), 3
    for y, z in (
        ([0, 1, 1, 2, 0], [0, 1, 0, 1]),
        ([2, 1, 2, 1, 2, 1], [1, 2, 1, 2, 0]),
    ):
        y, z = np.array(y), np.array(z)
        x, u = rng.normal(size=(len(y), 2)), rng.normal(size=(len(z), 2))
        found = number(ask(inner, x @ u.T, y, z, k))
        emissions = sum(x[y == c].sum(axis=0) @ u[z == c].sum(axis=0) for c in range(k))
        moves = (_moves(y, k) * _moves(z, k)).sum()
        need(
            not same(found, emissions),
            "that is the part of the positions; add that of the moves",
        )
        need(
            not same(found, (x @ u.T).sum() + moves),
            "positions with different labels contribute nothing",
        )
        aligned = sum(x[t] @ u[t] for t in range(len(z)) if y[t] == z[t])
        need(
            not same(found, aligned + moves),
            "every position is paired with every other, not only with its own",
        )
        shared = ((_moves(y, k) > 0) & (_moves(z, k) > 0)).sum()
        hint = "a move that y makes 3 times and z 2 times counts 6 times"
        need(same(moves, shared) or not same(found, emissions + shared), hint)
        told = (
            f"for y = {y.tolist()}, z = {z.tolist()} it is {emissions + moves:.3f}, "
            f"not {found:.3f}"
        )
        need(
            same(found, emissions + moves),
            told + ": which positions contribute, and which moves?",
        )
    return "kernel values between positions, and counts: x itself is not needed"


@exercise
def check_step(step):
    """``step(best, F_t, moves)``: the best scores after one position more, and where
    from."""
    rng = cases()
    best, F_t, moves = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(4, 4))
    given = best.copy()
    found = ask(step, given, F_t, moves)
    several(found, 2, "return two things: scores and sources")
    need(same(given, best), "leave `best` as it is, and return a new array")
    scores, sources = (
        array(a, (4,), name) for a, name in zip(found, ("scores", "sources"))
    )
    through = best[:, None] + moves
    turned = (best[:, None] + moves.T).max(axis=0)
    need(
        not same(scores, turned + F_t),
        "moves[a, b] is for b after a; yours is transposed",
    )
    need(
        not same(scores, through.max(axis=0)),
        "the score of the new position, F_t, is missing",
    )
    need(
        not same(scores, through[best.argmax()] + F_t),
        "that continues from the best label only; find the best a before each b",
    )
    need(
        same(scores, through.max(axis=0) + F_t),
        "scores[b]: max over a of best[a] + moves[a, b]",
    )
    need(
        same(sources, through.argmax(axis=0)),
        "the scores are right; sources[b] is that a",
    )
    return "k^2 sums per position, instead of k^T paths"


@exercise
def check_augmented(augmented):
    """``augmented(F, y)``: scores whose best path maximises loss and score together."""
    F, y = cases().normal(size=(5, 3)), np.array([0, 2, 1, 1, 0])
    given = F.copy()
    found = array(ask(augmented, given, y), F.shape, "the result")
    need(same(given, F), "leave F as it is, and return a new array")
    added, truth = found - F, (1 - np.eye(3)[y]) / 5
    # what all labels of a position get is free
    ahead = added - added[np.arange(5), y][:, None]
    need(
        not same(added, -truth),
        "the wrong labels get a bonus, not a penalty: we search for them",
    )
    need(
        not same(added, np.eye(3)[y] / 5), "that helps the true label; help the others"
    )
    need(
        not same(ahead, 5 * truth),
        "the loss is the fraction of wrong positions: divide by T",
    )
    need(not same(ahead, 0), "adding the same to all labels changes no path")
    need(
        same(ahead, truth), "how much more than y[t] should each other label get at t?"
    )
    return "the loss is a sum over positions, so Viterbi's algorithm stays the same"


@exercise
def check_alone(F, moves, y):
    """The hinge at `y` is 0, and the largest entry of every row of `F` is at another
    label."""
    y = np.asarray(y)
    F = array(F, (len(y), 2), "F").astype(float)
    moves = array(moves, (2, 2), "moves").astype(float)
    need(np.isfinite(F).all() and np.isfinite(moves).all(), "give finite numbers")
    paths = [np.array(path) for path in product(range(2), repeat=len(y))]
    others = [(path != y).mean() + _score(F, moves, path) for path in paths]
    hinge = max(others) - _score(F, moves, y)
    at = paths[int(np.argmax(others))].tolist()
    need(
        hinge < 1e-9,
        f"the hinge is {hinge:.3g}: the path {at} comes too close, or beats y",
    )
    right = np.flatnonzero(F[np.arange(len(y)), y] >= F[np.arange(len(y)), 1 - y])
    need(
        not len(right),
        f"position {right[:1].tolist()} on its own prefers its true label, or ties",
    )
    return f"a hinge of 0, and {len(y)} of {len(y)} positions wrong"


@exercise
def check_by_hand(parts, B, moves, y, z):
    """The cut of one chain whose true labels are `y` and whose most violating ones
    `z`."""
    y, z, k = np.asarray(y), np.asarray(z), int(max(max(y), max(z))) + 1
    wrong = np.flatnonzero(y != z)
    found = np.atleast_1d(parts)
    need(
        found.shape == wrong.shape and same(found, wrong),
        "parts: the positions where the two paths differ; at the others phi(x_t) "
        "cancels",
    )
    B = array(B, (len(wrong), k), "B")
    truth = (np.eye(k)[y] - np.eye(k)[z])[wrong]
    need(
        not same(B, -truth),
        "B: the sign is wrong: it is Psi of y minus Psi of the other path",
    )
    need(
        same(B, truth),
        "B: a row for each part: which label gains phi(x_t) by y, and which loses it?",
    )
    moves, counts = array(moves, (k, k), "moves"), _moves(y, k) - _moves(z, k)
    need(
        not same(moves, -counts),
        "moves: those of y minus those of z, not the other way round",
    )
    turned = same(moves, counts.T) and not same(moves, counts)
    need(not turned, "moves[a, b] counts b after a; yours is transposed")
    need(not same(moves, _moves(y, k)), "moves: those are of y; subtract those of z")
    need(
        same(moves, counts),
        "moves: write down the pairs of y and of z, and cancel equal ones",
    )
    return "one row of a kernel, and two moves made for two others: a cut is sparse"


@exercise
def check_same_C(same_C):
    """``same_C(C, L)``: for positions on their own, what is C for chains of L
    positions."""
    for C, L in ((0.3, 20), (2.0, 7)):
        found = number(ask(same_C, C, L))
        need(
            not same(found, C), "put w = v / L into both terms: they shrink differently"
        )
        need(not same(found, C / L), "that is 1/L of C; what becomes of |w|^2 / 2 ?")
        need(not same(found, C * L**2), "that is for a loss of 1, but here it is 1/L")
        need(
            same(found, C * L),
            f"for C = {C:g} and L = {L} it is {C * L:g}, not {found:g}",
        )
    return "L times as much: each of the L positions has a loss of 1 instead of 1/L"


@exercise
def check_pieces(moves_per_weight):
    """``moves_per_weight(n, L, p, k)``: of n sequences of L positions, in pieces of
    p."""
    draws = cases().integers([50, 5, 2, 3], [500, 40, 5, 9], (9, 4))
    for n, L, p, k in [(200, 20, 2, 6), (70, 11, 4, 3), *draws.tolist()]:
        found, pieces = number(ask(moves_per_weight, n, L, p, k)), -(-L // p)
        case = f"for n = {n}, L = {L}, p = {p}, k = {k}: "
        hint = "those are all moves; how many weights share them?"
        need(not same(found, n * (L - pieces)), case + hint)
        need(
            not same(found, n * L / k**2),
            case + "a piece has one move less than positions",
        )
        need(
            not same(found, n * (L - 1) / k**2),
            case + "each cut of a sequence loses a move",
        )
        floored = same(found, n * (L // p) * (p - 1) / k**2) and L % p > 1
        need(
            not floored,
            case + "the rest of a sequence is a shorter piece, which also has moves",
        )
        hint = "the rest of a sequence is also a piece, and pieces are counted whole"
        need(L % p == 0 or not same(found, n * (L - L / p) / k**2), case + hint)
        need(L % p == 0 or not same(found, n * (L - L // p) / k**2), case + hint)
        truth = n * (L - pieces) / k**2
        need(same(found, truth), case + f"it is {truth:.4g}, not {found:.4g}")
    return "half of all moves are left, and they are far more than the weights"


@exercise
def check_zero_one(least):
    """``least(g)``: is the mean of max(0, 1 - a g) least "at 0" or at a scale "above
    0"?"""
    rng = cases()
    for few in np.linspace(0.1, 0.9, 9):
        # few large values of one sign, many small ones of the other
        for sign in (1, -1):
            few_large = rng.random(40) < few
            g = sign * np.where(
                few_large, rng.uniform(2, 9, 40), rng.uniform(-1, -0.1, 40)
            )
            found, mean = ask(least, g.copy()), g.mean()
            case = f"{np.mean(g > 0):.0%} of g are above 0, their mean is {mean:.2f}: "
            hint = "what is the slope of the mean hinge at a = 0?"
            pick(
                found,
                ("at 0", "above 0"),
                "at 0" if mean <= 0 else "above 0",
                case + hint,
            )
    return "a convex function has its minimum at 0 exactly if it does not fall there"


@exercise
def check_strange(lead, share: float):
    """``lead(moves, a, b, c, d)``: what the path a, b, d needs to score as much as a,
    c, d."""
    rng = cases()
    for _ in range(9):
        moves, (a, b, c, d) = rng.normal(size=(5, 5)), rng.permutation(5)[:4]
        found = number(ask(lead, moves.copy(), a, b, c, d))
        first, second = moves[a, c] - moves[a, b], moves[c, d] - moves[b, d]
        need(
            not same(found, -first - second),
            "the sign: b needs more if c has the better moves",
        )
        need(not same(found, first), "the second move also differs: b to d, or c to d")
        turned = moves[c, a] - moves[b, a] + moves[d, c] - moves[d, b]
        need(
            not same(found, turned), "moves[a, b] is for b after a; yours is transposed"
        )
        hint = "set the scores of the two paths equal, and cancel common terms"
        need(same(found, first + second), hint)
    return f"a low weight can be outweighed: {share:.2%} of the chain's moves are such"


# What several checks use


def _moves(y: np.ndarray, k: int) -> np.ndarray:
    counts = np.zeros((k, k))
    np.add.at(counts, (y[:-1], y[1:]), 1)
    return counts


def _score(F: np.ndarray, moves: np.ndarray, path: np.ndarray) -> float:
    return F[np.arange(len(path)), path].sum() + moves[path[:-1], path[1:]].sum()
