"""scikit-learn's ensembles of trees as streams: what most people try first on a table.

Round t has 1, 2, 3, 4, 6, 8, 11, 16, ... trees; of boosting, iterations with a tree for each class.
Trees of earlier rounds stay, so that the clock shows what one fit of that many takes. A state
holds the trees as arrays and predicts as scikit-learn does. One thread grows them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from threadpoolctl import ThreadpoolController

from workbench.core.checks import (
    check_not_negative,
    check_positive,
    check_sparse,
    check_whole,
    rebuilt,
)
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row, off_the_clock
from workbench.peers.linear import budget

LAST = 1000  # trees, or iterations, at which a stream ends
BLOCK = 2**22  # entries of sparse rows that are made dense at a time


@dataclass
class TreesState:
    """The nodes of all trees, one tree after the other.

    Node v sends a row with ``x[feature[v]] <= threshold[v]`` to ``left[v]``, any other to
    ``right[v]``, both of which come later; of a leaf, ``feature`` is -1. The scores of a row are
    ``base`` (k,) plus the rows of a CSR matrix (nodes, k), of which there are the three arrays, at
    its leaves. ``mean`` is true of a forest, whose scores are these over the number of trees, and
    which compares rows in single precision.
    """

    round: int
    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    base: np.ndarray
    mean: bool
    primal: float

    def scores(self, X) -> np.ndarray:
        """Return (n, k) probabilities of a forest, (n, k) logits of boosting."""
        sums = self.sums(check_sparse(X), 0)
        return sums / max(1, len(self.roots)) if self.mean else self.base + sums

    def sums(self, X: Matrix, first: int) -> np.ndarray:
        """Return (n, k) sums of the values of the rows' leaves over the trees from `first` on."""
        shape = len(self.feature), len(self.base)
        values = rebuilt(sp.csr_matrix((self.data, self.indices, self.indptr), shape=shape))
        F = np.zeros((X.shape[0], len(self.base)))
        step = max(1, BLOCK // max(X.shape[1], len(self.base)))
        for part in (slice(at, at + step) for at in range(0, len(F), step)):
            rows = X[part].toarray() if sp.issparse(X) else np.asarray(X[part])
            rows = rows.astype(np.float32 if self.mean else np.float64, copy=False)
            for root in self.roots[first:]:
                F[part] += values[self._leaves(rows, root)].toarray()
        return F

    def _leaves(self, rows: np.ndarray, root: int) -> np.ndarray:
        at, inner = np.full(len(rows), root), np.arange(len(rows))
        while len(inner := inner[self.feature[at[inner]] >= 0]):
            v = at[inner]
            low = rows[inner, self.feature[v]] <= self.threshold[v]
            at[inner] = np.where(low, self.left[v], self.right[v])
            if (at[inner] <= v).any():
                raise ValueError("state: is damaged; a node comes before the one above it")
        return at

    def info(self) -> Row:
        return {"primal": self.primal, "trees": len(self.roots), "nodes": len(self.feature)}


def random_forest(
    problem: Problem, *, features: float = 1.0, seed: int = 0, state: TreesState | None = None
) -> Iterator[TreesState]:
    """Grow trees on bootstrap samples of the rows, and average their leaves' shares of the classes.

    The column ``primal`` is the mean over the training rows of the squared distance of these
    probabilities from the label's.

    Parameters
    ----------
    features : positive, the number of features that each split chooses from, over the square root
        of d; 1 is scikit-learn's default
    seed : whole number of at least 0, seeds samples and splits

    Raises
    ------
    ValueError
        If a parameter is not as above.

    References
    ----------
    Breiman: Random forests. Machine Learning 2001.
    """
    return forest("RandomForestClassifier", problem, features, seed, state)


def extra_trees(
    problem: Problem, *, features: float = 1.0, seed: int = 0, state: TreesState | None = None
) -> Iterator[TreesState]:
    """Grow trees on all rows, with thresholds drawn at random, and average them.

    Everything else is as in :func:`random_forest`.

    References
    ----------
    Geurts, Ernst, Wehenkel: Extremely randomized trees. Machine Learning 2006.
    """
    return forest("ExtraTreesClassifier", problem, features, seed, state)


def boosting(
    problem: Problem,
    *,
    rate: float = 0.1,
    l2: float = 0.0,
    seed: int = 0,
    state: TreesState | None = None,
) -> Iterator[TreesState]:
    """Lower the mean cross-entropy of the training rows, the column ``primal``, tree by tree.

    scikit-learn's gradient boosting with histograms, without early stopping.

    Parameters
    ----------
    rate : positive, learning rate
    l2 : a number that is not negative, penalty on the values of leaves
    seed : whole number of at least 0, seeds the choice of rows that the histograms' bins rest on

    Raises
    ------
    ValueError
        If a parameter is not as above, or for sparse rows.

    References
    ----------
    Friedman: Greedy function approximation: a gradient boosting machine. Annals of Statistics 2001.
    Ke, Meng, Finley, Wang, Chen, Ma, Ye, Liu: LightGBM: a highly efficient gradient boosting
    decision tree. NIPS 2017.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    check_positive(rate, "rate")
    check_not_negative(l2=l2)
    check_whole(seed, "seed", least=0)
    if problem.is_sparse:
        raise ValueError("problem: boosting takes dense rows; use random_forest or toarray()")
    settings = {"learning_rate": rate, "l2_regularization": l2, "random_state": seed}
    model = HistGradientBoostingClassifier(early_stopping=False, warm_start=True, **settings)
    return grown(model, problem, state)


def forest(
    kind: str, problem: Problem, features: float, seed: int, state: TreesState | None
) -> Iterator[TreesState]:
    """Grow a forest of scikit-learn, `kind` its class, with one thread."""
    from sklearn import ensemble

    check_positive(features, "features")
    check_whole(seed, "seed", least=0)
    tried = int(np.clip(round(features * np.sqrt(problem.d)), 1, problem.d))
    model = getattr(ensemble, kind)(max_features=tried, warm_start=True, random_state=seed)
    return grown(model, problem, state)


def grown(model: Any, problem: Problem, state: TreesState | None) -> Iterator[TreesState]:
    """Let a model of scikit-learn grow round by round, and copy its new trees off the clock.

    A stream that goes on from a state grows the same trees again first, off the clock: those of
    scikit-learn can be stored as pickles only.
    """
    X, y, k = problem.X, problem.y, problem.k
    mean, last = not hasattr(model, "max_iter"), 0 if state is None else state.round
    size, trees_of = ("n_estimators", of_forest) if mean else ("max_iter", of_boosting)
    s, F = planted(k, mean), np.zeros((problem.n, k))

    def grow() -> None:
        with warnings.catch_warnings(), pools.limit(limits=1):
            warnings.filterwarnings("ignore", "The number of unique classes")  # they are classes
            model.set_params(**{size: budget(s.round + 1)}).fit(X, y)
        with off_the_clock():
            before, s.round = len(s.roots), s.round + 1
            append(s, trees_of(model, before, k))
            if not mean:
                s.base[outputs(model, k)] = model._baseline_prediction.ravel()
            F[:] += s.sums(X, before)
            s.primal = squared_error(F / len(s.roots), y) if mean else cross_entropy(s.base + F, y)

    with off_the_clock():
        pools = ThreadpoolController()  # once: to look for libraries takes as long as small trees
        while s.round < last:
            grow()
    yield s
    while budget(s.round) < LAST:
        grow()
        yield s


def planted(k: int, mean: bool) -> TreesState:
    """Return a state without trees: all scores are zero."""
    none, whole = np.zeros(0), np.zeros(0, np.int32)
    primal = 1.0 if mean else float(np.log(k))
    return TreesState(
        round=0,
        roots=whole,
        feature=whole,
        threshold=none,
        left=whole,
        right=whole,
        data=none,
        indices=whole,
        indptr=np.zeros(1, np.int32),
        base=np.zeros(k),
        mean=mean,
        primal=primal,
    )


def append(s: TreesState, trees: Iterator[tuple[np.ndarray, ...]]) -> None:
    """Append trees: features, thresholds, children left and right, and a CSR matrix of values."""
    roots, nodes, parts = list(s.roots), len(s.feature), []
    for feature, threshold, left, right, values in trees:
        roots.append(nodes)
        parts.append((feature, threshold, left + nodes, right + nodes, values))
        nodes += len(feature)
    s.roots = np.array(roots, np.int32)
    for place, name in enumerate(("feature", "threshold", "left", "right")):
        old = getattr(s, name)
        new = np.concatenate([old, *(part[place] for part in parts)]).astype(old.dtype)
        setattr(s, name, new)
    values = sp.vstack([part[-1] for part in parts], format="csr")
    s.indptr = np.append(s.indptr, s.indptr[-1] + values.indptr[1:]).astype(np.int32)
    s.indices = np.append(s.indices, values.indices).astype(np.int32)
    s.data = np.append(s.data, values.data)


def of_forest(model: Any, first: int, k: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the trees of a forest from `first` on; the values are shares of the classes."""
    for tree in (one.tree_ for one in model.estimators_[first:]):
        inner = tree.children_left >= 0
        shares = np.zeros((tree.node_count, k))
        shares[:, outputs(model, k)] = np.where(inner[:, None], 0.0, tree.value[:, 0])
        feature = np.where(inner, tree.feature, -1)
        yield feature, tree.threshold, tree.children_left, tree.children_right, sp.csr_array(shares)


def of_boosting(model: Any, first: int, k: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the trees of boosting from `first` on; a tree adds to the logit of its class alone."""
    classes = outputs(model, k)
    for trees in model._predictors[first // len(classes) :]:
        for c, nodes in zip(classes, (tree.nodes for tree in trees), strict=True):
            leaf = nodes["is_leaf"].astype(bool)
            feature = np.where(leaf, -1, nodes["feature_idx"].astype(np.int64))
            at = np.flatnonzero(leaf)
            values = (nodes["value"][at], (at, np.full(len(at), c)))
            values = sp.csr_array(values, shape=(len(nodes), k))
            children = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
            yield feature, nodes["num_threshold"], *children, values


def outputs(model: Any, k: int) -> np.ndarray:
    """Return the classes that a model's outputs belong to; boosting has one output for two."""
    return (
        model.classes_[1:] if getattr(model, "n_trees_per_iteration_", k) == 1 else model.classes_
    )


def squared_error(P: np.ndarray, y: np.ndarray) -> float:
    """Return the mean over the rows of the squared distance of P (n, k) from the one-hot labels."""
    own = P[np.arange(len(y)), y]
    return float(np.mean((P**2).sum(axis=1) - 2 * own + 1))


def cross_entropy(F: np.ndarray, y: np.ndarray) -> float:
    """Return the mean over the rows of log sum_c exp(f_c) - f_y."""
    return float(np.mean(logsumexp(F, axis=1) - F[np.arange(len(y)), y]))
