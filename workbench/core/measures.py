"""Errors of any solver's state."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row, State, nothing
from workbench.core.structures import SequenceProblem

MAX_SCORES = 2**27  # entries of the score matrix that are computed together


def errors(problem: Problem) -> Callable[[State], Row]:
    """Return a judge of the 0-1 error, a fraction in [0, 1], on training and, if any,
    test rows.

    A row whose scores are all equal is predicted as the first class. Problems with a
    structure have further losses: ``train_sequence_error``, the fraction of sequences
    with an error, or ``train_cost``, and the same for test rows.
    """
    on_test = nothing if problem.X_test is None else held_out(problem)
    return lambda state: _judged(state, problem, test=False) | on_test(state)


def held_out(problem: Problem) -> Callable[[State], Row]:
    """Return a judge of the 0-1 error on the test rows; ValueError if there are
    none."""
    _test_rows(problem)
    return lambda state: _judged(state, problem, test=True)


def macro(problem: Problem) -> Callable[[State], Row]:
    """Return a judge of test rows for many classes: three fractions in [0, 1].

    ``test_error`` as in :func:`errors`; ``macro_f1``, the mean of the classes' F1
    scores as scikit-learn has it; ``maf1``, MEMOIR's: the harmonic mean of
    macro-precision and macro-recall. All three are over the classes that occur among
    the test rows or their predictions. A problem without test rows is a ValueError.
    """
    from sklearn.metrics import precision_recall_fscore_support

    X, y = _test_rows(problem)

    def measure(state: State) -> Row:
        predicted = predictions(state, X, problem.k)
        P, R, F, _ = precision_recall_fscore_support(
            y, predicted, average="macro", zero_division=0
        )
        return {
            "test_error": float(np.mean(predicted != y)),
            "macro_f1": float(F),
            "maf1": float(2 * P * R / (P + R)) if P + R else 0.0,
        }

    return measure


def _test_rows(problem: Problem) -> tuple[Matrix, np.ndarray]:
    if problem.X_test is None or problem.y_test is None:
        raise ValueError("problem: has no test rows to evaluate")
    return problem.X_test, problem.y_test


def _judged(state: State, problem: Problem, test: bool) -> Row:
    X, y = _test_rows(problem) if test else (problem.X, problem.y)
    if isinstance(problem, SequenceProblem):
        starts = problem.starts_test if test else problem.starts
        labels = state.paths(state.scores(X), starts)
    else:
        labels = predictions(state, X, problem.k)
    losses = {"error": float(np.mean(labels != y))} | problem.losses(labels, test)
    return {
        f"{'test' if test else 'train'}_{name}": loss for name, loss in losses.items()
    }


def predictions(state: State, X: Matrix, k: int) -> np.ndarray:
    """Return which of the `k` classes has the highest score for each row, block by
    block."""
    blocks = (state.scores(X[rows]) for rows in pieces(X.shape[0], MAX_SCORES // k))
    return np.concatenate([np.argmax(V, axis=1) for V in blocks])


def error(scores: np.ndarray, y: np.ndarray) -> float:
    """Return the fraction of rows whose highest score is not at their label."""
    return float(np.mean(np.argmax(scores, axis=1) != y))
