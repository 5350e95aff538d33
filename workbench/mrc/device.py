"""What an iteration of the splitting needs beyond products, for arrays of any library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from workbench.arrays import Library


class Kit(NamedTuple):
    """How NumPy's arrays go to where the iterations are and come back, and what differs there."""

    put: Callable
    get: Callable
    take: Callable
    prox_of_max: Callable
    relax: Callable
    times: Callable


def elsewhere(library: Library) -> Kit:
    """Return the kit for another library's arrays."""
    xp, put, get = library

    def take(X, rows):
        return xp.take(X, put(rows), axis=0)

    return Kit(put, get, take, partial(prox_of_max, xp), relax, lambda X, P: X.T @ P)


def prox_of_max(xp, Z, mass: float, phi: float) -> tuple:
    """Return what :func:`workbench.mrc.splitting.prox_of_max` does, of whole arrays."""
    t = psi(xp, Z)
    clipped = xp.where(Z < t, Z, t)
    for _ in range(200):
        above = xp.astype(clipped > phi, Z.dtype)
        count = float(xp.sum(above))
        if count == 0:
            phi = float(xp.max(t)) - mass
            continue
        total = float(xp.sum((clipped - phi) * above, dtype=xp.float64))
        phi += (total - mass) / count
        if abs(total - mass) <= 1e-6 * mass:
            break
    over = clipped - phi
    return (over + abs(over)) / 2, phi


def psi(xp, V):
    """Return psi of each row, (n, 1): the largest (v_1 + ... + v_r - 1) / r, v descending."""
    sorted = xp.sort(V, axis=1, descending=True)
    counts = xp.cumulative_sum(0 * V + 1, axis=1)
    return xp.max((xp.cumulative_sum(sorted, axis=1) - 1) / counts, axis=1, keepdims=True)


def relax(Z, S, P, relaxation: float):
    """Return Z + relaxation (S - prox(Z)) with prox(Z) = Z - P."""
    return Z + relaxation * (S - Z + P)
