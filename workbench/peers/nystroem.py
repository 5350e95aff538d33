"""A linear SVM in the span of random rows: the paper's control of kernel SVMs by sampled cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.checks import check_counts, check_positive, check_whole
from workbench.core.problem import Problem
from workbench.core.stream import off_the_clock
from workbench.kernels.functions import check_kernel, kernel_of
from workbench.memoir.pegasos import mean_hinge
from workbench.peers.kernel import ExpansionState, quiet, started
from workbench.peers.liblinear import mirrored
from workbench.peers.refits import ITERATIONS
from workbench.sampled_cuts.spaces import features, inverse_root


@dataclass(kw_only=True)
class SubspaceState(ExpansionState):
    """Landmarks, and weights (A, of k columns) in their span; two classes mirror each other."""

    def scores(self, X) -> np.ndarray:
        kernel, X = self.made_kernel(np.float64), self.as_held(X)
        if not len(self.A):
            return np.zeros((X.shape[0], self.A.shape[1]))
        return kernel.times(kernel.points(X), kernel.points(self.held_rows()), self.A)


def nystroem_svm(
    problem: Problem,
    *,
    C: float = 1.0,
    landmarks: int = 200,
    kernel: str | Callable = "rbf",
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
    tol: float = 1e-3,
    seed: int = 0,
    state: SubspaceState | None = None,
) -> Iterator[SubspaceState]:
    """Minimise 1/2 |w|^2 + C sum_i hinge_i in the span of random rows, by LIBLINEAR.

    The control of the paper on sampled cuts: features k(x, landmarks) K^-1/2 of all rows, then a
    linear SVM. A feature takes 24 bytes, LIBLINEAR's copy among them. Two classes have the hinge
    of LIBSVM without a bias, more that of Crammer and Singer, as
    :func:`~workbench.sampled_cuts.solvers.cuts_nystroem`.

    Parameters
    ----------
    C : positive, weight of a row's loss
    landmarks : rows that span the space, at least 1; all where there are no more
    kernel, gamma, degree, coef0 : as of :func:`~workbench.weston_watkins.kernel.ww_kernel`
    tol : positive, LIBLINEAR's tolerance on the dual's violation of optimality
    seed : of the landmarks and of LIBLINEAR's random order

    Raises
    ------
    ValueError
        Naming the argument, if it is not as above.

    References
    ----------
    Williams, Seeger: Using the Nystroem method to speed up kernel machines. NIPS 2000.
    Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale
    linear SVM. ICML 2008.
    """
    from sklearn.svm import LinearSVC

    for name, value in (("C", C), ("tol", tol)):
        check_positive(value, name)
    check_kernel(kernel, gamma, degree, coef0)
    check_counts(landmarks=landmarks)
    check_whole(seed, "seed", least=0)
    X, n = problem.X, problem.n
    made = kernel_of(problem, kernel, gamma, degree, coef0, np.float64)
    s = state or SubspaceState(**started(problem, made, problem.k, C * n))
    yield s
    if s.round:
        return
    rows = np.random.default_rng(seed).choice(n, min(landmarks, n), replace=False)
    s.hold(X[np.sort(rows)])
    chosen = made.points(s.held_rows())
    root = inverse_root(made.matrix(chosen, chosen))
    Z = features(made, X, chosen, root)
    two = {"loss": "hinge", "dual": True, "max_iter": ITERATIONS}
    kind = two if problem.k == 2 else {"multi_class": "crammer_singer"}
    model = LinearSVC(C=C, tol=tol, fit_intercept=False, random_state=seed, **kind)
    with quiet():
        model.fit(Z, problem.y)
    with off_the_clock():
        square, W = float(np.vdot(model.coef_, model.coef_)), mirrored(model.coef_.T)
        W = W / 2 if problem.k == 2 else W  # each has half of the margin: the hinge is the same
        s.A, s.iterations = root @ W, int(model.n_iter_)
        s.primal = 0.5 * square + C * n * mean_hinge(Z, problem.y, W)
        s.round = 1
    yield s
