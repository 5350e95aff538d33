"""The printed Algorithms 1, 2 and 3 as solvers, for rows or sequences of a problem.

All of the paper's experiments have the same eps, and `r` is smaller for the linear-time
method than for the constant-time method (section 5). The digits of eps, `r` and `p` are
not legible in our copy of the text, so these defaults are our own. So is the number of
rounds without a multiplier, 20, after which a cut is dropped.
"""

from collections.abc import Iterator

import numpy as np

from workbench.core.checks import (
    check_counts,
    check_memory,
    check_not_negative,
    check_positive,
    seeded,
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

    With two classes the loss is LIBSVM's hinge without a bias, with more classes that
    of Crammer and Singer, and with sequences that of a chain. A round adds a cut made
    of all rows that violate, which takes up to n^2 kernel values in double precision.
    The model is a lower bound. The stream ends when the cut is violated by at most
    `eps`; the gap is then at most C n eps. If `eps` is smaller than rounding, it ends
    after 100 rounds in which the gap hardly fell.

    Parameters
    ----------
    C : float > 0, the weight of the loss of a row or a sequence; the paper's C is n
        times as large
    eps : float > 0, the tolerance in units of the loss
    kernel : "linear", x'z; "rbf", exp(-gamma |x - z|^2); or "cubic", (1 + gamma x'z)^3
    gamma : float > 0, the parameter of the kernel; None means 1 / (d times the variance
        of all entries)
    seed : not used, since this method is not random

    Raises
    ------
    ValueError
        If an argument is out of its range, or the problem does not fit into memory; the
        message names it.
    """
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, True)
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

    A round takes at most n r kernel values, in single precision. It still computes the
    exact cut and the exact objective. The stream ends when the exact cut is violated by
    at most `eps`.

    Parameters
    ----------
    C, eps, kernel, gamma : see :func:`cuts_exact`
    r : int >= 1, the number of rows (or sequences) in a cut; if fewer violate, all of
        them are taken
    cache_mb : float >= 0, the megabytes for the scores of all rows by cuts (A_ki);
        scores that do not fit are computed again in each round
    seed : int >= 0, seeds the samples

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    check_counts(r=r)
    check_not_negative(cache_mb=cache_mb)
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, False)
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
    """Minimise as `cuts_exact`, by cuts of r random rows, without evaluating the other
    rows (Algorithm 2).

    Round t takes t r^2 kernel values in single precision, for any n. ``primal`` is an
    estimate from the sample of the next cut.

    Parameters
    ----------
    C, kernel, gamma : see :func:`cuts_exact`
    r : int >= 1, the number of rows (or sequences) in a sample
    p : int >= 1, the number of consecutive satisfied samples after which the stream
        ends
    eps : float > 0, the tolerance in units of the loss: a sample is satisfied if its
        cut is violated by at most eps
    seed : int >= 0, seeds the samples

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    check_counts(r=r, p=p)
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, False)
    space = KernelSpace(s, made, made.points(problem.X), task.K, 0.0)
    yield from counted(constant_time(task, space, s, eps, r, p), made, state)


def prepared(
    problem: Problem, state, C, eps, kernel, gamma, seed, certified: bool
) -> tuple[Task, Kernel, CutState]:
    """Return the task, the kernel and the first state.

    The kernel is of double precision if the run is `certified`, otherwise of single
    precision. A ValueError names an argument that is out of its range.
    """
    check_positive(C, "C")
    check_positive(eps, "eps")
    check_kernel(kernel, gamma, POLYNOMIAL)
    problem.refuse_weights()
    task = task_of(problem)
    precision = np.float64 if certified else np.float32
    made = kernel_of(problem, kernel, gamma, precision)
    if state is None:
        rng = seeded(seed)
        state = start(problem, task, made, float(C), float(eps), certified, rng)
    elif state.eps != eps:
        state.eps = eps
        state.calm = 0
    return task, made, state


def exact_space(
    name: str, problem: Problem, task: Task, kernel: Kernel, s: CutState
) -> KernelSpace:
    """Return the space of exact cuts for the solver `name`.

    A ValueError is raised if the problem does not fit into memory.
    """
    rows = len(task.parts)
    what = f"{name} with {rows} rows of {task.K} labels, which"
    free = check_memory(what, 160 * rows * task.K)
    return KernelSpace(s, kernel, kernel.points(problem.X), task.K, free / (3 * 2**20))


def counted(steps: Iterator[CutState], kernel: Kernel, resumed) -> Iterator[CutState]:
    """Yield the states with the number of kernel values computed so far.

    The values that a resumed run computes again at its start are not counted twice.
    """
    before = None if resumed else 0.0
    for s in steps:
        if before is None:
            before = s.kernel_values - kernel.values
        s.kernel_values = float(before + kernel.values)
        yield s
