"""Minimax risk classification for scikit-learn: any of the MRC solvers, run to a certified gap."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from workbench.core.problem import Problem
from workbench.core.stream import below
from workbench.estimators.base import WeightedClassifier, affine, labels_of
from workbench.estimators.parameters import not_negative, one_of, parameter, positive, whole
from workbench.mrc.risk import psi
from workbench.mrc.splitting import WIDEST

SOLVER_OF = {
    "interior_point": "mrc_interior_point",
    "splitting": "mrc_splitting",
    "pdhg": "mrc_pdhg",
    "ccg": "mrc_ccg",
    "lp": "mrc_lp",
    "subgradient": "mrc_subgradient",
}
# Components k (d + 1) beyond which the interior point method's working set gets too large.
WIDE = 16_000


@dataclass(eq=False, repr=False)
class MinimaxRiskClassifier(WeightedClassifier):
    """0-1 minimax risk classifier with a certificate: ``lower_ <= R* <= upper_``.

    R* is the smallest worst-case error over all distributions whose mean of the features, class
    by class, is within `lambda0` standard deviations of the training mean. If the data's
    distribution is among them, ``upper_`` bounds the error of the *randomised* rule that
    :meth:`predict_proba` returns. The error of its mode, which :meth:`predict` returns, is at most
    twice that, and usually the smaller of the two. :meth:`errors` reports both.

    Features are used as they are given, with one intercept per class; standardise dense ones
    first. A feature that is zero in every training row of a class has no spread there: it is
    left out for that class, its coefficient is 0 and no bound counts it (see
    :attr:`workbench.mrc.risk.MinimaxRisk.active`).

    All solvers are deterministic, so there is no ``random_state``.

    Parameters
    ----------
    lambda0 : float > 0, the width of the uncertainty set in standard deviations
    solver : {"auto", "interior_point", "splitting", "pdhg", "ccg", "lp", "subgradient"}
        "auto" takes "pdhg" for sparse rows or very many features, "splitting" for many features
        times classes, else "interior_point"; the last two are for dense rows only. "ccg" is the
        paper's constraint and column generation; "lp" hands the whole linear program to HiGHS
        and is for small data
    gap : float >= 0, stop when ``upper_ - lower_`` is at most this
    eps1, eps2 : float >= 0, of "ccg" only: violations of the primal and dual constraints that
        count. It also stops when there are none, whatever the gap: for a gap below `eps1`
        lower both
    n_max, m_max : int >= 1, of "ccg" only: constraints and features added per round
    max_iter : int >= 1, rounds of the solver
    max_seconds : float > 0 or None, wall seconds of the solver; checked between rounds

    Attributes
    ----------
    coef_ : (k, d), ``intercept_`` : (k,), also for two classes
    phi_ : float, the largest psi of a training row, threshold of the randomised rule
    lower_, upper_ : float, certified bounds of R*

    References
    ----------
    Bondugula, Mazuelas, Pérez: Efficient Large-Scale Learning of Minimax Risk Classifiers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> mrc = MinimaxRiskClassifier().fit(X, y)
    >>> mrc.upper_ - mrc.lower_ <= 1e-3
    True
    """

    lambda0: float = parameter(0.01, positive)
    _: KW_ONLY
    solver: str = parameter("auto", one_of(["auto", *SOLVER_OF]))
    gap: float = parameter(1e-3, not_negative)
    eps1: float = parameter(1e-2, not_negative)
    eps2: float = parameter(1e-5, not_negative)
    n_max: int = parameter(400, whole)
    m_max: int = parameter(400, whole)
    max_iter: int = parameter(1000, whole)
    max_seconds: float | None = parameter(None, positive)

    _scales_matter = False  # lambda is in standard deviations

    def predict(self, X):
        """Return the (n,) labels of highest score, the mode of the randomised rule.

        Its error is at most ``2 * upper_``: where the mode is wrong, the randomised rule is wrong
        with probability at least 1/2.
        """
        return super().predict(X)

    def predict_proba(self, X):
        """Return the (n, k) label probabilities of the minimax rule, whose error ``upper_`` bounds.

        They are proportional to ``(v_y - phi_)_+``, and uniform if no score exceeds `phi_`.
        They say how to randomise, not how likely a label is.
        """
        excess = np.maximum(self._scores(X) - self.phi_, 0.0)
        total = excess.sum(axis=1, keepdims=True)
        uniform = np.full_like(excess, 1.0 / len(self.classes_))
        return np.divide(excess, total, out=uniform, where=total > 0)

    def errors(self, X, y):
        """Return the errors of both rules on labelled rows, ``{"deterministic", "randomised"}``.

        "deterministic" is ``1 - score(X, y)``; "randomised" is the expected error of a label
        drawn from :meth:`predict_proba`, the one that ``upper_`` bounds. On the training rows
        it always does, since their distribution is in the uncertainty set.
        """
        y, p = labels_of(y), self.predict_proba(X)
        deterministic = 1.0 - self.score(X, y)  # refuses labels that do not fit the rows
        right = p[y[:, None] == self.classes_].sum()
        return {"deterministic": deterministic, "randomised": float(1.0 - right / len(y))}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.solver not in ("interior_point", "splitting")
        return tags

    def _solver(self, problem: Problem) -> tuple[str, dict]:
        name, parameters = self._solver_for(problem), {"lambda0": float(self.lambda0)}
        if name == "mrc_ccg":
            parameters |= {key: getattr(self, key) for key in ("eps1", "eps2", "n_max", "m_max")}
        if name == "mrc_lp" and self.max_seconds is not None:
            parameters["max_seconds"] = self.max_seconds
        return name, parameters

    def _solver_for(self, problem: Problem) -> str:
        if self.solver != "auto":
            return SOLVER_OF[self.solver]
        if problem.is_sparse or problem.d > WIDEST:
            return SOLVER_OF["pdhg"]
        wide = problem.k * (problem.d + 1) > WIDE
        return SOLVER_OF["splitting" if wide else "interior_point"]

    def _goal(self):
        return [below("gap", self.gap)]

    def _keep(self, problem, state, trace) -> None:
        self.coef_, self.intercept_ = affine(state, problem)
        self.phi_ = float(psi(self._scored(problem.X)).max())
        self.lower_, self.upper_ = trace.last["lower"], trace.last["upper"]

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        return super()._shapes(d, k) | {"phi_": ()}

    def _early(self) -> str | None:
        if self.upper_ - self.lower_ <= self.gap:
            return None
        advice = "raise max_iter or max_seconds"
        if self.trace_.stopped_by.startswith("finished"):
            ccg = self.trace_.header["solver"] == "mrc_ccg"
            advice = "lower eps1 and eps2" if ccg else "take another solver"
        return (
            f"after {self.n_iter_} rounds with a gap of {self.upper_ - self.lower_:.2g}, above "
            f"{self.gap:.2g}: {advice}, or raise gap"
        )
