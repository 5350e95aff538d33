"""Checks of rows, labels and numbers: they are accepted, or an error says what is
wrong."""

from __future__ import annotations

import math
import unicodedata
from importlib import import_module
from numbers import Integral
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import psutil
import scipy.sparse as sp

from workbench.core.blocks import blocks
from workbench.core.kinds import Given, Matrix
from workbench.core.names import count

# Magnitudes that values may have, and that at least one value of each nonzero column
# must have: their squares, sums and quotients are normal numbers.
LARGEST = {
    "d": 1e60,
    "f": 1e15,
}  # from 1e78 on LIBLINEAR, which takes fourth powers, never ends
SMALLEST = {"d": 1e-100, "f": 1e-18}
# Range of positive parameters: their products are normal numbers, also in single
# precision.
POSITIVE = 1e-30, 1e30
NUMBERS = int, float, np.integer, np.floating, np.bool_
MAX_COUNT = 2**63 - 1  # the largest size or count in compiled code


def as_number(value: object) -> float:
    """Return a real number as a float; nan for anything else, also for integers beyond
    floats."""
    value = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    try:
        return float(value) if isinstance(value, NUMBERS) else math.nan
    except OverflowError:
        return math.nan


def check_positive(value: float, argument: str) -> float:
    """Return `value` as a float; a ValueError names `argument` unless it lies in
    `POSITIVE`."""
    least, most = POSITIVE
    if not least <= (number := as_number(value)) <= most:
        raise ValueError(
            f"{argument}: must be a positive number, got {shown(value)}; "
            f"numbers from {least:g} to {most:g} are accepted"
        )
    return number


def check_not_negative(**values: float) -> None:
    """Raise a ValueError that names the first of `values` which is not a number of at
    least 0."""
    for name, value in values.items():
        if not 0 <= as_number(value) < math.inf:
            raise ValueError(
                f"{name}: must be a number that is not negative, got {shown(value)}"
            )


def is_whole(value: object, least: int = 1, most: float = MAX_COUNT) -> TypeGuard[int]:
    """Return whether `value` is a whole number from `least` to `most`; booleans are
    not."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return least <= int(value) <= most


def check_flags(**flags: object) -> None:
    """Raise a ValueError that names the first of `flags` which is not True, False, 1 or
    0."""
    for name, value in flags.items():
        if not (isinstance(value, Integral | np.bool_) and value in (0, 1)):
            raise ValueError(f"{name}: must be True or False, got {shown(value)}")


def check_whole(value: int, argument: str, least: int = 1) -> int:
    """Return `value` as an int; a ValueError names `argument` if it is not
    :func:`is_whole`."""
    if not is_whole(value, least):
        raise ValueError(
            f"{argument}: must be a whole number of at least {least}, got "
            f"{shown(value)}"
        )
    return int(value)


def check_counts(**counts: int) -> None:
    """Raise a ValueError that names the first of `counts` which is not a whole number
    above 0."""
    for name, value in counts.items():
        check_whole(value, name)


def check_memory(what: str, need: float) -> int:
    """Return the bytes of memory that are free; ValueError if they are fewer than
    `need`."""
    free = psutil.virtual_memory().available
    if need > free:
        raise ValueError(
            f"problem: too large for {what} need {need / 2**30:.2g} GB; "
            f"{free / 2**30:.2g} GB free"
        )
    return free


def shown(value: object) -> str:
    """Return the first 60 characters of ``repr(value)``."""
    return f"{value!r:.60}"


def check_numbers(values: Given, argument: str) -> None:
    """Refuse texts, dates, durations and complex numbers, which NumPy may turn into
    floats."""
    dtype = (values if sp.issparse(values) else as_array(values, argument)).dtype
    if dtype.kind not in "biufO":
        more = (
            "; Complex data not supported" if dtype.kind == "c" else ""
        )  # scikit-learn's words
        raise ValueError(
            f"{argument}: must contain real numbers, got dtype {dtype}{more}"
        )


def check_matrix(X: Given, argument: str) -> Matrix:
    """Return `X` as a finite, C-ordered float array or a canonical CSR matrix.

    A memory-mapped array that has these properties is not copied. A ValueError names
    `argument`; values beyond :data:`LARGEST` are refused, too.
    """
    X = X if sp.issparse(X) else as_array(X, argument)
    _check_kind(X, argument)
    if 0 in X.shape:
        raise ValueError(f"{argument}: must not be empty, got the shape {X.shape}")
    dtype = np.float32 if np.can_cast(X.dtype, np.float32) else np.float64
    with np.errstate(
        over="ignore"
    ):  # long doubles may overflow to infinity, refused below
        X = (
            check_sparse(X, argument, dtype)
            if sp.issparse(X)
            else _floats(X, argument, dtype)
        )
    most = 0.0
    for values in [X.data] if sp.issparse(X) else blocks(X):
        if not np.isfinite(values).all():
            raise ValueError(
                f"{argument}: contains NaN or infinite values; impute them first"
            )
        most = max(most, values.max(initial=0), -values.min(initial=0))
    if most > (largest := LARGEST[X.dtype.char]):
        raise ValueError(
            f"{argument}: contains values beyond {largest:g}; scale the features"
        )
    return X


def check_sparse(
    X: Given, argument: str = "X", dtype: npt.DTypeLike = np.float64
) -> Matrix:
    """Return a sparse `X` as a canonical CSR matrix for compiled code; all else
    unchanged.

    Call this before SciPy or scikit-learn read the matrix: one bad index makes compiled
    code read or write anywhere in memory. Float32 is kept, all else becomes `dtype`. A
    ValueError names `argument` if an index, a length or a type does not fit, or the
    format is not CSR, CSC or COO.
    """
    if not sp.issparse(X):
        return X
    _check_kind(X, argument)
    if X.format not in ("csr", "csc", "coo"):
        raise ValueError(
            f"{argument}: is a sparse {X.format.upper()} matrix; convert it with "
            ".tocsr() first"
        )
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else dtype)
    try:
        X = rebuilt(X)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(f"{argument}: is damaged; {error}") from None
    if (
        X.dtype != bool
    ):  # duplicates of booleans are one entry, sums of small integers overflow
        X = _floats(X, argument, dtype)
    X = sp.csr_matrix(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    # This makes indices int32 if all fit.
    parts = X.data.astype(dtype, copy=False), X.indices, X.indptr
    return sp.csr_matrix(parts, shape=X.shape)


def rebuilt(X: Matrix) -> Matrix:
    """Return a CSR, CSC or COO matrix of the same arrays; a ValueError says which is
    damaged."""
    for name in ("indices", "indptr", "row", "col"):
        if hasattr(X, name) and np.asarray(getattr(X, name)).dtype.kind not in "iu":
            raise ValueError(f"{name} must contain whole numbers")
    if X.format == "coo":
        return type(X)((X.data, (X.row, X.col)), shape=X.shape)
    X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    # Differences, as in check_format, can overflow, and need an entry.
    if (X.indptr[1:] < X.indptr[:-1]).any():
        raise ValueError("indptr must be a non-decreasing sequence")
    X.check_format()
    return X


def check_columns(X: Matrix, argument: str) -> None:
    """Refuse columns of values so small that their squares are zero."""
    least = SMALLEST[X.dtype.char]
    if not sp.issparse(X):
        largest = np.max([np.abs(block).max(axis=0) for block in blocks(X)], axis=0)
    elif (np.abs(X.data) < least).any():
        largest = abs(X).max(axis=0).toarray().ravel()
    else:
        return
    small = np.flatnonzero((largest > 0) & (largest < least))
    if len(small):
        raise ValueError(
            f"{argument}: column {small[0]} contains no value beyond "
            f"{largest[small[0]]:.3g}, and squares of values below {least:g} are "
            "zero; scale the features"
        )


def check_labels(y: Given, argument: str, n: int) -> np.ndarray:
    """Return `y` as a one-dimensional array of `n` labels, none of them missing."""
    y = check_kinds(y, argument)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{argument}: must be one-dimensional, got shape {y.shape}")
    if len(y) != n:
        raise ValueError(f"{argument}: has {len(y)} labels for {n} rows")
    # pandas takes half a second to import.
    missing = import_module("pandas").isna(y) if y.dtype == object else y != y
    refuse_missing(y[missing].tolist(), argument, "fill them or drop their rows")
    return y


def refuse_missing(labels: list[object], argument: str, remedy: str) -> None:
    """Raise a ValueError that names the first of these missing labels, if there are
    any."""
    if labels:
        what = f"{count(len(labels), 'missing label')}, such as {shown(labels[0])}"
        raise ValueError(f"{argument}: has {what}; {remedy}")


def check_kinds(y: Given, argument: str) -> np.ndarray:
    """Return labels as an array; refuse texts among others, which NumPy would turn into
    texts."""
    is_list = isinstance(y, list | tuple)
    if is_list or getattr(y, "dtype", None) == np.dtype(object):
        # NumPy turns nan among texts of a list into the text 'nan'; in an array it is
        # missing.
        kinds = {type(label) for label in y if is_list or not isinstance(label, float)}
        if len(kinds) > 1 and any(issubclass(kind, str) for kind in kinds):
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"{argument}: mixes labels of types {names}; use one type")
    labels = as_array(y, argument)
    if labels.ndim == 0 or labels.dtype.kind in "cV":
        raise ValueError(
            f"{argument}: must be an array or a list of labels, got {shown(y)}"
        )
    return labels


def encode(labels: np.ndarray, classes: np.ndarray, argument: str) -> np.ndarray:
    """Return the int32 code of each label, its position in `classes`."""
    codes = {label: code for code, label in enumerate(classes.tolist())}
    if unknown := [
        label for label in dict.fromkeys(labels.tolist()) if label not in codes
    ][:5]:
        reason = f"labels {unknown!r} are not among the classes"
        if alike := [label for label in codes if folded(label) == folded(unknown[0])]:
            reason += (
                f"; {unknown[0]!a} differs from the class {alike[0]!a} only in type, "
                "case, blanks, invisible characters or Unicode's normal form"
            )
        raise ValueError(f"{argument}: {reason}")
    return np.array([codes[label] for label in labels.tolist()], np.int32)


def visible(label: object) -> str:
    """Return a label as text in Unicode's composed form, without invisible
    characters."""
    text = unicodedata.normalize("NFC", str(label))
    return "".join(c for c in text if unicodedata.category(c) != "Cf")


def folded(label: object) -> str:
    """Return a label as visible text without blanks and case."""
    return "".join(visible(label).split()).casefold()


def check_visible(classes: list[object], argument: str) -> None:
    """Refuse two texts among the classes that look the same."""
    seen: dict[str, str] = {}
    for label in classes:
        if (
            isinstance(label, str)
            and (other := seen.setdefault(visible(label), label)) != label
        ):
            raise ValueError(
                f"{argument}: labels {other!a} and {label!a} differ only in invisible "
                "characters or Unicode's normal form; replace one of them"
            )


def as_array(given: Given, argument: str) -> np.ndarray:
    """Return an array; a ValueError names `argument` if it masks values or is not an
    array."""
    if np.ma.is_masked(given):
        raise ValueError(f"{argument}: contains masked values; fill or drop them")
    try:
        return np.asarray(
            given.to_pandas() if hasattr(given, "to_pandas") else given
        )  # Polars
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"{argument}: must be an array; {error}") from None


def _check_kind(X: Given, argument: str) -> None:
    if X.ndim != 2:
        raise ValueError(
            f"{argument}: must have two dimensions (rows, features), got {X.ndim}"
        )
    check_numbers(X, argument)


def _floats(X: Given, argument: str, dtype: npt.DTypeLike) -> Matrix:
    try:
        if sp.issparse(X):
            return X.astype(dtype, copy=False)
        return np.require(X, dtype, ["C", "A", "E"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{argument}: must be numeric; {error}") from None
