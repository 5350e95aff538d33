"""Our solvers: a line search from the best point, and cuts in the span of landmarks."""

from collections.abc import Iterator

import numpy as np

from workbench.core.checks import check_counts, check_memory, check_not_negative
from workbench.core.problem import Array, Problem
from workbench.core.state import resumable
from workbench.core.structures import SequenceProblem
from workbench.sampled_cuts.cutting_plane import STALLED, some_violators, violators
from workbench.sampled_cuts.solvers import counted, exact_space, prepared
from workbench.sampled_cuts.spaces import KernelSpace, NystroemSpace
from workbench.sampled_cuts.stabilised import stabilised_cuts
from workbench.sampled_cuts.state import CutState
from workbench.sampled_cuts.tasks import Answers


@resumable("eps", structured=True)
def cuts_exact_fast(
    problem: Problem,
    *,
    C: float = 1.0,
    eps: float = 1e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise as `cuts_exact`, with bounds, by a line search from the best point.

    The method is described at
    :func:`~workbench.sampled_cuts.stabilised.stabilised_cuts`.

    Parameters
    ----------
    C, eps, kernel, gamma, seed : see
        :func:`~workbench.sampled_cuts.solvers.cuts_exact`

    Raises
    ------
    ValueError
        As for :func:`~workbench.sampled_cuts.solvers.cuts_exact`.
    """
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, True)
    space = exact_space("cuts_exact_fast", problem, task, made, s)
    yield from counted(
        stabilised_cuts(task, space, s, eps, violators, STALLED), made, state
    )


@resumable("r", "eps", "p", "cache_mb", structured=True)
def cuts_linear_time_fast(
    problem: Problem,
    *,
    C: float = 1.0,
    r: int | None = None,
    eps: float = 5e-3,
    kernel: str = "rbf",
    gamma: float | None = None,
    p: int = 10,
    cache_mb: float = 1024.0,
    seed: int = 0,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Minimise as `cuts_linear_time`, by fewer cuts, with a line search.

    The stream ends when the objective exceeds the model's value by at most C n eps. The
    model of sampled cuts is not a lower bound, so the stream also ends when this
    distance no longer falls.

    Parameters
    ----------
    C, kernel, gamma, seed : see
        :func:`~workbench.sampled_cuts.solvers.cuts_linear_time`
    r : int >= 1, the number of rows (or sequences) in a cut. The default is 400
        sequences, or 400 sqrt(k / 2) rows of k classes, because the other work of a
        round grows with k, and larger cuts mean fewer rounds. If at most r units
        violate, or at most 2 r if rows of the kernel matrix are cached, all of them are
        taken
    eps : float > 0, the tolerance in units of the loss
    p : int >= 1, the number of rounds after which the stream also ends if they together
        lowered the violation by less than eps / 5
    cache_mb : float >= 0, the megabytes for the scores of all rows by cuts. At least
        half of this memory is for rows of the kernel matrix, if at least a quarter of
        these rows fit and kernel values take longer to compute than to read

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    """
    if r is None and isinstance(problem, SequenceProblem):
        r = 400
    elif r is None:
        r = round(400 * np.sqrt(problem.k / 2))
    check_counts(r=r, p=p)
    check_not_negative(cache_mb=cache_mb)
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, False)
    space = KernelSpace(s, made, made.points(problem.X), task.K, cache_mb, gram=True)
    # Cuts with more rows take less time if rows of the kernel matrix are cached.
    largest = r if space.gram is None else 2 * r

    def choose(answers: Answers) -> tuple[Array, float]:
        I, weight = violators(answers)
        if len(I) <= largest:
            return I, weight
        return some_violators(answers, s.rng, r)

    yield from counted(stabilised_cuts(task, space, s, eps, choose, p), made, state)


@resumable("eps", structured=True)
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
    """Minimise as `cuts_exact` in the span of random rows, with bounds there (ours).

    The bounds ``span_lower`` and ``span_upper`` enclose the smallest objective in the
    span, which is at least the optimum of the whole problem. For that optimum only the
    upper bound is valid.

    Parameters
    ----------
    C, eps, kernel, gamma : see :func:`~workbench.sampled_cuts.solvers.cuts_exact`
    landmarks : int >= 1, the number of rows that span the space, or all rows if there
        are fewer
    seed : int >= 0, seeds the choice of landmarks

    Raises
    ------
    ValueError
        If an argument is out of its range, or the features do not fit into memory; the
        message names it.
    """
    check_counts(landmarks=landmarks)
    m = min(landmarks, problem.n)
    check_memory(
        f"cuts_nystroem with {m} landmarks, which", m * (8 * problem.n + 32 * m)
    )
    task, made, s = prepared(problem, state, C, eps, kernel, gamma, seed, True)
    space = NystroemSpace(s, made, problem.X, landmarks)
    yield from counted(
        stabilised_cuts(task, space, s, eps, violators, STALLED), made, state
    )
