"""The checks of the lesson cuts_3; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

from itertools import product

import numpy as np

from checks.exercise import array, ask, exercise, need, number, same


@exercise
def check_product(inner):
    """``inner(K, y, z, k)``: of the joint features of two labelled chains.

    ``K[s, t]`` is the kernel of positions s of the first and t of the second, k the labels.
    """
    rng = np.random.default_rng(0)
    x, u, k = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), 3
    y, z = np.array([0, 1, 1, 2, 0]), np.array([0, 1, 0, 1])
    found = number(ask(inner, x @ u.T, y, z, k))
    emissions = sum(x[y == c].sum(axis=0) @ u[z == c].sum(axis=0) for c in range(k))
    moves = (_moves(y, k) * _moves(z, k)).sum()
    need(not same(found, emissions), "that is the part of the positions; add that of the moves")
    need(not same(found, (x @ u.T).sum() + moves), "positions with different labels do not meet")
    aligned = sum(x[t] @ u[t] for t in range(4) if y[t] == z[t])
    need(not same(found, aligned + moves), "every position meets every other, not only its twin")
    need(same(found, emissions + moves), f"for two chains it is {emissions + moves:.3f}")
    return "values of a kernel between positions, and counts: x itself is nowhere needed"


@exercise
def check_step(step):
    """``step(best, F_t, moves)``: the best scores after one position more, and where from."""
    rng = np.random.default_rng(0)
    best, F_t, moves = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(4, 4))
    given = best.copy()
    found = ask(step, given, F_t, moves)
    need(isinstance(found, tuple) and len(found) == 2, "return two things: scores and sources")
    need(same(given, best), "leave `best` as it is, and return a new array")
    scores, sources = (array(a, (4,), name) for a, name in zip(found, ("scores", "sources")))
    through = best[:, None] + moves
    turned = (best[:, None] + moves.T).max(axis=0)
    need(not same(scores, turned + F_t), "moves[a, b] is for b after a; yours is turned around")
    need(not same(scores, through.max(axis=0)), "the score of the new position, F_t, is missing")
    need(
        not same(scores, through[best.argmax()] + F_t),
        "that goes on from the best label alone; ask for each b which a is the best before it",
    )
    need(same(scores, through.max(axis=0) + F_t), "scores[b]: max over a of best[a] + moves[a, b]")
    need(same(sources, through.argmax(axis=0)), "the scores are right; sources[b] is that a")
    return "k^2 sums per position, instead of k^T paths"


@exercise
def check_augmented(augmented):
    """``augmented(F, y)``: scores whose best path maximises loss and score together."""
    F, y = np.random.default_rng(0).normal(size=(5, 3)), np.array([0, 2, 1, 1, 0])
    given = F.copy()
    found = array(ask(augmented, given, y), F.shape, "the result")
    need(same(given, F), "leave F as it is, and return a new array")
    added, truth = found - F, (1 - np.eye(3)[y]) / 5
    need(not same(added, -truth), "the wrong labels get a bonus, not a fine: they are looked for")
    need(not same(added, np.eye(3)[y] / 5), "that helps the true label; help the others")
    need(not same(added, 5 * truth), "the loss is the share of wrong positions: divide by T")
    need(not same(added, added[0, 0]), "what all labels get changes no path")
    need(same(added, truth), "each label but y[t] gets 1/T more at position t")
    return "the loss is a sum over positions, and Viterbi need not know of it"


@exercise
def check_alone(F, moves, y):
    """The hinge at `y` is 0, and the largest entry of every row of `F` is at another label."""
    y = np.asarray(y)
    F = array(F, (len(y), 2), "F").astype(float)
    moves = array(moves, (2, 2), "moves").astype(float)
    paths = [np.array(path) for path in product(range(2), repeat=len(y))]
    others = [(path != y).mean() + _score(F, moves, path) for path in paths]
    hinge = max(others) - _score(F, moves, y)
    at = paths[int(np.argmax(others))].tolist()
    need(hinge < 1e-9, f"the hinge is {hinge:.3g}: the path {at} comes too close, or beats y")
    right = np.flatnonzero(F[np.arange(len(y)), y] >= F[np.arange(len(y)), 1 - y])
    need(not len(right), f"position {right[:1]} on its own prefers its true label, or ties")
    return f"a hinge of 0, and {len(y)} of {len(y)} positions wrong"


@exercise
def check_by_hand(parts, B, moves, y, z):
    """The cut of one chain whose true labels are `y` and whose most violating ones `z`."""
    y, z, k = np.asarray(y), np.asarray(z), int(max(max(y), max(z))) + 1
    wrong = np.flatnonzero(y != z)
    found = np.atleast_1d(parts)
    need(
        found.shape == wrong.shape and same(found, wrong),
        "parts: the positions where the two paths differ; at the others phi(x_t) cancels",
    )
    B = array(B, (len(wrong), k), "B")
    truth = (np.eye(k)[y] - np.eye(k)[z])[wrong]
    need(not same(B, -truth), "B: the sign is turned; +1 at the true label, -1 at the other")
    need(same(B, truth), "B: a row for each wrong position, +1 at its label and -1 at the other")
    moves, counts = array(moves, (k, k), "moves"), _moves(y, k) - _moves(z, k)
    need(not same(moves, -counts), "moves: those of y less those of z, not the other way round")
    turned = same(moves, counts.T) and not same(moves, counts)
    need(not turned, "moves[a, b] counts b after a; yours is turned around")
    need(not same(moves, _moves(y, k)), "moves: those are of y; take off those of z")
    need(same(moves, counts), "moves: write down the pairs of y and of z, and cross out equal ones")
    return "one row of a kernel and two moves: a cut is sparse"


@exercise
def check_same_C(same_C):
    """``same_C(C, L)``: for positions on their own, what is C for chains of L positions."""
    for C, L in ((0.3, 20), (2.0, 7)):
        found = number(ask(same_C, C, L))
        need(not same(found, C), "put w = v / L into both terms: they shrink differently")
        need(not same(found, C / L), "that is 1/L of C; what is left of |w|^2 / 2 ?")
        need(not same(found, C * L**2), "that is with a loss of 1, and it is one of 1/L")
        need(same(found, C * L), f"for C = {C:g} and L = {L} it is {C * L:g}, not {found:g}")
    return "L times as much: each of the L positions has a loss of 1, and had one of 1/L"


@exercise
def check_pieces(answer, alone: float, pairs: float, whole: float):
    """`answer`: which part of the way from `alone` to `whole` pieces of two positions make."""
    need(answer in ("less", "more"), 'answer "less" or "more"')
    share = (alone - pairs) / (alone - whole)
    truth = "more" if share > 0.5 else "less"
    need(answer == truth, "no: how many moves are there in 2 positions, and how many weights?")
    return f"{alone:.1%} alone, {pairs:.1%} in pairs, {whole:.1%} whole: {share:.0%} of the way"


@exercise
def check_zero_one(answer, scales: np.ndarray, risks: np.ndarray):
    """`answer`: whether the risks over the scales are least at 0 or above it."""
    need(answer in ("at 0", "above 0"), 'answer "at 0" or "above 0"')
    least = scales[np.argmin(risks)]
    truth = "above 0" if least > 0 else "at 0"
    need(answer == truth, "no: how many paths are right from end to end? What do others pay?")
    return f"{risks.min():.2f} at a scale of {least:g}, and {risks[-1]:.2f} at {scales[-1]:g}"


@exercise
def check_strange(answer, share: float):
    """`answer`: how many of a chain's moves never occur in training, given their `share`."""
    need(answer in ("never", "seldom", "often"), 'answer "never", "seldom" or "often"')
    truth = "never" if share == 0 else "seldom" if share <= 0.01 else "often"
    need(answer == truth, "no: its weight is low, and finite; what would outweigh it?")
    return f"{share:.2%} of all moves"


# What several checks use


def _moves(y: np.ndarray, k: int) -> np.ndarray:
    counts = np.zeros((k, k))
    np.add.at(counts, (y[:-1], y[1:]), 1)
    return counts


def _score(F: np.ndarray, moves: np.ndarray, path: np.ndarray) -> float:
    return F[np.arange(len(path)), path].sum() + moves[path[:-1], path[1:]].sum()
