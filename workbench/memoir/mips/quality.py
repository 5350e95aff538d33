"""The inexactness of a search: its recall, and the margin's epsilon."""

from __future__ import annotations

import numpy as np

from workbench.core.problem import Matrix
from workbench.memoir.mips.exact import score_blocks
from workbench.memoir.mips.oracle import Oracle


def inexactness(
    oracle: Oracle, W: Matrix, X: Matrix, rows: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """Compare the oracle's answers for some rows with all scores under the (d, k) weights `W`.

    The margin of a row is x.w_y - max x.w_c over the other classes. With the score of an answer
    instead of the largest it can only grow, by the epsilon >= 0 measured here. MEMOIR's paper
    calls a margin (epsilon, delta) inexact if it is at most epsilon with probability 1 - delta.

    The oracle's clock and its generator stay as they were: looking must not change a run.

    Returns
    -------
    dict
        recall : share of rows, in [0, 1], whose answer has the largest score, a tie included;
        epsilon_mean, epsilon_p95, epsilon_max : over the rows, in units of scores
        (all are nan if there are no rows)
    """
    rows, y = np.asarray(rows, dtype=np.int64), np.asarray(y)
    seconds, rng = oracle.query_seconds, getattr(oracle, "rng", None)
    before = None if rng is None else rng.bit_generator.state
    answers = oracle.query(X, rows, y)
    oracle.query_seconds = seconds
    if rng is not None:
        rng.bit_generator.state = before
    if not len(rows):
        return dict.fromkeys(("recall", "epsilon_mean", "epsilon_p95", "epsilon_max"), np.nan)
    epsilon = np.empty(len(rows))
    for part, F in score_blocks(X, W, rows):
        places = np.arange(len(F))
        given = F[places, answers[part]].astype(np.float64)
        F[places, y[part]] = -np.inf
        epsilon[part] = F.max(axis=1) - given
    return {
        "recall": float(np.mean(epsilon <= 0)),
        "epsilon_mean": float(epsilon.mean()),
        "epsilon_p95": float(np.quantile(epsilon, 0.95)),
        "epsilon_max": float(epsilon.max()),
    }
