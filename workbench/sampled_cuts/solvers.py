"""The printed Algorithms 1, 2 and 3 as solvers: of rows, or of sequences, of a problem.

One eps is fixed for all of the paper's experiments, and `r` is smaller for the
linear-time method than for the other (section 5). The digits of eps, `r` and `p` are
lost in our copy of the text, so that the values of these defaults are ours.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from workbench.kernels.mercer import POLYNOMIAL, Kernel, check_kernel, kernel_of
from workbench.sampled_cuts.cutting_plane import constant_time, exact, linear_time
from workbench.sampled_cuts.spaces import KernelSpace
from workbench.sampled_cuts.state import CutState, start
from workbench.sampled_cuts.tasks import Task, task_of


@resumable("eps", structured=True)
def cuts_exact(
    problem: Problem,
    *,
    C: float = 1.0,
    eps: float = 1e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise 1/2 |w|^2 + C sum_i hinge_i by exact cuts (Algorithm 1), with a
    certificate.

    Two classes have LIBSVM's hinge without a bias, more classes Crammer and Singer's,
    sequences a chain's. A round adds a cut made of all rows that violate, which takes
    up to n^2 values of the kernel, in double precision; the model is a lower bound. The
    stream ends when the cut is violated by `eps` at most: the gap is C n eps then.

    Parameters
    ----------
    C : positive, weight of a row's or a sequence's loss; the paper's C is n times as
        large. A given `state` has its own
    eps : positive tolerance, in units of the loss
    kernel : "linear", x'z; "rbf", exp(-gamma |x - z|^2); or "cubic", (1 + gamma x'z)^3
    gamma : positive, of the kernel; None for 1 / (d times the variance of all entries)
    seed : not used, as nothing is random here

    Raises
    ------
    ValueError
        If an argument, which is named, is not as above, or the problem does not fit
        into memory.
    """
    given = problem, state, C, eps, kernel, gamma, seed, np.float64
    task, made, s = prepared(*given, certified=True)
    space = exact_space("cuts_exact", problem, task, made, s)
    yield from counted(exact(task, space, s, eps), made, state)


@resumable("r", "eps", "cache_mb", structured=True)
def cuts_linear_time(
    problem: Problem,
    *,
    C: float = 1.0,
    r: int = 400,
    eps: float = 1e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    cache_mb: float = 1024.0,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise as `cuts_exact`, by cuts of r random rows among those that violate
    (Algorithm 3).

    A round takes n r values of the kernel at most, in single precision. The exact cut
    and the exact objective are known all the same. The stream ends when the exact cut
    is violated by `eps` at most.

    Parameters
    ----------
    C, eps, kernel, gamma : as of :func:`cuts_exact`
    r : rows (or sequences) of a cut, at least 1; all that violate if they are no more
    cache_mb : megabytes of scores of all rows by cuts (A_ki), else computed again in
        each round
    seed : int, seeds the samples

    Raises
    ------
    ValueError
        If an argument is not as above; the message names it.
    """
    check_counts(r=r)
    check_not_negative(cache_mb=cache_mb)
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, np.float32)
    space = KernelSpace(s, made, made.points(problem.X), task.K, cache_mb)
    yield from counted(linear_time(task, space, s, eps, r), made, state)


@resumable("r", "p", "eps", structured=True)
def cuts_constant_time(
    problem: Problem,
    *,
    C: float = 1.0,
    r: int = 1000,
    p: int = 10,
    eps: float = 1e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise as `cuts_exact`, by cuts of r random rows, not looking at others
    (Algorithm 2).

    Round t takes t r^2 values of the kernel, in single precision, whatever n.
    ``primal`` is an estimate from the sample of the next cut.

    Parameters
    ----------
    C, kernel, gamma : as of :func:`cuts_exact`
    r : rows (or sequences) of a sample, at least 1
    p : satisfied samples in a row that end the stream, at least 1
    eps : positive, in units of the loss: a sample violated by no more counts as
        satisfied
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


def prepared(
    problem: Problem, state, C, eps, kernel, gamma, seed, dtype, certified=False
) -> tuple[Task, Kernel, CutState]:
    """Return the task, the kernel and the first state; a ValueError names a bad
    argument."""
    check_positive(C, "C")
    check_positive(eps, "eps")
    check_kernel(kernel, gamma, POLYNOMIAL)
    problem.refuse_weights()
    task, made = task_of(problem), kernel_of(problem, kernel, gamma, dtype)
    if state is None:
        rng = np.random.default_rng(check_whole(seed, "seed", least=0))
        state = start(problem, task, made, float(C), float(eps), certified, rng)
    elif state.eps != eps:
        state.eps, state.calm = eps, 0
    return task, made, state


def exact_space(
    name: str, problem: Problem, task: Task, kernel: Kernel, s: CutState
) -> KernelSpace:
    """Return the space of exact cuts; ValueError if the problem does not fit into
    memory."""
    size = len(task.parts) * task.K
    free = check_memory(
        f"{name}, {len(task.parts)} rows of {task.K} labels", 160 * size
    )
    return KernelSpace(s, kernel, kernel.points(problem.X), task.K, free / (3 * 2**20))


def counted(steps: Iterator[CutState], kernel: Kernel, resumed) -> Iterator[CutState]:
    """Pass the states on with the number of kernel values, without those of a repeated
    set-up."""
    before = None if resumed else 0.0
    for s in steps:
        before = s.kernel_values - kernel.values if before is None else before
        s.kernel_values = float(before + kernel.values)
        yield s
