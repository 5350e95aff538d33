"""Problems with more than rows and labels: sequences, and a tree of classes.

Solvers refuse them unless they are ``resumable(..., structured=True)``; ``plain()`` has
the rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import accumulate

import numpy as np

from workbench.core.kinds import Given, Record
from workbench.core.problem import Problem

NONE = np.zeros(1, np.int64)


@dataclass(frozen=True, eq=False)
class Structured(Problem):
    """A problem with ``arrays`` in addition to its rows; they are part of its
    checksum."""

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        raise NotImplementedError

    @cached_property
    def checksum(self) -> str:
        """Sixteen hex digits of the SHA-256 of the rows, the labels and the
        structure."""
        parts = [super().checksum.encode(), *(array.tobytes() for array in self.arrays)]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:16]

    def plain(self) -> Problem:
        """Return the rows and labels alone, which every solver takes."""
        return Problem(**rows_of(self))


@dataclass(frozen=True, eq=False)
class SequenceProblem(Structured):
    """A problem whose rows are the positions of one sequence after the other.

    Build one with :func:`as_sequences`. Subsets and splits are of whole sequences, and
    the training sequences have every class.

    Attributes
    ----------
    starts : (n + 1,) training sequence i is the rows ``starts[i]:starts[i + 1]``, at
        least one
    starts_test : the same for the test rows, if any
    """

    structure = "sequences"
    starts: np.ndarray = field(default_factory=lambda: NONE)
    starts_test: np.ndarray = field(default_factory=lambda: NONE)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.starts, self.starts_test

    def losses(self, labels: np.ndarray, test: bool) -> Record:
        """Return the fraction of sequences with a wrong label, as `sequence_error`."""
        y, starts = (self.y_test, self.starts_test) if test else (self.y, self.starts)
        return {
            "sequence_error": float(
                np.logical_or.reduceat(labels != y, starts[:-1]).mean()
            )
        }

    def tiny(self, rows_per_class: int = 2, d: int = 9) -> SequenceProblem:
        """Return the few rows of :meth:`Problem.tiny`, as sequences of two."""
        small = super().tiny(rows_per_class, d)
        return wrapped(small, np.append(np.arange(0, small.n, 2), small.n))

    def first_classes(self, k: int) -> Problem:
        raise ValueError("classes: sequences need them all; plain() has their rows")

    def joined(self) -> SequenceProblem:
        return wrapped(
            super().joined(), np.append(self.starts, self.n + self.starts_test[1:])
        )

    def kept(self, rows: np.ndarray) -> SequenceProblem:
        return wrapped(super().kept(rows), self._starts(rows), self.starts_test)

    def held_out(self, rows: np.ndarray) -> SequenceProblem:
        return wrapped(super().held_out(rows), self._starts(~rows), self._starts(rows))

    def drawn(self, seed: int | list[int], fraction: float, held: bool) -> np.ndarray:
        n = len(self.starts) - 1
        place = np.random.default_rng(seed).permutation(n)
        of_row = np.repeat(place, np.diff(self.starts))
        first = np.full(self.k, n)
        np.minimum.at(first, self.y, of_row)
        kept = (1 - fraction if held else fraction) * n
        # The first sequences that have a class stay.
        return ((of_row < max(1, round(kept))) | np.isin(of_row, first)) ^ held

    def _starts(self, rows: np.ndarray) -> np.ndarray:
        """Return where the sequences of these rows, a mask, start among them."""
        lengths, taken = (
            np.diff(self.starts),
            np.add.reduceat(rows, self.starts[:-1], dtype=int),
        )
        if np.any(taken % lengths):
            raise ValueError(
                "rows: must be those of whole sequences, got a part of one"
            )
        return np.append(0, np.cumsum(taken[taken > 0]))


@dataclass(frozen=True, eq=False)
class TreeProblem(Structured):
    """A problem whose classes are the leaves of a tree, and errors far apart in it cost
    more.

    The names of classes are paths from the root, their parts joined by the `separator`.
    """

    structure = "a tree of classes"
    separator: str = "."

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.costs,)

    @cached_property
    def costs(self) -> np.ndarray:
        """The loss (k, k) of two classes: the fraction of the longer path that they do
        not share.

        It is 2/3 for ``rec.sport.hockey`` and ``rec.autos``.
        """
        paths = [str(name).split(self.separator) for name in self.classes]
        nodes = [
            {*accumulate(path, lambda a, b: f"{a}{self.separator}{b}")}
            for path in paths
        ]
        return np.array(
            [[1 - len(a & b) / max(len(a), len(b)) for b in nodes] for a in nodes]
        )

    def losses(self, labels: np.ndarray, test: bool) -> Record:
        """Return the mean cost of these predictions, as `cost`."""
        return {
            "cost": float(self.costs[self.y_test if test else self.y, labels].mean())
        }


def as_tree(problem: Problem, separator: str = ".") -> TreeProblem:
    """Return the problem with the loss of the tree that its classes' names spell."""
    return TreeProblem(**rows_of(problem), separator=separator)


def as_sequences(
    problem: Problem, starts: Given, starts_test: Given = NONE
) -> SequenceProblem:
    """Return a problem's rows as sequences, the training rows and the test rows, if
    any.

    A ValueError names starts that do not rise from 0 to the number of rows.
    """
    n_test, checked = 0 if problem.y_test is None else len(problem.y_test), []
    for name, given, n in (
        ("starts", starts, problem.n),
        ("starts_test", starts_test, n_test),
    ):
        rows = np.asarray(given)
        whole = rows.ndim == 1 and rows.dtype.kind in "iu" and np.all(np.diff(rows) > 0)
        if not whole or [*rows[:1], *rows[-1:]] != [0, n]:
            raise ValueError(
                f"{name}: must be whole numbers that rise from 0 to {n}, got {given}"
            )
        checked.append(rows.astype(np.int64))
    return wrapped(problem, *checked)


def wrapped(
    problem: Problem, starts: np.ndarray, starts_test: np.ndarray = NONE
) -> SequenceProblem:
    """Return a problem's rows as sequences that start there."""
    return SequenceProblem(**rows_of(problem), starts=starts, starts_test=starts_test)


def rows_of(problem: Problem) -> Record:
    """Return what a problem is made with, by name, without its structure."""
    return {f.name: getattr(problem, f.name) for f in fields(Problem) if f.init}
