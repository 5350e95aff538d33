"""Errors of a solver's state on training and test rows."""

import numpy as np

from workbench.core.blocks import pieces
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.stream import Measure, Row, State, nothing
from workbench.core.structures import SequenceProblem

MAX_SCORES = 2**27  # scores that are computed together


def errors(problem: Problem) -> Measure:
    """Return a measure of the 0-1 error on the training rows and on any test rows.

    Errors are fractions in [0, 1]. A row whose scores are all equal is predicted as the
    first class. Problems with a structure have further losses, for training and for
    test rows: ``train_sequence_error``, the fraction of sequences with an error, or
    ``train_cost``, the mean cost in the tree of classes.
    """
    on_test = nothing if problem.X_test is None else held_out(problem)
    return lambda state: _losses(state, problem, test=False) | on_test(state)


def held_out(problem: Problem) -> Measure:
    """Return a measure of the 0-1 error on the test rows.

    A problem without test rows raises a ValueError.
    """
    _test_rows(problem)
    return lambda state: _losses(state, problem, test=True)


def macro(problem: Problem) -> Measure:
    """Return a measure of the test rows for many classes: three fractions in [0, 1].

    They are ``test_error`` (see :func:`errors`), ``macro_f1`` (scikit-learn's mean of
    the classes' F1 scores) and ``maf1`` (MEMOIR's harmonic mean of macro-precision and
    macro-recall). The means are over the classes that occur among the test rows or
    their predictions. A problem without test rows raises a ValueError.
    """
    from sklearn.metrics import precision_recall_fscore_support

    X, y = _test_rows(problem)

    def measure(state: State) -> Row:
        predicted = predictions(state, X, problem.k)
        precision, recall, f1, _ = precision_recall_fscore_support(
            y, predicted, average="macro", zero_division=0
        )
        # Both are zero if no prediction is right.
        total = precision + recall or 1.0
        return {
            "test_error": float(np.mean(predicted != y)),
            "macro_f1": float(f1),
            "maf1": float(2 * precision * recall / total),
        }

    return measure


def _test_rows(problem: Problem) -> tuple[Matrix, Array]:
    if problem.X_test is None or problem.y_test is None:
        raise ValueError("problem: has no test rows to evaluate")
    return problem.X_test, problem.y_test


def _losses(state: State, problem: Problem, test: bool) -> Row:
    X, y = _test_rows(problem) if test else (problem.X, problem.y)
    if isinstance(problem, SequenceProblem):
        starts = problem.starts_test if test else problem.starts
        labels = state.paths(state.scores(X), starts)
    else:
        labels = predictions(state, X, problem.k)
    losses = {"error": float(np.mean(labels != y))} | problem.losses(labels, test)
    prefix = "test_" if test else "train_"
    return {prefix + name: loss for name, loss in losses.items()}


def predictions(state: State, X: Matrix, k: int) -> Array:
    """Return the code of the class with the highest of the `k` scores, for each row."""
    blocks = pieces(X.shape[0], MAX_SCORES // k)
    return np.concatenate([np.argmax(state.scores(X[rows]), axis=1) for rows in blocks])


def error(scores: Array, y: Array) -> float:
    """Return the fraction of rows whose label does not have the highest score."""
    return float(np.mean(np.argmax(scores, axis=1) != y))
