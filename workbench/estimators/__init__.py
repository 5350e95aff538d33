"""Scikit-learn classifiers over the streams: ``fit`` runs a solver to its certificate."""

from workbench.estimators.minimax_risk import MinimaxRiskClassifier

__all__ = ["MinimaxRiskClassifier"]
