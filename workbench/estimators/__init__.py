"""Scikit-learn classifiers over the streams: ``fit`` runs a solver to its end.

All have the parameters ``max_iter``, ``max_seconds`` and ``random_state`` of
:class:`workbench.estimators.base.Classifier`, and its attributes ``classes_``, ``n_features_in_``,
``n_iter_`` and ``trace_``. Their own docstrings list the others.
"""

from workbench.estimators.least_squares import (
    CalibratedLeastSquares,
    GeneralizedLeastSquares,
    StagewiseLeastSquares,
)
from workbench.estimators.many_classes import MemoirClassifier, WorkingSetClassifier
from workbench.estimators.minimax_risk import MinimaxRiskClassifier
from workbench.estimators.sampled_cuts import SampledCutClassifier
from workbench.estimators.saved import load, save
from workbench.estimators.solver import SolverClassifier
from workbench.estimators.weston_watkins import WestonWatkinsClassifier

__all__ = [
    "CalibratedLeastSquares",
    "GeneralizedLeastSquares",
    "MemoirClassifier",
    "MinimaxRiskClassifier",
    "SampledCutClassifier",
    "SolverClassifier",
    "StagewiseLeastSquares",
    "WestonWatkinsClassifier",
    "WorkingSetClassifier",
    "load",
    "save",
]
