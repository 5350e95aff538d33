"""Streams of scikit-learn's tree ensembles, which many people try first on tables.

The rounds have 1, 2, 3, 4, 6, 8, 11, 16, ... trees; in boosting, these are the numbers
of iterations, each with a tree for each class (one tree for two classes). A state holds
scikit-learn's model, which grows with `warm_start`: trees of earlier rounds stay, so
the clock shows the time of a single fit of a model of this size. Only one thread is
used.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from threadpoolctl import ThreadpoolController

from workbench.core.checks import (
    check_not_negative,
    check_positive,
    check_sparse,
    check_whole,
)
from workbench.core.kinds import Array, Model
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row, off_the_clock
from workbench.peers.linear import budget, quiet, softmax_losses, squared_errors

MAX_TREES = 1000  # a stream ends once it has this many trees, or iterations


@dataclass
class TreesState(State):
    """The ensemble ``model``, None before round 1, and the objective."""

    round: int
    k: int
    primal: float
    model: Model | None = None

    def scores(self, X: Matrix) -> Array:
        """Return the (n, k) probabilities of a forest, or the logits of boosting."""
        X = check_sparse(X)
        F = np.zeros((X.shape[0], self.k))
        if self.model is None:
            return F
        classes = self.model.classes_
        if hasattr(self.model, "estimators_"):
            F[:, classes] = self.model.predict_proba(X)
            return F
        if len(classes) < self.k:
            F[:] = -np.inf
        if not isinstance(X, np.ndarray):
            X = X.toarray()
        values = self.model.decision_function(X)
        if values.ndim == 1:  # the logit of the second of two classes
            values = np.stack([0 * values, values], 1)
        F[:, classes] = values
        return F

    def info(self) -> Row:
        return {"primal": self.primal, "trees": budget(self.round)}


@resumable()
def random_forest(
    problem: Problem,
    *,
    mtry: float = 1.0,
    seed: int = 0,
    state: TreesState | None = None,
) -> Iterator[TreesState]:
    """Average the class frequencies in the leaves of trees that fit samples of rows.

    This is scikit-learn's random forest (Breiman 2001). The column ``primal`` is the
    mean over the training rows of the squared distance between the averages and the
    one-hot label.

    Parameters
    ----------
    mtry : float > 0, the number of features that each split chooses from, divided by
        the square root of d; 1 is scikit-learn's default up to rounding
    seed : int >= 0, seeds samples and splits

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    from sklearn.ensemble import RandomForestClassifier

    check_positive(mtry, "mtry")
    check_whole(seed, "seed", least=0)
    features = int(np.clip(round(mtry * np.sqrt(problem.d)), 1, problem.d))
    model = RandomForestClassifier(
        max_features=features, warm_start=True, random_state=seed
    )
    return grown(model, "n_estimators", problem, state)


@resumable()
def boosting(
    problem: Problem,
    *,
    learning_rate: float = 0.1,
    l2: float = 0.0,
    seed: int = 0,
    state: TreesState | None = None,
) -> Iterator[TreesState]:
    """Lower the mean cross-entropy of the training rows tree by tree.

    The cross-entropy is the column ``primal``. The method is scikit-learn's gradient
    boosting (Friedman 2001) with histograms (Ke et al., LightGBM, 2017), without early
    stopping.

    Parameters
    ----------
    learning_rate : float > 0, the factor by which every tree is multiplied
    l2 : float >= 0, the penalty on the values of leaves
    seed : int >= 0, seeds the sample of rows that determines the histograms' bins

    Raises
    ------
    ValueError
        If a parameter is outside its range, or rows are sparse.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    check_positive(learning_rate, "learning_rate")
    check_not_negative(l2=l2)
    check_whole(seed, "seed", least=0)
    if problem.is_sparse:
        raise ValueError(
            "problem: boosting takes dense rows; use random_forest or toarray()"
        )
    model = HistGradientBoostingClassifier(
        learning_rate=learning_rate,
        l2_regularization=l2,
        random_state=seed,
        early_stopping=False,
        warm_start=True,
    )
    return grown(model, "max_iter", problem, state)


def grown(
    model: Model, size: str, problem: Problem, state: TreesState | None
) -> Iterator[TreesState]:
    """Yield the states of a growing scikit-learn model; evaluation is not timed.

    Parameters
    ----------
    size : str, the model's parameter for the number of its trees or iterations
    """
    problem.refuse_weights()
    X = problem.X
    y = problem.y
    losses = softmax_losses
    primal = float(np.log(problem.k))
    if size == "n_estimators":
        losses = squared_errors
        primal = 1.0
    # This is done only once, as the search for libraries takes as long as small trees.
    pools = ThreadpoolController()
    s = state or TreesState(0, problem.k, primal)
    model = s.model or model
    yield s
    while budget(s.round) < MAX_TREES:
        with quiet(), pools.limit(limits=1):
            s.model = model.set_params(**{size: budget(s.round + 1)}).fit(X, y)
        with off_the_clock():
            s.round += 1
            s.primal = float(losses(s.scores(X), y)) / problem.n
        yield s
