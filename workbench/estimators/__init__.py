"""Scikit-learn classifiers on top of the solvers: ``fit`` runs one to its end.

All have the parameters ``max_iter``, ``max_seconds`` and ``random_state`` of
:class:`workbench.estimators.base.Classifier`, and its attributes ``classes_``,
``n_features_in_``, ``n_iter_`` and ``trace_``. Their own docstrings list the others.
"""

from workbench.estimators.classifiers import (
    GeneralizedLeastSquares,
    MinimaxRiskClassifier,
    SampledCutClassifier,
    WestonWatkinsClassifier,
    WorkingSetClassifier,
)

__all__ = [
    "GeneralizedLeastSquares",
    "MinimaxRiskClassifier",
    "SampledCutClassifier",
    "WestonWatkinsClassifier",
    "WorkingSetClassifier",
]
