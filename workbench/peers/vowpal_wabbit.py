"""Vowpal Wabbit through its own Python package: an extra, not a dependency.

A round is one pass over the rows, in an order that is random but the same in each, as
in a shuffled file. The clock shows learning alone, with Python's loop over the rows:
they are parsed before it starts, and take 12 bytes per value then. A resumed stream
repeats its passes, off the clock, since saved models do not resume exactly. There is no
intercept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import (
    check_counts,
    check_positive,
    check_sparse,
    check_whole,
)
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row, off_the_clock
from workbench.peers.linear import LinearState, logistic_losses, total


@resumable()
def vw(
    problem: Problem,
    *,
    learning_rate: float = 0.5,
    seed: int = 0,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise 1/n sum_ic log(1 + exp(-+ x_i.w_c)), the sign - for rows of class c.

    One against all with the logistic loss, by adaptive, normalised and invariant online
    updates (Karampatziakis and Langford, UAI 2011; Ross, Mineiro and Langford, UAI
    2013).

    Parameters
    ----------
    learning_rate : positive, of the first update; the parameter to tune
    seed : whole number of at least 0, seeds the rows' order

    Raises
    ------
    ValueError
        If a parameter is not as above, or the package vowpalwabbit is not installed.
    """
    check_positive(learning_rate, "learning_rate")
    d, k, n = problem.d, problem.k, problem.n
    stride = (
        1 << (k - 1).bit_length()
    )  # weights that Vowpal Wabbit sets aside for a feature

    def judge(s: LinearState, learner) -> None:
        s.W = np.array(
            [[learner.get_weight(j * stride + c) for c in range(k)] for j in range(d)]
        )
        s.iterations, s.primal = (
            s.round,
            total(logistic_losses, problem.X, problem.y, s.W) / n,
        )

    options = {"oaa": k, "loss_function": "logistic", "learning_rate": learning_rate}
    # A weight of its own for every feature and class: nothing collides.
    options["bit_precision"] = max(1, (d * stride - 1).bit_length())
    s = state or LinearState(0, seed, np.zeros((d, k)), 0, k * float(np.log(2.0)))
    yield from passes(learner_of(options, "--scores"), problem, s, judge)


@dataclass
class RecallTreeState(State):
    """The model as Vowpal Wabbit saves it, as bytes (none before round 1), for k
    classes."""

    round: int
    seed: int
    k: int
    model: np.ndarray
    primal: float

    def scores(self, X: Matrix) -> np.ndarray:
        """Return 1 for the class that the tree predicts, 0 for all others: it has no
        scores."""
        scores = np.zeros((X.shape[0], self.k), np.float32)
        scores[np.arange(X.shape[0]), self.predicted(X)] = float(len(self.model) > 0)
        return scores

    def predicted(self, X: Matrix) -> np.ndarray:
        """Return the codes of the classes that the tree predicts (n,), without k scores
        per row."""
        if not len(self.model):
            return np.zeros(X.shape[0], np.int32)
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            path.write_bytes(self.model.tobytes())
            learner = learner_of({"initial_regressor": path}, "--testonly")
            rows = features(check_sparse(X))
            return np.array(
                [learner.predict(learner.example(x)) - 1 for x in rows], np.int32
            )

    def info(self) -> Row:
        return {"primal": self.primal, "bytes": len(self.model)}


@resumable()
def vw_recall_tree(
    problem: Problem,
    *,
    learning_rate: float = 1.0,
    bit_precision: int = 18,
    seed: int = 0,
    state: RecallTreeState | None = None,
) -> Iterator[RecallTreeState]:
    """Learn a tree that sends a row to a few candidate classes, and a scorer that ranks
    them.

    The competitor in the paper on inexact margins, with the hinge loss and five passes
    (Daumé, Karampatziakis, Langford and Mineiro, ICML 2017). The column ``primal`` is
    the error on the training rows, which passes need not lower.

    Parameters
    ----------
    learning_rate : positive, of the first update; the paper's are 0.5 to 1
    bit_precision : 1 to 31, the weights are hashed into 2^bit_precision of them; the
        paper's are 28 to 30, which take some 16 bytes each, used or not
    seed : whole number of at least 0, seeds the rows' order

    Raises
    ------
    ValueError
        As :func:`vw`.
    """
    check_positive(learning_rate, "learning_rate")
    check_counts(bit_precision=bit_precision)
    if bit_precision > 31:
        raise ValueError(f"bit_precision: must be at most 31, got {bit_precision!r}")

    def judge(s: RecallTreeState, learner) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            learner.save(str(path))
            s.model = np.frombuffer(path.read_bytes(), np.uint8)
        s.primal = float(np.mean(s.predicted(problem.X) != problem.y))

    options = {"recall_tree": problem.k, "loss_function": "hinge"}
    options |= {"learning_rate": learning_rate, "bit_precision": bit_precision}
    error = float(np.mean(problem.y != 0))
    s = state or RecallTreeState(0, seed, problem.k, np.zeros(0, np.uint8), error)
    yield from passes(learner_of(options), problem, s, judge)


def passes(learner, problem: Problem, s, judge: Callable) -> Iterator:
    """Learn from the rows, pass after pass, and judge each pass off the clock."""
    problem.refuse_weights()
    with off_the_clock():
        rng = np.random.default_rng(check_whole(s.seed, "seed", least=0))
        order, examples = rng.permutation(problem.n), []
        for i, row in zip(order.tolist(), features(problem.X[order]), strict=True):
            examples.append(learner.example(row))
            examples[-1].set_label_string(str(problem.y[i] + 1))
            examples[-1].setup_example()
        for example in examples * s.round:
            learner.learn(example)
    yield s
    while True:
        for example in examples:
            learner.learn(example)
        with off_the_clock():
            s.round += 1
            judge(s, learner)
        yield s


def learner_of(options: dict, *flags: str):
    """Return a learner of Vowpal Wabbit without intercept."""
    try:
        Workspace = import_module("vowpalwabbit").Workspace
    except ImportError:
        raise ValueError(
            "vw: needs the extra: pip install 'workbench-mc[vw]'"
        ) from None
    settings = [f"--{name}={value}" for name, value in options.items()]
    with off_the_clock():
        return Workspace(
            arg_list=[*settings, *flags, "--noconstant", "--quiet", "--no_stdin"]
        )


def features(X) -> Iterator[dict]:
    """Yield the rows in the form of Vowpal Wabbit's examples."""
    X = sp.csr_matrix(X)
    for first, last in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield {
            "x": list(zip(X.indices[first:last].tolist(), X.data[first:last].tolist()))
        }
