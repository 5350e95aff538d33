"""Tilts: which rows are certainly wrong between two knots, where a ball wastes too much (T3).

For any direction E, any d (n, k), 0 where j = y_i, any mu > 0 with 0 <= A + mu d <= C, and G of at
least the duality gap at (V_A, A),

    <E, W*> <= <E, V_A> + G / mu - sum_ij d_ij z_ij + mu/2 |E + V_d|^2.

d = 0 is a ball. Free pairs (0 < A < C, where z = 0) cost nothing and cancel what of E they span.
Any d is valid. With rho_f the room of pair f to its bounds, X_f = x_i (e_{y_i} - e_j)' and
Phi = rho X, it is taken from a ridge problem: d = -rho (Phi Phi' + nu I)^{-1} Phi E, for E =
x (e_y - e_p)', whose bound below 0 says that class p beats y.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from workbench.core.measures import EPS
from workbench.tuning.state import EDGES, PIECES, Part
from workbench.weston_watkins.pivoting import dense, differences, products

RIDGES = (1e-3, 1e-2, 1e-1)  # nu over the median diagonal
PAIRS = 1500  # with the most room
ROOM = 1e-6  # least room of a pair to its bounds, relative to C


def tilted(part: Part, *, rows, duals, most, W, scores, G, slack) -> np.ndarray:
    """Return (pieces, m) which validation rows are certainly wrong in each piece of an interval.

    Parameters
    ----------
    rows : (u,) the undecided ones
    duals, most : dual points (n, k) of both knots, and their bounds (n, 1)
    W, scores : of both knots, the scores of validation rows
    G : the largest r^2(t) of each piece
    slack : (m,) by how much rounding may move a margin
    """
    problem, k = part.problem, part.problem.k
    proven = np.zeros((PIECES, len(part.y)), dtype=bool)
    y, middle = part.y[rows], scores[0][rows] + scores[1][rows]
    middle[np.arange(len(rows)), y] -= 1e-9 * np.abs(middle).max(initial=0.0)
    p = middle.argmax(axis=1)
    rows, y, p = rows[p != y], y[p != y], p[p != y]
    # The room is concave in t, so that inside it is at least the smaller one of both ends.
    room = np.minimum.reduce([np.minimum(A, C - A) for A, C in zip(duals, most, strict=True)])
    room[np.arange(problem.n), problem.y] = 0.0
    pairs = np.argsort(-room, axis=None)[:PAIRS]
    pairs = pairs[room.ravel()[pairs] > ROOM * most[1].max()]
    if not len(rows) or not len(pairs):
        return proven
    i, j = np.unravel_index(pairs, room.shape)
    rho, own = room[i, j], problem.y[i]
    M = products(problem, i, j) * rho[:, None] * rho
    at, place = np.unique(i, return_inverse=True)
    X, E = dense(problem.X[at]), dense(part.X[rows])
    T = rho[:, None] * (X @ E.T)[place] * (differences(own, j, k) @ differences(y, p, k).T)
    square = 2.0 * part.lengths[rows] ** 2
    z = [rho * (1.0 - V[place, own] + V[place, j]) for V in (X @ W[0], X @ W[1])]
    ahead = [V[rows, y] - V[rows, p] for V in scores]
    lengths = np.sqrt(2.0) * np.sqrt(part.norms[i]) * rho
    unit = slack.max(initial=0.0) / max(part.lengths.max(initial=0.0), EPS)
    diagonal = np.diag_indices(len(i))
    median = float(np.median(M[diagonal]))
    for ridge in RIDGES:
        shifted = M.astype(np.float32)  # only d comes from it, and any d is valid
        shifted[diagonal] += np.float32(ridge * median)
        factor, singular = lapack.spotrf(shifted.T, lower=0, overwrite_a=1, clean=0)
        if singular:
            continue
        c = lapack.spotrs(factor, T, lower=0)[0].astype(float)  # d = -rho c
        sizes = np.abs(c)
        largest = np.maximum(sizes.max(axis=0), 1e-300)
        whole = np.sqrt(square) + lengths @ sizes
        E_d = square - 2.0 * (c * T).sum(axis=0) + (c * (M @ c)).sum(axis=0)
        E_d += EPS * (len(i) + problem.d + 10.0) * whole**2
        cost = slack[rows] + (unit + 2.0 * EPS) * (lengths @ sizes)
        cost += EPS * len(i) * ((np.abs(z[0]) + np.abs(z[1])) @ sizes)
        bounds = [over + z_i @ c + cost for over, z_i in zip(ahead, z, strict=True)]
        for q in range(PIECES):
            mu = np.minimum(np.sqrt(2.0 * G[q] / np.maximum(E_d, 1e-300)), (1.0 - 1e-9) / largest)
            ends = [(1.0 - t) * bounds[0] + t * bounds[1] for t in EDGES[q : q + 2]]
            bound = np.maximum(*ends) + (G[q] / mu + 0.5 * mu * E_d) * (1.0 + 1e-12)
            proven[q, rows[bound < 0.0]] = True
    return proven
