"""Labelling sequences by a kernel SVM with sampled cuts, in scikit-learn's manner."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from workbench.data.sequences import as_sequences, joined
from workbench.estimators.sampled_cuts import SampledCuts
from workbench.sampled_cuts.chain import decode


class SampledCutChain(SampledCuts):
    """A linear chain of labels: positions are scored by a kernel, and neighbours by a table.

    The score of labels y for a sequence x is ``sum_t f_{y_t}(x_t) + sum_t T[y_t, y_{t+1}]``. It
    minimises ``1/2 (|f|^2 + |T|^2) + C sum_i max_y [loss_i(y) + score(x_i, y) - score(x_i, y_i)]``
    over the n training sequences. The loss is the number of wrong positions over the mean length
    of the training sequences, so that its mean is the share of wrong positions. With a kernel that
    has values of about 1, both parts are regularised alike; divide the kernel by a number for a
    table that is less so. There is no bias.

    ``X`` is a list of sequences, (length, d) arrays or sparse matrices, none of them empty, and
    ``y`` a list of as many sequences of labels. Cross-validation and searches take such lists too.

    Parameters
    ----------
    C : float > 0, weight of a sequence's loss; the paper's C is n times that
    r : int >= 1, sequences of a cut, of the bases "linear_time" and "constant_time"
    kernel, gamma, degree, coef0, basis, eps, landmarks, compress, max_iter, max_seconds, \
            random_state
        As of :class:`~workbench.estimators.SampledCutClassifier`, for positions in place of rows,
        but for `r` and `eps`, which count sequences and are in shares of wrong positions

    Attributes
    ----------
    classes_ : (K,) labels
    transitions_ : (K, K), T; entry (a, b) is for label b after a
    support_ : (m,) the training positions that predictions need, counted through all sequences,
        ``support_vectors_`` : (m, d), their rows, and ``dual_coef_`` : (K, m), also for two labels
    gamma_, upper_, lower_, gap_, compression_error_, n_iter_, trace_, n_features_in_
        As of :class:`~workbench.estimators.SampledCutClassifier`; `compress` leaves T as it is

    References
    ----------
    Yu, Joachims: Training Structural SVMs with Kernels Using Sampled Cuts. KDD 2008.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.array([[0.0], [9.0], [0.2]]), np.array([[9.1], [0.1]])]
    >>> y = [["low", "high", "low"], ["high", "low"]]
    >>> chain = SampledCutChain(C=10.0, random_state=0).fit(X, y)
    >>> chain.predict([[[0.3], [8.8]]])[0].tolist(), chain.score(X, y)
    (['low', 'high'], 1.0)
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        basis="linear_time",
        r=100,
        eps=5e-3,
        landmarks=200,
        compress=None,
        max_iter=1000,
        max_seconds=None,
        random_state=None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.basis = basis
        self.r = r
        self.eps = eps
        self.landmarks = landmarks
        self.compress = compress
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state

    def fit(self, X, y):
        """Learn from sequences `X` and their labels `y`.

        Ctrl-C ends the fit early and keeps the last iterate.

        Raises
        ------
        ValueError
            For a parameter outside its range, no sequence, an empty one, lengths or widths that
            differ, NaN or infinite features, a single label, a kernel that returns other than
            finite numbers, or too many positions for exact cuts.

        Warns
        -----
        ConvergenceWarning
            When a limit, Ctrl-C or rounding stopped it.
        """
        self._check_parameters()
        problem = as_sequences(X, y, name=type(self).__name__)
        state = self._fit(problem)
        self.transitions_ = state.transitions.reshape(problem.k, problem.k)
        self.classes_, self.n_features_in_ = problem.classes, problem.d
        return self

    def predict(self, X):
        """Return a list of (length,) arrays: the labels of highest score, sequence by sequence."""
        labels, starts = self._labels(X)
        return np.split(labels, starts[1:-1])

    def score(self, X, y):
        """Return the share of all positions that get their label; one never seen is not got."""
        _, wanted, _ = joined(X, y)
        labels, _ = self._labels(X)
        return float(np.mean(labels == wanted))

    def decision_function(self, X):
        """Return a list of (length, K) scores f of positions, to which transitions add theirs."""
        F, starts = self._position_scores(X)
        return np.split(F, starts[1:-1])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = tags.classifier_tags = None  # so that no folds are stratified
        tags.input_tags.two_d_array = False
        return tags

    def _labels(self, X) -> tuple[np.ndarray, np.ndarray]:
        F, starts = self._position_scores(X)
        return self.classes_[decode(F, self.transitions_, starts)], starts

    def _position_scores(self, X) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        rows, _, starts = joined(X, None)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X: has {rows.shape[1]} features, SampledCutChain is expecting "
                f"{self.n_features_in_} features"
            )
        return self._of_rows(rows), starts
