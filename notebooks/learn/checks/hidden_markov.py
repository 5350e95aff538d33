"""Sequences of a hidden Markov model, generated for the lesson on chains."""

from __future__ import annotations

import numpy as np

from workbench.core.problem import as_problem
from workbench.core.structures import SequenceProblem, as_sequences


def chain(
    n: int = 600, length: int = 20, states: int = 6, seed: int = 0, *, test: int = 200
) -> SequenceProblem:
    """Return sequences of a hidden Markov model with overlapping states, three blobs
    each.

    A position alone determines little of its state, the order of states much: two
    others follow each state with probabilities 0.7 and 0.2, and all others share the
    rest. The first sequences begin with all states in turn, so that none is missing.

    Parameters
    ----------
    n, test : training and test sequences, at least as many as states, and 0
    length : positions of each, at least 1
    states : at least 3
    """
    for name, value, least in (
        ("states", states, 3),
        ("n", n, states),
        ("length", length, 1),
    ):
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
        y[:, t] = (
            (u > moves[y[:, t - 1]].cumsum(axis=1)).sum(axis=1).clip(0, states - 1)
        )
    X = centres[y, rng.integers(3, size=y.shape)] + rng.standard_normal((*y.shape, 2))
    X, about = (
        X.astype(np.float32),
        f"synthetic: a hidden Markov model of {states} states",
    )
    options = {
        "name": f"chain {n}x{length}x{states}",
        "synthetic": True,
        "about": about,
    }
    rows = {"X_test": X[n:].reshape(-1, 2), "y_test": y[n:].ravel()} if test else {}
    problem = as_problem(X[:n].reshape(-1, 2), y[:n].ravel(), **rows, **options)
    starts = (
        np.arange(0, n * length + 1, length),
        np.arange(0, test * length + 1, length),
    )
    return as_sequences(problem, *starts)
