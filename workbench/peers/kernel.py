"""Kernel SVMs through scikit-learn: LIBSVM, and LIBLINEAR in the span of random rows.

A stream is one fit, one round. All that the fit does is the peer's own cost and is
timed, LIBSVM's copy of the rows in double precision too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.checks import check_counts, check_positive, check_whole
from workbench.core.matrices import inverse_root
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State, resumable
from workbench.core.stream import Row, off_the_clock
from workbench.kernels.mercer import (
    Kernel,
    KernelRows,
    check_kernel,
    fields_of,
    kernel_of,
    stored_as,
)
from workbench.peers.linear import ITERATIONS, crammer_singer, quiet, total

BLOCK_DECISIONS = 2**22  # decisions of a block of rows, in double precision


@dataclass(kw_only=True)
class ExpansionState(KernelRows, State):
    """Coefficients ``A`` (m, K) of kernel values with the m rows held, and the
    objective."""

    round: int
    A: np.ndarray
    primal: float
    iterations: int

    def info(self) -> Row:
        return {"primal": self.primal, "iterations": self.iterations}


@dataclass(kw_only=True)
class LibsvmState(ExpansionState):
    """Support vectors, ``counts`` (k,) of each class in its order, and biases ``b`` of
    all pairs.

    Row u of ``A`` (m, k - 1) has y alpha of that row against each other class, in their
    order, where y is 1 for the first class of a pair.
    """

    counts: np.ndarray
    b: np.ndarray

    def scores(self, X: Matrix) -> np.ndarray:
        """Return half the margin of two classes, (n, 2), or the votes of more, (n,
        k)."""
        k = len(self.counts)
        F = np.zeros((X.shape[0], k))
        for part, D in self.decisions(X):
            if k == 2:
                F[part] = np.stack([D[0] / 2, -D[0] / 2], axis=1)
                continue
            votes, (i, j) = np.zeros((k, D.shape[1])), np.triu_indices(k, 1)
            np.add.at(votes, i, D > 0.0)
            np.add.at(votes, j, D <= 0.0)
            F[part] = votes.T
        return F

    def decisions(self, X: Matrix) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of rows and their (k (k - 1) / 2, rows) decisions; > 0 is for
        the first."""
        if not len(self.A):
            return
        k = len(self.counts)
        i, j = np.triu_indices(k, 1)
        kernel, X = self.made_kernel(np.float64), stored_as(self.X, X)
        basis = kernel.points(self.X)
        classes = [
            slice(*ends) for ends in pairwise(np.append(0, np.cumsum(self.counts)))
        ]
        for part in pieces(X.shape[0], BLOCK_DECISIONS // k**2):
            points = kernel.points(X[part])
            P = np.stack([kernel.times(points, basis[c], self.A[c]) for c in classes])
            yield part, P[i, :, j - 1] + P[j, :, i] + self.b[:, None]

    def info(self) -> Row:
        return super().info() | {"support_vectors": len(self.A)}


@resumable()
def libsvm(
    problem: Problem,
    *,
    C: float = 1.0,
    kernel: str = "rbf",
    gamma: float | None = None,
    tol: float = 1e-3,
    cache_mb: float = 512.0,
    state: LibsvmState | None = None,
) -> Iterator[LibsvmState]:
    """Minimise 1/2 |w|^2 + C sum_i max(0, 1 -+ (w.phi(x_i) + b)) by LIBSVM (Chang and
    Lin, 2011).

    Two classes have one such SVM with a bias; more classes have one for each pair, and
    `primal` is a sum over pairs. Predictions are scikit-learn's: the class with most
    votes, the first of several.

    Parameters
    ----------
    C : positive, weight of a row's loss
    kernel, gamma : as of :func:`~workbench.sampled_cuts.solvers.cuts_exact`
    tol : positive, LIBSVM's tolerance on the dual's violation of optimality
    cache_mb : positive, megabytes of rows of the kernel matrix, in single precision

    Raises
    ------
    ValueError
        If an argument is not as above; the message names it.
    """
    from sklearn.svm import SVC

    for name, value in (("C", C), ("tol", tol), ("cache_mb", cache_mb)):
        check_positive(value, name)
    check_kernel(kernel, gamma)
    k, made = problem.k, kernel_of(problem, kernel, gamma, np.float64)
    start = started(problem, made, k - 1, C * problem.n * (k - 1))
    counts, b = np.zeros(k, np.int64), np.zeros(k * (k - 1) // 2)
    s = state or LibsvmState(**start, counts=counts, b=b)
    yield s
    if s.round:
        return
    model = SVC(C=C, kernel=kernel, gamma=made.gamma, tol=tol, cache_size=cache_mb)
    with quiet():
        model.fit(problem.X, problem.y)
    with off_the_clock():
        A = model.dual_coef_
        A, b = (A.toarray() if sp.issparse(A) else A).T, model.intercept_
        sign = 1.0 if k > 2 else -1.0  # scikit-learn turns two classes round
        s.A, s.b = np.ascontiguousarray(sign * A), sign * b
        s.counts = model.n_support_.astype(np.int64)
        s.X = problem.X[model.support_]
        s.iterations = int(np.sum(model.n_iter_))
        s.primal = objective(problem, s, C)
        s.round = 1
    yield s


def objective(problem: Problem, s: LibsvmState, C: float) -> float:
    """Return the sum over all pairs of classes of the objective."""
    i, j = np.triu_indices(problem.k, 1)
    first, second = i[:, None], j[:, None]
    loss = squares = 0.0
    for part, D in s.decisions(problem.X):
        y = problem.y[part]
        loss += np.maximum(0.0, 1.0 - D[y == first]).sum()
        loss += np.maximum(0.0, 1.0 + D[y == second]).sum()
    classes = np.repeat(np.arange(problem.k), s.counts)
    for part, D in s.decisions(s.X):  # |w|^2 is that of w.phi(x) over the multipliers
        y, A = classes[part], s.A[part].T
        D -= s.b[:, None]
        squares += np.vdot(np.where(y == first, A[j - 1], 0.0), D)
        squares += np.vdot(np.where(y == second, A[i], 0.0), D)
    return float(squares / 2 + C * loss)


def started(problem: Problem, kernel: Kernel, columns: int, primal: float) -> dict:
    """Return the fields of round 0: no rows are held, and `primal` is the objective of
    w = 0."""
    problem.refuse_weights()
    return fields_of(problem.X[:0], kernel) | {
        "round": 0,
        "A": np.zeros((0, columns)),
        "primal": float(primal),
        "iterations": 0,
    }


@dataclass(kw_only=True)
class SubspaceState(ExpansionState):
    """Landmarks, and weights (A, of k columns) in their span; two classes mirror each
    other."""

    def scores(self, X: Matrix) -> np.ndarray:
        kernel, X = self.made_kernel(np.float64), stored_as(self.X, X)
        if not len(self.A):
            return np.zeros((X.shape[0], self.A.shape[1]))
        return kernel.times(kernel.points(X), kernel.points(self.X), self.A)


@resumable()
def nystroem_svm(
    problem: Problem,
    *,
    C: float = 1.0,
    landmarks: int = 200,
    kernel: str = "rbf",
    gamma: float | None = None,
    tol: float = 1e-3,
    seed: int = 0,
    state: SubspaceState | None = None,
) -> Iterator[SubspaceState]:
    """Minimise 1/2 |w|^2 + C sum_i hinge_i in the span of random rows, by LIBLINEAR.

    The control of the paper on sampled cuts: features k(x, landmarks) K^-1/2 of all
    rows (Williams and Seeger, NIPS 2000), then a linear SVM. A feature takes 24 bytes
    with LIBLINEAR's copy. Two classes have the hinge loss of LIBSVM without a bias,
    more that of Crammer and Singer, as
    :func:`~workbench.sampled_cuts.fast.cuts_nystroem`.

    Parameters
    ----------
    C : positive, weight of a row's loss
    landmarks : rows that span the space, at least 1; all if there are fewer
    kernel, gamma : as of :func:`~workbench.sampled_cuts.solvers.cuts_exact`
    tol : positive, LIBLINEAR's tolerance on the dual's violation of optimality
    seed : whole number of at least 0, draws the landmarks and LIBLINEAR's random order

    Raises
    ------
    ValueError
        If an argument is not as above; the message names it.
    """
    from sklearn.svm import LinearSVC

    for name, value in (("C", C), ("tol", tol)):
        check_positive(value, name)
    check_kernel(kernel, gamma)
    check_counts(landmarks=landmarks)
    check_whole(seed, "seed", least=0)
    X, n = problem.X, problem.n
    made = kernel_of(problem, kernel, gamma, np.float64)
    s = state or SubspaceState(**started(problem, made, problem.k, C * n))
    yield s
    if s.round:
        return
    rows = np.random.default_rng(seed).choice(n, min(landmarks, n), replace=False)
    s.X = X[np.sort(rows)]
    chosen = made.points(s.X)
    root = inverse_root(made.matrix(chosen, chosen))
    Z = made.times(made.points(X), chosen, root)
    two = {"loss": "hinge", "dual": True, "max_iter": ITERATIONS}
    kind = two if problem.k == 2 else {"multi_class": "crammer_singer"}
    model = LinearSVC(C=C, tol=tol, fit_intercept=False, random_state=seed, **kind)
    with quiet():
        model.fit(Z, problem.y)
    with off_the_clock():
        square, W = float(np.vdot(model.coef_, model.coef_)), model.coef_.T
        if problem.k == 2:  # each class has half of the margin: the hinge is the same
            W = np.hstack([-W, W]) / 2
        s.A, s.iterations = root @ W, int(model.n_iter_)
        s.primal = 0.5 * square + C * total(crammer_singer, Z, problem.y, W)
        s.round = 1
    yield s
