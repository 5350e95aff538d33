"""The losses Phi(u) - y.u of generalized linear models with the link g = grad Phi
(Section 2.2), up to a constant, and the squared hinge, which is not of this form.

Each link is a compiled function of scores ``F`` (m, k), class codes ``y`` (m,),
residuals ``R`` (m, k) and ``weights`` (m,). It writes the gradient of the loss, g(F) -
y, to ``R``, which may be ``F``, and returns the sum of the losses. The residuals and
the loss of a row are multiplied by its weight.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from workbench.core.checks import check_known
from workbench.kernels.compiled import njit


class Link(NamedTuple):
    """A link's Lipschitz constant and its compiled function."""

    L: float
    residuals: Callable


@njit(cache=False, nogil=True)
def target(y, i, c):
    """Return 1 if row i has label c, else 0, in single precision to keep F's type."""
    return np.float32(y[i] == c)


@njit(cache=False, nogil=True)
def weighed(loss, R, i, weights):
    """Return row i's loss times its weight, and multiply its residuals by it."""
    for c in range(R.shape[1]):
        R[i, c] *= weights[i]
    return weights[i] * loss


@njit(nogil=True)
def identity(F, y, R, weights):
    """1/2 |u - y|^2: least squares."""
    total = 0.0
    for i in range(F.shape[0]):
        loss = 0.0
        for c in range(F.shape[1]):
            r = F[i, c] - target(y, i, c)
            R[i, c] = r
            loss += 0.5 * float(r) * float(r)
        total += weighed(loss, R, i, weights)
    return total


@njit(nogil=True)
def softmax(F, y, R, weights):
    """log sum_c exp(u_c) - y.u: the multinomial logit."""
    total = 0.0
    for i in range(F.shape[0]):
        largest = F[i].max()
        own = F[i, 0] - F[i, 0]  # zero, in F's type
        mass = 0.0
        for c in range(F.shape[1]):
            u = F[i, c] - largest
            own += target(y, i, c) * u
            R[i, c] = np.exp(u)
            mass += float(R[i, c])
        whole = R.dtype.type(mass)
        for c in range(F.shape[1]):
            R[i, c] = R[i, c] / whole - target(y, i, c)
        total += weighed(np.log(mass) - float(own), R, i, weights)
    return total


@njit(nogil=True)
def squared_hinge(F, y, R, weights):
    """sum_c max(0, 1 - t_c u_c)^2, t_c = 2 y_c - 1: the L2-loss SVM, one-vs-rest."""
    total = 0.0
    for i in range(F.shape[0]):
        loss = 0.0
        for c in range(F.shape[1]):
            t = 2.0 * target(y, i, c) - 1.0
            short = max(1.0 - t * F[i, c], 0.0)
            R[i, c] = -2.0 * t * short
            loss += float(short) * float(short)
        total += weighed(loss, R, i, weights)
    return total


# The magnitudes in row i of diag(p) - pp' sum to 2 p_i (1 - p_i) <= 1/2. So by
# Gershgorin, L of the softmax is 1/2 (footnote 3); this value is attained.
LINKS = {
    "identity": Link(1.0, identity),
    "softmax": Link(0.5, softmax),
    "squared_hinge": Link(2.0, squared_hinge),
}


def check_link(link: str) -> Link:
    """Return the link of this name; for others, a ValueError lists the names."""
    check_known(link, LINKS, "link")
    return LINKS[link]
