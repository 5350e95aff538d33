"""The bounds of Theorems 1 and 2 of MEMOIR's paper, corrected where they cannot hold as
printed.

All are upper bounds, easily above 1 or above the objective of W = 0, and returned as
they are. "Inexact" is a margin whose search missed the best wrong class: it is too
large, by its shortfall. (The paper's definition has the sign the other way round, with
which every margin is inexact.)
"""

from __future__ import annotations

import numpy as np

from workbench.core.checks import check_not_negative, check_positive


def risk_bound(
    margins: np.ndarray,
    *,
    k: int,
    norm: float,
    length: float = 1.0,
    rho: float = 1.0,
    eps: float = 0.0,
    delta: float = 0.05,
) -> float:
    """Bound the share of wrong answers on new rows by the margins of the training rows.

    Theorem 1, (4): with probability 1 - delta over n rows drawn independently, for all
    (d, k) weights of at most this norm, the risk is at most

        (1 + eps) hinge_{rho (1 + eps)} + (4 k / rho) length norm / sqrt(n)
        + 3 sqrt(log(4 / delta) / (2 n)),
        hinge_rho = mean_i max(0, 1 - margin_i / rho).

    Corrected: the paper leaves out the factor 1 + eps. A true margin m >= m' - eps rho
    has 1 - m / rho <= 1 + eps - m' / rho, which is (1 + eps) (1 - m' / (rho (1 +
    eps))). And the shortfall must exceed eps rho with probability delta / (2 n) at most
    for each row: with the paper's delta / n, both things that can go wrong add up to
    3/2 delta.

    Parameters
    ----------
    margins : (n,) margins x_i.w_{y_i} - x_i.w_r with the classes r that a search found
    k : number of classes
    norm, length : largest norms of the weights, Omega, fixed before the rows are drawn
        (not read off the weights that they trained), and of the rows, R
    rho : margin from which on a row counts as right, positive
    eps : largest shortfall of a margin, in units of rho, not negative
    delta : probability of failure, in (0, 1)

    Raises
    ------
    ValueError
        Naming the argument that is out of its range.
    """
    rho = check_positive(rho, "rho")
    check_not_negative(eps=eps, norm=norm, length=length)
    _check_share(delta)
    margins = np.asarray(margins, float)
    n = margins.size
    if n == 0 or not k >= 2:
        what = (
            "margins: must be of at least one row"
            if n == 0
            else "k: must be at least 2 classes"
        )
        raise ValueError(f"{what}, got {n if n == 0 else k!r}")
    hinge = (1 + eps) * np.maximum(0.0, 1.0 - margins / (rho * (1 + eps))).mean()
    complexity = 4 * k / rho * length * norm / np.sqrt(n)
    return float(hinge + complexity + 3 * np.sqrt(np.log(4 / delta) / (2 * n)))


def l2_bound(
    steps, *, lam: float, eps: float = 0.0, missed: float = 0.0, delta: float = 0.05
):
    """Bound how far the mean of the first T iterates of MEMOIR-l2 lies above the
    optimum.

    Theorem 2, for rows of norm 1 at most, one row per step, drawn independently and
    uniformly, projection, and eta_t = 1 / (lam t):

        G^2 (1 + log T) / (2 lam T) + psi,   G = sqrt(lam) + 2 + eps,
        psi = min(B, (1 - missed) eps + missed B + sqrt(log(1 / delta) / (lam T))),
        B = sqrt(2 / lam).

    An answer whose score falls short by s makes the step one along an s-subgradient of
    P: the hinge is at least 1 + (w_r - w_y).x for every r, and at W itself at most s
    more. So the mean of P(W_t) - P* keeps the mean shortfall, which psi bounds, however
    small the steps become; with one row per step, G = sqrt(lam) + sqrt(2) would do, and
    the paper's is larger.

    Corrected: the paper prints G for its square, which is that of the subgradients'
    norm. It has 1 / sqrt(lam) for B, the largest shortfall of a score; but of |W| <= 1
    / sqrt(lam), two columns differ by sqrt(2) times that, as its last term has it. Its
    n is T here. In the paper the bound holds with probability 1 - delta. That much is
    true of psi, while the first term is for the mean over the rows drawn: a run may lie
    above it, by a constant and a log(1 / delta).

    Parameters
    ----------
    steps : T >= 1, or an array of such
    lam : weight of the regularisation, positive
    eps, missed : a margin's shortfall is at most `eps` with probability 1 - `missed`
    delta : probability of failure, in (0, 1)

    Returns
    -------
    float, or an array of the shape of `steps`

    Raises
    ------
    ValueError
        Naming the argument that is out of its range.
    """
    lam = check_positive(lam, "lam")
    check_not_negative(eps=eps)
    _check_share(delta)
    if not 0 <= missed <= 1:
        raise ValueError(f"missed: must lie in [0, 1], got {missed!r}")
    T = np.asarray(steps, float)
    if not np.all(T >= 1):
        raise ValueError(f"steps: must be at least 1, got {steps!r}")
    G, largest = np.sqrt(lam) + 2 + eps, np.sqrt(2 / lam)
    chance = np.sqrt(np.log(1 / delta) / (lam * T))
    psi = np.minimum(largest, (1 - missed) * eps + missed * largest + chance)
    bound = G**2 * (1 + np.log(T)) / (2 * lam * T) + psi
    return bound if bound.ndim else float(bound)


def _check_share(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta: must lie strictly between 0 and 1, got {delta!r}")
