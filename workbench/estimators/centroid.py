"""The centroids of the classes for scikit-learn: the baseline that costs one pass over the rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from workbench.core.problem import check_matrix, encode
from workbench.estimators.common import WeightedClassifier
from workbench.estimators.parameters import parameter, positive
from workbench.peers.centroid import centroids, class_sums, dense_scores

# Largest number of scores in memory: 100,000 classes are not scored for all rows at once.
BLOCK_SCORES = 2**24


@dataclass(eq=False, repr=False)
class CentroidClassifier(
    WeightedClassifier, saved="coef_:kd~ intercept_:k class_count_:k _sums:kd~ _sparse"
):
    """Predict the class whose mean row, of rows of norm one, has the largest cosine with a row.

    One pass over the rows, and a model of at most as many non-zeros as they have; `partial_fit`
    adds rows later. What any method for extreme classification has to beat.

    Parameters
    ----------
    power : float > 0, a class's mean is divided by this power of its norm. 1 is the cosine; less
        gives more weight to classes whose rows agree with each other

    Attributes
    ----------
    coef_ : (k, d), a CSR matrix if the rows were sparse, else an array; zeros for a class that
        `partial_fit` was told of and that has no rows yet, which is never predicted
    intercept_ : (k,) zeros, and minus infinity for a class without rows
    class_count_ : (k,) rows of each class, or the sums of their weights

    References
    ----------
    Han, Karypis: Centroid-based document classification. PKDD 2000.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CentroidClassifier().fit(X, y)
    >>> model.coef_.shape, round(model.score(X, y), 2)
    ((3, 4), 0.97)
    """

    _: KW_ONLY
    power: float = parameter(1.0, positive)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add rows `X` (n, d) with labels `y` (n,) to those learnt from before.

        Parameters
        ----------
        classes : all labels there will be, needed by the first call only

        Raises
        ------
        ValueError
            As `fit`, for labels that are not among the classes, or a first call without them.
        """
        self._check_parameters()
        X, y, known = self._part(X, y, classes)
        X, y, weights = self._weighed(X, y, sample_weight)
        if not hasattr(self, "classes_"):
            self._begin(known, X)
        return self._add(X, y, weights)

    def predict(self, X):
        """Return the (n,) labels of highest score, a block of rows at a time."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        size = max(1, BLOCK_SCORES // len(self.classes_))
        blocks = (X[at : at + size] for at in range(0, X.shape[0], size))
        best = [self._finite(self._scored(block)).argmax(axis=1) for block in blocks]
        return self.classes_[np.concatenate(best)]

    def _scored(self, X) -> np.ndarray:
        return dense_scores(X, self.coef_) + self.intercept_.astype(X.dtype)

    def _finite(self, scores: np.ndarray) -> np.ndarray:
        super()._finite(scores[:, self.class_count_ > 0])  # others have minus infinity
        return scores

    def _check_saved(self, found: dict[str, Any], d: int, k: int) -> None:
        expected = np.where(found["class_count_"] > 0, 0.0, -np.inf)
        if not np.array_equal(found["intercept_"], expected):
            raise ValueError("intercept_: does not fit class_count_")
        if not sp.issparse(found["_sums"]):
            raise ValueError("_sums: must be a matrix")

    def _learn(self, X, y, sample_weight=None):
        self._check_parameters()
        X, y = self._validated(X, y)
        X, y, weights = self._weighed(X, y, sample_weight)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"y: needs at least two classes, got one class, {classes[0]!r}")
        self._begin(classes, X)
        return self._add(X, y, weights)

    def _begin(self, classes: np.ndarray, X) -> None:
        k, d = len(classes), X.shape[1]
        self.classes_, self.class_count_ = classes, np.zeros(k, int)
        self._sums, self._sparse = sp.csr_matrix((k, d), dtype=X.dtype), sp.issparse(X)

    def _add(self, X, y, weights: np.ndarray | None = None):
        codes, k = encode(y, self.classes_, "y"), len(self.classes_)
        X = check_matrix(X, "X")
        if weights is None:
            sums, counts = class_sums(X, codes, k)
        else:
            members = (weights.astype(X.dtype), (codes, np.arange(len(codes))))
            sums = sp.csr_matrix(sp.csr_matrix(members, shape=(k, len(codes))) @ normalize(X))
            counts = np.bincount(codes, weights, minlength=k)
        self._sums = sums if self._sums.nnz == 0 else self._sums + sums
        self.class_count_ = self.class_count_ + counts
        self._sparse &= sp.issparse(X)
        W = centroids(self._sums, self.class_count_, float(self.power))
        self.coef_ = W if self._sparse else W.toarray()
        self.intercept_ = np.where(self.class_count_ > 0, 0.0, -np.inf)
        return self
