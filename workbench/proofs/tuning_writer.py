"""Write the proof of a tuning: dual points from which T2 alone shows that no C is far better.

A search drops the dual points of intervals that it has closed, and closes some by tilts, which the
checker does not know. So the knots are solved for again, along the axis, and where T2 leaves too
little there are more of them; each dual point is kept, sparse, when the search drops it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice

import numpy as np

from workbench.core.problem import Matrix, Problem
from workbench.proofs import checker, tuning
from workbench.proofs.writers import Arrays, save, smallest, sparse
from workbench.tuning.search import Search
from workbench.tuning.state import parted
from workbench.tuning.weston_watkins import Balls, WWTuning, start

MORE = 4  # solutions, in multiples of those of the search, after which no knot is added


class Recorded(Balls):
    """A search without tilts that keeps the dual points (rows, k) of all its knots, sparse."""

    sharper = Search.sharper

    def __init__(self, state: WWTuning, parts):
        super().__init__(state, parts)
        self.kept: dict[int, Arrays] = {}

    def close(self, i: int) -> None:
        """Do no more for an interval, and keep the dual points that go with it."""
        held = dict(zip(self.s.owner.tolist(), self.s.B, strict=True))
        super().close(i)
        self.keep({knot: held[knot] for knot in held.keys() - set(self.s.owner.tolist())})

    def keep(self, duals: dict[int, np.ndarray]) -> None:
        """Keep these dual points, sparse; in single precision hinges are not 0, times a large C."""
        self.kept |= {knot: sparse(B, exact=True) for knot, B in duals.items()}


def write_tuning(
    path: str | os.PathLike,
    folds: Sequence[tuple[Problem, Matrix, np.ndarray]],
    state: WWTuning,
) -> None:
    """Write the proof of a tuning of C to `path`, an npz file, whole or not at all.

    It is of the range that the state has scanned and takes about twice as long as the search. It
    states how many errors it proves, fewer than the search did where that took too many knots.

    Parameters
    ----------
    folds : as of :func:`workbench.tuning.weston_watkins.certify_path`
    state : of that stream, after its first two solutions at least; it is left as it is

    Raises
    ------
    ValueError
        For rows with weights, a state without an interval, and a tuning of least squares.
    """
    if not isinstance(state, WWTuning):
        raise ValueError("proof: of tunings, only those of the Weston-Watkins SVM have one")
    parts = parted(folds)
    if any((part.problem.weights != 1.0).any() for part in parts):
        raise ValueError("proof: rows with weights other than one cannot be stated in a proof")
    if not len(state.left):
        raise ValueError("proof: there is none before two values of C are solved for")
    at = np.sort(state.at)
    eps = max(state.eps, state.achieved + 0.5 / state.rows)
    again = start(parts, at[[0, -1]], eps, 0)
    again.fewest, again.chosen, again.chosen_W = state.fewest, state.chosen, state.chosen_W.copy()
    search = Recorded(again, parts)
    for _ in islice(search.steps(at), len(at) + MORE * state.round):
        pass
    search.keep(dict(zip(again.owner.tolist(), again.B, strict=True)))
    k, n = again.W.shape[3], parts[-1].rows.stop
    order = np.argsort(again.at)
    found = [search.kept[knot] for knot in order.tolist()]
    ends, rows = 0, []
    for place, dual in enumerate(found):
        rows.append(dual["rows"].astype(np.int64) + place * n)
        dual["ends"] = dual["ends"].astype(np.int64) + ends
        ends = int(dual["ends"][-1])
    arrays = {name: np.concatenate([dual[name] for dual in found]) for name in checker.DUAL}
    arrays |= {"rows": smallest(np.concatenate(rows)), "ends": smallest(arrays["ends"])}
    arrays |= {"columns": smallest(arrays["columns"]), "at": again.at[order]}
    arrays["W"] = again.chosen_W.reshape(-1, k)
    checked = tuning.Folds([(p.problem.X, p.problem.y, p.given, p.y) for p in parts])
    header = {"format": 1, "family": "tuning", "loss": "weston_watkins", "outputs": k}
    header |= {"checksum": checked.checksum(), "errors": 0, "certain": 0}
    problem, held = folds[0][:2]
    if len(folds) == 1 and held is problem.X_test and problem.recipe is not None:
        header["recipe"] = problem.recipe
    errors, certain, _ = tuning.measured(checker.Proof(header, arrays), checked, again.target)
    save(path, header | {"errors": errors, "certain": certain}, arrays)
