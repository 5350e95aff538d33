"""The multiclass SVMs of LIBLINEAR, through scikit-learn, with certificates.

LIBLINEAR cannot be resumed, and its Crammer-Singer solver takes no limit of iterations: every
round fits anew, to a tolerance that is half a decade tighter. Who knows the tolerance fits once,
so a round's clock is that of its own fit alone; the earlier ones are given back.

scikit-learn keeps LIBLINEAR's dual variables to itself. Here every row has a feature of its own,
of the value 2^-100, whose weights are that row's dual variables times 2^-100, exactly. Its part in
norms and scores is 2^-200 of a dual variable, which rounding swallows: the other weights are to
the last bit those of a fit without it. Only rows of zeros have none. No weights change their loss,
and their best dual variables are known.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_positive, check_sparse, check_whole
from workbench.core.measures import bounds, svm_bounds
from workbench.core.problem import Matrix, Problem
from workbench.core.stream import Row, give_back, off_the_clock
from workbench.kernels.rows import squared_norms
from workbench.memoir.pegasos import mean_hinge

OWN = 2.0**-100
LOOSEST = 10.0  # the tolerance of round 1, which one pass over the rows meets
ITERATIONS = 100_000  # where LIBLINEAR gives up; for Crammer-Singer the number is in its code

Certificate = Callable[[Matrix, np.ndarray, float, np.ndarray, np.ndarray], tuple[float, float]]


@dataclass
class LiblinearState:
    """Weights ``W`` (d, k) of the last fit, its objectives, LIBLINEAR's count and both bounds.

    ``seconds`` and ``cpu`` are those of the dearest fit so far.
    """

    round: int
    seed: int
    W: np.ndarray
    iterations: int
    primal: float
    dual: float
    lower: float
    upper: float
    seconds: float = 0.0
    cpu: float = 0.0

    def scores(self, X) -> np.ndarray:
        return np.asarray(check_sparse(X) @ self.W)

    def info(self) -> Row:
        return bounds(self.lower, self.upper) | {
            "primal": self.primal,
            "dual": self.dual,
            "iterations": self.iterations,
        }


def liblinear_cs(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-8,
    seed: int = 0,
    state: LiblinearState | None = None,
) -> Iterator[LiblinearState]:
    """Minimise 1/2 |W|^2 + C sum_i max(0, 1 + max_{r != y_i} x_i.(w_r - w_{y_i})).

    The SVM of Crammer and Singer by sequential dual descent; there is no intercept. The stream
    ends with the fit to `tol`, or with the first one in which LIBLINEAR gave up.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, the last tolerance on LIBLINEAR's violation of optimality
    seed : of LIBLINEAR's random order, the same for every fit

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Keerthi, Sundararajan, Chang, Hsieh, Lin: A sequential dual method for large scale multi-class
    linear SVMs. KDD 2008.
    """
    settings = {"multi_class": "crammer_singer"}
    return _fits(settings, crammer_singer, problem, C, tol, seed, state)


def liblinear_ovr(
    problem: Problem,
    *,
    C: float = 1.0,
    tol: float = 1e-8,
    seed: int = 0,
    state: LiblinearState | None = None,
) -> Iterator[LiblinearState]:
    """Minimise the sum over classes c of 1/2 |w_c|^2 + C sum_i max(0, 1 -+ x_i.w_c).

    One binary SVM with the hinge loss for each class against the rest, by dual coordinate
    descent; the sign is - for rows of class c. There is no intercept. Two classes mirror each
    other: LIBLINEAR fits one, and the objective counts both. The stream ends with the fit to
    `tol`, or with the first one in which LIBLINEAR gave up.

    Parameters
    ----------
    C : positive, weight of a row's loss
    tol : positive, the last tolerance on LIBLINEAR's violation of optimality
    seed : of LIBLINEAR's random order, the same for every fit

    Raises
    ------
    ValueError
        If `C` or `tol` is not a positive number.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale
    linear SVM. ICML 2008.
    """
    settings = {"loss": "hinge", "dual": True, "max_iter": ITERATIONS}
    return _fits(settings, one_against_the_rest, problem, C, tol, seed, state)


def crammer_singer(X: Matrix, y: np.ndarray, C: float, W: np.ndarray, A: np.ndarray):
    """Return the objective of the dual point made of (n, k) `A`, and the primal one of (d, k) `W`.

    Both leave room for their rounding. The dual is to maximise ``sum_ic b_ic - 1/2 |W_b|^2`` over
    b >= 0, b_iy = 0, sum_c b_ic <= C, with ``W_b = sum_i x_i (e_y sum_c b_ic - b_i)'``. LIBLINEAR's
    variables are the brackets, to rounding.
    """
    rows, lengths = np.arange(len(y)), np.sqrt(squared_norms(X))
    primal = 0.5 * float(np.vdot(W, W)) + C * len(y) * mean_hinge(X, y, W)
    B = np.maximum(-A, 0.0)
    B[rows, y] = 0.0
    zero = np.flatnonzero(lengths == 0.0)
    B[zero, (y[zero] + 1) % B.shape[1]] = C
    S = B.sum(axis=1)
    B *= np.divide(C, S, out=np.ones(len(y)), where=S > C)[:, None]
    S = B.sum(axis=1)
    np.negative(B, out=B)
    B[rows, y] = S
    return enclosed(X, lengths, C, primal, W, S, X.T @ B)


def one_against_the_rest(X: Matrix, y: np.ndarray, C: float, W: np.ndarray, A: np.ndarray):
    """Return the objective of the dual point made of (n, k) `A`, and the primal one of (d, k) `W`.

    Both leave room for their rounding. The dual is to maximise ``sum_ic a_ic - 1/2 |W_a|^2`` over
    0 <= a <= C, with the columns ``w_c = sum_i z_ic a_ic x_i`` for z_ic = 1 where y_i = c, else -1.
    LIBLINEAR's variables are the z_ic a_ic.
    """
    Z = np.where(np.arange(W.shape[1]) == y[:, None], 1.0, -1.0)
    hinge = np.maximum(1.0 - Z * np.asarray(X @ W), 0.0).sum()
    a = np.clip(Z * A, 0.0, C)
    lengths = np.sqrt(squared_norms(X))
    a[lengths == 0.0] = C
    primal = 0.5 * float(np.vdot(W, W)) + C * float(hinge)
    return enclosed(X, lengths, C * W.shape[1], primal, W, a.sum(axis=1), X.T @ (Z * a))


def enclosed(X: Matrix, lengths: np.ndarray, cost: float, primal: float, W, S, V):
    """Return the dual objective of V (d, k) and P(W), with room for rounding.

    Parameters
    ----------
    lengths : (n,) of the rows
    cost : of a row's loss, times the number of its terms
    S : (n,) sums of each row's dual variables, of which V is made
    """
    return svm_bounds(
        float(primal),
        float(S.sum()),
        float(np.vdot(V, V)),
        terms=sum(X.shape) + W.shape[1],
        losses=cost * len(S),
        reach=cost * float(lengths.sum()),
        pull=2.0 * float(lengths @ S),
        norm=float(np.linalg.norm(W)),
    )


def _fits(
    settings: dict,
    certificate: Certificate,
    problem: Problem,
    C: float,
    tol: float,
    seed: int,
    state: LiblinearState | None,
) -> Iterator[LiblinearState]:
    """Fit to one tolerance after the other and certify each fit, off the clock."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    for name, value in (("C", C), ("tol", tol)):
        check_positive(value, name)
    check_whole(seed, "seed", least=0)
    n, d, k = problem.n, problem.d, problem.k
    with off_the_clock():
        X = problem.X.astype(np.float64, copy=False)
        own = sp.diags(np.where(squared_norms(X) > 0.0, OWN, 0.0))
        marked = sp.hstack([sp.csr_matrix(X), own], format="csr")
        s = state
        if s is None:
            W = np.zeros((d, k))
            dual, primal = certificate(X, problem.y, C, W, np.zeros((n, k)))
            s = LiblinearState(0, seed, W, 0, primal, dual, max(0.0, dual), primal)
    model = LinearSVC(C=C, fit_intercept=False, random_state=s.seed, **settings)
    yield s
    while s.iterations < ITERATIONS and _tolerance(s.round) > tol:
        model.set_params(tol=max(_tolerance(s.round + 1), tol))
        wall, process = perf_counter(), process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(marked, problem.y)
        leave_dearest(s, perf_counter() - wall, process_time() - process)
        with off_the_clock():
            weights = np.ascontiguousarray(model.coef_.T)
            if weights.shape[1] < k:  # two classes: half the difference of their weights
                share = 0.5 if certificate is crammer_singer else 1.0
                weights = weights * [[-share, share]]
            s.W = weights[:d]
            s.iterations = int(model.n_iter_)
            s.dual, s.primal = certificate(X, problem.y, C, s.W, weights[d:] / OWN)
            s.lower, s.upper = max(s.lower, s.dual), min(s.upper, s.primal)
            s.round += 1
        yield s


def _tolerance(round: int) -> float:
    return LOOSEST * 10.0 ** (0.5 - round / 2)


def leave_dearest(s, seconds: float, cpu: float) -> None:
    """Leave on the clock the time of the dearest fit alone, of all that state `s` has been through.

    Parameters
    ----------
    s : a state with the fields ``seconds`` and ``cpu``, those of its dearest fit so far
    seconds, cpu : wall and process seconds of the fit that was just made
    """
    give_back(min(s.seconds, seconds), min(s.cpu, cpu))
    s.seconds, s.cpu = max(s.seconds, seconds), max(s.cpu, cpu)
