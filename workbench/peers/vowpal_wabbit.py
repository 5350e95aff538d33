"""Vowpal Wabbit, through its own Python package: an extra, not a dependency.

One against all, and the recall tree, which finds the class in time logarithmic in their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_not_negative, check_positive, check_sparse
from workbench.core.problem import Problem
from workbench.core.stream import Row, off_the_clock
from workbench.peers.refits import LinearState, logistic_losses, total


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
    online updates; there is no intercept. A round is one pass over the rows, in an order that is
    random but the same for each, as of a shuffled file. The clock is that of learning alone, with
    Python's loop over the rows, some microseconds each: they are parsed before it starts. Parsed
    rows take 12 bytes a value.

    Vowpal Wabbit's saved models do not resume exactly. A stream that is resumed takes its passes
    once more, off the clock.

    Parameters
    ----------
    learning_rate : positive, of the first update; what tuning is about
    l2 : not negative, weight of the squared weights; Vowpal Wabbit's own default is none
    seed : of the rows' order

    Raises
    ------
    ValueError
        If `learning_rate` is not a positive number, `l2` is negative or no number, or the package
        vowpalwabbit is not installed.

    References
    ----------
    Karampatziakis, Langford: Online importance weight aware updates. UAI 2011.
    Ross, Mineiro, Langford: Normalized online learning. UAI 2013.
    """
    check_positive(learning_rate, "learning_rate")
    check_not_negative(l2=l2)
    s = state
    with off_the_clock():
        workspace = _workspace(problem.d, problem.k, learning_rate, l2)
        if s is None:
            W = np.zeros((problem.d, problem.k))
            s = LinearState(0, seed, W, 0, _objective(problem, l2, W))
        examples = _parse(workspace, problem, np.random.default_rng(s.seed).permutation(problem.n))
        for _ in range(s.round):
            _learn(workspace, examples)
    yield s
    while True:
        _learn(workspace, examples)
        with off_the_clock():
            s.round = s.iterations = s.round + 1
            s.W = _weights(workspace, problem.d, problem.k)
            s.primal = _objective(problem, l2, s.W)
        yield s


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
        """Return the codes of the classes that the tree predicts (n,), without k numbers a row."""
        if not len(self.model):
            return np.zeros(X.shape[0], np.int32)
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            path.write_bytes(self.model.tobytes())
            workspace = _started({"initial_regressor": path}, "--testonly")
            examples = (
                workspace.example(features)
                for features in _features(sp.csr_matrix(check_sparse(X)))
            )
            return np.array([workspace.predict(e) - 1 for e in examples], np.int32)

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

    The rival of the paper on inexact margins, with its hinge loss (four of its five data sets);
    a round is one pass over the rows, of which it makes five. The column ``primal`` is the error
    on the training rows, which passes need not lower. Parsing, clock and resumed streams are as
    of :func:`vw`, and there is no intercept.

    Parameters
    ----------
    learning_rate : positive, of the first update; the paper's are 0.5 to 1
    bits : the weights are hashed into 2^bits of them, at least 1, at most 31; the paper's are 28
        to 30, which take some 16 bytes each, used or not
    seed : of the rows' order

    Raises
    ------
    ValueError
        If `learning_rate` is not a positive number, `bits` no such whole number, or the package
        vowpalwabbit is not installed.

    References
    ----------
    Daumé, Karampatziakis, Langford, Mineiro: Logarithmic time one-against-some. ICML 2017.
    """
    check_positive(learning_rate, "learning_rate")
    check_counts(bits=bits)
    if bits > 31:
        raise ValueError(f"bits: must be at most 31, got {bits!r}")
    options = {
        "recall_tree": problem.k,
        "loss_function": "hinge",
        "learning_rate": learning_rate,
        "bit_precision": bits,
    }
    s = state
    with off_the_clock():
        workspace = _started(options, "--noconstant")
        if s is None:
            error = float(np.mean(problem.y != 0))
            s = RecallTreeState(0, seed, problem.k, np.zeros(0, np.uint8), error)
        rows = replace(problem, X=sp.csr_matrix(problem.X))
        examples = _parse(workspace, rows, np.random.default_rng(s.seed).permutation(problem.n))
        for _ in range(s.round):
            _learn(workspace, examples)
    yield s
    while True:
        _learn(workspace, examples)
        with off_the_clock():
            with TemporaryDirectory() as folder:
                path = Path(folder, "model")
                workspace.save(str(path))
                s.model = np.frombuffer(path.read_bytes(), np.uint8)
            s.round += 1
            s.primal = float(np.mean(s.predicted(problem.X) != problem.y))
        yield s


def _started(options: dict, *flags: str):
    """Return a learner of Vowpal Wabbit's."""
    try:
        Workspace = import_module("vowpalwabbit").Workspace
    except ImportError:
        raise ValueError("vw: needs the extra: pip install 'workbench-mc[vw]'") from None
    settings = [f"--{name}={value}" for name, value in options.items()]
    return Workspace(arg_list=[*settings, *flags, "--quiet", "--no_stdin"])


def _workspace(d: int, k: int, learning_rate: float, l2: float):
    """Return a learner with a weight of its own for every feature and class: nothing collides."""
    options = {
        "oaa": k,
        "loss_function": "logistic",
        "learning_rate": learning_rate,
        "l2": l2,
        "bit_precision": max(1, (d * _stride(k) - 1).bit_length()),
    }
    return _started(options, "--noconstant", "--scores")


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


def _parse(workspace, problem: Problem, order: np.ndarray) -> list:
    """Return the rows in the given order as Vowpal Wabbit's examples."""
    examples = []
    for i, features in zip(order.tolist(), _features(problem.X[order])):
        example = workspace.example(features)
        example.set_label_string(str(problem.y[i] + 1))
        example.setup_example()
        examples.append(example)
    return examples


def _learn(workspace, examples: list) -> None:
    for example in examples:
        workspace.learn(example)


def _weights(workspace, d: int, k: int) -> np.ndarray:
    """Return the (d, k) weights that Vowpal Wabbit predicts with.

    It keeps them divided by a number of its own, by which `l2` shrinks them all at once; one
    prediction tells it.
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
