"""Checks of rows, labels and numbers; each error names the argument and the fault."""

import math
import unicodedata
from collections.abc import Iterable
from importlib import import_module
from numbers import Integral
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import psutil
import scipy.sparse as sp

from workbench.core.blocks import blocks
from workbench.core.kinds import Array, Given, Matrix
from workbench.core.names import count, hint

# By type, the largest magnitude of a value, and the magnitude that the largest value of
# a column must reach. Between the two, squares, sums and quotients are normal numbers.
# LIBLINEAR's fourth powers do not overflow, either: with values above 1e78 it never
# ends.
LARGEST = {"d": 1e60, "f": 1e15}
SMALLEST = {"d": 1e-100, "f": 1e-18}
# Positive parameters in this range are normal numbers even in single precision, and
# their products are normal numbers in double precision.
POSITIVE = 1e-30, 1e30
NUMBERS = int, float, np.integer, np.floating, np.bool_
MAX_COUNT = 2**63 - 1  # the largest size or count in compiled code
# Errors that SciPy raises for matrices whose parts do not fit each other.
DAMAGE = ArithmeticError, AttributeError, LookupError, TypeError, ValueError


def as_number(value: object) -> float:
    """Return a real number as a float, and anything else (or one too large) as nan."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    try:
        return float(value) if isinstance(value, NUMBERS) else math.nan
    except OverflowError:
        return math.nan


def check_positive(value: float, argument: str) -> float:
    """Return `value` as a float; raise a ValueError unless it is in `POSITIVE`."""
    low, high = POSITIVE
    number = as_number(value)
    if not low <= number <= high:
        raise ValueError(
            f"{argument}: must be a positive number, got {shown(value)}; "
            f"numbers from {low:g} to {high:g} are accepted"
        )
    return number


def check_not_negative(**values: float) -> None:
    """Raise a ValueError that names the first value that is not a number >= 0."""
    for name, value in values.items():
        if not 0 <= as_number(value) < math.inf:
            raise ValueError(
                f"{name}: must be a number that is not negative, got {shown(value)}"
            )


def is_whole(value: object, least: int = 1, most: float = MAX_COUNT) -> TypeGuard[int]:
    """Return whether `value` is a whole number in [`least`, `most`], not a boolean."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return least <= int(value) <= most


def check_flags(**flags: object) -> None:
    """Raise a ValueError that names the first flag that is not True, False, 1 or 0."""
    for name, value in flags.items():
        if not (isinstance(value, Integral | np.bool_) and value in (0, 1)):
            raise ValueError(f"{name}: must be True or False, got {shown(value)}")


def check_whole(value: int, argument: str, least: int = 1) -> int:
    """Return `value` as an int; raise a ValueError if :func:`is_whole` refuses it."""
    if not is_whole(value, least):
        raise ValueError(
            f"{argument}: must be a whole number of at least {least}, got "
            f"{shown(value)}"
        )
    return int(value)


def check_counts(**counts: int) -> None:
    """Raise a ValueError that names the first count that is not a whole number > 0."""
    for name, value in counts.items():
        check_whole(value, name)


def check_fraction(value: float, argument: str) -> None:
    """Raise a ValueError unless `value` lies strictly between 0 and 1."""
    if not 0 < as_number(value) < 1:
        raise ValueError(
            f"{argument}: must lie strictly between 0 and 1, got {shown(value)}"
        )


def check_known(name: object, known: Iterable[str], argument: str) -> None:
    """Raise a ValueError that suggests similar names unless `name` is a known one."""
    names = [*known]
    if not isinstance(name, str) or name not in names:
        raise ValueError(
            f"{argument}: unknown name {shown(name)}; {hint(str(name), names)}"
        )


def seeded(seed: int) -> np.random.Generator:
    """Return the random generator of a seed, which must be a whole number >= 0."""
    return np.random.default_rng(check_whole(seed, "seed", least=0))


def check_memory(what: str, need: float) -> int:
    """Return the free bytes of memory; raise a ValueError if they are below `need`."""
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
    """Refuse texts, dates, durations and complex numbers.

    NumPy would turn some of them into floats.
    """
    if not sp.issparse(values):
        values = as_array(values, argument)
    kind = values.dtype.kind
    if kind not in "biufO":
        message = f"{argument}: must contain real numbers, got dtype {values.dtype}"
        if kind == "c":
            message += (
                "; Complex data not supported"  # scikit-learn expects these words
            )
        raise ValueError(message)


def check_matrix(X: Given, argument: str) -> Matrix:
    """Return `X` as a finite, C-ordered float array or a canonical CSR matrix.

    A memory-mapped array that has these properties is not copied. Values beyond
    :data:`LARGEST`, and any other fault, raise a ValueError that names `argument`.
    """
    sparse = sp.issparse(X)
    if not sparse:
        X = as_array(X, argument)
    _check_kind(X, argument)
    if 0 in X.shape:
        raise ValueError(f"{argument}: must not be empty, got the shape {X.shape}")
    dtype = np.float32 if np.can_cast(X.dtype, np.float32) else np.float64
    convert = check_sparse if sparse else _floats
    with np.errstate(over="ignore"):
        # A long double may overflow to infinity, which is refused below.
        X = convert(X, argument, dtype)
    largest = LARGEST[X.dtype.char]
    magnitude = 0.0
    for values in [X.data] if sparse else blocks(X):
        if not np.isfinite(values).all():
            raise ValueError(
                f"{argument}: contains NaN or infinite values; impute them first"
            )
        magnitude = max(magnitude, values.max(initial=0), -values.min(initial=0))
    if magnitude > largest:
        raise ValueError(
            f"{argument}: contains values beyond {largest:g}; scale the features"
        )
    return X


def check_sparse(
    X: Given, argument: str = "X", dtype: npt.DTypeLike = np.float64
) -> Matrix:
    """Return a sparse `X` as a canonical CSR matrix, and anything else unchanged.

    Call this before SciPy, scikit-learn or compiled code reads the matrix: with a bad
    index they would read or write anywhere in memory. Float32 is kept, and every other
    type becomes `dtype`. An index, length or type that does not fit, or a format other
    than CSR, CSC and COO, raises a ValueError that names `argument`.
    """
    if not sp.issparse(X):
        return X
    _check_kind(X, argument)
    if X.format not in ("csr", "csc", "coo"):
        raise ValueError(
            f"{argument}: is a sparse {X.format.upper()} matrix; convert it with "
            ".tocsr() first"
        )
    if X.dtype == np.float32:
        dtype = np.float32
    try:
        X = rebuilt(X)
    except DAMAGE as error:
        raise ValueError(f"{argument}: is damaged; {error}") from None
    # Duplicate entries are added below. Sums of small integers would overflow, but sums
    # of booleans are booleans, as they should be.
    if X.dtype != bool:
        X = _floats(X, argument, dtype)
    X = sp.csr_matrix(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    parts = X.data.astype(dtype, copy=False), X.indices, X.indptr
    # The indices become int32 if all of them fit.
    return sp.csr_matrix(parts, shape=X.shape)


def rebuilt(X: Matrix) -> Matrix:
    """Return a CSR, CSC or COO matrix of the same arrays, after checking them."""
    for name in ("indices", "indptr", "row", "col"):
        if hasattr(X, name) and np.asarray(getattr(X, name)).dtype.kind not in "iu":
            raise ValueError(f"{name} must contain whole numbers")
    if X.format == "coo":
        return type(X)((X.data, (X.row, X.col)), shape=X.shape)
    X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    # check_format computes differences, which can overflow, and only if X has entries.
    if (X.indptr[1:] < X.indptr[:-1]).any():
        raise ValueError("indptr must be a non-decreasing sequence")
    X.check_format()
    return X


def check_columns(X: Matrix, argument: str) -> None:
    """Refuse columns whose values are so small that their squares may underflow."""
    smallest = SMALLEST[X.dtype.char]
    if not sp.issparse(X):
        largest = np.max([np.abs(block).max(axis=0) for block in blocks(X)], axis=0)
    elif (np.abs(X.data) < smallest).any():
        largest = abs(X).max(axis=0).toarray().ravel()
    else:
        return
    small = np.flatnonzero((largest > 0) & (largest < smallest))
    if len(small):
        column = small[0]
        raise ValueError(
            f"{argument}: column {column} contains no value beyond "
            f"{largest[column]:.3g}, and squares of values below {smallest:g} may "
            "underflow; scale the features"
        )


def check_labels(y: Given, argument: str, n: int) -> Array:
    """Return `y` as a one-dimensional array of `n` labels, none of them missing."""
    y = check_kinds(y, argument)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{argument}: must be one-dimensional, got shape {y.shape}")
    if len(y) != n:
        raise ValueError(f"{argument}: has {len(y)} labels for {n} rows")
    if y.dtype == object:
        # Only labels of this type wait for this import, which takes half a second.
        missing = import_module("pandas").isna(y)
    else:
        missing = y != y
    refuse_missing(y[missing].tolist(), argument, "fill them or drop their rows")
    return y


def refuse_missing(labels: list[object], argument: str, remedy: str) -> None:
    """Raise a ValueError that shows the first of these missing labels, if any."""
    if labels:
        what = f"{count(len(labels), 'missing label')}, such as {shown(labels[0])}"
        raise ValueError(f"{argument}: has {what}; {remedy}")


def check_kinds(y: Given, argument: str) -> Array:
    """Return labels as an array; refuse a mixture of texts and other types.

    NumPy would turn all of them into texts.
    """
    kinds = set()
    is_list = isinstance(y, list | tuple)
    if is_list or getattr(y, "dtype", None) == np.dtype(object):
        # A nan in an array is a missing label. In a list of texts it is refused: NumPy
        # would turn it into the text 'nan'.
        kinds = {type(label) for label in y if is_list or not isinstance(label, float)}
        if len(kinds) > 1 and any(issubclass(kind, str) for kind in kinds):
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"{argument}: mixes labels of types {names}; use one type")
    labels = as_array(y, argument)
    if kinds == {int} and labels.dtype.kind == "f":  # some are beyond int64
        labels = np.array(y, object)
    if labels.ndim == 0 or labels.dtype.kind in "cV":
        raise ValueError(
            f"{argument}: must be an array or a list of labels, got {shown(y)}"
        )
    return labels


def encode(labels: Array, classes: Array, argument: str) -> Array:
    """Return the int32 code of each label, its position in `classes`."""
    codes = {label: code for code, label in enumerate(classes.tolist())}
    labels = labels.tolist()
    unknown = [label for label in dict.fromkeys(labels) if label not in codes]
    if unknown:
        reason = f"labels {unknown[:5]!r} are not among the classes"
        if alike := [label for label in codes if folded(label) == folded(unknown[0])]:
            reason += (
                f"; {unknown[0]!a} differs from the class {alike[0]!a} only in type, "
                "case, blanks, invisible characters or Unicode's normal form"
            )
        raise ValueError(f"{argument}: {reason}")
    return np.array([codes[label] for label in labels], np.int32)


def visible(label: object) -> str:
    """Return the visible characters of a label, in Unicode's composed form."""
    text = unicodedata.normalize("NFC", str(label))
    return "".join(c for c in text if unicodedata.category(c) != "Cf")


def folded(label: object) -> str:
    """Return a label as visible text in lower case without blanks."""
    return "".join(visible(label).split()).casefold()


def check_visible(classes: list[object], argument: str) -> None:
    """Refuse two texts among the classes that look the same."""
    seen: dict[str, str] = {}
    for label in classes:
        if not isinstance(label, str):
            continue
        other = seen.setdefault(visible(label), label)
        if other != label:
            raise ValueError(
                f"{argument}: labels {other!a} and {label!a} differ only in invisible "
                "characters or Unicode's normal form; replace one of them"
            )


def as_array(given: Given, argument: str) -> Array:
    """Return an array; masked values and ragged lists raise a ValueError."""
    if np.ma.is_masked(given):
        raise ValueError(f"{argument}: contains masked values; fill or drop them")
    try:
        if hasattr(given, "to_pandas"):  # a Polars frame
            given = given.to_pandas()
        return np.asarray(given)
    except ValueError as error:
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
