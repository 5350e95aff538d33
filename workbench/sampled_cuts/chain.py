"""Linear chains: scores of positions by a kernel, and explicit weights of transitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.core.problem import Matrix
from workbench.core.stream import Row
from workbench.data.sequences import SequenceProblem
from workbench.kernels.compiled import njit
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers, Cut


@dataclass(frozen=True, eq=False)
class Chain:
    """Psi(x, y) = sum_t phi(x_t) in the place of y_t, and how often each label follows each.

    The loss is the number of wrong positions over the mean length of all sequences, so that the
    mean loss is the share of wrong positions.

    Attributes
    ----------
    parts : (N,) rows, the positions of one sequence after the other
    y : (N,) codes 0..K-1
    starts : (n + 1,) sequence i is ``starts[i]:starts[i + 1]``, which is not empty
    K : labels
    transition : positive, the length of a transition's feature, beside kernel values of about 1;
        the longer, the less its weights are regularised
    mean_length : of all sequences, by default of these
    """

    parts: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    K: int
    transition: float = 1.0
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
        about = self.K, self.transition, self.mean_length
        return Chain(self.parts[positions], self.y[positions], starts, *about)

    def answers(self, F, v):
        labels = np.empty(len(self.y), self.y.dtype)
        moves = self.transition * v.reshape(self.K, self.K)
        viterbi(F, moves, self.starts, self.y, 1.0 / self.mean_length, labels)
        wrong = np.add.reduceat((labels != self.y).astype(float), self.starts[:-1])
        answers = Answers(labels, wrong / self.mean_length, wrong)
        return answers._replace(gains=self.gains(F, v, answers))

    def gains(self, F, v, answers):
        gains = np.empty(self.n)
        moves = self.transition * v.reshape(self.K, self.K)
        chain_gains(F, moves, self.starts, self.y, answers.outputs, gains)
        return gains

    def cut(self, answers, units, weight):
        positions, starts = self._positions(units)
        y, other = self.y[positions], answers.outputs[positions]
        counts = np.zeros((self.K, self.K))
        before = np.delete(np.arange(len(positions)), starts[1:] - 1)  # all but the last positions
        np.add.at(counts, (y[before], y[before + 1]), weight * self.transition)
        np.add.at(counts, (other[before], other[before + 1]), -weight * self.transition)
        wrong = np.flatnonzero(y != other)
        B = np.zeros((len(wrong), self.K))
        rows = np.arange(len(wrong))
        B[rows, y[wrong]] = weight
        B[rows, other[wrong]] = -weight
        return Cut(self.parts[positions[wrong]], B, counts.ravel())

    def _positions(self, units) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of these sequences, one after the other, and where each starts."""
        lengths = self.starts[units + 1] - self.starts[units]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.starts[units] - starts[:-1], lengths)
        return np.arange(starts[-1]) + shift, starts


def decode(F: np.ndarray, v: np.ndarray, starts: np.ndarray, transition: float = 1.0) -> np.ndarray:
    """Return the (N,) labels of highest score, sequence by sequence.

    Parameters
    ----------
    F : (N, K) scores of positions
    v : (K * K,) explicit weights; entry (a, b) is for b after a
    starts, transition : as of :class:`Chain`
    """
    labels, K = np.empty(len(F), np.int32), F.shape[1]
    viterbi(F, transition * v.reshape(K, K), starts, labels, 0.0, labels)
    return labels


def errors(problem: SequenceProblem) -> Callable[[CutState], Row]:
    """Return a judge like :func:`workbench.core.measures.errors`, for labels of sequences."""

    def error(s: CutState, X: Matrix, y: np.ndarray, starts: np.ndarray) -> float:
        return float(np.mean(decode(s.scores(X), s.transitions, starts) != y))

    def measure(s: CutState) -> Row:
        row = {"train_error": error(s, problem.X, problem.y, problem.starts)}
        if problem.X_test is not None:
            row["test_error"] = error(s, problem.X_test, problem.y_test, problem.starts_test)
        return row

    return measure


@njit(cache=True, nogil=True, error_model="numpy")
def viterbi(F, moves, starts, y, loss, labels):
    """Fill `labels` with the highest scoring path; a position costs `loss` more where not `y`."""
    K = F.shape[1]
    longest = 0
    for i in range(len(starts) - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    best, here = np.empty(K), np.empty(K)
    back = np.empty((longest, K), np.int32)
    for i in range(len(starts) - 1):
        first, last = starts[i], starts[i + 1]
        for t in range(first, last):
            for b in range(K):
                score = F[t, b]
                if loss > 0.0 and b != y[t]:
                    score += loss
                if t > first:
                    most, source = best[0] + moves[0, b], 0
                    for a in range(1, K):
                        value = best[a] + moves[a, b]
                        if value > most:
                            most, source = value, a
                    score += most
                    back[t - first, b] = source
                here[b] = score
            for b in range(K):
                best[b] = here[b]
        label = np.argmax(best)
        for t in range(last - 1, first - 1, -1):
            labels[t] = label
            if t > first:
                label = back[t - first, label]


@njit(cache=True, nogil=True, error_model="numpy")
def chain_gains(F, moves, starts, y, others, gains):
    """Fill `gains` with the score of `y` less that of `others`, sequence by sequence."""
    for i in range(len(starts) - 1):
        gain = 0.0
        for t in range(starts[i], starts[i + 1]):
            gain += F[t, y[t]] - F[t, others[t]]
            if t > starts[i]:
                gain += moves[y[t - 1], y[t]] - moves[others[t - 1], others[t]]
        gains[i] = gain
