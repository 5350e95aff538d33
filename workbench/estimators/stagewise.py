"""Stagewise regression for scikit-learn (Algorithm 3): random features made from a seed."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.preprocessing import StandardScaler

from workbench.data.generators import RANDOM
from workbench.estimators import parameters as check
from workbench.estimators.callbacks import ASKED
from workbench.estimators.common import warn
from workbench.estimators.least_squares import LinkedClassifier
from workbench.estimators.parameters import flag, one_of, parameter, positive, whole
from workbench.least_squares.links import LINKS
from workbench.least_squares.products import GRAM_ROWS
from workbench.least_squares.stagewise import scores

SHARED = "features", "n_features", "block", "link", "passes", "inner", "kept"  # with ls_stagewise
# Up to this number, rows are scored one by one, so that none depends on the others: it takes less
# time than drawing a block's weights.
SINGLE_ROWS = 64


@dataclass(eq=False, repr=False)
class StagewiseLeastSquares(
    LinkedClassifier,
    saved="n_iter_ trace_ generators_ coefs_ traces_ generator_ coef_:pk scaler_ multilabel_",
):
    """A generalized linear model on random features, which are made block by block and not stored.

    It minimises mean_i loss(W'z_i, y_i) + alpha/2 |W|^2 over the features z_i of a row, one block
    after the other, `passes` times. The model stores the seed of the features, and makes them
    again to predict. There is no certificate. Rows with several labels: see
    :class:`GeneralizedLeastSquares`. There is no `sample_weight`: landmarks and the median distance
    are of rows drawn by chance, and a weight could not stand for repeated rows.

    Ctrl-C keeps the visited blocks, and :func:`workbench.core.stream.watch` shows the progress,
    from the same stream (see the example); every state has ``scores(X)``.

    Parameters
    ----------
    features : {"orthogonal_fourier", "fourier", "poly2", "poly3", "poly4", "nystroem"}
        See :func:`workbench.data.generators.fitted`. "nystroem" takes training rows as landmarks,
        and has at most as many features
    n_features, block : int >= 1, in all and at a time
    link : see :class:`GeneralizedLeastSquares`
    passes : int >= 1, visits of every block; 1 is the paper's algorithm, more are ours and go on
        to the solution for all features at once
    inner : int >= 1, steps per visit
    alpha : float > 0, for the mean loss of a row
    bandwidth : float > 0, of the kernel exp(-|x - x'|^2 / (bandwidth m^2)) that the features
        approximate, with the median distance m of training rows that differ, 1 where none do
    standardise : bool, put columns on mean 0 and variance 1 first; sparse ones are only divided
        by their standard deviation, and constant ones become 0. Take False where columns share a
        scale that means something: pixels, principal components, rows of text
    calibrate : bool, the paper's linear calibration; with one pass only
    n_models : int >= 1, models on features of different seeds, whose scores are averaged; they
        are fitted one after the other
    kept : bytes, at least 0, that a block's features may take between two steps; what does not
        fit is made again
    n_jobs : int or None, threads, each with its share of the rows; None is 1, -1 all cores. The
        digits depend on their number
    random_state : int, RandomState or None, of the features. An integer is the first model's seed
        itself, and makes fits repeatable

    Attributes
    ----------
    classes_ : (k,) labels; if rows have several labels, the numbers of the columns
    multilabel_ : bool, whether rows have several labels
    generators_ : list of one :class:`workbench.data.generators.Generator` a model, ``coefs_`` :
        list of (n_features, k) weights, ``traces_`` : list of
        :class:`workbench.core.trace.Trace`, whose rows have ``primal`` and ``loss`` after
        every visit
    generator_, coef_, trace_ : those of the first model
    scaler_ : StandardScaler, or None without `standardise`
    n_iter_ : int, visits of blocks, of all models

    References
    ----------
    Agarwal, Kakade, Karampatziakis, Song, Valiant: Least Squares Revisited.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> parameters = {"n_features": 512, "block": 128, "alpha": 1e-4}
    >>> model = StagewiseLeastSquares(**parameters, standardise=False, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.99
    True

    The same fit, seen while it goes on:

    >>> from workbench.least_squares.stagewise import ls_stagewise
    >>> from workbench.core.problem import as_problem
    >>> from workbench.core.stream import watch
    >>> errors = []
    >>> for row, state in watch(ls_stagewise(as_problem(X, y), **parameters, seed=0)):
    ...     errors.append((state.scores(X).argmax(axis=1) != y).sum().item())
    >>> len(errors), errors[1] > 10 * errors[-1]
    (13, True)
    """

    features: str = parameter("orthogonal_fourier", one_of(RANDOM))
    n_features: int = parameter(8192, whole)
    block: int = parameter(1024, whole)
    link: str = parameter("softmax", one_of(LINKS))
    _: KW_ONLY
    passes: int = parameter(3, whole)
    inner: int = parameter(4, whole)
    alpha: float = parameter(1e-5, positive)
    bandwidth: float = parameter(1.0, positive)
    standardise: bool = parameter(True, flag)
    calibrate: bool = parameter(False, flag)
    n_models: int = parameter(1, whole)
    kept: int = parameter(2**28, check.not_negative)
    n_jobs: int | None = parameter(None, check.jobs)
    random_state: Any = parameter(None, check.seed)

    def _learn(self, X, y):
        self._check_parameters()
        parameters = {name: getattr(self, name) for name in SHARED} | {
            "alpha": float(self.alpha),
            "bandwidth": float(self.bandwidth),
            "calibrate": bool(self.calibrate),
            "workers": 1 if self.n_jobs is None else effective_n_jobs(self.n_jobs),
        }
        seed = self._seed()
        X, y = self._validated(X, y)
        self.scaler_ = _scaler(X) if self.standardise else None
        problem = self._problem(self._scaled(X), y)
        if self.features == "nystroem" and self.n_features > problem.n:
            raise ValueError(
                f"n_features: nystroem takes at most one landmark per row, {problem.n}, got "
                f"{self.n_features}"
            )
        fits: list[tuple] = []  # generator, weights, trace and number of visits of each model
        others = np.random.SeedSequence(seed).generate_state(self.n_models - 1)
        for own in (seed, *others.tolist()):
            parameters["seed"] = own
            try:
                trace, state = self._run(problem, "ls_stagewise", parameters, warm_up=not fits)
            except KeyboardInterrupt:
                if not fits:
                    raise
                break
            if state.round or not fits:
                fits.append((state.generator, state.W, trace, state.round))
            if trace.stopped_by in ("interrupted", ASKED):
                break
        self.generators_, self.coefs_, self.traces_, visited = map(list, zip(*fits))
        self.generator_, self.coef_, self.trace_ = fits[0][:3]
        self.classes_ = problem.classes
        self.n_iter_ = sum(visited)
        visits = self.generator_.blocks * self.passes * self.n_models
        if self.n_iter_ < visits and trace.stopped_by != ASKED:
            warn(f"ls_stagewise stopped (interrupted) after {self.n_iter_} of {visits} visits")
        return self

    def _check_saved(self, found: dict[str, Any], d: int, k: int) -> None:
        """Raise a ValueError unless generators, weights and scaler fit the features and classes.

        A file holds the first model twice; the list, which predicts, is believed.
        """
        generators, coefs, traces = found["generators_"], found["coefs_"], found["traces_"]
        if not len(generators) == len(coefs) == len(traces) > 0:
            raise ValueError("generators_, coefs_, traces_: must be of one length, at least one")
        for g, W in zip(generators, coefs):
            if g.d != d:
                raise ValueError("generators_: one does not fit the features")
            if W.shape != (g.n_features, k):
                raise ValueError("coefs_: one does not fit its generator")
        if found["scaler_"] is not None and found["scaler_"].n_features_in_ != d:
            raise ValueError("scaler_: does not fit the features")
        found["generator_"], found["coef_"], found["trace_"] = generators[0], coefs[0], traces[0]

    def _scaled(self, X):
        # The features are of single precision, for which values of about 1 lose nothing.
        return X if self.scaler_ is None else self.scaler_.transform(X).astype(np.float32)

    def _seen(self, X):
        return self._scaled(X)

    def _scored(self, X) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            X = self._scaled(X)
            rows = 1 if X.shape[0] <= SINGLE_ROWS else GRAM_ROWS
            made = [scores(g, X, W, rows) for g, W in zip(self.generators_, self.coefs_)]
        mean = np.mean(made, axis=0, dtype=np.float64)
        if not np.isfinite(mean).all():
            raise ValueError(f"X: features of kind {self.features!r} are not finite for some rows")
        return mean


def _scaler(X) -> StandardScaler:
    with np.errstate(over="ignore", invalid="ignore"):
        scaler = StandardScaler(with_mean=not sp.issparse(X)).fit(X)
    if not np.isfinite(scaler.var_).all():
        raise ValueError("X: the variance of a column is not finite; scale the columns first")
    # Constant columns, which scikit-learn leaves as they are: they become 0 in all rows.
    scaler.scale_[scaler.scale_ != np.sqrt(scaler.var_)] = np.inf
    return scaler
