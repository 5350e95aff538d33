"""Find reference solutions of stated problems, which enclose their optima, within a
time limit.

Nothing depends on how a reference was found: a poor one gives a wide interval, never a
false one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import partial
from multiprocessing.reduction import ForkingPickler
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from workbench.certification.problems import Part
from workbench.core.interrupts import Held
from workbench.core.kinds import Given, Matrix, Model
from workbench.core.problem import Problem, as_problem
from workbench.core.stream import seconds
from workbench.estimators.base import Classifier
from workbench.peers.linear import timed_fit
from workbench.proofs import checker
from workbench.proofs.checker import Arrays, Proof, ProofError, below, stated
from workbench.proofs.verification import arrays_of
from workbench.proofs.writers import Statement, balanced, proof_of, sparse
from workbench.runs.run import run
from workbench.runs.worker import Worker

EXACT = 1e-7  # a relative gap that makes another reference superfluous
NEAR = 1e-6  # the relative gap of a reference by a solver of ours
NEWTON = 2_000  # weights up to which logistic regression is solved by Newton's method
RATE = 5e8  # operations per second in estimates
SOON_S = 1.0  # estimated seconds of a fit that this process makes itself
LONGEST = (
    5.0  # times the limit: the estimate up to which an interior point method begins
)


class Limit:
    """The time that a certificate has left, and the process in which scikit-learn fits
    models.

    ``cut`` is whether a step had too little of it. As a context it ends with Ctrl-C,
    which leaves no time: what was proved stays. Compiled fits ignore Ctrl-C, so their
    process is killed.
    """

    def __init__(self, most: float) -> None:
        self.seconds, self.began = most, perf_counter()
        self.end = self.began + most
        self.worker, self.interrupted, self.cut = Worker(), False, False

    def reserve(self) -> None:
        """Reserve as much time for the evaluation of references as the given weights
        took."""
        self.end -= perf_counter() - self.began

    def __enter__(self) -> Limit:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.worker.kill()
        if kind is KeyboardInterrupt:
            self.stop()
        return kind is KeyboardInterrupt

    def stop(self) -> None:
        self.interrupted, self.cut, self.end = True, True, 0.0

    def reason(self) -> str:
        return "Ctrl-C" if self.interrupted else f"the limit of {self.seconds:g} s"

    def left(self) -> float:
        """Return the seconds that the next step may take, half of all, so that others
        follow."""
        return max(0.0, self.end - perf_counter()) / 2

    def fit(
        self, model: Model, X: Matrix, y: Given, about: float, **weights: Given
    ) -> tuple[Model | None, float]:
        """Return a fitted model and its seconds; None if they, or memory, do not
        suffice."""
        call = partial(timed_fit, model, X, y, weights)
        if about <= SOON_S:
            return call()
        with suppress(OSError, EOFError, MemoryError):  # TimeoutError is an OSError
            return self.worker.answer(bytes(ForkingPickler.dumps(call)), self.left())
        self.worker.kill()
        self.cut = True
        return None, 0.0


def by_ours(m: Classifier, problem: Problem, limit: Limit) -> Part:
    """Return the part of a classifier of ours."""
    header = by_stream(m, problem.X, problem.y, limit, rounds=0)[0]
    arrays = arrays_of(m, header)
    if (
        header["family"] == "linear" and "basis" in arrays
    ):  # sampled cuts with the linear kernel
        arrays = {"W": np.asarray(problem.X[arrays["basis"]].T @ arrays["W"])}
    return Part(header, arrays, problem.X, problem.y)


def by_stream(
    m: Classifier, X: Matrix, y: np.ndarray, limit: Limit, rounds: int = 10**9
) -> tuple[Statement, Arrays]:
    """Return the proof of a state of the classifier's own solver, near the optimum."""
    rows = as_problem(m._widened(X), y)
    name, parameters = m._solver(rows)
    if name.startswith("cuts_"):
        kept = {key: parameters[key] for key in ("kernel", "C", "gamma")}
        name, parameters = "cuts_exact_fast", kept | {"eps": 1e-6}

    def near(row) -> str | None:
        upper = row.get("upper", row.get("primal"))
        return (
            "near"
            if row["round"] >= rounds or upper - row["lower"] <= NEAR * upper
            else None
        )

    trace, state = run(name, rows, near, seconds(limit.left()), parameters=parameters)
    if state is None:
        raise KeyboardInterrupt
    if trace.stopped_by == "interrupted":
        limit.stop()
    constant = getattr(m, "fit_intercept", False)
    return proof_of(rows, state, trace.header["parameters"], constant)


def expected(part: Part) -> float:
    """Return roughly how many seconds the reference of a part takes on one core."""
    h, X, (n, d) = part.header, part.X, part.X.shape
    K = h["outputs"]
    if h["family"] == "kernel":
        return n**2 * (d + 30) / RATE
    if h["loss"] in (*checker.STORED, "squared_hinge"):
        m, weights = n * max(1, K - 1), d * K * (2 if h["l1"] else 1)
        return 40.0 * m * min(weights, m) ** 2 / RATE
    values = X.nnz if sp.issparse(X) else n * d
    return min(1e3 * values * K, n * (d * K) ** 2) / RATE


def references(part: Part, limit: Limit) -> Iterator[Arrays]:
    """Yield the arrays of proofs of a part's problem, each closer to its optimum."""
    h, y, about = part.header, part.y, expected(part)
    N = len(y) if h["over"] == "mean" else 1
    costs = np.broadcast_to(np.array(h["C"]), y.max() + 1)[y] / N
    if h["family"] == "kernel":
        yield from by_libsvm(part, costs, limit)
        return
    svm = h["loss"] in (*checker.STORED, "squared_hinge")
    if svm and about > LONGEST * limit.seconds:
        if h["loss"] in checker.STORED and "values" not in part.arrays:
            raise ValueError(
                "X: is too large for the reference of a hinge loss; give fewer rows "
                "or features, or fit a classifier of the workbench, certified while "
                "it learns"
            )
        return
    s, Z = h["intercept"], part.X.astype(float)
    if s is not None and (svm or s != "free"):
        ones = np.full((len(y), 1), 1.0 if s == "free" else s)
        Z = (
            sp.hstack([Z, ones], format="csr")
            if sp.issparse(Z)
            else np.hstack([Z, ones])
        )
    if svm:
        yield by_clarabel(h, Z, y, costs, N, limit)
    elif model := by_scikit(h, Z, y, costs, about, limit):
        W, b = np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)
        yield in_parts(W, h, b)


def in_parts(W: np.ndarray, h: Statement, b: np.ndarray | None = None) -> Arrays:
    """Return weights and intercepts, which are the last row of W unless they are
    given."""
    if h["intercept"] is None:
        return {"W": W}
    if h["intercept"] == "free" and b is not None:
        return {"W": W, "b": b}
    return {"W": W[:-1], "b": W[-1]}


def by_libsvm(part: Part, costs: np.ndarray, limit: Limit) -> Iterator[Arrays]:
    """Yield the arrays of a kernel SVM's proofs; LIBSVM may never reach the last
    tolerance."""
    for tol in (1e-5, 1e-9):
        svc = SVC(gamma=part.header["kernel"]["gamma"], tol=tol)
        X = part.X.astype(float)
        model, _ = limit.fit(svc, X, part.y, np.inf, sample_weight=costs)
        if model is None:
            return
        order = np.argsort(model.support_)
        A, basis = (
            sp.csr_array(model.dual_coef_).toarray()[0, order],
            model.support_[order],
        )
        point = sparse(balanced(np.abs(A), part.y[basis])[:, None], basis, exact=True)
        yield point | {"basis": basis, "W": A[:, None], "b": model.intercept_}


def by_scikit(
    h: Statement,
    Z: Matrix,
    y: np.ndarray,
    costs: np.ndarray,
    about: float,
    limit: Limit,
) -> Model:
    """Return a fitted ridge or logistic regression."""
    free, K = h["intercept"] == "free", h["outputs"]
    if h["loss"] == "squared":
        own = y[:, None] == (np.arange(K) if K > 1 else [1])
        ridge = Ridge(h["alpha"], fit_intercept=free, tol=1e-12)
        return limit.fit(ridge, Z, own.astype(float), about, sample_weight=costs)[0]
    few = Z.shape[1] * K <= NEWTON
    solver = "newton-cholesky" if few else "lbfgs"
    weight = h["alpha"] + h["l1"]
    model = LogisticRegression(
        C=1 / weight, fit_intercept=free, solver=solver, tol=1e-12, max_iter=2000
    )
    if h["l1"]:
        model.set_params(solver="saga", l1_ratio=h["l1"] / weight)
    return limit.fit(model, Z, y, about, sample_weight=costs)[0]


def by_clarabel(
    h: Statement, Z: Matrix, y: np.ndarray, costs: np.ndarray, N: int, limit: Limit
) -> Arrays:
    """Return the arrays of a linear SVM's proof, by Clarabel's interior point method.

    It minimises alpha/2 |w|^2 + l1 |w|_1 + costs of slacks or of their squares, where
    each slack is at least 0 and at least 1 - G w for the rows of G that belong to it.
    With an l1 norm, w is the difference of two weights of at least 0.
    """
    n, K = len(y), h["outputs"]
    squared, free = h["loss"] == "squared_hinge", h["intercept"] == "free"
    Z, rows, other = sp.csr_array(Z), np.arange(n), np.zeros(n, int)
    normed = Z.shape[1] - free  # columns except that of a free intercept
    if h["l1"]:
        Z = sp.hstack([Z[:, :normed], -Z[:, :normed], Z[:, normed:]], format="csr")
    if K == 1:
        G = Z.multiply((2.0 * y - 1)[:, None])
    else:
        rows, other = np.nonzero(y[:, None] != np.arange(K))
        own = [(y[rows] == c) * 1.0 - (other == c) for c in range(K)]
        G = sp.hstack([Z[rows].multiply(sign[:, None]) for sign in own])
    slack = rows
    if h["loss"] != "crammer_singer":  # which has a slack for each row of Z
        costs, slack = costs[rows], np.arange(len(rows))
    S = sp.csr_array(
        (np.ones(len(rows)), (np.arange(len(rows)), slack)), (len(rows), len(costs))
    )
    inside = np.ones((K, Z.shape[1]))
    inside[:, Z.shape[1] - free :] = 0.0
    quadratic = np.append(h["alpha"] * inside, 2.0 * squared * costs)
    linear = np.append(h["l1"] * inside, (1.0 - squared) * costs)
    bounded = np.append(h["l1"] * inside, np.ones(len(costs))) > 0
    x, z = solved(quadratic, linear, sp.hstack([G, S]), bounded, limit)
    W = x[: inside.size].reshape(K, -1).T
    if h["l1"]:
        W = np.vstack([W[:normed] - W[normed : 2 * normed], W[2 * normed :]])
    arrays = in_parts(W, h)
    if squared:
        return arrays
    a = np.maximum(z[: len(rows)] * N, 0.0)
    if K == 1 and free:
        a = balanced(np.minimum(a, costs * N), y)
    return arrays | sparse(sp.csr_matrix((a, (rows, other)), (n, K)), exact=True)


def solved(
    quadratic: np.ndarray,
    linear: np.ndarray,
    A: Matrix,
    bounded: np.ndarray,
    limit: Limit,
) -> tuple[np.ndarray, np.ndarray]:
    """Return x that minimises x'Qx/2 + c'x where A x >= 1 and x >= 0 where bounded, and
    its dual.

    Q is diagonal. If the time is up or Ctrl-C is pressed, they are those of the last
    iteration.
    """
    import clarabel

    limits = np.append(np.ones(A.shape[0]), np.zeros(bounded.sum()))
    A = sp.vstack([A, sp.eye_array(len(linear), format="csr")[bounded]])
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter, settings.time_limit = False, 100, limit.left()
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    matrices = (
        sp.csc_matrix(sp.diags_array(quadratic)),
        linear,
        -sp.csc_matrix(A),
        -limits,
    )
    with Held(object()) as held:
        cones = [clarabel.NonnegativeConeT(len(limits))]
        solver = clarabel.DefaultSolver(*matrices, cones, settings)
        solver.set_termination_callback(lambda info: held.pressed)
        found = solver.solve()
    if held.pressed:
        limit.stop()
    limit.cut |= found.status == clarabel.SolverStatus.MaxTime
    return np.nan_to_num(np.array(found.x)), np.nan_to_num(np.array(found.z))


class Bounds:
    """Bounds of a part's objective at the given weights, and of its optimum as far as
    proved.

    ``given`` and ``best`` return the scores of rows at the given and at the best known
    weights.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        with stated(Proof(part.header, part.arrays), part.X, part.y) as p:
            self.low, self.high = p.primal(p.W, -1), p.primal(p.W, 1)
            self.lower, self.upper = Fraction(0), self.high
            smooth = part.header.get("loss", "hinge") not in checker.STORED
            if smooth or "values" in part.arrays:
                self.lower = max(self.lower, p.dual()[0])
            self.given = self.best = scorer(part, p.W, part.arrays)

    def solve(self, solutions: Iterable[Arrays]) -> None:
        """Take the bounds of reference solutions, until they are close or no more
        come."""
        for arrays in solutions:
            with suppress(ProofError):  # of a solver that failed
                self.improve(arrays)
            if self.is_close():
                return

    def improve(self, arrays: Arrays) -> None:
        """Take the bounds of a reference solution where they are better."""
        part = self.part
        with stated(Proof(part.header, arrays), part.X, part.y) as p:
            bound, W = p.dual()
            self.lower = max(self.lower, bound)
            reached = p.primal(W, 1)
            if reached < self.upper:
                basis = {"basis": getattr(p.space, "basis", None)}
                self.upper, self.best = reached, scorer(part, W, arrays | basis)

    def is_close(self) -> bool:
        return self.upper - self.lower <= EXACT * self.upper


def scorer(part: Part, W: np.ndarray, arrays: Arrays) -> Callable[[Matrix], np.ndarray]:
    """Return the scores of weights, (n, K), as a function of rows; for labels 0, 1 less
    1/2."""
    h, d = part.header, part.X.shape[1]
    b = arrays.get("b", 0.0) if h.get("intercept") == "free" else 0.0
    b = b - 0.5 if h.get("loss") == "squared" else b
    if h["family"] == "kernel":
        held, gamma = part.X[arrays["basis"]], h["kernel"]["gamma"]
        return lambda Z: rbf_kernel(Z, held, gamma) @ W + b
    if len(W) > d:  # the minimax risk's last row, or a penalised intercept
        b = b + (h.get("intercept") or 1.0) * W[d]
    return lambda Z: np.asarray(Z @ W[:d]) + b


def excess(high: Fraction, lower: Fraction) -> float:
    """Return at least high/lower - 1."""
    return max(0.0, -below(1 - high / lower)) if lower else math.inf
