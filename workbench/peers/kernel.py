"""Kernel SVMs of scikit-learn: LIBSVM, and LIBLINEAR in the span of random rows.

A stream has one round with one fit. All work of the fit is timed, including LIBSVM's
copy of the rows in double precision.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.checks import check_counts, check_positive, check_whole
from workbench.core.matrices import inverse_root
from workbench.core.problem import Array, Matrix, Problem
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

BLOCK_DECISIONS = 2**22  # number of decisions computed together, in double precision


@dataclass(kw_only=True)
class ExpansionState(KernelRows, State):
    """Coefficients ``A`` (m, K) of the kernel values with m rows, and the objective."""

    round: int
    A: Array
    primal: float
    iterations: int

    def info(self) -> Row:
        return {"primal": self.primal, "iterations": self.iterations}


@dataclass(kw_only=True)
class LibsvmState(ExpansionState):
    """Support vectors, their ``counts`` (k,) per class, and biases ``b`` of all pairs.

    The support vectors are in the order of the classes. Row u of ``A`` (m, k - 1) has y
    alpha of support vector u against each other class in order, where y is 1 for the
    first class of a pair.
    """

    counts: Array
    b: Array

    def scores(self, X: Matrix) -> Array:
        """Return half the margin of two classes (n, 2), or the votes for k (n, k)."""
        k = len(self.counts)
        F = np.zeros((X.shape[0], k))
        i, j = np.triu_indices(k, 1)
        for part, D in self.decisions(X):
            if k == 2:
                F[part] = np.stack([D[0] / 2, -D[0] / 2], axis=1)
                continue
            votes = np.zeros((k, D.shape[1]))
            np.add.at(votes, i, D > 0.0)
            np.add.at(votes, j, D <= 0.0)
            F[part] = votes.T
        return F

    def decisions(self, X: Matrix) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and the (k (k - 1) / 2, rows) decisions of all pairs.

        Positive values are for the first class of a pair.
        """
        if not len(self.A):
            return
        k = len(self.counts)
        i, j = np.triu_indices(k, 1)
        kernel = self.made_kernel(np.float64)
        X = stored_as(self.X, X)
        basis = kernel.points(self.X)
        ends = np.cumsum(self.counts)
        classes = [slice(end - n, end) for n, end in zip(self.counts, ends)]
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
    `primal` is the sum over pairs. As in scikit-learn, the class with the most votes is
    predicted, or the first of such classes.

    Parameters
    ----------
    C : float > 0, the weight of a row's loss
    kernel, gamma : as in :func:`~workbench.sampled_cuts.solvers.cuts_exact`
    tol : float > 0, LIBSVM's tolerance on the violation of optimality in the dual
    cache_mb : float > 0, the megabytes of kernel rows, in single precision, that are
        cached

    Raises
    ------
    ValueError
        If an argument is not valid; the message names it.
    """
    from sklearn.svm import SVC

    for name, value in {"C": C, "tol": tol, "cache_mb": cache_mb}.items():
        check_positive(value, name)
    check_kernel(kernel, gamma)
    k = problem.k
    kernel_function = kernel_of(problem, kernel, gamma, np.float64)
    s = state or LibsvmState(
        **initial(problem, kernel_function, k - 1, C * problem.n * (k - 1)),
        counts=np.zeros(k, np.int64),
        b=np.zeros(k * (k - 1) // 2),
    )
    yield s
    if s.round:
        return
    gamma = kernel_function.gamma
    model = SVC(C=C, kernel=kernel, gamma=gamma, tol=tol, cache_size=cache_mb)
    with quiet():
        model.fit(problem.X, problem.y)
    with off_the_clock():
        A = model.dual_coef_.T
        if sp.issparse(A):
            A = A.toarray()
        sign = 1.0 if k > 2 else -1.0  # scikit-learn reverses the sign of two classes
        s.A = np.ascontiguousarray(sign * A)
        s.b = sign * model.intercept_
        s.counts = model.n_support_.astype(np.int64)
        s.X = problem.X[model.support_]
        s.iterations = int(np.sum(model.n_iter_))
        s.primal = objective(problem, s, C)
        s.round = 1
    yield s


def objective(problem: Problem, s: LibsvmState, C: float) -> float:
    """Return the objective, summed over all pairs of classes."""
    i, j = np.triu_indices(problem.k, 1)
    first = i[:, None]
    second = j[:, None]
    loss = squares = 0.0
    for part, D in s.decisions(problem.X):
        y = problem.y[part]
        loss += np.maximum(0.0, 1.0 - D[y == first]).sum()
        loss += np.maximum(0.0, 1.0 + D[y == second]).sum()
    classes = np.repeat(np.arange(problem.k), s.counts)
    for part, D in s.decisions(s.X):  # |w|^2 is the sum of y alpha w.phi(x)
        y = classes[part]
        A = s.A[part].T
        D -= s.b[:, None]
        squares += np.vdot(np.where(y == first, A[j - 1], 0.0), D)
        squares += np.vdot(np.where(y == second, A[i], 0.0), D)
    return float(squares / 2 + C * loss)


def initial(problem: Problem, kernel: Kernel, columns: int, primal: float) -> dict:
    """Return the fields of round 0, without rows; `primal` is the objective at zero."""
    problem.refuse_weights()
    return fields_of(problem.X[:0], kernel) | {
        "round": 0,
        "A": np.zeros((0, columns)),
        "primal": float(primal),
        "iterations": 0,
    }


@dataclass(kw_only=True)
class SubspaceState(ExpansionState):
    """The landmarks, and the weights ``A`` (m, k) in their span.

    The weights of two classes are opposite.
    """

    def scores(self, X: Matrix) -> Array:
        kernel = self.made_kernel(np.float64)
        X = stored_as(self.X, X)
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

    This is the baseline of the paper on sampled cuts: features k(x, landmarks) K^-1/2
    of all rows (Williams and Seeger, NIPS 2000), and a linear SVM on them. A feature
    takes 24 bytes per row with LIBLINEAR's copy. Two classes have the hinge loss of
    LIBSVM without a bias; more classes have the loss of Crammer and Singer, as in
    :func:`~workbench.sampled_cuts.fast.cuts_nystroem`.

    Parameters
    ----------
    C : float > 0, the weight of a row's loss
    landmarks : int >= 1, the number of rows that span the space, or all rows if there
        are fewer
    kernel, gamma : as in :func:`~workbench.sampled_cuts.solvers.cuts_exact`
    tol : float > 0, LIBLINEAR's tolerance on the violation of optimality in the dual
    seed : int >= 0, seeds the choice of landmarks and LIBLINEAR's random order

    Raises
    ------
    ValueError
        If an argument is not valid; the message names it.
    """
    from sklearn.svm import LinearSVC

    check_positive(C, "C")
    check_positive(tol, "tol")
    check_kernel(kernel, gamma)
    check_counts(landmarks=landmarks)
    check_whole(seed, "seed", least=0)
    n = problem.n
    k = problem.k
    kernel_function = kernel_of(problem, kernel, gamma, np.float64)
    s = state or SubspaceState(**initial(problem, kernel_function, k, C * n))
    yield s
    if s.round:
        return
    rows = np.random.default_rng(seed).choice(n, min(landmarks, n), replace=False)
    s.X = problem.X[np.sort(rows)]
    basis = kernel_function.points(s.X)
    root = inverse_root(kernel_function.matrix(basis, basis))
    Z = kernel_function.times(kernel_function.points(problem.X), basis, root)
    loss = {"multi_class": "crammer_singer"}
    if k == 2:
        loss = {"loss": "hinge", "dual": True, "max_iter": ITERATIONS}
    model = LinearSVC(C=C, tol=tol, fit_intercept=False, random_state=seed, **loss)
    with quiet():
        model.fit(Z, problem.y)
    with off_the_clock():
        square = float(np.vdot(model.coef_, model.coef_))
        W = model.coef_.T
        if k == 2:  # each class has half of the margin, which gives the same hinge
            W = np.hstack([-W, W]) / 2
        s.A = root @ W
        s.iterations = int(model.n_iter_)
        s.primal = 0.5 * square + C * total(crammer_singer, Z, problem.y, W)
        s.round = 1
    yield s
