"""The regularisation path of a Weston-Watkins SVM, with warm starts."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from workbench.core.checks import check_positive, check_whole
from workbench.core.problem import Problem
from workbench.core.state import resumable
from workbench.kernels.rows import squared_norms
from workbench.weston_watkins.dual import WWState, losses
from workbench.weston_watkins.fast import descent


@resumable()
def ww_path(
    problem: Problem,
    Cs: Sequence[float],
    *,
    gap_ratio: float = 1e-3,
    max_rounds: int = 1000,
    seed: int = 0,
) -> Iterator[WWState]:
    """Yield the solution for every C, in ascending order; ``state.level`` is its C.

    For C' > C, the dual point for C scaled by C'/C is feasible, since B <= C. It is
    close to the new solution, because rows at their bound stay there. The gap of each
    solution is at most `gap_ratio` times the gap after one sweep from zero at the same
    C, as for the solvers themselves; these sweeps are timed.

    Parameters
    ----------
    Cs : one float > 0 or several in any order; duplicates are solved once
    gap_ratio : float > 0, the largest gap of a solution, relative to the first gap
    max_rounds : int >= 1, the largest number of rounds for each C; ``state.gap_ratio``
        shows whether they were enough
    seed : int >= 0, seeds the order of the rows

    Raises
    ------
    ValueError
        If a parameter is outside its range, or there is no C.
    """
    Cs = sorted({check_positive(C, "Cs") for C in np.ravel(Cs)})
    if not Cs:
        raise ValueError("Cs: must contain at least one C")
    check_positive(gap_ratio, "gap_ratio")
    check_whole(max_rounds, "max_rounds")
    s = None
    norms = squared_norms(problem.X)
    for C in Cs:
        if s is not None:  # the sweep that measures the first gap at this C is a round
            s.round += 1
            s.move_to(C, problem, norms)
        steps = descent(problem, C, seed, s)
        for s in islice(steps, 1 + max_rounds):
            if s.round and s.gap_ratio <= gap_ratio:
                break
        if s.move_to(C, problem, norms):  # the rounds ended before this C was reached
            s.judged(norms, *losses(problem, s.W, C))
        yield s
