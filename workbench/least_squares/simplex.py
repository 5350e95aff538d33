"""The Euclidean projection onto the probability simplex (Duchi et al., ICML 2008)."""

from __future__ import annotations

from workbench.kernels.compiled import njit


@njit(cache=True, nogil=True)
def project(V):
    """Put every row of (n, k) `V` onto {v >= 0, sum v = 1}, in place.

    The threshold of a row is found without sorting: from the mean of what is above it, which
    leaves out more and more entries and never one that the projection keeps (Michelot, 1986).
    """
    n, k = V.shape
    for i in range(n):
        above, theta = k, 0.0
        for c in range(k):
            theta += V[i, c]
        theta = (theta - 1.0) / k
        while True:
            total, count = 0.0, 0
            for c in range(k):
                if V[i, c] > theta:
                    total += V[i, c]
                    count += 1
            if count == 0 or count >= above:
                break
            theta, above = (total - 1.0) / count, count
        for c in range(k):
            V[i, c] = max(V[i, c] - theta, 0.0)
