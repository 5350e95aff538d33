"""The classification problem that every solver receives: rows, labels and names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, zip_longest

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from workbench.core.blocks import blocks
from workbench.core.checks import (
    check_columns,
    check_fraction,
    check_labels,
    check_matrix,
    check_visible,
    encode,
)
from workbench.core.kinds import Array as Array
from workbench.core.kinds import Given, Record
from workbench.core.kinds import Matrix as Matrix

MAX_TINY_CLASSES = 512  # classes with rows in a tiny problem


@dataclass(frozen=True, eq=False)
class Problem:
    """The training rows of one multiclass data set, and its test rows if it has any.

    Make a problem with :func:`as_problem` or :func:`workbench.data.load`, which check
    their input.

    Attributes
    ----------
    X : (n, d) float32 or float64
        The training rows: a C-ordered array, which may be memory-mapped, or a CSR
        matrix.
    y : (n,) int32
        The codes of the labels. Each code from 0 to k - 1 occurs.
    classes : (k,) array
        The labels, sorted or in the order in which they were given; ``classes[y]`` are
        the labels of the rows.
    name : str
    X_test, y_test : arrays or None
        Rows that solvers never see, with the same features and codes as the training
        rows.
    features : tuple of d str, or None
        The names of the features.
    synthetic : bool
        Whether the data are generated, which every figure states.
    about : str
        Where the data come from, and for tables which classes they have.
    weights : (n,) float64
        How many times each row counts; positive, by default ones.
    recipe : dict or None
        The argument of :func:`workbench.data.specs.remade` that makes these rows again.
    """

    X: Matrix
    y: Array
    classes: Array
    name: str = "unnamed"
    X_test: Matrix | None = None
    y_test: Array | None = None
    features: tuple[str, ...] | None = None
    synthetic: bool = False
    about: str = ""
    weights: Array = None  # type: ignore[assignment]  # ones, see __post_init__
    recipe: Record | None = field(default=None, init=False)
    structure = ""  # the subclasses in `core.structures` name theirs

    def __post_init__(self) -> None:
        if self.weights is None:
            object.__setattr__(self, "weights", np.ones(self.n))
        elif self.weights.shape != (self.n,):
            raise ValueError(
                f"weights: must have the shape {(self.n,)}, got {self.weights.shape}"
            )

    @property
    def n(self) -> int:
        """Number of training rows."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """Number of features."""
        return self.X.shape[1]

    @property
    def k(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.X)

    @cached_property
    def checksum(self) -> str:
        """Sixteen hex digits of the SHA-256 of all rows, labels and weights."""
        digest = hashlib.sha256()
        for part in (self.X, self.y, self.X_test, self.y_test):
            digest.update(f"{getattr(part, 'shape', None)}".encode())
            for array in _buffers(part):
                digest.update(f"{array.dtype.str}{array.shape}".encode())
                for block in blocks(array) if array.ndim == 2 else [array]:
                    digest.update(np.ascontiguousarray(block).data.cast("B"))
        if np.any(self.weights != 1.0):
            digest.update(self.weights.data.cast("B"))
        return digest.hexdigest()[:16]

    def refuse_weights(self) -> None:
        """Raise a ValueError if rows have weights.

        Solvers that do not use weights call this first.
        """
        if np.any(self.weights != 1.0):
            raise ValueError(
                "weights: must be ones, as this solver counts each row once"
            )

    def tiny(self, rows_per_class: int = 2, d: int = 9) -> Problem:
        """Return a few rows and features, for which the same kernels are compiled.

        Dtype, sparsity, memory order and whether the rows may be written to are kept.
        At most :data:`MAX_TINY_CLASSES` classes have rows. The other classes are
        dropped, too, unless codes need four bytes.
        """
        order, starts = by_class(self.y, self.k)
        starts = starts[: MAX_TINY_CLASSES + 1]
        groups = [order[start:end] for start, end in pairwise(starts)]
        rows = np.sort(np.concatenate([group[:rows_per_class] for group in groups]))
        X = self.X[rows]
        y = self.y[rows]
        # Take the fullest columns: rows with only zeros would compile fewer kernels.
        filled = np.asarray((X != 0).sum(axis=0)).ravel()
        X = X[:, np.sort(np.argsort(-filled, kind="stable")[:d])]
        if not self.is_sparse:
            X = np.ascontiguousarray(X)
        parts = zip(_buffers(X), _buffers(self.X), strict=True)
        for part, whole in [*parts, (y, self.y)]:
            part.flags.writeable = whole.flags.writeable
        classes = self.classes
        if self.k < 2**16:
            classes = classes[:MAX_TINY_CLASSES]
        return replace(
            self,
            X=X,
            y=y,
            classes=classes,
            name=f"{self.name} (tiny)",
            X_test=None,
            y_test=None,
            features=None,
            weights=np.ones(len(y)),
        )

    def split(self, test: float = 0.2, seed: int | list[int] = 0) -> Problem:
        """Return the problem with a random fraction `test` of all rows as test rows.

        The fraction is stratified: it is drawn from each class. Every class keeps at
        least one training row. A `test` that is not inside (0, 1), or too small to hold
        out a row, raises a ValueError.
        """
        check_fraction(test, "test")
        whole = self.joined()
        test_rows = whole.drawn(seed, test, held=True)
        if not test_rows.any():
            raise ValueError(
                f"test: a fraction of {test!r} of {whole.n} rows holds out no row"
            )
        return whole.held_out(test_rows)

    def subset(self, fraction: float, seed: int = 0) -> Problem:
        """Return the problem with a random fraction, in (0, 1], of its training rows.

        The fraction is stratified: it is drawn from each class. The test rows stay.
        """
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction: must lie in (0, 1], got {fraction!r}")
        return self.kept(self.drawn(seed, fraction, held=False))

    def drawn(self, seed: int | list[int], fraction: float, held: bool) -> Array:
        """Return a mask of a stratified random fraction of the training rows.

        At least one row of every class is drawn or, if the rows are `held` out, is not
        drawn.
        """
        rng = np.random.default_rng(seed)
        drawn = np.zeros(self.n, dtype=bool)
        order, starts = by_class(self.y, self.k)
        for start, end in pairwise(starts):
            size = end - start
            count = round(fraction * size)
            count = min(count, size - 1) if held else max(1, count)
            drawn[rng.permutation(order[start:end])[:count]] = True
        return drawn

    def kept(self, rows: Array) -> Problem:
        """Return the problem with only these training rows (a mask, or row numbers)."""
        return replace(self, X=self.X[rows], y=self.y[rows], weights=self.weights[rows])

    def held_out(self, rows: Array) -> Problem:
        """Return the problem with these training rows (a mask) as its test rows."""
        return replace(self.kept(~rows), X_test=self.X[rows], y_test=self.y[rows])

    def joined(self) -> Problem:
        """Return the problem with its test rows appended to its training rows."""
        X, y = self.all_rows()
        weights = np.ones(len(y))  # test rows had none
        weights[: self.n] = self.weights
        return replace(self, X=X, y=y, weights=weights, X_test=None, y_test=None)

    def losses(self, labels: Array, test: bool) -> Record:
        """Return the mean losses that a structure adds to the error, by name."""
        return {}

    def first_classes(self, k: int) -> Problem:
        """Return the problem with the first `k` classes only (2 <= k <= :attr:`k`)."""
        if not 2 <= k <= self.k:
            raise ValueError(f"classes: must be from 2 to {self.k}, got {k!r}")
        X_test = y_test = None
        if self.X_test is not None and self.y_test is not None:
            rows = self.y_test < k
            if rows.any():
                X_test, y_test = self.X_test[rows], self.y_test[rows]
        kept = self.kept(self.y < k)
        return replace(kept, X_test=X_test, y_test=y_test, classes=self.classes[:k])

    def all_rows(self) -> tuple[Matrix, Array]:
        """Return all rows, the test rows after the training rows, and their codes."""
        if self.X_test is None or self.y_test is None:
            return self.X, self.y
        parts = [self.X, self.X_test]
        X = sp.vstack(parts).tocsr() if self.is_sparse else np.vstack(parts)
        return X, np.concatenate([self.y, self.y_test])


def as_problem(
    X: Given,
    y: Given,
    *,
    X_test: Given = None,
    y_test: Given = None,
    classes: npt.ArrayLike | None = None,
    name: str = "unnamed",
    features: Iterable[object] | None = None,
    synthetic: bool = False,
    about: str = "",
) -> Problem:
    """Check rows and labels of any type, and return them as a :class:`Problem`.

    Parameters
    ----------
    X : (n, d) array, DataFrame or sparse matrix (CSR, CSC, COO) of finite real numbers
        Float32 and float64 are kept. Booleans, float16 and integers of up to 16 bits
        become float32, and everything else becomes float64.
    y : (n,) labels of any sortable type
    X_test, y_test : test rows and their labels
        Each of these labels must also be a label of a training row.
    classes : the expected labels
        By default they are the labels that occur in `y`.
    name, features, synthetic, about : see :class:`Problem`
        By default the names of the features are the columns of a DataFrame.

    Raises
    ------
    ValueError
        If an argument is faulty; the message names it.
    """
    if features is None:
        features = getattr(X, "columns", None)
    names = None if features is None else tuple(map(str, features))
    X = check_matrix(X, "X")
    check_columns(X, "X")
    y = check_labels(y, "y", X.shape[0])
    try:
        known = np.unique(y) if classes is None else np.asarray(classes)
    except TypeError:
        raise ValueError(
            f"y: labels of type {type(y[0]).__name__} cannot be sorted"
        ) from None
    y = _codes(y, known)
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test, y_test: give both or neither")
    if X_test is not None:
        check_features(names, getattr(X_test, "columns", None), "X_test")
        X_test = _like(X, X_test)
        y_test = check_labels(y_test, "y_test", X_test.shape[0])
        y_test = encode(y_test, known, "y_test")
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"features: {len(names)} names for {X.shape[1]} columns of X")
    return Problem(X, y, known, name, X_test, y_test, names, synthetic, about)


def _codes(y: Array, classes: Array) -> Array:
    """Return the codes of training labels, which must have at least two classes."""
    labels = classes.tolist()
    if len(labels) < 2:
        raise ValueError(f"y: needs at least two classes, got only {labels!r}")
    check_visible(labels, "y")
    codes = encode(y, classes, "y")
    sizes = np.bincount(codes, minlength=len(labels))
    if not sizes.all():
        empty = classes[sizes == 0].tolist()
        raise ValueError(f"classes: {empty!r} have no training row, or appear twice")
    return codes


def _like(X: Matrix, X_test: Given) -> Matrix:
    """Return test rows, checked, in the type of the training rows `X`."""
    X_test = check_matrix(X_test, "X_test")
    with np.errstate(over="ignore"):
        # An infinity from overflow in single precision is refused.
        X_test = check_matrix(X_test.astype(X.dtype, copy=False), "X_test")
    if X_test.shape[1] != X.shape[1]:
        raise ValueError(f"X_test: has {X_test.shape[1]} features, X has {X.shape[1]}")
    if sp.issparse(X_test) != sp.issparse(X):
        raise ValueError("X_test: must be sparse exactly when X is sparse")
    return X_test


def check_features(
    features: tuple[str, ...] | None, others: Iterable[object] | None, argument: str
) -> None:
    """Refuse test rows unless their columns equal those of the training rows."""
    if features is None or others is None:
        return
    for name, other in zip_longest(features, map(str, others)):
        if name != other:
            raise ValueError(
                f"{argument}: must have the same columns in the same order as the "
                f"training rows, got {other!r} instead of {name!r}"
            )


def noted(problem: Problem, recipe: Record) -> None:
    """Set the recipe of a problem; ``replace`` does not keep it."""
    object.__setattr__(problem, "recipe", recipe)


def by_class(y: Array, k: int) -> tuple[Array, Array]:
    """Return the rows in the order of their classes, and where each class starts.

    There are k + 1 starts: the last is the number of rows.
    """
    order = np.argsort(y, kind="stable")
    return order, np.searchsorted(y[order], np.arange(k + 1))


def _buffers(part: Matrix) -> tuple[Array, ...]:
    """Return the arrays that an array, a CSR matrix or None consists of."""
    if part is None:
        return ()
    return (part.data, part.indices, part.indptr) if sp.issparse(part) else (part,)
