"""Small problems of several test files."""

import numpy as np
from scipy.sparse import csr_matrix

from workbench import as_problem

X = np.array([[0.5, 0, 2], [0, 1, 0], [3, 0, 0], [0, 4, 0.25], [1, 1, 1], [2, 0, 5]])
Y = np.array([0, 1, 0, 1, 1, 0])


def documents(n=150, d=40, k=12, *, sparse=True, words=6):
    """Return rows of unit length with a few features each, which depend on the
    class."""
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    X = rng.random((n, d)) * (rng.random((n, d)) < words / d)
    X[np.arange(n), y % d] += rng.random(n)
    X /= np.linalg.norm(X, axis=1)[:, None]
    return as_problem(csr_matrix(X) if sparse else X, y, synthetic=True)


def tiny(seed, k=None):
    """A problem of k or 2 to 5 classes and at most 12 rows; every third has ties and
    duplicates."""
    rng = np.random.default_rng(seed)
    k = k or int(rng.integers(2, 6))
    d = int(rng.integers(1, 5))
    n = int(rng.integers(k, 13))
    y = rng.permutation(np.r_[np.arange(k), rng.integers(k, size=n - k)])
    X = rng.normal(size=(n, d)) + rng.normal(size=(k, d))[y]
    if seed % 3 == 0:
        X = np.round(X)
        X[rng.integers(n, size=n // 3)] = X[0]
    return as_problem(X, y, name=f"tiny {seed}"), float(rng.choice([0.01, 0.1, 0.5]))
