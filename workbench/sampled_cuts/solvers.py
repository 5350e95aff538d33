"""The four solvers of the registry: the algorithms on rows, or on sequences, of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import psutil

from workbench.core.checks import as_number, check_counts, check_positive, shown
from workbench.core.problem import Problem
from workbench.kernels.functions import Kernel
from workbench.kernels.gram import check_kernel, scale
from workbench.sampled_cuts.cutting_plane import (
    all_units,
    constant_time,
    cutting_plane,
    some_violators,
)
from workbench.sampled_cuts.spaces import KernelSpace, NystroemSpace
from workbench.sampled_cuts.state import CutState, start
from workbench.sampled_cuts.tasks import Task, task_of


def cuts_exact(
    problem: Problem,
    *,
    C: float = 1.0,
    eps: float = 1e-3,
    kernel: str | Callable = "rbf",
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
    stabilised: bool = False,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Algorithm 1: minimise 1/2 |w|^2 + C sum_i hinge_i by exact cuts, with a certificate.

    Two classes have the hinge of LIBSVM without a bias, more that of Crammer and Singer, sequences
    that of a chain. A round adds a cut made of all rows that violate, which takes up to n^2 values
    of the kernel, in double precision; the model is a lower bound. The stream ends when the cut is
    violated by `eps` at most: the gap is C n eps then.

    Parameters
    ----------
    C : positive, weight of a row's or a sequence's loss; the paper's C is n times that
    eps : positive, in units of the loss
    kernel, gamma, degree, coef0 : as of :func:`~workbench.weston_watkins.kernel.ww_kernel`
    stabilised : with a line search from the best point, see
        :func:`~workbench.sampled_cuts.cutting_plane.cutting_plane`
    seed : nothing is random here

    Raises
    ------
    ValueError
        Naming the argument, if it is not as above, or the problem does not fit into memory.
    """
    task, C = checked(problem, C, eps, kernel, gamma, degree, coef0)
    made = kernel_of(problem, kernel, gamma, degree, coef0, np.float64)
    points, s = made.points(problem.X), state or start(problem, task, made, C, True, seed)
    space = KernelSpace(s, made, points, task.K, room(task, 8))
    yield from counted(cutting_plane(task, space, s, C, eps, all_units, stabilised), made, state)


def cuts_linear_time(
    problem: Problem,
    *,
    C: float = 1.0,
    r: int = 400,
    eps: float = 5e-3,
    kernel: str | Callable = "rbf",
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
    stabilised: bool = True,
    p: int = 10,
    cache_mb: float = 1024.0,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Algorithm 3: the same with cuts made of r random rows among those that violate.

    A round takes n r values of the kernel, in single precision. The exact cut and the exact
    objective are known all the same. The stream ends when the exact cut is violated by `eps` at
    most, and, since the model of sampled cuts is not a lower bound, with the line search also when
    this violation no longer comes down. Long rows with a linear or polynomial kernel, 1000 and
    more, leave single precision few digits: scale them.

    Parameters
    ----------
    C : positive, weight of a row's or a sequence's loss; the paper's C is n times that
    r : rows (or sequences) of a cut, at least 1; all that violate where these are no more
    eps : positive, in units of the loss
    kernel, gamma, degree, coef0 : as of :func:`~workbench.weston_watkins.kernel.ww_kernel`
    stabilised : with a line search from the best point; False is the paper's algorithm
    p : with the line search, rounds after which it ends if they lowered the violation by less than
        eps / 5 in all
    cache_mb : megabytes of scores of all rows by cuts; scores of further cuts are computed anew in
        each round
    seed : of the samples

    Raises
    ------
    ValueError
        Naming the argument, if it is not as above.
    """
    task, C = checked(problem, C, eps, kernel, gamma, degree, coef0, r=r, p=p)
    if not 0 <= as_number(cache_mb) < np.inf:
        raise ValueError(f"cache_mb: must be a number of at least 0, got {shown(cache_mb)}")
    made = kernel_of(problem, kernel, gamma, degree, coef0, np.float32)
    points, s = made.points(problem.X), state or start(problem, task, made, C, False, seed)
    space = KernelSpace(s, made, points, task.K, cache_mb)
    choose = some_violators(r, eps, insist=not stabilised)
    patience = p if stabilised else None
    steps = cutting_plane(task, space, s, C, eps, choose, stabilised, patience)
    yield from counted(steps, made, state)


def cuts_constant_time(
    problem: Problem,
    *,
    C: float = 1.0,
    r: int = 400,
    p: int = 10,
    eps: float = 5e-3,
    kernel: str | Callable = "rbf",
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Algorithm 2: the same with cuts made of r random rows, the others not being looked at.

    Round t takes t r^2 values of the kernel, in single precision, whatever n. ``primal`` of its
    rows is an estimate from the last sample, at the iterate before the last cut.

    Parameters
    ----------
    C : positive, weight of a row's or a sequence's loss; the paper's C is n times that
    r : rows (or sequences) of a sample, at least 1
    p : satisfied samples in a row that end the stream, at least 1
    eps : positive, in units of the loss: a sample violated by no more counts as satisfied
    kernel, gamma, degree, coef0 : as of :func:`~workbench.weston_watkins.kernel.ww_kernel`
    seed : of the samples

    Raises
    ------
    ValueError
        Naming the argument, if it is not as above.
    """
    task, C = checked(problem, C, eps, kernel, gamma, degree, coef0, r=r, p=p)
    made = kernel_of(problem, kernel, gamma, degree, coef0, np.float32)
    points, s = made.points(problem.X), state or start(problem, task, made, C, False, seed)
    space = KernelSpace(s, made, points, task.K, 0.0)
    yield from counted(constant_time(task, space, s, C, eps, r, p), made, state)


def cuts_nystroem(
    problem: Problem,
    *,
    C: float = 1.0,
    landmarks: int = 200,
    eps: float = 1e-3,
    kernel: str | Callable = "rbf",
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
    stabilised: bool = True,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Ours: Algorithm 1 in the span of random rows, with a certificate for that space.

    Its solution is a function of the kernel's own space with the same objective, so that the upper
    bound holds there too; the lower one does not.

    Parameters
    ----------
    C : positive, weight of a row's or a sequence's loss; the paper's C is n times that
    landmarks : rows that span the space, at least 1; all where there are no more. A `state` that
        is given has its own
    eps : positive, in units of the loss
    kernel, gamma, degree, coef0 : as of :func:`~workbench.weston_watkins.kernel.ww_kernel`
    stabilised : with a line search from the best point; False is Algorithm 1 as it is
    seed : of the landmarks

    Raises
    ------
    ValueError
        Naming the argument, if it is not as above, or the features do not fit into memory.
    """
    task, C = checked(problem, C, eps, kernel, gamma, degree, coef0, landmarks=landmarks)
    m = min(landmarks, problem.n)
    fits(f"cuts_nystroem, {m} landmarks", m * (8 * problem.n + 32 * m))
    made = kernel_of(problem, kernel, gamma, degree, coef0, np.float64)
    s = state or start(problem, task, made, C, True, seed)
    space = NystroemSpace(s, made, problem.X, landmarks)
    yield from counted(cutting_plane(task, space, s, C, eps, all_units, stabilised), made, state)


def checked(problem, C, eps, kernel, gamma, degree, coef0, **counts) -> tuple[Task, float]:
    """Return the problem's task, and C; a ValueError names an argument that is out of range."""
    C = check_positive(C, "C")
    check_positive(eps, "eps")
    check_kernel(kernel, gamma, degree, coef0)
    check_counts(**counts)
    return task_of(problem), C


def kernel_of(problem, kernel, gamma, degree, coef0, dtype) -> Kernel:
    """Return the kernel for the rows of a problem, which are centred where that changes nothing."""
    centred = kernel == "rbf" and not problem.is_sparse
    centre = problem.X.mean(axis=0, dtype=np.float64) if centred else np.zeros(0)
    return Kernel(kernel, gamma or scale(problem.X), degree, coef0, dtype, centre)


def room(task: Task, itemsize: int) -> float:
    """Return the megabytes for scores by exact cuts; ValueError where 20 cuts do not fit."""
    N, K = len(task.parts), task.K
    free = fits(f"cuts_exact, {N} rows of {K} labels", 20 * itemsize * N * K)
    return free / (3 * 2**20)


def fits(what: str, need: float) -> int:
    """Return the bytes of memory that are free; ValueError where they are less than `need`."""
    free = psutil.virtual_memory().available
    if need > free:
        raise ValueError(
            f"problem: too large for {what} take {need / 2**30:.2g} GB, "
            f"{free / 2**30:.2g} GB of memory are free"
        )
    return free


def counted(
    steps: Iterator[CutState], kernel: Kernel, resumed: CutState | None
) -> Iterator[CutState]:
    """Pass the states on with the number of kernel values, those of a set-up anew left out."""
    before = 0.0 if resumed is None else None
    for s in steps:
        if before is None:
            before = s.kernel_values - kernel.values
        s.kernel_values = float(before + kernel.values)
        yield s
