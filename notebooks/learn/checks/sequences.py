"""Labelled sequences as a problem: its rows are the positions of one sequence after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Problem, as_problem, check_labels, check_matrix

NONE = np.zeros(1, np.int64)


@dataclass(frozen=True, eq=False)
class SequenceProblem(Problem):
    """A problem whose rows are positions; other solvers treat each position on its own.

    Attributes
    ----------
    starts : (n + 1,) training sequence i is the rows ``starts[i]:starts[i + 1]``, at least one
    starts_test : the same for the test rows, if any
    """

    starts: np.ndarray = field(default_factory=lambda: NONE)
    starts_test: np.ndarray = field(default_factory=lambda: NONE)

    @cached_property
    def checksum(self) -> str:
        """Sixteen hex digits of the SHA-256 of the rows, the labels and where sequences start."""
        digest = hashlib.sha256(super().checksum.encode())
        for starts in (self.starts, self.starts_test):
            digest.update(np.ascontiguousarray(starts, np.int64).tobytes())
        return digest.hexdigest()[:16]

    def tiny(self, rows_per_class: int = 2, d: int = 9) -> SequenceProblem:
        """Return the few rows of :meth:`Problem.tiny`, as sequences of two."""
        small = super().tiny(rows_per_class, d)
        starts = np.unique(np.append(np.arange(0, small.n, 2), small.n))
        return replace(small, starts=starts, starts_test=NONE)

    def _refused(self, *_, **__):
        raise ValueError("problem: sequences have no random rows or classes; use first_sequences")

    split = subset = first_classes = _refused

    def first_sequences(self, n: int) -> SequenceProblem:
        """Return the first `n` training sequences; every class must occur in them."""
        if not 1 <= n < len(self.starts):
            raise ValueError(f"n: must be from 1 to {len(self.starts) - 1}, got {n!r}")
        end = self.starts[n]
        missing = np.setdiff1d(np.arange(self.k), self.y[:end])
        if len(missing):
            raise ValueError(f"n: no {self.classes[missing].tolist()!r} in the first {n} sequences")
        rows = {"X": self.X[:end], "y": self.y[:end], "weights": self.weights[:end]}
        return replace(self, **rows, starts=self.starts[: n + 1])


def as_sequences(
    X: Sequence, y: Sequence, *, X_test: Sequence = (), y_test: Sequence = (), **about
) -> SequenceProblem:
    """Check lists of sequences and wrap them as a :class:`SequenceProblem`.

    Parameters
    ----------
    X, X_test : n arrays or sparse matrices (length, d), one per training and test sequence
    y, y_test : n sequences of as many labels; those of test sequences all occur in training
    about : `name`, `features`, `synthetic`, `about` as of
        :func:`~workbench.core.problem.as_problem`

    Raises
    ------
    ValueError
        Naming the argument: no sequence, an empty one, lengths or widths that differ, and what
        ``as_problem`` refuses.
    """
    rows, labels, starts = _joined(X, y)
    if not len(X_test):
        return SequenceProblem(**vars_of(as_problem(rows, labels, **about)), starts=starts)
    test_rows, test_labels, starts_test = _joined(X_test, y_test, "X_test", "y_test")
    made = as_problem(rows, labels, X_test=test_rows, y_test=test_labels, **about)
    return SequenceProblem(**vars_of(made), starts=starts, starts_test=starts_test)


def _joined(X: Sequence, y: Sequence, name: str = "X", labels: str = "y"):
    """Return all rows, all labels, and where each sequence starts."""
    if not len(X) or len(y) != len(X):
        raise ValueError(f"{name}, {labels}: {len(X)} and {len(y)} sequences do not match")
    parts = [check_matrix(part, f"{name}[{i}]") for i, part in enumerate(X)]
    lengths = [part.shape[0] for part in parts]
    checked = [check_labels(p, f"{labels}[{i}]", lengths[i]) for i, p in enumerate(y)]
    rows = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.vstack(parts)
    return rows, np.concatenate(checked), np.concatenate([[0], np.cumsum(lengths)])


def vars_of(problem: Problem) -> dict:
    """Return the fields that a problem was made with, by name."""
    return {f.name: getattr(problem, f.name) for f in fields(problem) if f.init}
