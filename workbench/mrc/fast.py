"""MRC-CCG (Algorithm 1) from a start that splitting finds (ours)."""

from collections.abc import Iterator
from inspect import unwrap

import numpy as np

from workbench.core.checks import check_counts, check_not_negative
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.mrc.ccg import CutState, class_means, lpsolve, many_features, mrc_ccg
from workbench.mrc.interior_point import short_split
from workbench.mrc.master import largest
from workbench.mrc.risk import MinimaxRisk, minimax_risk
from workbench.mrc.splitting import WIDEST

# The number of entries of Phi above which splitting pays. Splitting is a first-order
# method, and starting from its result saves rounds if there are many classes.
MIN_ENTRIES = 5e6
# A mean is near the end of its interval if its distance from the middle is larger than
# this, in half-widths of the interval.
NEAR_END = 0.9


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

    The paper mentions such starts (section III-D) but does not use them. On dense rows
    with fewer than :data:`WIDEST` features and more than :data:`MIN_ENTRIES` entries of
    Phi (samples times components), few rounds are left: on optdigits with 400 Fourier
    features 4 to 6 instead of 40. With two classes there is no gain (the figure
    ``mrc_starts`` compares both). On all other problems the solver is the same as
    :func:`workbench.mrc.ccg.mrc_ccg`, which explains the parameters.

    Parameters
    ----------
    lambda0, eps1, eps2, n_max, m_max, k_max, columns : as in `mrc_ccg`

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    check_not_negative(eps1=eps1, eps2=eps2)
    check_counts(n_max=n_max, m_max=m_max, k_max=k_max)
    if state is None:
        risk = minimax_risk(problem, lambda0)
        narrow = risk.X.shape[1] <= WIDEST
        if narrow and not problem.is_sparse and risk.n * risk.tau.size > MIN_ENTRIES:
            if columns is None:
                columns = many_features(risk)
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


def start(risk: MinimaxRisk, n_max: int, columns: bool) -> CutState:
    """Return round 0 for dense rows: the program that splitting suggests.

    Each p_i of the splitting is a mixture of label subsets; the heaviest subsets become
    constraints, after those of the class means. The features are the components that
    have a coefficient, or whose mean is near the end of its interval. If `columns` is
    False, all features are taken.
    """
    s = class_means(risk, n_max, columns)
    *_, split = short_split(risk, None)
    order = np.argsort(-split.p, axis=1, kind="stable")
    p = np.take_along_axis(split.p, order, axis=1)
    following = np.pad(p, ((0, 0), (0, 1)))[:, 1:]
    alpha = (p - following) * np.arange(1, risk.k + 1)
    heavy = largest(alpha.ravel(), 0.0, 2 * int(np.count_nonzero(split.M)))
    s.samples, last = np.divmod(heavy, risk.k)
    s.masks = np.argsort(order, axis=1)[s.samples] <= last[:, None]
    if not len(s.features):
        near_end = risk.ratios((risk.X.T @ split.p).T) > NEAR_END
        s.features = np.flatnonzero(((split.M != 0) | near_end) & risk.active)
    s.offer(split.M_best, split.upper)
    s.raise_lower(split.lower, split.p_best, split.p_rows)
    lpsolve(risk, s)
    return s
