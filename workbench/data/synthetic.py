"""Generated data sets; each problem says that it is synthetic."""

from __future__ import annotations

import numpy as np

from workbench.core.problem import Problem, as_problem
from workbench.data.sequences import SequenceProblem, as_sequences


def synthetic(n: int = 1_000, d: int = 20, k: int = 5, seed: int = 0) -> Problem:
    """Return overlapping Gaussian classes of equal size: n rows, d features, n >= k >= 2 classes.

    The typical distance of two class centres is three standard deviations of the noise: two
    classes that far apart are confused at the rate Phi(-1.5), 7 %.
    """
    check_sizes(n, d, k)
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, d)) * (3 / np.sqrt(2 * d))
    y = rng.permutation(np.arange(n) % k)
    X = rng.standard_normal((n, d))
    X += centres[y]
    about = "synthetic Gaussian classes, centres 3 standard deviations apart"
    return as_problem(X, y, name=f"synthetic {n}x{d}x{k}", synthetic=True, about=about)


def checkers(n: int = 10_000, seed: int = 0, *, squares: int = 4) -> Problem:
    """Return rows on a checkerboard, uniform in the unit square, labelled by colour; float32.

    Noise is added to the coordinates, of a standard deviation of 0.02 sides of the board: the best
    possible error is about 9 %.

    Parameters
    ----------
    n : rows, at least 2
    squares : number per side, at least 2
    """
    check_sizes(n, 2, 2)
    if squares < 2:
        raise ValueError(f"squares: must be at least 2, got {squares!r}")
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    y = np.floor(squares * X).astype(int).sum(axis=1) % 2
    y[:2] = 0, 1  # both classes, even of two rows
    X += 0.02 * rng.standard_normal((n, 2))
    about = f"synthetic: a board of {squares} x {squares} squares, noise of 0.02 sides"
    name = f"checkers {n}" + (f" of {squares}x{squares}" if squares != 4 else "")
    return as_problem(X.astype(np.float32), y, name=name, synthetic=True, about=about)


def chain(
    n: int = 600, length: int = 20, states: int = 6, seed: int = 0, *, test: int = 200
) -> SequenceProblem:
    """Return sequences of a hidden Markov model with overlapping states, three blobs each.

    A position alone determines little of its state, the order of states much: two others follow
    each state with probabilities 0.7 and 0.2, and all others share the rest. The first sequences
    begin with all states in turn, so that none is missing.

    Parameters
    ----------
    n, test : training and test sequences, at least as many as states, and 0
    length : positions of each, at least 1
    states : at least 3
    """
    for name, value, least in (("states", states, 3), ("n", n, states), ("length", length, 1)):
        if value < least:
            raise ValueError(f"{name}: must be at least {least}, got {value!r}")
    rng = np.random.default_rng(seed)
    centres = 4.0 * rng.standard_normal((states, 3, 2))
    moves = np.full((states, states), 0.1 / max(states - 2, 1))
    order = rng.permutation(states)
    for place, state in enumerate(order):
        moves[state, order[(place + 1) % states]] = 0.7
        moves[state, order[(place + 2) % states]] = 0.2
    moves /= moves.sum(axis=1, keepdims=True)
    y = np.empty((n + test, length), int)
    y[:, 0] = rng.integers(states, size=n + test)
    y[: min(states, n), 0] = np.arange(min(states, n))
    for t in range(1, length):
        u = rng.random((n + test, 1))
        y[:, t] = (u > moves[y[:, t - 1]].cumsum(axis=1)).sum(axis=1).clip(0, states - 1)
    X = centres[y, rng.integers(3, size=y.shape)] + rng.standard_normal((*y.shape, 2))
    X, about = X.astype(np.float32), f"synthetic: a hidden Markov model of {states} states"
    options = {"name": f"chain {n}x{length}x{states}", "synthetic": True, "about": about}
    return as_sequences(X[:n], y[:n], X_test=X[n:], y_test=y[n:], **options)


def check_sizes(n: int, d: int, k: int) -> None:
    """Raise a ValueError unless n >= k >= 2 and d >= 1."""
    if k < 2:
        raise ValueError(f"k: must be at least 2, got {k!r}")
    if n < k:
        raise ValueError(f"n: must be at least k = {k}, so that no class is empty, got {n!r}")
    if d < 1:
        raise ValueError(f"d: must be at least 1, got {d!r}")
