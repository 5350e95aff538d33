"""What is accepted as rows, labels and numbers, or an error that says what is wrong."""

from __future__ import annotations

from numbers import Integral

import numpy as np
import pandas as pd
import scipy.sparse as sp

Matrix = np.ndarray | sp.csr_matrix | sp.csr_array
# Magnitudes that values may have, and at least one of each column that is not zero must have:
# squares, sums and quotients of them are numbers.
LARGEST = {"d": 1e60, "f": 1e15}  # from 1e78 on LIBLINEAR, which takes fourth powers, never ends
SMALLEST = {"d": 1e-100, "f": 1e-18}
# Positive parameters: products of two of them, and of one with a sum over rows, are numbers, and in
# single precision each of them is.
POSITIVE = 1e-30, 1e30


def check_positive(value: float, argument: str) -> float:
    """Return `value` as a float; a ValueError names `argument` unless it is a positive number.

    It must lie in :data:`POSITIVE`.
    """
    least, most = POSITIVE
    try:
        accepted = least <= value <= most
    except TypeError:  # not a number
        accepted = False
    if not accepted:
        raise ValueError(
            f"{argument}: must be a positive number, got {value!r}; "
            f"numbers from {least:g} to {most:g} are accepted"
        )
    return float(value)


def check_not_negative(**values: float) -> None:
    """Raise a ValueError that names the first of `values` which is no number from 0 up."""
    for name, value in values.items():
        try:
            allowed = 0 <= value < np.inf
        except TypeError:  # no number
            allowed = False
        if not allowed:
            raise ValueError(f"{name}: must be a number that is not negative, got {value!r}")


def is_whole(value, least: int = 1, most: float = np.inf) -> bool:
    """Say whether `value` is a whole number from `least` to `most`; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= value <= most


def check_whole(value: int, argument: str, least: int = 1) -> int:
    """Return `value` as an int; a ValueError names `argument` unless :func:`is_whole` of it."""
    if not is_whole(value, least):
        raise ValueError(f"{argument}: must be a whole number of at least {least}, got {value!r}")
    return int(value)


def check_counts(**counts: int) -> None:
    """Raise a ValueError that names the first of `counts` which is no whole number above 0."""
    for name, value in counts.items():
        check_whole(value, name)


def check_matrix(X, argument: str) -> Matrix:
    """Return `X` as a finite, C-ordered float array or a canonical CSR matrix.

    Raises
    ------
    ValueError
        Naming `argument`, what is wrong with it and what is accepted; also of a value beyond
        1e60, or 1e15 in single precision.
    """
    X = X if sp.issparse(X) else as_array(X, argument)
    if X.ndim != 2:
        raise ValueError(f"{argument}: must have two dimensions (rows, features), got {X.ndim}")
    if 0 in X.shape:
        raise ValueError(f"{argument}: is empty, its shape is {X.shape}")
    if X.dtype == object:
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{argument}: must be numeric; {error}") from None
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{argument}: must hold real numbers, got dtype {X.dtype}")
    dtype = np.result_type(X.dtype, np.float32)
    if dtype not in (np.float32, np.float64):
        dtype = np.dtype(np.float64)
    with np.errstate(over="ignore"):  # of long floats: infinite is refused below
        X = _csr(X, argument, dtype) if sp.issparse(X) else np.require(X, dtype, "CAE")
    _check_values(X, argument)
    return X


def check_columns(X: Matrix, argument: str) -> None:
    """Refuse columns of values so small that their squares are zero, which says nothing of them."""
    values, least = np.abs(X.data if sp.issparse(X) else X), SMALLEST[X.dtype.char]
    if sp.issparse(X):
        if not ((values > 0) & (values < least)).any():
            return
        largest = np.zeros(X.shape[1], X.dtype)
        np.maximum.at(largest, X.indices, values)
    else:
        largest = values.max(axis=0)
    small = np.flatnonzero((largest > 0) & (largest < least))
    if len(small):
        raise ValueError(
            f"{argument}: column {small[0]} holds no value beyond {largest[small[0]]:.3g}, and "
            f"squares of less than {least:g} are zero; scale the features"
        )


def check_labels(y, argument: str, n: int) -> np.ndarray:
    """Return `y` as a one-dimensional array of `n` labels, none of them missing."""
    listed = y if isinstance(y, list | tuple) else ()
    y = as_array(y, argument)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{argument}: must be one-dimensional, got shape {y.shape}")
    if len(y) != n:
        raise ValueError(f"{argument}: has {len(y)} labels for {n} rows")
    missing = np.asarray(pd.isna(y))
    if missing.any():
        raise ValueError(f"{argument}: {int(missing.sum())} labels are missing")
    if y.dtype.kind == "f" and listed and all(isinstance(label, int) for label in listed):
        y = np.array(listed, dtype=object)  # too large for int64: floats would merge neighbours
    if y.dtype == object and len({type(label) for label in y}) > 1:
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(f"{argument}: mixes labels of types {', '.join(kinds)}; use one type")
    return y


def encode(labels: np.ndarray, classes: np.ndarray, argument: str) -> np.ndarray:
    """Return the int32 code of each label, its position in `classes`."""
    order = np.argsort(classes, kind="stable")
    # Not both as floats, in which NumPy would look for an int64 among uint64.
    whole = labels.dtype.kind in "iu" and classes.dtype.kind in "iu"
    try:
        at = np.searchsorted(classes[order], labels.astype(classes.dtype) if whole else labels)
    except TypeError:
        raise ValueError(
            f"{argument}: labels of type {type(labels[0]).__name__} among classes of type "
            f"{type(classes[0]).__name__}"
        ) from None
    codes = order[np.minimum(at, len(classes) - 1)]
    strange = classes[codes] != labels
    if np.any(strange):
        unknown = np.unique(labels[strange])[:5].tolist()
        raise ValueError(f"{argument}: labels {unknown!r} are not among the classes")
    return codes.astype(np.int32)


def as_array(given, argument: str) -> np.ndarray:
    """Return an array; a ValueError names `argument` where it masks values, or is no array."""
    if np.ma.is_masked(given):
        raise ValueError(f"{argument}: masks {np.ma.count_masked(given)} values; fill or drop them")
    try:
        return np.asarray(given)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"{argument}: is no array; {error}") from None


def _csr(X, argument: str, dtype: np.dtype) -> sp.csr_matrix:
    """Return a canonical CSR matrix; what it says of itself is not believed."""
    if hasattr(X, "check_format"):
        try:
            X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
            X.check_format(full_check=True)  # a bad index would make compiled code read anywhere
        except (ValueError, TypeError) as error:
            raise ValueError(f"{argument}: is damaged; {error}") from None
    X = X.tocsr() if X.dtype == bool else X  # where entries that are there twice are one
    given, X = X, sp.csr_matrix(X.astype(dtype, copy=False))  # small integers would overflow
    if not X.has_canonical_format:
        X = X.copy() if np.may_share_memory(X.data, given.data) else X
        X.sum_duplicates()
    if X.indices.dtype != np.int32 and max(X.nnz, *X.shape) < 2**31:
        parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = sp.csr_matrix(parts, shape=X.shape)
    return X


def _check_values(X: Matrix, argument: str) -> None:
    values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        raise ValueError(f"{argument}: holds NaN or infinite values; clean or impute them first")
    if max(values.max(initial=0), -values.min(initial=0)) > float(LARGEST[X.dtype.char]):
        raise ValueError(
            f"{argument}: holds values beyond {LARGEST[X.dtype.char]:g}, whose powers are no "
            f"{X.dtype} numbers; scale the features"
        )
