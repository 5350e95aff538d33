"""Generated data sets: each problem they return says that it is synthetic."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from workbench.problem import Problem, as_problem


def synthetic(
    n: int = 1_000,
    d: int = 20,
    k: int = 5,
    seed: int = 0,
    *,
    separation: float = 3.0,
    dtype: type = np.float64,
) -> Problem:
    """Gaussian classes of equal size that overlap.

    Parameters
    ----------
    n, d, k : rows, features and classes, n >= k >= 2
    separation : the typical distance of two class centres in standard deviations of the noise,
        positive; two classes that far apart are confused at the rate Phi(-separation / 2), 7 % at
        the default
    dtype : float64 or float32

    Raises
    ------
    ValueError
        For sizes or a separation out of range.
    """
    _check(n, d, k)
    if not separation > 0:
        raise ValueError(f"separation: must be positive, got {separation!r}")
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, d), dtype) * dtype(separation / np.sqrt(2 * d))
    y = rng.permutation(np.arange(n) % k)
    X = rng.standard_normal((n, d), dtype)
    X += centres[y]
    about = f"synthetic Gaussian classes, centres {separation:g} standard deviations apart"
    name = f"synthetic {n}x{d}x{k}"
    return as_problem(X, y, name=name, synthetic=True, about=about)


def synthetic_text(
    n: int = 10_000,
    d: int = 20_000,
    k: int = 50,
    seed: int = 0,
    *,
    words: float = 60.0,
    topicality: float = 0.7,
) -> Problem:
    """Word counts whose frequencies follow a power law, sparse, with few words of each topic.

    The r-th word of the language has a probability proportional to 1/r; each class multiplies it
    by log-normal factors of its own.

    Parameters
    ----------
    n, d, k : documents, words of the vocabulary and classes, n >= k >= 2
    words : mean number of words in a document, positive
    topicality : standard deviation of the factors' logarithms, not negative; at 0 all classes
        speak alike

    Raises
    ------
    ValueError
        For sizes or parameters out of range.
    """
    _check(n, d, k)
    if not words > 0:
        raise ValueError(f"words: must be positive, got {words!r}")
    if not topicality >= 0:
        raise ValueError(f"topicality: must not be negative, got {topicality!r}")
    rng = np.random.default_rng(seed)
    language = 1 / rng.permutation(np.arange(1, d + 1))
    y = rng.permutation(np.arange(n) % k)
    lengths = 1 + rng.poisson(max(words - 1, 0), size=n)
    rows, columns = [], []
    for c in range(k):
        members = np.flatnonzero(y == c)
        speech = language * np.exp(topicality * rng.standard_normal(d))
        rows.append(np.repeat(members, lengths[members]))
        columns.append(rng.choice(d, size=lengths[members].sum(), p=speech / speech.sum()))
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    X = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(n, d))
    about = f"synthetic word counts, {words:g} words a document, topicality {topicality:g}"
    name = f"synthetic text {n}x{d}x{k}"
    return as_problem(X, y, name=name, synthetic=True, about=about)


def _check(n: int, d: int, k: int) -> None:
    if k < 2:
        raise ValueError(f"k: must be at least 2, got {k!r}")
    if n < k:
        raise ValueError(f"n: must be at least k = {k}, so that no class is empty, got {n!r}")
    if d < 1:
        raise ValueError(f"d: must be at least 1, got {d!r}")
