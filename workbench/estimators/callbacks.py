"""Callbacks of scikit-learn: every round of the solver is one task of the fit.

They are experimental in scikit-learn 1.9, so that all of it is in this file; older ones have none.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import sklearn

from workbench.core.problem import Problem
from workbench.core.stream import Row, Rule, State

ASKED = "asked by a callback"  # why a fit ended
ROUND = "round"  # the name of a task


class Unheard:
    """The base of estimators if scikit-learn has no callbacks."""

    def set_callbacks(self, *callbacks):
        """Raise a RuntimeError that says what is needed."""
        raise RuntimeError(
            f"set_callbacks: needs scikit-learn 1.9 or later, this is {sklearn.__version__}"
        )


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:
    CallbackSupportMixin = Unheard

    def with_callbacks(method):
        return method


class Heard(CallbackSupportMixin):
    """An estimator whose callbacks hear of every round."""

    def _listening(self, problem: Problem) -> tuple[list[Rule], dict[str, Any]]:
        """Return the rule of a run that tells the callbacks of its rounds, and its judge."""
        if "_told" not in vars(self):
            return [], {}
        context, data = self._told
        latest: list[State] = []

        def measure(state: State) -> Row:
            latest[:] = [state]
            return {}

        def rule(row: Row) -> str | None:
            if row["round"] == 0:
                return None
            task = context.subcontext(task_name=ROUND)
            task.call_on_fit_task_begin(estimator=self, **data)
            as_of = partial(self._as_of, problem, latest[0], row)
            stop = task.call_on_fit_task_end(
                estimator=self, **data, reconstruction_attributes=as_of
            )
            return ASKED if stop else None

        rule.__name__ = "callbacks"
        return [rule], {"measure": measure}

    def _as_of(self, problem: Problem, state: State, row: Row) -> dict[str, Any]:
        """Return the attributes with which this estimator predicts as the state does."""
        certified = getattr(state, "certified", True) and "lower" in row
        upper = max((row[name] for name in ("primal", "upper") if name in row), default=math.nan)
        return {
            "classes_": problem.classes,
            "n_iter_": row["round"],
            "lower_": row["lower"] if certified else math.nan,
            "upper_": upper if certified else math.nan,
            "_scored": lambda X: state.scores(self._seen(X)),
        }


def heard(fit: Callable) -> Callable:
    """Let a method `fit` tell the callbacks that the estimator has, if any."""

    @wraps(fit)
    def told(self, X, y, *args, **kwargs):
        if not vars(self).keys() & {"_skl_callbacks", "_parent_callback_ctx"}:
            return fit(self, X, y, *args, **kwargs)
        weights = args[0] if args else kwargs.get("sample_weight")
        metadata = None if weights is None else {"sample_weight": weights}
        return _tell(self, partial(fit, self, X, y, *args, **kwargs), X=X, y=y, metadata=metadata)

    return told


@with_callbacks
def _tell(estimator, fit: Callable, **data):
    context = estimator._init_callback_context(max_subtasks=getattr(estimator, "max_iter", None))
    estimator._told = context.call_on_fit_task_begin(estimator=estimator, **data), data
    try:
        fit()
        context.call_on_fit_task_end(estimator=estimator, **data)
    finally:
        del estimator._told
    return estimator


class GapMonitor:
    """Show the certified bounds of the optimum while `fit` runs, and end it at a gap.

    For ``set_callbacks`` of an estimator whose solver has bounds: minimax risk, Weston-Watkins,
    working sets, generalized least squares, and sampled cuts whose basis is exact or nystroem.

    Parameters
    ----------
    stop_at : float > 0 or None; ends the fit when upper - lower <= stop_at * |upper|
    verbose : bool, whether stderr shows the bounds of the last round; a file gets the final ones

    Attributes
    ----------
    rows : list of dicts with ``round``, ``lower`` and ``upper``, one per round of the last fit

    Raises
    ------
    ValueError
        For a `stop_at` that is not positive; in ``fit``, for a solver without bounds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from workbench.estimators import WestonWatkinsClassifier
    >>> monitor = GapMonitor(stop_at=0.01, verbose=False)
    >>> model = WestonWatkinsClassifier().set_callbacks(monitor)
    >>> _ = model.fit(*load_iris(return_X_y=True))
    >>> (model.upper_ - model.lower_) / model.upper_ <= 0.01
    True
    """

    def __init__(self, stop_at: float | None = None, verbose: bool = True) -> None:
        if stop_at is not None and not stop_at > 0:
            raise ValueError(f"stop_at: must be a positive number or None, got {stop_at!r}")
        self.stop_at, self.verbose = stop_at, verbose
        self.rows: list[dict[str, float]] = []

    def setup(self, estimator, context) -> None:
        """Forget the last fit."""
        self.rows = []

    def on_fit_task_begin(self, estimator, context) -> None:
        """Wait for the end of the round."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None) -> bool:
        """Note the bounds of a round, and return whether they are close enough."""
        if context.task_name != ROUND:
            return False
        lower, upper = fitted_estimator.lower_, fitted_estimator.upper_
        if math.isnan(upper):
            solver = type(estimator).__name__
            raise ValueError(f"GapMonitor: this {solver} has no certified bounds to show")
        self.rows.append({"round": fitted_estimator.n_iter_, "lower": lower, "upper": upper})
        if self.verbose and _on_a_screen():
            print(f"\r{self._last():<60}", end="", file=sys.stderr, flush=True)
        return self.stop_at is not None and upper - lower <= self.stop_at * abs(upper)

    def teardown(self, estimator, context) -> None:
        """Leave the last bounds on a line of their own, which is all that a log file gets."""
        if self.verbose and self.rows:
            print("\r" * _on_a_screen() + self._last(), file=sys.stderr)

    def _last(self) -> str:
        return "round {round}: {lower:.6g} <= optimum <= {upper:.6g}".format(**self.rows[-1])


def _on_a_screen() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
