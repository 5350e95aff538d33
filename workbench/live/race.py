"""Which of several runs is ahead, for one who looks at every step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.core.measures import predictions
from workbench.core.problem import Problem
from workbench.core.stream import Row, State, geometric
from workbench.core.watched import LEVEL, unequal


class Race:
    """Runs on the same test rows, and the latest verdict on them.

    A look is taken after 1, 2, 3, 4, 5, 6, 8, 10, ... evaluations of any of the runs, so that few
    levels are spent.
    """

    def __init__(self, problem: Problem):
        self.problem, self.verdict = problem, ""
        self._wrong: dict[str, np.ndarray] = {}  # by run
        self._evaluations = self._looks = 0
        self._geometric, self._due = geometric(1.2), False

    def judge(self, name: str) -> Callable[[State], Row]:
        """Return the judge of a run's 0-1 error on the test rows, which the race remembers."""

        def measure(state: State) -> Row:
            problem = self.problem
            wrong = predictions(state, problem.X_test, problem.k) != problem.y_test
            self._wrong[name] = wrong
            self._evaluations += 1
            self._due |= self._geometric({"round": self._evaluations})
            return {"test_error": float(np.mean(wrong))}

        return measure

    def look(self, labels: dict[str, str]) -> str:
        """Return the verdict on the runs of these names, a new one if a look is due.

        Parameters
        ----------
        labels : {name: label} of the runs that are compared
        """
        found = {name: wrong for name, wrong in self._wrong.items() if name in labels}
        if len(found) < 2:
            self.verdict = ""
        elif self._due:
            self._looks, self._due = self._looks + 1, False
            self.verdict = self._judged(found, labels)
        return self.verdict

    def _judged(self, found: dict[str, np.ndarray], labels: dict[str, str]) -> str:
        first, *others = sorted(found, key=lambda name: found[name].sum())
        best, pairs = found[first], len(found) * (len(found) - 1) // 2
        behind, open_ = [], []
        for name in others:
            b, c = (best & ~found[name]).sum(), (found[name] & ~best).sum()
            (behind if unequal(b, c, self._looks, pairs) else open_).append(labels[name])
        if not behind:
            return f"No run is ahead yet: {len(best):,} test rows do not tell these apart."
        rest = f"; not yet of {', '.join(open_)}" if open_ else ""
        return (
            f"{labels[first]} is ahead of {', '.join(behind)}{rest} (wrong in at most "
            f"{100 * LEVEL:g} % of races, however often one looks)."
        )
