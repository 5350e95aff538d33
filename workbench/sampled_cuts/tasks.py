"""What a structural SVM is trained on, as scores of parts and labels.

Every task here has parts, rows of X each of which gets a score for each label: F (N, K). It knows
its outputs only through these scores and a few explicit weights v:

- ``answers(F, v)``: the outputs that violate most, argmax_y [Delta(y_i, y) + w.Psi(x_i, y)];
- ``gains(F, v, answers)``: w.dPsi_i, by how much the true outputs score higher than these;
- ``cut(answers, units, weight)``: the vector weight sum_i dPsi_i, as coefficients of parts.

A part's feature map is phi(x), so that only inner products of rows are ever needed. What is
sampled are `units`: rows, sequences, or rows of one great output. The empirical risk is the mean
over units of loss minus gain.

Slack rescaling multiplies a unit's gain by its loss: Delta (1 - w.dPsi). Tasks do it on their own,
so that the solver need not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from workbench.core.problem import Problem
from workbench.kernels.compiled import njit


class Answers(NamedTuple):
    """The most violating outputs of some units, their losses and their gains, both (n,)."""

    outputs: Any
    losses: np.ndarray
    gains: np.ndarray


class Cut(NamedTuple):
    """A vector sum_u phi(x_u) B[u] over (m,) parts, (m, K) `B`, and (q,) explicit weights."""

    parts: np.ndarray
    B: np.ndarray
    explicit: np.ndarray


class Task(Protocol):
    """What the solver may ask of a task.

    Attributes
    ----------
    n : number of units
    parts : (N,) the rows of X that are this task's parts, in the order of its scores
    K : labels a part
    explicit : number of explicit weights, for features that have no kernel
    """

    n: int
    parts: np.ndarray
    K: int
    explicit: int

    def of(self, units: np.ndarray) -> Task:
        """Return the task of these units alone; one may occur several times."""

    def answers(self, F: np.ndarray, v: np.ndarray) -> Answers:
        """Return the most violating output of every unit, with loss 0 where none violates."""

    def gains(self, F: np.ndarray, v: np.ndarray, answers: Answers) -> np.ndarray:
        """Return, at any scores, the (n,) gains of answers that were found at others."""

    def cut(self, answers: Answers, units: np.ndarray, weight: float) -> Cut:
        """Return weight sum_i dPsi_i over these units, which may repeat."""


NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Binary:
    """Psi(x, y) = y phi(x) / 2 for y = -1 or 1: the SVM with the hinge loss, without a bias.

    The paper prints Psi = y phi(x); its hinge is at 2 y w.phi(x) then, and its C a quarter of ours.

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
        losses, gains = np.empty(self.n), np.empty(self.n)
        binary_answers(F[:, 0], self.signs, losses, gains)
        return Answers(losses, losses, gains)

    def gains(self, F, v, answers):
        return answers.outputs * (self.signs * F[:, 0])

    def cut(self, answers, units, weight):
        wrong = units[answers.outputs[units] > 0.0]
        return Cut(self.parts[wrong], weight * self.signs[wrong, None], NONE)


@njit(cache=True, nogil=True, error_model="numpy")
def binary_answers(f, signs, losses, gains):
    """Write each row's loss, 1 where its margin is below 1 and else 0, and loss times margin."""
    for i in range(np.uint64(len(f))):
        margin = signs[i] * f[i]
        loss = 1.0 if margin < 1.0 else 0.0
        losses[i] = loss
        gains[i] = loss * margin


@dataclass(frozen=True, eq=False)
class Multiclass:
    """Psi(x, y) = phi(x) in the place of label y: the SVM of Crammer and Singer.

    Attributes
    ----------
    parts : (n,) rows
    y : (n,) codes 0..K-1
    costs : (K, K) Delta(y, y'), zeros on the diagonal and positive elsewhere
    slack : True for slack rescaling, False for margin rescaling; with costs of one alike
    """

    parts: np.ndarray
    y: np.ndarray
    costs: np.ndarray
    slack: bool = False
    explicit = 0

    @property
    def n(self) -> int:
        return len(self.parts)

    @property
    def K(self) -> int:
        return len(self.costs)

    def of(self, units):
        return Multiclass(self.parts[units], self.y[units], self.costs, self.slack)

    def answers(self, F, v):
        labels = np.empty(self.n, self.y.dtype)
        losses, gains = np.empty(self.n), np.empty(self.n)
        multiclass_answers(F, self.y, self.costs, self.slack, labels, losses, gains)
        return Answers(labels, losses, gains)

    def gains(self, F, v, answers):
        rows = np.arange(self.n)
        gains = F[rows, self.y] - F[rows, answers.outputs]
        return answers.losses * gains if self.slack else gains

    def cut(self, answers, units, weight):
        units = units[answers.losses[units] > 0.0]
        B = np.zeros((len(units), self.K))
        rows = np.arange(len(units))
        weights = weight * answers.losses[units] if self.slack else weight
        B[rows, self.y[units]] = weights
        B[rows, answers.outputs[units]] = -weights
        return Cut(self.parts[units], B, NONE)


@njit(cache=True, nogil=True, error_model="numpy")
def multiclass_answers(F, y, costs, slack, labels, losses, gains):
    """Write each row's most violated label, its cost, and that cost less its violation."""
    for i in range(np.uint64(len(y))):
        own = y[i]
        best, label = 0.0, own
        for c in range(F.shape[1]):
            gain = F[i, own] - F[i, c]
            cost = costs[own, c]
            violation = cost * (1.0 - gain) if slack else cost - gain
            if violation > best and c != own:
                best, label = violation, c
        labels[i] = label
        losses[i] = costs[own, label]
        gains[i] = losses[i] - best if label != own else 0.0


@dataclass(frozen=True, eq=False)
class RocArea:
    """One output for all rows at once, their ranking: Delta is the share of pairs in wrong order.

    The ranking that violates most swaps each positive with the negatives that score within one of
    it, or more (Joachims: A support vector method for multivariate performance measures. ICML
    2005). Units are rows, so that cuts can be sampled; a ranking of few rows is another output.

    Attributes
    ----------
    parts : (n,) rows
    signs : (n,) -1 or 1, both of which occur
    """

    parts: np.ndarray
    signs: np.ndarray
    K = 1
    explicit = 0

    @property
    def n(self) -> int:
        return len(self.parts)

    def of(self, units):
        raise ValueError("task: a ranking of all rows has no answers for a few of them")

    def answers(self, F, v):
        f, positive = F[:, 0], self.signs > 0
        up, down = np.sort(f[positive] - 1.0), np.sort(f[~positive])
        swaps = np.empty(self.n)  # a row's partners: the more, the more it is to move
        swaps[positive] = len(down) - np.searchsorted(down, f[positive] - 1.0, side="right")
        swaps[~positive] = np.searchsorted(up, f[~positive], side="left")
        swaps *= self.n / (len(up) * len(down))
        answers = Answers(swaps, swaps / 2, NONE)  # half of a pair's loss at each of the two
        return answers._replace(gains=self.gains(F, v, answers))

    def gains(self, F, v, answers):
        return answers.outputs * self.signs * F[:, 0]

    def cut(self, answers, units, weight):
        B = weight * answers.outputs[units] * self.signs[units]
        return Cut(self.parts[units], B[:, None], NONE)


def task_of(problem: Problem):
    """Return the task of a problem: sequences where it has them, else two or more classes."""
    parts = np.arange(problem.n)
    if hasattr(problem, "starts"):
        from workbench.sampled_cuts.chain import Chain

        return Chain(parts, problem.y, problem.starts, problem.k)
    if problem.k == 2:
        return Binary(parts, np.where(problem.y == 1, 1.0, -1.0))
    return Multiclass(parts, problem.y, 1.0 - np.eye(problem.k))
