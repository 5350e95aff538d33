"""The outputs that a structural SVM is trained on, as scores of parts and labels.

Every task has parts, which are rows of X, and every part has a score for each label: F
(N, K). A task evaluates its outputs only through these scores and a few explicit
weights v. The feature map of a part is phi(x), so that only inner products of rows are
needed. The units that are sampled are rows or sequences. The risk is the mean over
units of the loss minus the gain.

A task has ``n`` units, the rows ``parts`` (N,) of X in the order of its scores, ``K``
labels of a part, and ``explicit`` weights for features that have no kernel. Its methods
are

- ``of(units)``, the task of these units alone; a unit may occur several times
- ``answers(F, v)``, argmax_y [Delta(y_i, y) + w.Psi(x_i, y)] for every unit; the loss
  is 0 if no output violates
- ``gains(F, v, answers)``, w.dPsi_i (n,), the score of each true output minus the score
  of its answer
- ``cut(answers, units, weight)``, `weight` times the sum of dPsi_i over units, which
  may repeat
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from workbench.core.problem import Array, Problem
from workbench.core.structures import SequenceProblem, TreeProblem
from workbench.kernels.compiled import njit
from workbench.sampled_cuts.chain import viterbi


class Answers(NamedTuple):
    """The most violating outputs of n units, with their losses and gains, both (n,)."""

    outputs: Any  # each task has its own type
    losses: Array
    gains: Array


class Cut(NamedTuple):
    """A vector sum_u phi(x_u) B[u] over m parts, `B` (m, K), and explicit weights."""

    parts: Array
    B: Array
    explicit: Array


NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Binary:
    """Psi(x, y) = y phi(x) / 2 for y = -1 or 1: the SVM with the hinge loss, no bias.

    The paper prints Psi = y phi(x). With it the hinge is a function of 2 y w.phi(x),
    and a quarter of our C gives the same problem.

    Attributes
    ----------
    parts : (n,) the row of X of each unit
    signs : (n,) the labels, -1 or 1
    """

    parts: Array
    signs: Array
    K = 1
    explicit = 0

    @property
    def n(self) -> int:
        return len(self.parts)

    def of(self, units):
        return replace(self, parts=self.parts[units], signs=self.signs[units])

    def answers(self, F, v):
        margins = self.signs * F[:, 0]
        losses = (margins < 1.0).astype(float)
        return Answers(losses, losses, losses * margins)

    def gains(self, F, v, answers):
        return answers.outputs * (self.signs * F[:, 0])

    def cut(self, answers, units, weight):
        violating = units[answers.outputs[units] > 0.0]
        return Cut(self.parts[violating], weight * self.signs[violating, None], NONE)


@dataclass(frozen=True, eq=False)
class Multiclass:
    """Psi(x, y) = phi(x) for label y, else zeros: Crammer and Singer's SVM.

    Attributes
    ----------
    parts : (n,) the row of X of each unit
    y : (n,) the labels, codes 0..K-1
    K : int, the number of labels
    """

    parts: Array
    y: Array
    K: int
    explicit = 0

    @property
    def n(self) -> int:
        return len(self.parts)

    def of(self, units):
        return replace(self, parts=self.parts[units], y=self.y[units])

    def answers(self, F, v):
        labels = np.empty(self.n, self.y.dtype)
        losses = np.empty(self.n)
        gains = np.empty(self.n)
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
    """:class:`Multiclass` with another loss, for example the loss of a taxonomy.

    Attributes
    ----------
    costs : (K, K) losses, Delta(y, y') = costs[y, y']
    """

    costs: Array

    def answers(self, F, v):
        labels = np.argmax(F + self.costs[self.y], axis=1)
        answers = Answers(labels, self.costs[self.y, labels], NONE)
        return answers._replace(gains=self.gains(F, v, answers))


# Without NaN, vector instructions can find the largest score of a row.
@njit(nogil=True, fastmath={"nnan", "nsz"}, error_model="numpy")
def multiclass_answers(F, y, labels, losses, gains):
    """Write the most violating label of each row, its loss and its gain.

    The loss is 1, or 0 if no label violates.
    """
    for i in range(np.uint64(len(y))):
        row = F[i]
        own = np.uint64(y[i])
        largest = row[1] if own == 0 else row[0]
        for c in range(np.uint64(1), own):
            largest = max(largest, row[c])
        for c in range(own + np.uint64(1), np.uint64(len(row))):
            largest = max(largest, row[c])
        labels[i] = y[i]
        losses[i] = 0.0
        gains[i] = 0.0
        if 1.0 - (row[own] - largest) > 0.0:
            for c in range(np.uint64(len(row))):
                if row[c] == largest and c != own:
                    labels[i] = c
                    losses[i] = 1.0
                    gains[i] = row[own] - largest
                    break


@dataclass(frozen=True, eq=False)
class Chain:
    """Psi(x, y) = sum_t phi(x_t) for label y_t, and the counts of pairs of labels.

    The loss is the number of wrong positions, divided by the mean length of all
    sequences, so that the mean loss is the fraction of wrong positions.

    Attributes
    ----------
    parts : (N,) the row of X of each position, one sequence after another
    y : (N,) the labels, codes 0..K-1
    starts : (n + 1,) sequence i is ``starts[i]:starts[i + 1]``, which is not empty
    K : int, the number of labels
    mean_length : float, the mean length of all sequences, also in the task of a sample
    """

    parts: Array
    y: Array
    starts: Array
    K: int
    mean_length: float

    @property
    def n(self) -> int:
        return len(self.starts) - 1

    @property
    def explicit(self) -> int:
        return self.K**2

    def of(self, units):
        positions, starts = self._positions(units)
        return replace(
            self, parts=self.parts[positions], y=self.y[positions], starts=starts
        )

    def answers(self, F, v):
        labels = np.empty(len(self.y), self.y.dtype)
        moves = v.reshape(self.K, self.K)
        viterbi(F, moves, self.starts, self.y, 1.0 / self.mean_length, labels)
        wrong = np.add.reduceat((labels != self.y).astype(float), self.starts[:-1])
        answers = Answers(labels, wrong / self.mean_length, wrong)
        return answers._replace(gains=self.gains(F, v, answers))

    def gains(self, F, v, answers):
        y = self.y
        labels = answers.outputs
        moves = v.reshape(self.K, self.K)
        rows = np.arange(len(y))
        ahead = (F[rows, y] - F[rows, labels]).astype(float)
        later = np.delete(rows, self.starts[:-1])  # all but the first positions
        before = later - 1
        true = moves[y[before], y[later]]
        ahead[later] += true - moves[labels[before], labels[later]]
        return np.add.reduceat(ahead, self.starts[:-1])

    def cut(self, answers, units, weight):
        positions, starts = self._positions(units)
        y = self.y[positions]
        labels = answers.outputs[positions]
        counts = np.zeros((self.K, self.K))
        later = np.delete(np.arange(len(y)), starts[:-1])  # all but the first positions
        before = later - 1
        np.add.at(counts, (y[before], y[later]), weight)
        np.add.at(counts, (labels[before], labels[later]), -weight)
        wrong = np.flatnonzero(y != labels)
        B = differences(y[wrong], labels[wrong], self.K, weight)
        return Cut(self.parts[positions[wrong]], B, counts.ravel())

    def _positions(self, units) -> tuple[Array, Array]:
        """Return the positions of these sequences, and where each sequence starts
        among them."""
        lengths = self.starts[units + 1] - self.starts[units]
        starts = np.append(0, np.cumsum(lengths))
        shift = np.repeat(self.starts[units] - starts[:-1], lengths)
        return np.arange(starts[-1]) + shift, starts


def differences(y: Array, labels: Array, K: int, weight: float) -> Array:
    """Return rows with `K` entries: `weight` at y, and -`weight` at the other label."""
    B = np.zeros((len(y), K))
    rows = np.arange(len(y))
    B[rows, y] = weight
    B[rows, labels] = -weight
    return B


Task = Binary | Multiclass | Chain


def task_of(problem: Problem) -> Task:
    """Return the task of a problem, by its type and its number of classes."""
    parts = np.arange(problem.n)
    if isinstance(problem, SequenceProblem):
        mean_length = problem.n / (len(problem.starts) - 1)
        return Chain(parts, problem.y, problem.starts, problem.k, mean_length)
    if isinstance(problem, TreeProblem):
        return CostSensitive(parts, problem.y, problem.k, problem.costs)
    if problem.k == 2:
        return Binary(parts, np.where(problem.y == 1, 1.0, -1.0))
    return Multiclass(parts, problem.y, problem.k)
