"""Minimax risk classification for scikit-learn: any of the MRC solvers, run to a certified gap."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from workbench.core.problem import Problem
from workbench.core.stream import below
from workbench.estimators.base import WeightedClassifier, not_negative, one_of, parameter, positive
from workbench.mrc.risk import psi
from workbench.mrc.splitting import WIDEST

SOLVERS = "interior_point", "splitting", "pdhg", "ccg", "lp"
# Components k (d + 1) beyond which the interior point method's working set gets too large.
WIDE = 16_000


@dataclass(eq=False, repr=False)
class MinimaxRiskClassifier(WeightedClassifier):
    """0-1 minimax risk classifier with a certificate: ``lower_ <= R* <= upper_``.

    R* is the smallest worst-case error over all distributions whose mean of the features, class
    by class, is within `lambda0` standard deviations of the training mean. If the data's
    distribution is among them, ``upper_`` bounds the error of the *randomised* rule that
    :meth:`predict_proba` returns. The error of its mode, which :meth:`predict` returns, is at most
    twice that, since the randomised rule is wrong with probability 1/2 at least where the mode is
    wrong; usually it is the smaller of the two.

    There is one intercept per class. A feature that is zero in every training row of a class has
    no spread there: it is left out for that class, its coefficient is 0 and no bound counts it (see
    :attr:`workbench.mrc.risk.MinimaxRisk.active`).

    Parameters
    ----------
    lambda0 : float > 0, the width of the uncertainty set in standard deviations
    solver : {"auto", "interior_point", "splitting", "pdhg", "ccg", "lp"}
        "auto" takes "pdhg" for sparse rows or very many features, "splitting" for many features
        times classes, else "interior_point"; the last two are for dense rows only. "ccg" is the
        paper's constraint and column generation; "lp" hands the whole linear program to HiGHS
        and is for small data. None of them has a seed
    tol : float >= 0, stop when ``upper_ - lower_`` is at most this

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
    solver: str = parameter("auto", one_of(["auto", *SOLVERS]))
    tol: float = parameter(1e-3, not_negative)

    def predict_proba(self, X):
        """Return the (n, k) label probabilities of the minimax rule, whose error ``upper_`` bounds.

        They are proportional to ``(v_y - phi_)_+``, and uniform if no score exceeds `phi_`.
        They say how to randomise, not how likely a label is.
        """
        excess = np.maximum(self._scores(X) - self.phi_, 0.0)
        total = excess.sum(axis=1, keepdims=True)
        uniform = np.full_like(excess, 1.0 / len(self.classes_))
        return np.divide(excess, total, out=uniform, where=total > 0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.solver not in ("interior_point", "splitting")
        return tags

    def _solver(self, problem: Problem) -> tuple[str, dict]:
        name, parameters = self._solver_for(problem), {"lambda0": float(self.lambda0)}
        if name == "mrc_ccg":  # every violation counts, so that the gap closes
            parameters |= {"eps1": 0.0, "eps2": 0.0}
        if name == "mrc_lp" and self.max_seconds is not None:
            parameters["max_seconds"] = self.max_seconds
        return name, parameters

    def _solver_for(self, problem: Problem) -> str:
        if self.solver != "auto":
            return f"mrc_{self.solver}"
        if problem.is_sparse or problem.d > WIDEST:
            return "mrc_pdhg"
        wide = problem.k * (problem.d + 1) > WIDE
        return "mrc_splitting" if wide else "mrc_interior_point"

    def _rules(self):
        return [below("gap", self.tol), *super()._rules()]

    def _distance(self) -> float:
        return self.gap_

    def _keep(self, problem, state, trace) -> None:
        self._keep_linear(state, problem)
        self.phi_ = float(psi(self._scored(problem.X)).max())
        self.lower_, self.upper_ = trace.last["lower"], trace.last["upper"]

    def _shapes(self, d: int, k: int) -> dict[str, tuple[int, ...]]:
        return super()._shapes(d, k) | {"phi_": ()}
