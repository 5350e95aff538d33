"""Problems that have more than rows and labels: sequences, and a tree of classes.

Only solvers that are ``resumable(..., structured=True)`` accept them. Every solver
accepts ``problem.plain()``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from functools import cached_property
from os.path import commonprefix

import numpy as np

from workbench.core.kinds import Array, Given, Record
from workbench.core.problem import Problem

NONE = np.zeros(1, np.int64)


@dataclass(frozen=True, eq=False)
class Structured(Problem):
    """A problem with ``arrays`` for its structure; its checksum covers them."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        raise NotImplementedError

    @cached_property
    def checksum(self) -> str:
        """Sixteen hex digits of the SHA-256 of rows, labels and structure."""
        parts = [super().checksum.encode(), *(array.tobytes() for array in self.arrays)]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:16]

    def plain(self) -> Problem:
        """Return the problem without its structure, which every solver accepts."""
        return Problem(**rows_of(self))


@dataclass(frozen=True, eq=False)
class SequenceProblem(Structured):
    """A problem whose rows are the positions of sequences, one sequence after another.

    Make one with :func:`as_sequences`. Subsets and splits consist of whole sequences.
    Every class occurs in the training sequences.

    Attributes
    ----------
    starts : (number of sequences + 1,) int64
        Training sequence i consists of the rows ``starts[i]:starts[i + 1]``, at least
        one.
    starts_test : the same for the test rows
    """

    structure = "sequences"
    starts: Array = field(default_factory=lambda: NONE)
    starts_test: Array = field(default_factory=lambda: NONE)

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.starts, self.starts_test

    def losses(self, labels: Array, test: bool) -> Record:
        """Return the fraction of sequences with a wrong label, as `sequence_error`."""
        y, starts = (self.y_test, self.starts_test) if test else (self.y, self.starts)
        wrong = np.logical_or.reduceat(labels != y, starts[:-1])
        return {"sequence_error": float(wrong.mean())}

    def tiny(self, rows_per_class: int = 2, d: int = 9) -> SequenceProblem:
        """Return the few rows of :meth:`Problem.tiny`, as sequences of two rows."""
        few = super().tiny(rows_per_class, d)
        return wrapped(few, np.append(np.arange(0, few.n, 2), few.n))

    def first_classes(self, k: int) -> Problem:
        raise ValueError("classes: sequences need all of them; use problem.plain()")

    def joined(self) -> SequenceProblem:
        starts = np.append(self.starts, self.n + self.starts_test[1:])
        return wrapped(super().joined(), starts)

    def kept(self, rows: Array) -> SequenceProblem:
        return wrapped(super().kept(rows), self._starts(rows), self.starts_test)

    def held_out(self, rows: Array) -> SequenceProblem:
        return wrapped(super().held_out(rows), self._starts(~rows), self._starts(rows))

    def drawn(self, seed: int | list[int], fraction: float, held: bool) -> Array:
        """Return a mask of the rows of a random fraction of the training sequences.

        Every class occurs in a drawn sequence or, if the drawn ones are `held` out, in
        one of the others.
        """
        n = len(self.starts) - 1
        places = np.random.default_rng(seed).permutation(n)
        # The place of each row's sequence.
        place = np.repeat(places, np.diff(self.starts))
        if held:
            fraction = 1 - fraction
        # The first sequence that has a class is always kept.
        first = np.full(self.k, n)
        np.minimum.at(first, self.y, place)
        kept = (place < max(1, round(fraction * n))) | np.isin(place, first)
        return ~kept if held else kept

    def _starts(self, rows: Array) -> Array:
        """Return the starts of the sequences that these rows (a mask) consist of."""
        lengths = np.diff(self.starts)
        taken = np.add.reduceat(rows, self.starts[:-1], dtype=int)
        if np.any(taken % lengths):
            raise ValueError("rows: must make up whole sequences, got a part of one")
        return np.append(0, np.cumsum(taken[taken > 0]))


@dataclass(frozen=True, eq=False)
class TreeProblem(Structured):
    """A problem whose classes are the leaves of a tree.

    Confusing two classes costs more if they are farther apart in the tree. The name of
    a class is its path from the root, with the `separator` between its parts.
    """

    structure = "a tree of classes"
    separator: str = "."

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.costs,)

    @cached_property
    def costs(self) -> Array:
        """The (k, k) losses of predicting one class instead of another.

        A loss is the fraction of the longer path that the two paths do not share: 2/3
        for ``rec.sport.hockey`` and ``rec.autos``.
        """
        paths = [str(name).split(self.separator) for name in self.classes]

        def cost(path: list[str], other: list[str]) -> float:
            shared = commonprefix([path, other])  # noqa: RUF071 (of lists)
            return 1 - len(shared) / max(len(path), len(other))

        return np.array([[cost(path, other) for other in paths] for path in paths])

    def losses(self, labels: Array, test: bool) -> Record:
        """Return the mean cost of these predictions, as `cost`."""
        y = self.y_test if test else self.y
        return {"cost": float(self.costs[y, labels].mean())}


def as_tree(problem: Problem, separator: str = ".") -> TreeProblem:
    """Return the problem with the tree that the names of its classes describe."""
    return TreeProblem(**rows_of(problem), separator=separator)


def as_sequences(
    problem: Problem, starts: Given, starts_test: Given = NONE
) -> SequenceProblem:
    """Return a problem whose training and test rows are sequences with these starts.

    Starts that do not rise from 0 to the number of rows raise a ValueError.
    """
    n_test = 0 if problem.y_test is None else len(problem.y_test)
    starts = _checked(starts, problem.n, "starts")
    return wrapped(problem, starts, _checked(starts_test, n_test, "starts_test"))


def _checked(starts: Given, n: int, argument: str) -> Array:
    rows = np.asarray(starts)
    rises = rows.ndim == 1 and rows.dtype.kind in "iu" and np.all(np.diff(rows) > 0)
    if not rises or [*rows[:1], *rows[-1:]] != [0, n]:
        raise ValueError(
            f"{argument}: must be whole numbers that rise from 0 to {n}, got {starts}"
        )
    return rows.astype(np.int64)


def wrapped(
    problem: Problem, starts: Array, starts_test: Array = NONE
) -> SequenceProblem:
    """Return a problem whose rows are sequences with these starts, unchecked."""
    return SequenceProblem(**rows_of(problem), starts=starts, starts_test=starts_test)


def rows_of(problem: Problem) -> Record:
    """Return the fields of a problem, by name, without its structure."""
    return {f.name: getattr(problem, f.name) for f in fields(Problem) if f.init}
