"""Labelling sequences by a kernel SVM with sampled cuts, in scikit-learn's manner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from workbench.data.sequences import as_sequences, joined
from workbench.estimators.callbacks import heard
from workbench.estimators.parameters import parameter, whole
from workbench.estimators.sampled_cuts import SAVED, SampledCutClassifier
from workbench.sampled_cuts.chain import decode


@dataclass(eq=False, repr=False)
class SampledCutChain(SampledCutClassifier, saved=f"{SAVED} dual_coef_:km transitions_:kk"):
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
    r : int >= 1 or None, sequences of a cut, of the bases "linear_time" and "constant_time"; None
        is 400

    All others are as of :class:`~workbench.estimators.sampled_cuts.SampledCutClassifier`, for
    positions instead of rows. `C` weighs a sequence's loss (the paper's C is n times that), and
    `eps` is in fractions of wrong positions.

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

    r: int = parameter(100, whole)

    @heard
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
        return self._solve(problem, *self._solver(problem))

    def predict(self, X):
        """Return a list of (length,) arrays: the labels of highest score, sequence by sequence."""
        labels, starts = self._labels(X)
        return np.split(labels, starts[1:-1])

    def score(self, X, y):
        """Return the fraction of positions with the right label; unknown labels count as wrong."""
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

    def _keep(self, problem, state, trace) -> None:
        super()._keep(problem, state, trace)
        self.transitions_ = state.transitions.reshape(problem.k, problem.k)
        self.n_features_in_ = problem.d

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
        return self._kernel_scores(rows), starts
