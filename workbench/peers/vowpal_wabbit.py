"""Vowpal Wabbit through its own Python package, which is an optional dependency.

A round is one pass over the rows, in a random order that is the same in all passes, as
in a shuffled file. Only learning is timed, including Python's loop over the rows. The
rows are parsed before, and take 12 bytes per value. A resumed stream repeats its
passes, because saved models cannot be resumed exactly; this is not timed. There is no
intercept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import (
    check_counts,
    check_positive,
    check_sparse,
    seeded,
)
from workbench.core.problem import Array, Matrix, Problem
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
    """Minimise 1/n sum_ic log(1 + exp(-+ x_i.w_c)), with - for rows of class c.

    This is one-against-all with the logistic loss, solved by adaptive, normalised and
    invariant online updates (Karampatziakis and Langford, UAI 2011; Ross, Mineiro and
    Langford, UAI 2013).

    Parameters
    ----------
    learning_rate : float > 0, the rate of the first update; this is the parameter to
        tune
    seed : int >= 0, seeds the order of the rows

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the package vowpalwabbit is not
        installed.
    """
    check_positive(learning_rate, "learning_rate")
    d = problem.d
    k = problem.k
    stride = 1 << (k - 1).bit_length()  # Vowpal Wabbit's number of weights per feature

    def judge(s: LinearState, learner) -> None:
        for j, c in np.ndindex(d, k):
            s.W[j, c] = learner.get_weight(j * stride + c)
        s.iterations = s.round
        s.primal = total(logistic_losses, problem.X, problem.y, s.W) / problem.n

    options = {
        "oaa": k,
        "loss_function": "logistic",
        "learning_rate": learning_rate,
        # Every pair of a feature and a class has its own weight, without collisions.
        "bit_precision": max(1, (d * stride - 1).bit_length()),
    }
    s = state or LinearState(0, seed, np.zeros((d, k)), 0, k * float(np.log(2.0)))
    yield from passes(learner_of(options, "--scores"), problem, s, judge)


@dataclass
class RecallTreeState(State):
    """The ``model`` as the bytes that Vowpal Wabbit saves; empty before round 1."""

    round: int
    seed: int
    k: int
    model: Array
    primal: float

    def scores(self, X: Matrix) -> Array:
        """Return a score of 1 for the predicted class and 0 for all others.

        The tree itself has no scores.
        """
        scores = np.zeros((X.shape[0], self.k), np.float32)
        scores[np.arange(X.shape[0]), self.predicted(X)] = float(len(self.model) > 0)
        return scores

    def predicted(self, X: Matrix) -> Array:
        """Return the codes (n,) of the classes that the tree predicts."""
        if not len(self.model):
            return np.zeros(X.shape[0], np.int32)
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            path.write_bytes(self.model.tobytes())
            learner = learner_of({"initial_regressor": path}, "--testonly")
            examples = map(learner.example, features(check_sparse(X)))
            return np.array([learner.predict(x) - 1 for x in examples], np.int32)

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
    """Learn a tree of candidate classes, and a scorer that ranks them.

    The paper on inexact margins compares with this method, with the hinge loss and five
    passes (Daumé, Karampatziakis, Langford and Mineiro, ICML 2017). The column
    ``primal`` is the error on the training rows, which a pass may raise.

    Parameters
    ----------
    learning_rate : float > 0, the rate of the first update; the paper takes 0.5 to 1
    bit_precision : int from 1 to 31; the weights are hashed into 2^bit_precision
        entries, each of about 16 bytes, used or not. The paper takes 28 to 30
    seed : int >= 0, seeds the order of the rows

    Raises
    ------
    ValueError
        As in :func:`vw`.
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

    options = {
        "recall_tree": problem.k,
        "loss_function": "hinge",
        "learning_rate": learning_rate,
        "bit_precision": bit_precision,
    }
    error = float(np.mean(problem.y != 0))
    s = state or RecallTreeState(0, seed, problem.k, np.zeros(0, np.uint8), error)
    yield from passes(learner_of(options), problem, s, judge)


def passes(learner, problem: Problem, s, judge: Callable) -> Iterator:
    """Yield the state after each pass over the rows; `judge` is not timed."""
    problem.refuse_weights()
    with off_the_clock():
        rng = seeded(s.seed)
        order = rng.permutation(problem.n)
        examples = []
        for label, row in zip(problem.y[order], features(problem.X[order])):
            example = learner.example(row)
            example.set_label_string(str(label + 1))
            example.setup_example()
            examples.append(example)
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
    """Return a Vowpal Wabbit learner without an intercept."""
    try:
        Workspace = import_module("vowpalwabbit").Workspace
    except ImportError:
        raise ValueError(
            "vw: needs the extra vw; run pip install 'workbench-mc[vw]'"
        ) from None
    settings = [f"--{name}={value}" for name, value in options.items()]
    with off_the_clock():
        return Workspace(
            arg_list=[*settings, *flags, "--noconstant", "--quiet", "--no_stdin"]
        )


def features(X) -> Iterator[dict]:
    """Yield the rows in the form of Vowpal Wabbit's examples."""
    X = sp.csr_matrix(X)
    for start, end in pairwise(X.indptr):
        indices = X.indices[start:end].tolist()
        yield {"x": list(zip(indices, X.data[start:end].tolist()))}
