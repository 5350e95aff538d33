"""The paper's bounds on rounds and on the objective (sections 4.1 and 4.2), to hold
against runs.

The paper's C is the weight of the mean loss, n times the solvers' `C`. Its ``loss`` is
the largest loss Delta, and R the longest dPsi. An excess is in units of the loss: over
the optimum, and over C.
"""

from __future__ import annotations

import math


def rounds(C: float, eps: float, R: float = 1.0, loss: float = 1.0) -> float:
    """Return how many cuts can be violated by more than `eps` (Theorem 1, Corollaries 1
    and 2).

    Each of them adds min(eps^2 / 8 R^2, C eps / 2) to the dual, which is C Delta at
    most. Printed is the first of the two, 8 C Delta R^2 / eps^2, which is too small if
    eps > 4 C R^2.
    """
    return max(8.0 * C * R**2 / eps**2, 2.0 / eps) * loss


def deviation(
    C: float, r: int, failure: float, R: float = 1.0, loss: float = 1.0
) -> float:
    """Return by how much a cut of `r` violators exceeds the exact cut at a fixed v
    (Lemma 3).

    It exceeds it by more with a probability of `failure` at most, if |v|^2 <= 2 C
    Delta: Hoeffding, as every v.dPsi is within sqrt(2 C Delta) R of 0, and the share of
    violators is 1 at most.
    """
    return math.sqrt(4.0 * C * loss * R**2 / r * math.log(1.0 / failure))


def linear_time_excess(
    C: float, eps: float, r: int, failure: float, R: float = 1.0, loss: float = 1.0
) -> float:
    """Return the excess of Algorithm 3 (Theorem 2), which a run exceeds as seldom as
    `failure`.

    The proof takes the samples as uniform, although those are drawn again whose cut is
    satisfied.
    """
    return eps + deviation(C, r, failure / rounds(C, eps, R, loss), R, loss)


def constant_time_excess(
    C: float,
    eps: float,
    r: int,
    p: int,
    failure: float,
    R: float = 1.0,
    loss: float = 1.0,
) -> float:
    """Return the excess of Algorithm 2 (Theorem 3), exceeded as seldom as twice
    `failure`.

    The constants are lost in our copy; these are Hoeffding's. A sampled cut at the
    optimum, and the loss of the last sample, are means of numbers in intervals of these
    two lengths, once in each round, of which there are p times one more than
    :func:`rounds`.
    """
    reach = math.sqrt(2.0 * C * loss) * R
    most = p * (rounds(C, eps, R, loss) + 1.0)
    return eps + (2.0 * loss + 3.0 * reach) * math.sqrt(
        math.log(most / failure) / (2.0 * r)
    )
