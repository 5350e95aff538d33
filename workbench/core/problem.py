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
    check_labels,
    check_matrix,
    check_visible,
    encode,
)
from workbench.core.kinds import Given, Record
from workbench.core.kinds import Matrix as Matrix

MAX_TINY_CLASSES = 512  # classes with rows in a tiny problem, at most


@dataclass(frozen=True, eq=False)
class Problem:
    """Training rows and, if there are any, test rows of one multiclass data set.

    Build one with :func:`as_problem` or :func:`workbench.data.load`; both check their
    input.

    Attributes
    ----------
    X : (n, d) float32 or float64, C-ordered array (it may be memory-mapped) or CSR
        matrix
    y : (n,) int32, codes 0..k-1, each at least once
    classes : (k,) array of the labels as they were given, sorted; ``classes[y]`` are
        the labels
    name : str
    X_test, y_test : rows that solvers never see, coded as the training rows; None
        without a split
    features : tuple of d names, or None
    synthetic : bool, True for generated data, which every figure states
    about : str, where the data come from, and for tables their classes
    weights : (n,) positive float64; row i counts `weights[i]` times; ones by default
    recipe : the arguments of :func:`workbench.data.specs.remade` that make these rows
        again, or None
    """

    X: Matrix
    y: np.ndarray
    classes: np.ndarray
    name: str = "unnamed"
    X_test: Matrix | None = None
    y_test: np.ndarray | None = None
    features: tuple[str, ...] | None = None
    synthetic: bool = False
    about: str = ""
    weights: np.ndarray = None  # type: ignore[assignment]  # ones, see __post_init__
    recipe: Record | None = field(default=None, init=False)
    structure = ""  # the name of what else a problem has: `core.structures`

    def __post_init__(self) -> None:
        weights = self.weights
        if weights is None or (weights.shape != (self.n,) and np.all(weights == 1.0)):
            object.__setattr__(self, "weights", np.ones(self.n))
        elif weights.shape != (self.n,):
            raise ValueError(
                f"weights: must have the shape {(self.n,)}, got {weights.shape}"
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
        """Sixteen hex digits of the SHA-256 of the training and test rows and
        labels."""
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
        """Raise a ValueError if rows have weights: solvers that do not use them call
        this first."""
        if np.any(self.weights != 1.0):
            raise ValueError(
                "weights: must be ones, as this solver counts each row once"
            )

    def tiny(self, rows_per_class: int = 2, d: int = 9) -> Problem:
        """Return a few rows and features of every class; they compile the same kernels
        as all.

        Dtype, sparsity, memory order and whether the rows may be written to are kept.
        At most :data:`MAX_TINY_CLASSES` classes have rows; k is smaller unless its
        codes need four bytes.
        """
        order, starts = by_class(self.y, self.k)
        sizes = np.minimum(np.diff(starts), rows_per_class)[:MAX_TINY_CLASSES]
        rows = np.concatenate(
            [order[f : f + s] for f, s in zip(starts, sizes, strict=False)]
        )
        X, y = self.X[np.sort(rows)], self.y[np.sort(rows)]
        # Take the fullest columns: rows with only zeros would compile fewer kernels.
        filled = np.asarray((X != 0).sum(axis=0)).ravel()
        X = X[:, np.sort(np.argsort(-filled, kind="stable")[:d])]
        X = X if self.is_sparse else np.ascontiguousarray(X)
        for part, whole in zip(
            (*_buffers(X), y), (*_buffers(self.X), self.y), strict=True
        ):
            part.flags.writeable = whole.flags.writeable
        classes = self.classes if self.k >= 2**16 else self.classes[:MAX_TINY_CLASSES]
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
        """Return the problem with a stratified random fraction of all rows held out as
        test rows.

        Every class keeps at least one training row. A `test` that is not inside (0, 1),
        or too small to hold out a row, is a ValueError.
        """
        if not 0 < test < 1:
            raise ValueError(f"test: must lie strictly between 0 and 1, got {test!r}")
        whole = self.joined()
        held = whole.drawn(seed, test, held=True)
        if not held.any():
            raise ValueError(
                f"test: a fraction of {test!r} of {whole.n} rows holds out no row"
            )
        return whole.held_out(held)

    def subset(self, fraction: float, seed: int = 0) -> Problem:
        """Return a stratified random fraction, in (0, 1], of the training rows; test
        rows stay."""
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction: must lie in (0, 1], got {fraction!r}")
        return self.kept(self.drawn(seed, fraction, held=False))

    def drawn(self, seed: int | list[int], fraction: float, held: bool) -> np.ndarray:
        """Return a mask of a stratified random fraction of the training rows.

        Rows of every class are among them or, if they are to be `held` out, among the
        others.
        """
        rng, drawn = np.random.default_rng(seed), np.zeros(self.n, dtype=bool)
        order, starts = by_class(self.y, self.k)
        for start, end in pairwise(starts):
            size, rows = end - start, rng.permutation(order[start:end])
            count = round(fraction * size)
            drawn[rows[: min(count, size - 1) if held else max(1, count)]] = True
        return drawn

    def kept(self, rows: np.ndarray) -> Problem:
        """Return the problem with only these training rows, a mask."""
        return replace(self, X=self.X[rows], y=self.y[rows], weights=self.weights[rows])

    def held_out(self, rows: np.ndarray) -> Problem:
        """Return the problem with these training rows, a mask, as its test rows."""
        return replace(self.kept(~rows), X_test=self.X[rows], y_test=self.y[rows])

    def joined(self) -> Problem:
        """Return the problem with its test rows behind its training rows, if there are
        any."""
        X, y = self.all_rows()
        tested = np.ones(len(y) - self.n)  # weights of test rows are not used
        weights = np.concatenate([self.weights, tested])
        return replace(self, X=X, y=y, weights=weights, X_test=None, y_test=None)

    def losses(self, labels: np.ndarray, test: bool) -> Record:
        """Return the mean losses that a structure adds to the error of these labels, by
        name."""
        return {}

    def first_classes(self, k: int) -> Problem:
        """Return the rows of the first `k` classes, 2 <= k <= :attr:`k`, and their test
        rows."""
        if not 2 <= k <= self.k:
            raise ValueError(f"classes: must be from 2 to {self.k}, got {k!r}")
        kept = self.y < k
        rows: Record = {
            "X": self.X[kept],
            "y": self.y[kept],
            "weights": self.weights[kept],
        }
        if self.X_test is not None and self.y_test is not None:
            kept = self.y_test < k
            test = (
                (self.X_test[kept], self.y_test[kept]) if kept.any() else (None, None)
            )
            rows["X_test"], rows["y_test"] = test
        return replace(self, **rows, classes=self.classes[:k])

    def all_rows(self) -> tuple[Matrix, np.ndarray]:
        """Return the training rows, then the test rows if there are any, and their
        labels."""
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
    """Check rows and labels of any type and wrap them as a :class:`Problem`.

    Parameters
    ----------
    X : (n, d) array, DataFrame or sparse matrix (CSR, CSC, COO) of finite real numbers
        float32 and float64 are kept, small integers become float32, all else float64.
    y : (n,) labels of any sortable type
    X_test, y_test : test rows and labels, each label one of the training labels
    classes : the labels to expect; by default those that occur in `y`

    Raises
    ------
    ValueError
        Naming the argument and what is wrong with it.
    """
    if features is None:
        features = getattr(X, "columns", None)
    names = None if features is None else tuple(map(str, features))
    X = check_matrix(X, "X")
    check_columns(X, "X")
    y = check_labels(y, "y", X.shape[0])
    try:
        given = np.unique(y) if classes is None else np.asarray(classes)
    except TypeError:
        raise ValueError(
            f"y: labels of type {type(y[0]).__name__} cannot be sorted"
        ) from None
    if len(given) < 2:
        raise ValueError(f"y: needs at least two classes, got only {given.tolist()!r}")
    check_visible(given.tolist(), "y")
    y = encode(y, given, "y")
    if len(empty := np.flatnonzero(np.bincount(y, minlength=len(given)) == 0)):
        raise ValueError(f"classes: {given[empty].tolist()!r} have no training row")
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test, y_test: give both or neither")
    if X_test is not None:
        check_features(names, getattr(X_test, "columns", None), "X_test")
        X_test = check_matrix(X_test, "X_test")
        with np.errstate(
            over="ignore"
        ):  # a double that overflows in single precision is refused
            X_test = check_matrix(X_test.astype(X.dtype, copy=False), "X_test")
        if X_test.shape[1] != X.shape[1]:
            raise ValueError(
                f"X_test: has {X_test.shape[1]} features, X has {X.shape[1]}"
            )
        if sp.issparse(X_test) != sp.issparse(X):
            raise ValueError("X_test: must be sparse exactly when X is sparse")
        y_test = encode(
            check_labels(y_test, "y_test", X_test.shape[0]), given, "y_test"
        )
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"features: {len(names)} names for {X.shape[1]} columns of X")
    return Problem(X, y, given, name, X_test, y_test, names, synthetic, about)


def check_features(
    features: tuple[str, ...] | None, others: Iterable[object] | None, argument: str
) -> None:
    """Refuse test rows with other columns than the training rows, or in another
    order."""
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


def by_class(y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in the order of their classes, and the start of each of k classes
    there."""
    order = np.argsort(y, kind="stable")
    return order, np.searchsorted(y[order], np.arange(k + 1))


def _buffers(part: Matrix) -> tuple[np.ndarray, ...]:
    if part is None:
        return ()
    return (part.data, part.indices, part.indptr) if sp.issparse(part) else (part,)
