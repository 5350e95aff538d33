"""Vowpal Wabbit, one against all, through its own Python package: an extra, not a dependency."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import numpy as np

from workbench.baselines.refits import LinearState, logistic_losses, total
from workbench.problem import Problem, check_positive
from workbench.stream import off_the_clock


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
    if not (np.isfinite(l2) and l2 >= 0):
        raise ValueError(f"l2: must be a number that is not negative, got {l2!r}")
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


def _workspace(d: int, k: int, learning_rate: float, l2: float):
    """Return a learner with a weight of its own for every feature and class: nothing collides."""
    try:
        Workspace = import_module("vowpalwabbit").Workspace
    except ImportError:
        raise ValueError("vw: needs the extra: pip install 'workbench-mc[vw]'") from None
    options = {
        "oaa": k,
        "loss_function": "logistic",
        "learning_rate": learning_rate,
        "l2": l2,
        "bit_precision": max(1, (d * _stride(k) - 1).bit_length()),
    }
    flags = ["--noconstant", "--scores", "--quiet", "--no_stdin"]
    return Workspace(arg_list=[f"--{name}={value}" for name, value in options.items()] + flags)


def _stride(k: int) -> int:
    """Return the number of weights that Vowpal Wabbit sets aside for a feature."""
    return 1 << (k - 1).bit_length()


def _parse(workspace, problem: Problem, order: np.ndarray) -> list:
    """Return the rows in the given order as Vowpal Wabbit's examples."""
    X, examples = problem.X, []
    for i in order.tolist():
        if problem.is_sparse:
            part = slice(X.indptr[i], X.indptr[i + 1])
            features = zip(X.indices[part].tolist(), X.data[part].tolist())
        else:
            features = enumerate(X[i].tolist())
        example = workspace.example({"x": list(features)})
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
