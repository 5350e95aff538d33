"""Scikit-learn classifiers over the streams: ``fit`` runs a solver to its end.

Every fitted classifier has the attributes of :class:`workbench.estimators.common.Classifier`:
``classes_``, ``n_features_in_``, and with a solver ``n_iter_`` and ``trace_``. Its own docstring
lists the others.
"""

from workbench.estimators.callbacks import GapMonitor
from workbench.estimators.centroid import CentroidClassifier
from workbench.estimators.least_squares import CalibratedLeastSquares, GeneralizedLeastSquares
from workbench.estimators.memoir import MemoirClassifier
from workbench.estimators.minimax_risk import MinimaxRiskClassifier
from workbench.estimators.sampled_chain import SampledCutChain
from workbench.estimators.sampled_cuts import SampledCutClassifier
from workbench.estimators.saved import load
from workbench.estimators.solver import SolverClassifier
from workbench.estimators.stagewise import StagewiseLeastSquares
from workbench.estimators.weston_watkins import WestonWatkinsClassifier
from workbench.estimators.weston_watkins_cv import WestonWatkinsClassifierCV
from workbench.estimators.working_set import WorkingSetClassifier

__all__ = [
    "CalibratedLeastSquares",
    "CentroidClassifier",
    "GapMonitor",
    "GeneralizedLeastSquares",
    "MemoirClassifier",
    "MinimaxRiskClassifier",
    "SampledCutChain",
    "SampledCutClassifier",
    "SolverClassifier",
    "StagewiseLeastSquares",
    "WestonWatkinsClassifier",
    "WestonWatkinsClassifierCV",
    "WorkingSetClassifier",
    "load",
]
