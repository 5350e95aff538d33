"""The base of estimators that choose a parameter by cross-validation and may prove the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import perf_counter

import numpy as np
from sklearn.model_selection import check_cv

from workbench.core.checks import as_number, shown
from workbench.core.problem import Problem
from workbench.core.stream import rounds
from workbench.estimators.common import Classifier, warn
from workbench.estimators.parameters import accept
from workbench.tuning.state import Tuning

certify = accept(lambda v: 0 <= as_number(v) < 1, "a number of at least 0 and below 1")


class Tuned(Classifier):
    """A classifier with a parameter that `cv` chooses, with `certify` by proof."""

    def _folds(self, X, y) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the rows that are trained on and held out in each fold."""
        try:
            split = check_cv(self.cv, y, classifier=True).split(X, y)
            folds = [(np.asarray(train), np.asarray(test)) for train, test in split]
        except (IndexError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"cv: {error}") from None
        for i, (train, _) in enumerate(folds):
            if len(np.unique(y[train])) < 2:
                raise ValueError(
                    f"cv: the training rows of fold {i} (of 0 to {len(folds) - 1}) are all of "
                    f"class {y[train[0]]!r}; they need at least two classes"
                )
        return folds

    def _rules(self):
        return [*self._goal(), rounds(self.max_iter)]  # of the refit; `max_seconds` is the search's

    def _certified(
        self, stream: Callable[..., Iterator[Tuning]], problem: Problem, folds, name: str
    ) -> float:
        """Return the parameter in hand when the search ended, and keep what is proven of it.

        Parameters
        ----------
        stream : takes the folds of :func:`workbench.tuning.state.parted`
        name : of the parameter, for the warning
        """
        parts = []
        for train, test in folds:
            own = {"X": problem.X[train], "y": problem.y[train], "weights": None}
            labels = problem.classes[problem.y[test]]
            parts.append((replace(problem, **own), problem.X[test], labels))
        begun, ended, kept = perf_counter(), "interrupted", ()
        most = math.inf if self.max_solves is None else self.max_solves
        try:
            for state in stream(parts):
                if not state.n_solves:
                    continue
                # Ctrl-C can leave the state between two of its rounds, but not this.
                kept = state.chosen, state.achieved, state.certified, state.n_solves
                kept += (state.rows, *state.band())
                if state.n_solves >= most:
                    ended = f"max_solves={shown(self.max_solves)}"
                    break
                if perf_counter() - begun >= (self.max_seconds or math.inf):
                    ended = f"max_seconds={shown(self.max_seconds)}"
                    break
            else:
                ended = ""
        except KeyboardInterrupt:
            if not kept:
                raise
        chosen, self.certified_eps_, share, self.n_solves_, rows, edges, lower, upper = kept
        self.certified_ = bool(self.certified_eps_ <= self.certify)
        self.band_ = np.column_stack([edges[:-1], edges[1:], lower / rows, upper / rows])
        if not self.certified_:
            why = f" ({ended})" if ended else ": the rest is closer to a tie than numbers can tell"
            warn(
                f"certify={self.certify:g} is proven for {100 * share:.3g} % of the logarithm of "
                f"{name} after {self.n_solves_} solutions{why}; for all of it "
                f"{self.certified_eps_:.3g} is"
            )
        return float(chosen)
