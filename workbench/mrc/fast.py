"""MRC-CCG from a start that splitting finds (ours); all else is the paper's Algorithm
1."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import unwrap

import numpy as np

from workbench.core.checks import check_counts, check_not_negative
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.mrc.ccg import (
    CutState,
    class_means,
    lpsolve,
    many_features,
    mrc_ccg,
    price,
)
from workbench.mrc.interior_point import short_split
from workbench.mrc.master import largest
from workbench.mrc.risk import MinimaxRisk, minimax_risk
from workbench.mrc.splitting import WIDEST

LARGE = 5e6  # entries of Phi beyond which a first-order method pays with many classes
# a mean this far off the middle of its interval, in half-widths, is near its end
NEAR = 0.9


@resumable("lambda0", "eps1", "eps2", "n_max", "m_max", "k_max")
def mrc_ccg_fast(
    problem: Problem,
    *,
    lambda0: float = 0.01,
    eps1: float = 1e-2,
    eps2: float = 1e-5,
    n_max: int = 400,
    m_max: int = 400,
    k_max: int = 10_000,
    columns: bool | None = None,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Run MRC-CCG from constraints and features that a short splitting run suggests.

    The paper names such starts (section III-D) and declines them. On dense rows with
    more than :data:`LARGE` entries of Phi (samples times components), few rounds are
    left: on optdigits with 400 Fourier features 4 to 6 instead of 40. With two classes
    it gains nothing (the figure ``mrc_starts`` compares). On all other problems it is
    :func:`workbench.mrc.ccg.mrc_ccg`, which explains the parameters.

    Parameters
    ----------
    lambda0, eps1, eps2, n_max, m_max, k_max, columns : as in `mrc_ccg`

    Raises
    ------
    ValueError
        For a parameter outside its range.
    """
    check_not_negative(eps1=eps1, eps2=eps2)
    check_counts(n_max=n_max, m_max=m_max, k_max=k_max)
    if state is None:
        risk = minimax_risk(problem, lambda0)
        narrow = risk.X.shape[1] <= WIDEST
        if narrow and not risk.is_sparse and risk.n * risk.tau.size > LARGE:
            state = start(risk, n_max, columns)
    yield from unwrap(mrc_ccg)(
        problem,
        lambda0=lambda0,
        eps1=eps1,
        eps2=eps2,
        n_max=n_max,
        m_max=m_max,
        k_max=k_max,
        columns=columns,
        state=state,
    )


def start(risk: MinimaxRisk, n_max: int, columns: bool | None) -> CutState:
    """Return round 0: the solution of the program that splitting suggests, for dense
    rows.

    Each p_i of the splitting is a mixture of label subsets; the heaviest become
    constraints, behind those of the class means. The features are the components with a
    coefficient, or whose mean is near the end of its interval; all, unless `columns`
    are generated.
    """
    s = class_means(risk, n_max, many_features(risk) if columns is None else columns)
    *_, found = short_split(risk, None)
    order = np.argsort(-found.p, axis=1, kind="stable")
    p = np.take_along_axis(found.p, order, axis=1)
    alpha = (p - np.pad(p, ((0, 0), (0, 1)))[:, 1:]) * np.arange(1, risk.k + 1)
    heavy = largest(alpha.ravel(), 0.0, 2 * int(np.count_nonzero(found.M)))
    s.samples, last = np.divmod(heavy, risk.k)
    s.masks = np.argsort(order, axis=1)[s.samples] <= last[:, None]
    if not len(s.features):
        near = (found.M != 0) | (risk.ratios((risk.X.T @ found.p).T) > NEAR)
        s.features = np.flatnonzero(near & risk.active)
    s.offer(found.M_best, found.upper)
    s.raise_lower(found.lower, found.p_best, found.p_rows)
    lpsolve(risk, s)
    price(risk, s)
    return s
