"""The four solvers of the registry: the algorithms on rows, or on sequences, of a problem."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from workbench.core.checks import (
    check_counts,
    check_memory,
    check_not_negative,
    check_positive,
    check_whole,
)
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.kernels.functions import Kernel, check_kernel, kernel_of
from workbench.sampled_cuts.cutting_plane import (
    STALLED,
    constant_time,
    exact,
    linear_time,
    some_violators,
    violators,
)
from workbench.sampled_cuts.spaces import KernelSpace, NystroemSpace
from workbench.sampled_cuts.stabilised import stabilised_cuts
from workbench.sampled_cuts.state import CutState, start
from workbench.sampled_cuts.tasks import Task, task_of


@resumable("eps", "stabilised")
def cuts_exact(
    problem: Problem,
    *,
    C: float = 1.0,
    eps: float = 1e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    stabilised: bool = False,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise 1/2 |w|^2 + C sum_i hinge_i by exact cuts (Algorithm 1), with a certificate.

    Two classes have LIBSVM's hinge without a bias, more classes Crammer and Singer's, sequences
    a chain's. A round adds a cut made of all rows that violate, which takes up to n^2 values
    of the kernel, in double precision; the model is a lower bound. The stream ends when the cut is
    violated by `eps` at most: the gap is C n eps then.

    Parameters
    ----------
    C : positive, weight of a row's or a sequence's loss; the paper's C is n times as large. A given
        `state` has its own
    eps : positive tolerance, in units of the loss
    kernel : "linear", x'z; or "rbf", exp(-gamma |x - z|^2)
    gamma : positive, of the kernel; None for 1 / (d times the variance of all entries)
    stabilised : with a line search from the best point, see
        :func:`~workbench.sampled_cuts.stabilised.stabilised_cuts`
    seed : not used, as nothing is random here

    Raises
    ------
    ValueError
        If an argument, which is named, is not as above, or the problem does not fit into memory.
    """
    given = problem, state, C, eps, kernel, gamma, seed, np.float64
    task, made, s = prepared(*given, certified=True)
    size = len(task.parts) * task.K
    free = check_memory(f"cuts_exact, {len(task.parts)} rows of {task.K} labels", 160 * size)
    space = KernelSpace(s, made, made.points(problem.X), task.K, free / (3 * 2**20))
    if stabilised:
        steps = stabilised_cuts(task, space, s, eps, violators, STALLED)
    else:
        steps = exact(task, space, s, eps)
    yield from counted(steps, made, state)


@resumable("r", "eps", "stabilised", "p", "cache_mb")
def cuts_linear_time(
    problem: Problem,
    *,
    C: float = 1.0,
    r: int | None = None,
    eps: float = 5e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    stabilised: bool = True,
    p: int = 10,
    cache_mb: float = 1024.0,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise as `cuts_exact`, by cuts of r random rows among those that violate (Algorithm 3).

    A round takes n r values of the kernel at most, in single precision. The exact cut and the exact
    objective are known all the same. The stream ends when the exact cut is violated by `eps` at
    most, and, since the model of sampled cuts is not a lower bound, with the line search also when
    this violation no longer falls.

    Parameters
    ----------
    C, eps, kernel, gamma : as of :func:`cuts_exact`
    r : rows (or sequences) of a cut, at least 1; all that violate if they are no more. None is 400
        sequences, or 400 sqrt(k / 2) rows of k classes: a round's other work grows with k, and
        larger cuts are fewer. With the line search up to twice as many are all taken if rows of the
        kernel matrix are kept
    stabilised : with a line search from the best point; False is the paper's algorithm
    p : with the line search, rounds after which it ends if they lowered the violation by less than
        eps / 5 in all
    cache_mb : megabytes of scores of all rows by cuts, else computed again in each round. With
        the line search at least half of it holds rows of the kernel matrix, if a quarter of all fit
    seed : int, seeds the samples

    Raises
    ------
    ValueError
        If an argument is not as above; the message names it.
    """
    if r is None:
        r = 400 if hasattr(problem, "starts") else round(400 * np.sqrt(problem.k / 2))
    check_counts(r=r, p=p)
    check_not_negative(cache_mb=cache_mb)
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, np.float32)
    space = KernelSpace(s, made, made.points(problem.X), task.K, cache_mb, gram=stabilised)
    if stabilised:
        spare = 0 if space.gram is None else r  # they cost less where rows of the kernel are kept
        choose = partial(some_violators, rng=s.rng, r=r, spare=spare)
        steps = stabilised_cuts(task, space, s, eps, choose, p)
    else:
        steps = linear_time(task, space, s, eps, r)
    yield from counted(steps, made, state)


@resumable("r", "p", "eps")
def cuts_constant_time(
    problem: Problem,
    *,
    C: float = 1.0,
    r: int = 400,
    p: int = 10,
    eps: float = 5e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise as `cuts_exact`, by cuts of r random rows, not looking at others (Algorithm 2).

    Round t takes t r^2 values of the kernel, in single precision, whatever n. ``primal`` is an
    estimate from the last sample, at the iterate before the last cut.

    Parameters
    ----------
    C, kernel, gamma : as of :func:`cuts_exact`
    r : rows (or sequences) of a sample, at least 1
    p : satisfied samples in a row that end the stream, at least 1
    eps : positive, in units of the loss: a sample violated by no more counts as satisfied
    seed : int, seeds the samples

    Raises
    ------
    ValueError
        If an argument is not as above; the message names it.
    """
    check_counts(r=r, p=p)
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, np.float32)
    space = KernelSpace(s, made, made.points(problem.X), task.K, 0.0)
    yield from counted(constant_time(task, space, s, eps, r, p), made, state)


@resumable("eps")
def cuts_nystroem(
    problem: Problem,
    *,
    C: float = 1.0,
    landmarks: int = 200,
    eps: float = 1e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise as `cuts_exact`, in the span of random rows (ours), certified for that space.

    The bounds ``span_lower`` and ``span_upper`` hold the least objective in the span. It is not
    below the optimum of the whole problem, for which only the upper bound holds.

    Parameters
    ----------
    C, eps, kernel, gamma : as of :func:`cuts_exact`
    landmarks : rows that span the space, at least 1; all if there are no more. A `state` that is
        given has its own
    seed : int, seeds the landmarks

    Raises
    ------
    ValueError
        If an argument, which is named, is not as above, or the features do not fit into memory.
    """
    check_counts(landmarks=landmarks)
    m = min(landmarks, problem.n)
    check_memory(f"cuts_nystroem, {m} landmarks", m * (8 * problem.n + 32 * m))
    given = problem, state, C, eps, kernel, gamma, seed, np.float64
    task, made, s = prepared(*given, certified=True)
    space = NystroemSpace(s, made, problem.X, landmarks)
    yield from counted(stabilised_cuts(task, space, s, eps, violators, STALLED), made, state)


def prepared(
    problem: Problem, state, C, eps, kernel, gamma, seed, dtype, certified=False
) -> tuple[Task, Kernel, CutState]:
    """Return the task, the kernel and the first state; a ValueError names a bad argument."""
    check_positive(C, "C")
    check_positive(eps, "eps")
    check_kernel(kernel, gamma)
    problem.refuse_weights()
    task, made = task_of(problem), kernel_of(problem, kernel, gamma, dtype)
    if state is None:
        rng = np.random.default_rng(check_whole(seed, "seed", least=0))
        state = start(problem, task, made, float(C), float(eps), certified, rng)
    elif state.eps != eps:
        state.eps, state.calm = eps, 0
    return task, made, state


def counted(steps: Iterator[CutState], kernel: Kernel, resumed) -> Iterator[CutState]:
    """Pass the states on with the number of kernel values, without those of a repeated set-up."""
    before = None if resumed else 0.0
    for s in steps:
        before = s.kernel_values - kernel.values if before is None else before
        s.kernel_values = float(before + kernel.values)
        yield s
