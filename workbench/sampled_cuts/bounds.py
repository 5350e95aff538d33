"""The paper's bounds on rounds and on the objective (sections 4.1 and 4.2), for
comparison with runs.

The paper's C is the weight of the mean loss, which is n times the solvers' `C`. Here
``loss`` is the largest loss Delta, and R is the largest norm of dPsi. An excess is the
distance from the optimum, divided by C, so that it has the unit of the loss.
"""

import math


def rounds(C: float, eps: float, R: float = 1.0, loss: float = 1.0) -> float:
    """Return how many cuts can be violated by more than `eps` (Theorem 1).

    Each of these cuts raises the dual by at least min(eps^2 / 8 R^2, C eps / 2), and
    the dual is at most C Delta. The paper prints only the first of the two resulting
    numbers, 8 C Delta R^2 / eps^2, which is too small if eps > 4 C R^2.
    """
    return max(8.0 * C * R**2 / eps**2, 2.0 / eps) * loss


def deviation(
    C: float, r: int, failure: float, R: float = 1.0, loss: float = 1.0
) -> float:
    """Return a bound on the excess of a cut of `r` violators (Lemma 3).

    The excess is over the exact cut. The probability of a larger one is at most
    `failure` if |v|^2 <= 2 C Delta. This is Hoeffding's inequality: |v.dPsi| is at most
    sqrt(2 C Delta) R, and the fraction of violators is at most 1.
    """
    return math.sqrt(4.0 * C * loss * R**2 / r * math.log(1.0 / failure))


def linear_time_excess(
    C: float, eps: float, r: int, failure: float, R: float = 1.0, loss: float = 1.0
) -> float:
    """Return the excess that a run of Algorithm 3 exceeds with a probability of at most
    `failure` (Theorem 2).

    The proof assumes uniform samples, although the algorithm draws a sample again if
    its cut is satisfied.
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
    """Return the excess that a run of Algorithm 2 exceeds with a probability of at most
    twice `failure` (Theorem 3).

    The constants are not legible in our copy of the paper; these follow from
    Hoeffding's inequality. Every round has a sampled cut at the optimum and the loss of
    a sample, which are means of numbers in intervals of two lengths. The number of
    rounds is at most p times one more than :func:`rounds`.
    """
    reach = math.sqrt(2.0 * C * loss) * R
    samples = p * (rounds(C, eps, R, loss) + 1.0)
    return eps + (2.0 * loss + 3.0 * reach) * math.sqrt(
        math.log(samples / failure) / (2.0 * r)
    )
