"""Find reference solutions, which bound the optima of stated problems, in limited time.

It does not matter how a reference was found: a poor one gives a wide interval, never a
false one.
"""

from __future__ import annotations

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
from workbench.core.kinds import Given, Matrix, Model, Record
from workbench.core.problem import Problem, as_problem
from workbench.core.stream import seconds
from workbench.estimators.base import Classifier, with_constant
from workbench.peers.linear import timed_fit
from workbench.proofs import checker
from workbench.proofs.checker import Arrays, Proof, ProofError, stated
from workbench.proofs.verification import arrays_of
from workbench.proofs.writers import Statement, balanced, proof_of, sparse
from workbench.runs.run import run
from workbench.runs.worker import Worker

EXACT = 1e-7  # the relative gap at which no other reference is needed
NEAR = 1e-6  # the relative gap at which our solvers stop
# With more weights, logistic regression is not solved by Newton's method.
MAX_NEWTON_WEIGHTS = 2_000
OPERATIONS_PER_S = 5e8  # of one core, assumed in estimates
SOON_S = 1.0  # a fit with a larger estimate is made in another process
# An interior point method begins if its estimate is at most this many times the limit.
MAX_OVERRUN = 5.0
SVM = *checker.STORED, "squared_hinge"


class Limit:
    """The time that a certificate has left, and the process in which models are fitted.

    ``cut`` is whether a step had too little time. Ctrl-C ends the context of a limit
    without an exception and leaves no time, so that the proofs so far are kept.
    Compiled fits ignore Ctrl-C, so their process is killed.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = perf_counter()
        self.end = self.began + seconds
        self.worker = Worker()
        self.interrupted = False
        self.cut = False

    def reserve(self) -> None:
        """Reserve time to evaluate references: as much as has passed so far."""
        self.end -= perf_counter() - self.began

    def __enter__(self) -> Limit:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.worker.kill()
        if kind is KeyboardInterrupt:
            self.stop()
        return kind is KeyboardInterrupt

    def stop(self) -> None:
        """Set the remaining time to zero, after Ctrl-C."""
        self.interrupted = True
        self.cut = True
        self.end = 0.0

    def reason(self) -> str:
        """Return the reason why a step ended early."""
        return "Ctrl-C" if self.interrupted else f"the limit of {self.seconds:g} s"

    def left(self) -> float:
        """Return the seconds for the next step, half of those that are left."""
        return max(0.0, self.end - perf_counter()) / 2

    def fit(
        self, model: Model, X: Matrix, y: Given, estimate: float, **weights: Given
    ) -> tuple[Model | None, float]:
        """Return a fitted model and its wall seconds.

        The model is None if the fit failed, or if time or memory ran out.
        """
        call = partial(timed_fit, model, X, y, weights)
        if estimate <= SOON_S:
            return call()
        with suppress(OSError, EOFError, MemoryError):  # TimeoutError is an OSError
            return self.worker.answer(bytes(ForkingPickler.dumps(call)), self.left())
        self.worker.kill()
        self.cut = True
        return None, 0.0


def by_ours(m: Classifier, problem: Problem, limit: Limit) -> Part:
    """Return the part of one of this package's classifiers."""
    header = by_stream(m, problem.X, problem.y, limit, max_rounds=0)[0]
    arrays = arrays_of(m, header)
    if header["family"] == "linear" and "basis" in arrays:
        # Sampled cuts with the linear kernel.
        arrays = {"W": np.asarray(problem.X[arrays["basis"]].T @ arrays["W"])}
    return Part(header, arrays, problem.X, problem.y)


def by_stream(
    m: Classifier, X: Matrix, y: np.ndarray, limit: Limit, max_rounds: int = 10**9
) -> tuple[Statement, Arrays]:
    """Return the proof of a state, near the optimum, of the classifier's solver.

    The solvers of sampled cuts are replaced by exact cuts. The state is round
    `max_rounds` if the optimum is not near by then.
    """
    rows = as_problem(m._widened(X), y)
    name, parameters = m._solver(rows)
    if name.startswith("cuts_"):
        name = "cuts_exact_fast"
        shared = {key: parameters[key] for key in ("kernel", "C", "gamma")}
        parameters = shared | {"eps": 1e-6}

    def near(row: Record) -> str | None:
        upper = row.get("upper", row.get("primal"))
        is_near = upper - row["lower"] <= NEAR * upper
        return "near" if is_near or row["round"] >= max_rounds else None

    trace, state = run(name, rows, near, seconds(limit.left()), parameters=parameters)
    if state is None:
        raise KeyboardInterrupt
    if trace.stopped_by == "interrupted":
        limit.stop()
    constant = getattr(m, "fit_intercept", False)
    return proof_of(rows, state, trace.header["parameters"], constant)


def estimated_seconds(part: Part) -> float:
    """Return roughly how many seconds the reference of a part takes on one core."""
    header = part.header
    n, d = part.X.shape
    if header["family"] == "kernel":
        return n**2 * (d + 30) / OPERATIONS_PER_S
    K = header["outputs"]
    weights = d * K
    if header["loss"] in SVM:
        slacks = n * max(1, K - 1)
        if header["l1"]:
            weights *= 2
        return 40.0 * slacks * min(weights, slacks) ** 2 / OPERATIONS_PER_S
    values = part.X.nnz if sp.issparse(part.X) else n * d
    return min(1e3 * values * K, n * weights**2) / OPERATIONS_PER_S


def references(part: Part, limit: Limit) -> Iterator[Arrays]:
    """Yield the arrays of proofs of a part's problem, the closest to its optimum last.

    Nothing is yielded if there is too little time.
    """
    header = part.header
    y = part.y
    costs = np.broadcast_to(np.array(header["C"]), y.max() + 1)[y]
    if header["over"] == "mean":
        costs = costs / len(y)
    if header["family"] == "kernel":
        yield from by_libsvm(part, costs, limit)
        return
    estimate = estimated_seconds(part)
    is_svm = header["loss"] in SVM
    if is_svm and estimate > MAX_OVERRUN * limit.seconds:
        if header["loss"] in checker.STORED and "values" not in part.arrays:
            raise ValueError(
                "X: is too large for the reference of a hinge loss; give fewer rows "
                "or features, or fit a classifier of the workbench, certified while "
                "it learns"
            )
        return
    Z = part.X.astype(float)
    s = header["intercept"]
    if s == "free" and is_svm:
        s = 1.0
    if s is not None and s != "free":
        Z = with_constant(Z, s)
    if is_svm:
        yield by_clarabel(header, Z, y, costs, limit)
        return
    model = by_scikit(header, Z, y, costs, estimate, limit)
    if model is not None:
        W = np.atleast_2d(model.coef_).T
        if s == "free":
            W = np.vstack([W, model.intercept_])
        yield in_parts(W, header)


def in_parts(W: np.ndarray, header: Statement) -> Arrays:
    """Return weights as arrays; the last row of `W` has the intercepts, if any."""
    if header["intercept"] is None:
        return {"W": W}
    return {"W": W[:-1], "b": W[-1]}


def by_libsvm(part: Part, costs: np.ndarray, limit: Limit) -> Iterator[Arrays]:
    """Yield the arrays of a kernel SVM's proofs.

    LIBSVM may never reach the smaller tolerance.
    """
    X = part.X.astype(float)
    for tol in (1e-5, 1e-9):
        svc = SVC(gamma=part.header["kernel"]["gamma"], tol=tol)
        model, _ = limit.fit(svc, X, part.y, np.inf, sample_weight=costs)
        if model is None:
            return
        order = np.argsort(model.support_)
        basis = model.support_[order]
        A = sp.csr_array(model.dual_coef_).toarray()[0, order]
        point = sparse(balanced(np.abs(A), part.y[basis])[:, None], basis, exact=True)
        yield point | {"basis": basis, "W": A[:, None], "b": model.intercept_}


def by_scikit(
    header: Statement,
    Z: Matrix,
    y: np.ndarray,
    costs: np.ndarray,
    estimate: float,
    limit: Limit,
) -> Model:
    """Return a fitted ridge or logistic regression, or None as :meth:`Limit.fit`."""
    is_free = header["intercept"] == "free"
    K = header["outputs"]
    if header["loss"] == "squared":
        classes = np.arange(K) if K > 1 else [1]
        targets = (y[:, None] == classes).astype(float)
        ridge = Ridge(header["alpha"], fit_intercept=is_free, tol=1e-12)
        return limit.fit(ridge, Z, targets, estimate, sample_weight=costs)[0]
    is_small = Z.shape[1] * K <= MAX_NEWTON_WEIGHTS
    solver = "newton-cholesky" if is_small else "lbfgs"
    weight = header["alpha"] + header["l1"]
    model = LogisticRegression(
        C=1 / weight,
        fit_intercept=is_free,
        solver=solver,
        tol=1e-12,
        max_iter=2000,
    )
    if header["l1"]:
        model.set_params(solver="saga", l1_ratio=header["l1"] / weight)
    return limit.fit(model, Z, y, estimate, sample_weight=costs)[0]


def by_clarabel(
    header: Statement, Z: Matrix, y: np.ndarray, costs: np.ndarray, limit: Limit
) -> Arrays:
    """Return the arrays of a linear SVM's proof, by Clarabel's interior point method.

    It minimises alpha/2 |w|^2 + l1 |w|_1 plus the costs of the slacks or of their
    squares, where each slack is at least 0 and at least 1 - G w for its rows of G. With
    an l1 norm, w is the difference of two weights of at least 0.
    """
    n = len(y)
    K = header["outputs"]
    l1 = header["l1"]
    is_squared = header["loss"] == "squared_hinge"
    is_free = header["intercept"] == "free"
    Z = sp.csr_array(Z)
    normed = Z.shape[1]  # columns except that of a free intercept
    if is_free:
        normed -= 1
    if l1:
        Z = sp.hstack([Z[:, :normed], -Z[:, :normed], Z[:, normed:]], format="csr")
    if K == 1:
        rows = np.arange(n)
        other = np.zeros(n, int)
        G = Z.multiply((2.0 * y - 1)[:, None])
    else:
        rows, other = np.nonzero(y[:, None] != np.arange(K))
        signs = [(y[rows] == c) * 1.0 - (other == c) for c in range(K)]
        G = sp.hstack([Z[rows].multiply(sign[:, None]) for sign in signs])
    margins = np.arange(len(rows))
    if header["loss"] == "crammer_singer":  # a slack for each row of Z
        slack = rows
        weights = costs
    else:
        slack = margins
        weights = costs[rows]
    S = sp.csr_array((np.ones(len(rows)), (margins, slack)), (len(rows), len(weights)))
    inside = np.ones((K, Z.shape[1]))
    if is_free:
        inside[:, -1] = 0.0
    if is_squared:
        quadratic = np.append(header["alpha"] * inside, 2.0 * weights)
        linear = np.append(l1 * inside, 0.0 * weights)
    else:
        quadratic = np.append(header["alpha"] * inside, 0.0 * weights)
        linear = np.append(l1 * inside, weights)
    bounded = np.append(l1 * inside, np.ones(len(weights))) > 0
    x, z = solved(quadratic, linear, sp.hstack([G, S]), bounded, limit)
    W = x[: inside.size].reshape(K, -1).T
    if l1:
        W = np.vstack([W[:normed] - W[normed : 2 * normed], W[2 * normed :]])
    arrays = in_parts(W, header)
    if is_squared:
        return arrays
    N = n if header["over"] == "mean" else 1
    a = np.maximum(z[: len(rows)] * N, 0.0)
    if K == 1 and is_free:
        a = balanced(np.minimum(a, weights * N), y)
    return arrays | sparse(sp.csr_matrix((a, (rows, other)), (n, K)), exact=True)


def solved(
    quadratic: np.ndarray,
    linear: np.ndarray,
    A: Matrix,
    bounded: np.ndarray,
    limit: Limit,
) -> tuple[np.ndarray, np.ndarray]:
    """Return x that minimises x'Qx/2 + c'x where A x >= 1 and x >= 0 where bounded.

    Q is diagonal. The second array is the dual point. If the time is up or Ctrl-C is
    pressed, both come from the last iteration.
    """
    import clarabel

    limits = np.append(np.ones(A.shape[0]), np.zeros(bounded.sum()))
    A = sp.vstack([A, sp.eye_array(len(linear), format="csr")[bounded]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 100
    settings.time_limit = limit.left()
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    with Held(object()) as ctrl_c:
        solver = clarabel.DefaultSolver(
            sp.csc_matrix(sp.diags_array(quadratic)),
            linear,
            -sp.csc_matrix(A),
            -limits,
            [clarabel.NonnegativeConeT(len(limits))],
            settings,
        )
        solver.set_termination_callback(lambda info: ctrl_c.pressed)
        solution = solver.solve()
    if ctrl_c.pressed:
        limit.stop()
    limit.cut |= solution.status == clarabel.SolverStatus.MaxTime
    return np.nan_to_num(np.array(solution.x)), np.nan_to_num(np.array(solution.z))


class Bounds:
    """Bounds of a part's objective at the given weights, and of its optimum.

    ``given`` and ``best`` return the scores of rows at the given and the best weights.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        with stated(Proof(part.header, part.arrays), part.X, part.y) as problem:
            W = problem.W
            self.low = problem.primal(W, -1)
            self.high = problem.primal(W, 1)
            self.lower = Fraction(0)
            self.upper = self.high
            is_smooth = part.header.get("loss", "hinge") not in checker.STORED
            if is_smooth or "values" in part.arrays:
                self.lower = max(self.lower, problem.dual()[0])
            self.given = self.best = scorer(part, W, part.arrays)

    def solve(self, solutions: Iterable[Arrays]) -> None:
        """Improve the bounds by reference solutions until they are close."""
        for arrays in solutions:
            with suppress(ProofError):  # a solver may have failed
                self.improve(arrays)
            if self.is_close():
                return

    def improve(self, arrays: Arrays) -> None:
        """Replace each bound by the bound of a reference solution if that is better."""
        part = self.part
        with stated(Proof(part.header, arrays), part.X, part.y) as problem:
            lower, W = problem.dual()
            self.lower = max(self.lower, lower)
            upper = problem.primal(W, 1)
            if upper < self.upper:
                self.upper = upper
                basis = {"basis": getattr(problem.space, "basis", None)}
                self.best = scorer(part, W, arrays | basis)

    def is_close(self) -> bool:
        return self.upper - self.lower <= EXACT * self.upper


def total(bounds: Iterable[Bounds], name: str) -> Fraction:
    """Return the sum of a bound over the parts of a problem."""
    return sum((getattr(bound, name) for bound in bounds), Fraction(0))


def scorer(part: Part, W: np.ndarray, arrays: Arrays) -> Callable[[Matrix], np.ndarray]:
    """Return the scores of weights, (n, K), as a function of rows.

    For the labels 0 and 1 of the squared loss, 1/2 is subtracted.
    """
    header = part.header
    intercept = header.get("intercept")
    b = arrays.get("b", 0.0) if intercept == "free" else 0.0
    if header.get("loss") == "squared":
        b = b - 0.5
    if header["family"] == "kernel":
        basis = part.X[arrays["basis"]]
        gamma = header["kernel"]["gamma"]
        return lambda Z: rbf_kernel(Z, basis, gamma) @ W + b
    d = part.X.shape[1]
    if len(W) > d:  # the minimax risk's last row, or a penalised intercept
        b = b + (intercept or 1.0) * W[d]
    return lambda Z: np.asarray(Z @ W[:d]) + b
