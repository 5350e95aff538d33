"""Vowpal Wabbit through its own Python package: an extra, not a dependency.

One against all, and the recall tree, which finds the class in time logarithmic in their number. A
round is one pass over the rows, in an order that is random but the same in each, as in a shuffled
file. The clock shows learning alone, with Python's loop over the rows, some microseconds each: they
are parsed before it starts, and take 12 bytes a value then. Saved models do not resume exactly: a
resumed stream repeats its passes, off the clock. There is no intercept.
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
    check_not_negative,
    check_positive,
    check_sparse,
    check_whole,
)
from workbench.core.problem import Problem
from workbench.core.stream import Row, off_the_clock
from workbench.peers.linear import LinearState, logistic_losses, total


def vw(
    problem: Problem,
    *,
    learning_rate: float = 0.5,
    l2: float = 0.0,
    seed: int = 0,
    state: LinearState | None = None,
) -> Iterator[LinearState]:
    """Minimise 1/n sum_ic log(1 + exp(-+ x_i.w_c)) + l2/2 |W|^2, the sign - for rows of class c.

    One against all with the logistic loss, by Vowpal Wabbit's adaptive, normalised and invariant
    online updates.

    Parameters
    ----------
    learning_rate : positive, of the first update; the parameter to tune
    l2 : not negative, weight of the squared weights; Vowpal Wabbit's own default is 0
    seed : whole number of at least 0, seeds the rows' order

    Raises
    ------
    ValueError
        If a parameter is not as above, or the package vowpalwabbit is not installed.

    References
    ----------
    Karampatziakis, Langford: Online importance weight aware updates. UAI 2011.
    Ross, Mineiro, Langford: Normalized online learning. UAI 2013.
    """
    check_positive(learning_rate, "learning_rate")
    check_not_negative(l2=l2)
    check_whole(seed, "seed", least=0)
    d, k = problem.d, problem.k

    def judge(s: LinearState) -> None:
        s.iterations, s.W = s.round, _weights(workspace, d, k)
        s.primal = _objective(problem, l2, s.W)

    with off_the_clock():
        options = {"oaa": k, "loss_function": "logistic", "learning_rate": learning_rate, "l2": l2}
        # A weight of its own for every feature and class: nothing collides.
        options["bit_precision"] = max(1, (d * _stride(k) - 1).bit_length())
        workspace = _started(options, "--noconstant", "--scores")
        W = np.zeros((d, k))
        s = state or LinearState(0, seed, W, 0, _objective(problem, l2, W))
    yield from _passes(workspace, problem, problem.X, s, judge)


@dataclass
class RecallTreeState:
    """The model as Vowpal Wabbit saves it, as bytes (none before round 1), for k classes."""

    round: int
    seed: int
    k: int
    model: np.ndarray
    primal: float

    def scores(self, X) -> np.ndarray:
        """Return 1 for the class that the tree predicts, 0 for all others: it has no scores."""
        scores = np.zeros((X.shape[0], self.k), np.float32)
        scores[np.arange(X.shape[0]), self.predicted(X)] = 1.0
        return scores if len(self.model) else np.zeros_like(scores)

    def predicted(self, X) -> np.ndarray:
        """Return the codes of the classes that the tree predicts (n,), without k scores per row."""
        if not len(self.model):
            return np.zeros(X.shape[0], np.int32)
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            path.write_bytes(self.model.tobytes())
            workspace = _started({"initial_regressor": path}, "--testonly")
            rows = _features(sp.csr_matrix(check_sparse(X)))
            return np.array([workspace.predict(workspace.example(x)) - 1 for x in rows], np.int32)

    def info(self) -> Row:
        return {"primal": self.primal, "bytes": len(self.model)}


def vw_recall_tree(
    problem: Problem,
    *,
    learning_rate: float = 1.0,
    bits: int = 18,
    seed: int = 0,
    state: RecallTreeState | None = None,
) -> Iterator[RecallTreeState]:
    """Learn a tree that sends a row to a few candidate classes, and a scorer that ranks them.

    The competitor in the paper on inexact margins, with its hinge loss (four of its five data
    sets), where it makes five passes. The column ``primal`` is the error on the training rows,
    which passes need not lower.

    Parameters
    ----------
    learning_rate : positive, of the first update; the paper's are 0.5 to 1
    bits : 1 to 31, the weights are hashed into 2^bits of them; the paper's are 28 to 30, which take
        some 16 bytes each, used or not
    seed : whole number of at least 0, seeds the rows' order

    Raises
    ------
    ValueError
        If a parameter is not as above, or the package vowpalwabbit is not installed.

    References
    ----------
    Daumé, Karampatziakis, Langford, Mineiro: Logarithmic time one-against-some. ICML 2017.
    """
    check_positive(learning_rate, "learning_rate")
    check_counts(bits=bits)
    check_whole(seed, "seed", least=0)
    if bits > 31:
        raise ValueError(f"bits: must be at most 31, got {bits!r}")

    def judge(s: RecallTreeState) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            workspace.save(str(path))
            s.model = np.frombuffer(path.read_bytes(), np.uint8)
        s.primal = float(np.mean(s.predicted(problem.X) != problem.y))

    with off_the_clock():
        options = {"recall_tree": problem.k, "loss_function": "hinge"}
        options |= {"learning_rate": learning_rate, "bit_precision": bits}
        workspace, error = _started(options, "--noconstant"), float(np.mean(problem.y != 0))
        s = state or RecallTreeState(0, seed, problem.k, np.zeros(0, np.uint8), error)
    yield from _passes(workspace, problem, sp.csr_matrix(problem.X), s, judge)


def _passes(workspace, problem: Problem, X, s, judge: Callable) -> Iterator:
    """Learn from the rows `X`, pass after pass, and judge each pass off the clock."""
    problem.refuse_weights()
    with off_the_clock():
        order = np.random.default_rng(s.seed).permutation(problem.n)
        examples = []
        for i, features in zip(order.tolist(), _features(X[order])):
            example = workspace.example(features)
            example.set_label_string(str(problem.y[i] + 1))
            example.setup_example()
            examples.append(example)
        for example in examples * s.round:
            workspace.learn(example)
    yield s
    while True:
        for example in examples:
            workspace.learn(example)
        with off_the_clock():
            s.round += 1
            judge(s)
        yield s


def _started(options: dict, *flags: str):
    """Return a learner of Vowpal Wabbit."""
    try:
        Workspace = import_module("vowpalwabbit").Workspace
    except ImportError:
        raise ValueError("vw: needs the extra: pip install 'workbench-mc[vw]'") from None
    settings = [f"--{name}={value}" for name, value in options.items()]
    return Workspace(arg_list=[*settings, *flags, "--quiet", "--no_stdin"])


def _stride(k: int) -> int:
    """Return the number of weights that Vowpal Wabbit sets aside for a feature."""
    return 1 << (k - 1).bit_length()


def _features(X) -> Iterator[dict]:
    """Yield the rows as Vowpal Wabbit's examples take them."""
    for i in range(X.shape[0]):
        if sp.issparse(X):
            part = slice(X.indptr[i], X.indptr[i + 1])
            yield {"x": list(zip(X.indices[part].tolist(), X.data[part].tolist()))}
        else:
            yield {"x": list(enumerate(X[i].tolist()))}


def _weights(workspace, d: int, k: int) -> np.ndarray:
    """Return the (d, k) weights that Vowpal Wabbit predicts with.

    It keeps them divided by a number by which `l2` shrinks them all at once; one prediction shows
    this number.
    """
    stride = _stride(k)
    W = np.array([[workspace.get_weight(j * stride + c) for c in range(k)] for j in range(d)])
    j, c = divmod(int(np.argmax(np.abs(W))), k)
    if W[j, c]:
        example = workspace.example({"x": [(j, float(1.0 / W[j, c]))]})
        W *= workspace.predict(example)[c]
    return W


def _objective(problem: Problem, l2: float, W: np.ndarray) -> float:
    loss = total(logistic_losses, problem.X, problem.y, W) / problem.n
    return loss + l2 / 2 * float(np.vdot(W, W))
