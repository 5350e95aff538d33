"""Feature maps from a Problem to a Problem, fitted on the training rows alone."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.checks import check_matrix, check_memory, check_whole
from workbench.core.matrices import as_dense, with_columns
from workbench.core.problem import Array, Matrix, Problem

BLOCK = 4096  # rows mapped together, so that the intermediate arrays stay small
SAMPLE = 1000  # training rows between which distances are computed


def standardise(problem: Problem) -> Problem:
    """Scale columns to mean zero and variance one over the training rows.

    Dense columns that are constant over the training rows become zero. Dense columns
    that vary by no more than the rounding of their mean are only centred. Sparse
    columns are only divided by their standard deviation, unless they are constant.
    """
    name = f"{problem.name}, standardised"
    if problem.is_sparse:
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler(with_mean=False).fit(problem.X)
        return mapped(problem, scaler.transform, name)
    constant = problem.X.min(axis=0) == problem.X.max(axis=0)
    mean = problem.X.mean(axis=0, dtype=np.float64)
    variance = centred_squares(problem.X, mean) / problem.n
    rounding = problem.n * np.finfo(float).eps
    deviation = np.sqrt(variance)
    deviation[variance <= rounding * variance + (rounding * mean) ** 2] = 1
    deviation[constant] = np.inf

    def transform(X: Array) -> Array:
        centred = X - mean.astype(X.dtype)
        return centred / deviation.astype(X.dtype)

    return mapped(problem, transform, name)


def centred_squares(X: Array, mean: Array) -> Array:
    """Return the (d,) sums of squares about the mean, in double precision.

    They are corrected for the rounding of the mean.
    """
    differences = X - mean
    squares = np.sum(differences**2, axis=0)
    return squares - np.sum(differences, axis=0) ** 2 / len(X)


def ranged(problem: Problem) -> Problem:
    """Scale columns to [-1, 1] over the training rows, as LIBSVM's svm-scale does.

    Dense columns that are constant over the training rows become zero. Sparse columns
    are only divided by their largest magnitude.
    """
    name = f"{problem.name}, scaled"
    if problem.is_sparse:
        from sklearn.preprocessing import MaxAbsScaler

        return mapped(problem, MaxAbsScaler().fit(problem.X).transform, name)
    low = problem.X.min(axis=0)
    half = (problem.X.max(axis=0).astype(np.float64) - low) / 2
    middle = low + half
    half[half == 0] = np.inf
    return mapped(problem, lambda X: ((X - middle) / half).astype(X.dtype), name)


def over_maximum(problem: Problem) -> Problem:
    """Divide all entries by the largest magnitude in the training rows.

    This suits pixels.
    """
    largest = abs(problem.X).max() or 1
    name = f"{problem.name}, over its maximum"
    return mapped(problem, lambda X: (X / largest).astype(X.dtype), name)


def unit_rows(problem: Problem) -> Problem:
    """Scale rows to Euclidean norm one; rows of zeros stay."""
    from sklearn.preprocessing import normalize

    return mapped(problem, normalize, f"{problem.name}, unit rows")


def root_rows(problem: Problem) -> Problem:
    """Replace entries by their square roots, in rows of norm one.

    Negative entries raise a ValueError.
    """
    refuse_negative(problem, "they have no square root")
    roots = mapped(problem, lambda X: X.sqrt() if sp.issparse(X) else np.sqrt(X), "")
    return replace(unit_rows(roots), name=f"{problem.name}, root unit rows")


def log_counts(problem: Problem, least: int = 3) -> Problem:
    """Replace counts x by log(1 + x), and drop columns that are nearly always zero.

    Columns that are nonzero in at least `least` training rows stay. Negative entries,
    and data without such a column, raise a ValueError.
    """
    check_whole(least, "least")
    refuse_negative(problem, "log(1 + x) is for counts")
    # Sparse rows may store zeros, so counting stored entries would be wrong.
    counts = np.asarray((problem.X != 0).sum(axis=0)).ravel()
    kept = np.flatnonzero(counts >= least)
    if not len(kept):
        raise ValueError(f"least: no column of X has {least} entries that are not zero")

    def transform(X: Matrix) -> Matrix:
        X = X[:, kept]
        return X.log1p() if sp.issparse(X) else np.log1p(X)

    names = problem.features and tuple(problem.features[j] for j in kept)
    return mapped(problem, transform, f"{problem.name}, log counts", features=names)


def tfidf(problem: Problem) -> Problem:
    """Replace word counts x_j by x_j (1 + log((1 + n) / (1 + n_j))), in unit rows.

    The word j occurs in n_j of the n training rows. Rows are scaled to norm one; empty
    rows stay. Dense rows and negative entries raise a ValueError.
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    if not problem.is_sparse:
        raise ValueError(
            "X: tf-idf is for word counts in a sparse matrix, got a dense one"
        )
    refuse_negative(problem, "tf-idf is for counts")
    transform = TfidfTransformer().fit(problem.X).transform
    return mapped(problem, transform, f"{problem.name}, tf-idf")


def constant(problem: Problem) -> Problem:
    """Append a column of ones: an intercept for methods that have none."""

    def transform(X: Matrix) -> Matrix:
        return with_columns(X, np.ones((X.shape[0], 1), X.dtype))

    names = problem.features and (*problem.features, "1")
    return mapped(problem, transform, f"{problem.name} + constant", features=names)


def pca(problem: Problem, d: int, seed: int = 0) -> Problem:
    """Replace rows by their first `d` principal components, which are dense.

    The components are those of the training rows. They are centred, but not whitened.

    Parameters
    ----------
    d : int
        The number of components, from 1 to min(n, problem.d), or to one less for sparse
        rows.
    seed : int
        Seeds scikit-learn's randomised or iterative solver, if it chooses one.
    """
    from sklearn.decomposition import PCA

    check_whole(d, "d")
    largest = min(problem.n, problem.d) - problem.is_sparse
    if d > largest:
        raise ValueError(f"d: must be at most {largest}, got {d!r}")
    check_width(problem, d)
    model = PCA(n_components=d, random_state=seed).fit(problem.X)
    names = tuple(f"pc{i + 1}" for i in range(d))
    return mapped(problem, model.transform, f"{problem.name}, PCA {d}", features=names)


def fourier(
    problem: Problem,
    n_features: int = 400,
    seed: int = 0,
    append: bool = True,
    mrcpy: bool = False,
) -> Problem:
    """Append random Fourier features for the Gaussian kernel exp(-|x - x'|^2 / s).

    s is the squared :func:`median_distance`. With w_j ~ N(0, 2 I / s) and m =
    n_features / 2, the new features of a row x are cos(w_1 x), ..., cos(w_m x),
    sin(w_1 x), ..., sin(w_m x), times sqrt(1 / m). They have norm one, and the mean of
    their inner products is the kernel (Rahimi, Recht, 2007).

    Parameters
    ----------
    n_features : int
        The number of new features, which is even and at least 2.
    seed : int
        Seeds the frequencies and the sample for the median.
    append : bool
        Whether to keep the given columns, which then come before the new ones.
    mrcpy : bool
        Whether s is the number of columns times the variance of all entries of the
        training rows, as in MRCpy.
    """
    if check_whole(n_features, "n_features") % 2:
        raise ValueError(
            f"n_features: must be even (half cosines, half sines), got {n_features!r}"
        )
    half = n_features // 2
    width = n_features
    if mrcpy and problem.is_sparse:
        width += problem.d  # a dense copy of the rows
    check_width(problem, width)
    if mrcpy:
        s = problem.d * np.var(as_dense(problem.X), dtype=float)
    else:
        s = median_distance(problem, seed) ** 2
    rng = np.random.default_rng(seed)
    frequencies = rng.standard_normal((problem.d, half)) * np.sqrt(2 / s)

    def waves(X: Matrix) -> Array:
        phases = X @ frequencies
        return np.hstack([np.cos(phases), np.sin(phases)]) * np.sqrt(1 / half)

    def transform(X: Matrix) -> Matrix:
        Z = in_blocks(waves, X, n_features)
        return with_columns(X, Z) if append else Z

    names = tuple(f"{wave}{j + 1}" for wave in ("cos", "sin") for j in range(half))
    sign = ","
    if append:
        sign = " +"
        names = problem.features and (*problem.features, *names)
    kind = "MRCpy Fourier" if mrcpy else "Fourier"
    name = f"{problem.name}{sign} {n_features} {kind}"
    return mapped(problem, transform, name, features=names)


def check_width(problem: Problem, width: int) -> None:
    """Raise a ValueError if `width` new dense columns do not fit into memory."""
    rows = problem.n + (0 if problem.y_test is None else len(problem.y_test))
    need = width * (problem.X.dtype.itemsize * rows + 8 * problem.d)
    check_memory(f"{width} more columns of {rows} rows, which", need)


def median_distance(problem: Problem, seed: int = 0) -> float:
    """Return the median of :func:`sampled_distances`; zero raises a ValueError."""
    median = float(np.median(sampled_distances(problem, seed)))
    if not median > 0:
        raise ValueError(
            "problem: the median distance between its training rows is zero"
        )
    return median


def sampled_distances(problem: Problem, seed: int = 0) -> Array:
    """Return the Euclidean distances between up to 1000 random training rows."""
    from sklearn.metrics import pairwise_distances

    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(problem.n)[:SAMPLE])
    # In single precision, small distances would be lost in the squares of large values.
    distances = pairwise_distances(problem.X[rows].astype(np.float64))
    return distances[np.triu_indices(len(rows), 1)]


def mapped(
    problem: Problem, transform: Callable[[Matrix], Matrix], name: str, **changed
) -> Problem:
    """Map training and test rows, and check that a solver can take the result.

    `changed` are the new values of other fields, such as `features`.
    """
    for argument in ("X", "X_test"):
        if (X := getattr(problem, argument)) is not None:
            changed[argument] = check_matrix(transform(X), argument)
    return replace(problem, name=name, **changed)


def refuse_negative(problem: Problem, what: str) -> None:
    """Raise a ValueError with the reason `what` if a row has negative entries."""
    for name in ("X", "X_test"):
        X = getattr(problem, name)
        if X is not None and X.min() < 0:
            raise ValueError(f"{name}: contains negative values; {what}")


def in_blocks(f: Callable[[Matrix], Array], X: Matrix, width: int) -> Array:
    """Return f(X) in the type of X, computed in blocks of rows."""
    Z = np.empty((X.shape[0], width), X.dtype)
    for rows in pieces(len(Z), BLOCK):
        Z[rows] = f(X[rows])
    return Z
