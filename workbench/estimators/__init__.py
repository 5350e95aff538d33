"""Scikit-learn classifiers over the streams: ``fit`` runs a solver to its certificate."""

from workbench.estimators.minimax_risk import MinimaxRiskClassifier
from workbench.estimators.weston_watkins import WestonWatkinsClassifier
from workbench.estimators.weston_watkins_cv import WestonWatkinsClassifierCV

__all__ = ["MinimaxRiskClassifier", "WestonWatkinsClassifier", "WestonWatkinsClassifierCV"]
