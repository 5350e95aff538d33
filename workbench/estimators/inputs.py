"""Rows, labels and weights as a classifier takes them: checked, and refused by name."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, validate_data

from workbench.core.checks import check_kinds, check_sparse
from workbench.core.problem import encode

FLOATS = [np.float64, np.float32]


class Inputs:
    """The part of a classifier that looks at what it is given, before anything else reads it."""

    def _rows(self, X, y="no_validation", **options):
        """Return `X`, or `X` and `y`, as scikit-learn checks them; nothing reads them before."""
        given = check_sparse(X), check_sparse(y, "y")
        try:
            return validate_data(self, *given, accept_sparse="csr", dtype=FLOATS, **options)
        except OverflowError as error:
            raise ValueError(f"X: must be numeric; {error}") from None

    def _validated(self, X, y, ensure_min_samples=2, **options):
        """Return rows and labels, checked."""
        if sp.issparse(y):
            if not options.get("multi_output"):
                raise ValueError("y: must be one-dimensional, got a sparse matrix")
        elif y is not None:  # which scikit-learn refuses
            check_kinds(y, "y")
        X, y = self._rows(X, y, ensure_min_samples=ensure_min_samples, **options)
        try:
            check_classification_targets(y)
        except TypeError as error:  # of bytes
            raise ValueError(f"y: {error}") from None
        return X, y

    def _part(self, X, y, classes):
        """Return the checked rows and labels of a call of `partial_fit`, and all classes."""
        known = getattr(self, "classes_", None)
        X, y = self._validated(X, y, ensure_min_samples=1, reset=known is None)
        if known is None:
            if classes is None:
                raise ValueError("classes: must be given to the first call of partial_fit")
            known = np.unique(classes)
            if len(known) < 2:
                raise ValueError(f"classes: needs at least two classes, got {known.tolist()!r}")
        elif classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError("classes: must be those of the first call of partial_fit, or None")
        encode(y, known, "y")
        return X, y, known

    def _weighed(self, X, y, sample_weight) -> tuple:
        """Return the rows and labels of positive weight, and their weights, or None."""
        if sample_weight is None:
            return X, y, None
        given = {"dtype": np.float64, "ensure_2d": False, "input_name": "sample_weight"}
        try:
            weights = check_array(sample_weight, **given)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"sample_weight: must be an array of numbers; {error}") from None
        if weights.shape != (n := (X.shape[0],)):
            raise ValueError(f"sample_weight: must have the shape {n}, got {weights.shape}")
        if weights.min() < 0 or not 0 < weights.sum() < math.inf:
            raise ValueError(
                "sample_weight: must be numbers of at least 0, not all zero, of a finite sum; got "
                f"{weights.min():.3g} to {weights.max():.3g}"
            )
        kept = weights > 0
        C = float(getattr(self, "C", 1.0))
        least, most = C * float(weights[kept].min()), C * float(weights.sum())
        if not (least > 0 and most < math.inf):
            raise ValueError(
                "C: its products with the sample weights must be positive and have a finite sum, "
                f"got {C:g} for weights of {weights[kept].min():.3g} to {weights.max():.3g}"
            )
        return (X, y, weights) if kept.all() else (X[kept], y[kept], weights[kept])
