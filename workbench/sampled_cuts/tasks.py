"""The outputs that a structural SVM is trained on, as scores of parts and labels.

Every task here has parts, rows of X each of which gets a score for each label: F (N,
K). It knows its outputs only through these scores and a few explicit weights v. A
part's feature map is phi(x), so that only inner products of rows are needed. Units,
rows or sequences, are sampled. The risk is the mean over units of loss minus gain.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from workbench.core.problem import Problem
from workbench.core.structures import SequenceProblem, TreeProblem
from workbench.kernels.compiled import njit
from workbench.sampled_cuts.chain import viterbi


class Answers(NamedTuple):
    """The most violating outputs of some units, their losses and their gains, both
    (n,)."""

    outputs: Any  # of the task's own kind
    losses: np.ndarray
    gains: np.ndarray


class Cut(NamedTuple):
    """A vector sum_u phi(x_u) B[u] over (m,) parts, (m, K) `B`, and (q,) explicit
    weights."""

    parts: np.ndarray
    B: np.ndarray
    explicit: np.ndarray


class Task(Protocol):
    """The interface of a task for solvers.

    Attributes
    ----------
    n : number of units
    parts : (N,) the rows of X that are this task's parts, in the order of its scores
    K : labels of a part
    explicit : number of explicit weights, for features that have no kernel
    """

    n: int
    parts: np.ndarray
    K: int
    explicit: int

    def of(self, units: np.ndarray) -> Task:
        """Return the task of these units alone; one may occur several times."""

    def answers(self, F: np.ndarray, v: np.ndarray) -> Answers:
        """Return every unit's argmax_y [Delta(y_i, y) + w.Psi(x_i, y)], loss 0 if none
        violates."""

    def gains(self, F: np.ndarray, v: np.ndarray, answers: Answers) -> np.ndarray:
        """Return w.dPsi_i (n,): by how much, at any scores, true outputs exceed these
        answers."""

    def cut(self, answers: Answers, units: np.ndarray, weight: float) -> Cut:
        """Return weight sum_i dPsi_i over these units, which may repeat."""


NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Binary:
    """Psi(x, y) = y phi(x) / 2 for y = -1 or 1: the SVM with the hinge loss, without a
    bias.

    The paper prints Psi = y phi(x); its hinge is at 2 y w.phi(x) then, and its C a
    quarter of ours.

    Attributes
    ----------
    parts : (n,) rows
    signs : (n,) -1 or 1
    """

    parts: np.ndarray
    signs: np.ndarray
    K = 1
    explicit = 0

    @property
    def n(self) -> int:
        return len(self.parts)

    def of(self, units):
        return Binary(self.parts[units], self.signs[units])

    def answers(self, F, v):
        margins = self.signs * F[:, 0]
        losses = (margins < 1.0).astype(float)
        return Answers(losses, losses, losses * margins)

    def gains(self, F, v, answers):
        return answers.outputs * (self.signs * F[:, 0])

    def cut(self, answers, units, weight):
        wrong = units[answers.outputs[units] > 0.0]
        return Cut(self.parts[wrong], weight * self.signs[wrong, None], NONE)


@dataclass(frozen=True, eq=False)
class Multiclass:
    """Psi(x, y) = phi(x) for label y, zeros for all others: the SVM of Crammer and
    Singer.

    Attributes
    ----------
    parts : (n,) rows
    y : (n,) codes 0..K-1
    K : labels
    """

    parts: np.ndarray
    y: np.ndarray
    K: int
    explicit = 0

    @property
    def n(self) -> int:
        return len(self.parts)

    def of(self, units):
        return replace(self, parts=self.parts[units], y=self.y[units])

    def answers(self, F, v):
        labels = np.empty(self.n, self.y.dtype)
        losses, gains = np.empty(self.n), np.empty(self.n)
        multiclass_answers(F, self.y, labels, losses, gains)
        return Answers(labels, losses, gains)

    def gains(self, F, v, answers):
        rows = np.arange(self.n)
        return F[rows, self.y] - F[rows, answers.outputs]

    def cut(self, answers, units, weight):
        units = units[answers.losses[units] > 0.0]
        B = differences(self.y[units], answers.outputs[units], self.K, weight)
        return Cut(self.parts[units], B, NONE)


@dataclass(frozen=True, eq=False)
class CostSensitive(Multiclass):
    """:class:`Multiclass` with another loss, that of a taxonomy, say.

    Attributes
    ----------
    costs : (K, K), Delta(y, y') = costs[y, y']
    """

    costs: np.ndarray = field(default_factory=lambda: NONE)

    def answers(self, F, v):
        labels = np.argmax(F + self.costs[self.y], axis=1)
        found = Answers(labels, self.costs[self.y, labels], NONE)
        return found._replace(gains=self.gains(F, v, found))


# If NaN is ruled out, vector instructions find the largest score of a row.
@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"}, error_model="numpy")
def multiclass_answers(F, y, labels, losses, gains):
    """Write each row's most violating label, its loss of 1, or 0 if none violates, and
    its gain."""
    for i in range(np.uint64(len(y))):
        row, own = F[i], np.uint64(y[i])
        largest = row[1] if own == 0 else row[0]
        for c in range(np.uint64(1), own):
            largest = max(largest, row[c])
        for c in range(own + np.uint64(1), np.uint64(len(row))):
            largest = max(largest, row[c])
        labels[i], losses[i], gains[i] = y[i], 0.0, 0.0
        if 1.0 - (row[own] - largest) > 0.0:
            for c in range(np.uint64(len(row))):
                if row[c] == largest and c != own:
                    labels[i], losses[i], gains[i] = c, 1.0, row[own] - largest
                    break


@dataclass(frozen=True, eq=False)
class Chain:
    """Psi(x, y) = sum_t phi(x_t) for label y_t, and how often each label follows each.

    The loss is the number of wrong positions over the mean length of all sequences, so
    that the mean loss is the fraction of wrong positions.

    Attributes
    ----------
    parts : (N,) rows, the positions of one sequence after the other
    y : (N,) codes 0..K-1
    starts : (n + 1,) sequence i is ``starts[i]:starts[i + 1]``, which is not empty
    K : labels
    mean_length : of all sequences, by default of these
    """

    parts: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    K: int
    mean_length: float | None = None

    def __post_init__(self):
        if self.mean_length is None:
            object.__setattr__(self, "mean_length", len(self.parts) / self.n)

    @property
    def n(self) -> int:
        return len(self.starts) - 1

    @property
    def explicit(self) -> int:
        return self.K**2

    def of(self, units):
        positions, starts = self._positions(units)
        rows = self.parts[positions], self.y[positions]
        return Chain(*rows, starts, self.K, self.mean_length)

    def answers(self, F, v):
        labels = np.empty(len(self.y), self.y.dtype)
        moves = v.reshape(self.K, self.K)
        viterbi(F, moves, self.starts, self.y, 1.0 / self.mean_length, labels)
        wrong = np.add.reduceat((labels != self.y).astype(float), self.starts[:-1])
        answers = Answers(labels, wrong / self.mean_length, wrong)
        return answers._replace(gains=self.gains(F, v, answers))

    def gains(self, F, v, answers):
        y, other, moves = self.y, answers.outputs, v.reshape(self.K, self.K)
        rows = np.arange(len(y))
        ahead = (F[rows, y] - F[rows, other]).astype(float)
        later = np.delete(rows, self.starts[:-1])
        before = later - 1
        ahead[later] += moves[y[before], y[later]] - moves[other[before], other[later]]
        return np.add.reduceat(ahead, self.starts[:-1])

    def cut(self, answers, units, weight):
        positions, starts = self._positions(units)
        y, other = self.y[positions], answers.outputs[positions]
        counts = np.zeros((self.K, self.K))
        before = np.delete(
            np.arange(len(positions)), starts[1:] - 1
        )  # all but the last positions
        np.add.at(counts, (y[before], y[before + 1]), weight)
        np.add.at(counts, (other[before], other[before + 1]), -weight)
        wrong = np.flatnonzero(y != other)
        B = differences(y[wrong], other[wrong], self.K, weight)
        return Cut(self.parts[positions[wrong]], B, counts.ravel())

    def _positions(self, units) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of these sequences, one after the other, and where each
        starts."""
        lengths = self.starts[units + 1] - self.starts[units]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.starts[units] - starts[:-1], lengths)
        return np.arange(starts[-1]) + shift, starts


def differences(y: np.ndarray, other: np.ndarray, K: int, weight: float) -> np.ndarray:
    """Return rows of `K` labels with `weight` at y and minus that at the other
    label."""
    B, rows = np.zeros((len(y), K)), np.arange(len(y))
    B[rows, y], B[rows, other] = weight, -weight
    return B


def task_of(problem: Problem):
    """Return the task of a problem, by its type, and by whether it has two classes or
    more."""
    parts = np.arange(problem.n)
    if isinstance(problem, SequenceProblem):
        return Chain(parts, problem.y, problem.starts, problem.k)
    if isinstance(problem, TreeProblem):
        return CostSensitive(parts, problem.y, problem.k, problem.costs)
    if problem.k == 2:
        return Binary(parts, np.where(problem.y == 1, 1.0, -1.0))
    return Multiclass(parts, problem.y, problem.k)
