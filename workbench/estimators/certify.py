"""Certify a classifier: a proof of how far its objective is above the optimum, and what to do.

Its problem is stated in independent parts: one for each class against the rest, or a single one. A
reference solution of a part encloses its optimum by weak duality (:mod:`workbench.proofs.checker`),
rounding included: nothing depends on how it was found, and a poor one gives a wide interval, never
a false one. scikit-learn's classes state ::

    LinearSVC           C sum_i loss + 1/2 |(w, b/s)|^2, or |(w, b/s)|_1; a constant column s
    LogisticRegression  C sum_i log-loss + 1/2 |W|^2, b free; LIBLINEAR's solver as LinearSVC
    SGDClassifier       1/n sum_i loss + alpha (share of 1/2 |w|^2, rest |w|_1), b free
    RidgeClassifier     |Y - X w - b|^2 + alpha |w|^2 for labels Y of -1 and 1, b free
    SVC                 C sum_i hinge + 1/2 |w|^2 in feature space, b free; of two classes

Ridge's labels are stated as 0 and 1, with half the weights: its objective is then an eighth as
large, and shares of the optimum are the same. With an l1 penalty the given weights alone bound the
optimum, and the loss must not be the hinge or a joint one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from workbench.core.blocks import pieces
from workbench.core.checks import check_positive
from workbench.core.names import count, hint
from workbench.core.problem import Problem, as_problem
from workbench.core.stream import seconds
from workbench.estimators.base import Classifier
from workbench.peers.linear import quiet
from workbench.proofs import checker
from workbench.proofs.checker import Proof, below, checksum, stated, words
from workbench.proofs.judge import arrays_of, of_outputs
from workbench.proofs.writers import Arrays, Statement, balanced, proof_of, sparse
from workbench.runs.run import run

JOINT = "crammer_singer", "weston_watkins", "softmax", "squared"  # one part has all classes
SGD_LOSSES = {"hinge": "hinge", "squared_hinge": "squared_hinge", "log_loss": "logistic"}
CLOSE = 1e-3  # an excess that is not worth lowering
EXACT = 1e-7  # a gap of the given weights alone that makes a reference superfluous
NEAR = 1e-6  # the relative gap of a reference by a solver of ours
NEWTON = 2_000  # weights up to which logistic regression is solved by Newton's method
RATE = 5e8  # operations per second in the estimate that is printed
LONGEST = 300.0  # estimated seconds above which an interior point method or SVC does not begin
SECONDS = 60.0  # wall seconds of a reference by a solver of ours; no trial begins later


class Part(NamedTuple):
    """A stated problem: header of a proof, arrays of the given weights, rows and codes."""

    header: Statement
    arrays: Arrays
    X: Any
    y: np.ndarray


@dataclass(frozen=True)
class Certificate:
    """What :func:`certify` has proved about weights; the optimum is in [lower, upper].

    ``at_least`` and ``at_most`` bound the excess, as a fraction of the optimum. ``errors`` has the
    errors of the given and of the best known weights, fractions of the rows, by the rows' name.
    """

    problem: str
    objective: float
    lower: float
    upper: float
    at_least: float
    at_most: float
    errors: dict[str, tuple[float, float]]
    advice: str

    def __str__(self) -> str:
        at_most = "" if self.at_least > 0.9 * self.at_most else "at most "
        interval = checker.digits(self.lower, self.upper)
        lines = [
            self.problem,
            f"  objective       {self.objective:.6g}; the optimum is proved to be in {interval}",
            f"  excess          {at_most}{percent(self.at_most)}",
        ]
        for rows, (own, best) in self.errors.items():
            lines.append(f"  {rows}  {100 * own:.2f} %; at the optimum {100 * best:.2f} %")
        return "\n".join([*lines, f"  advice          {self.advice}"])


def certify(
    model: Any,
    X,
    y,
    *,
    held_out: tuple[Any, Any] | None = None,
    sample_weight=None,
    loss: str | None = None,
    C: float = 1.0,
    b=None,
    intercept: float | str = "free",
) -> Certificate:
    """Return how far a fitted classifier, or given weights, are from the optimum of their problem.

    Model, rows and labels stay as they are. Progress and an estimate of the seconds are printed to
    standard error. Trials of other settings may follow, for advice: none begins after 60 s.

    Parameters
    ----------
    model : a fitted LinearSVC, SVC (rbf or linear), LogisticRegression, RidgeClassifier or
        SGDClassifier of scikit-learn, one of our classifiers that has a certificate, or a pipeline
        that ends in one; or weights W, (d,) or (d, k), with a `loss`
    X, y : the (n, d) rows and (n,) labels that it was fitted to, before a pipeline's scalers
    held_out : rows and labels on which errors are compared, too
    sample_weight : (n,) whole numbers, if it was fitted with them: rows are repeated as often
    loss : for W, one of :data:`workbench.proofs.checker.LOSSES`: the problem is to minimise
        C sum_i loss + 1/2 |W|^2; two columns of a loss that has one score differ by this score
    C : positive, for W; ``b`` : (k,), the intercepts that belong to W
    intercept : "free" if `b` is not penalised, or the constant s of a column whose weight b/s is

    Raises
    ------
    ValueError
        If the settings state no such problem, X or y differ, or the reference would take too long.
    """
    final, transformed = model, lambda rows: rows
    if isinstance(model, Pipeline) and len(model) > 1:
        final, steps = model[-1], model[:-1]
        transformed = lambda rows: steps.transform(rows.copy())  # noqa: E731  it may overwrite them
    fitted, X, y, test, weights = hasattr(final, "fit"), transformed(X), np.asarray(y), {}, {}
    n, rows = len(y), np.arange(len(y))
    if fitted:
        check_is_fitted(final)
        if b is not None or (loss, C, intercept) != (None, 1.0, "free"):
            raise ValueError("loss, C, b, intercept: describe weights; a model has its own")
    if held_out is not None:
        test = {"X_test": transformed(held_out[0]), "y_test": held_out[1]}
    if sample_weight is not None:
        counts = np.asarray(sample_weight)
        if counts.shape != (n,) or (counts < 0).any() or (counts % 1 != 0).any():
            raise ValueError("sample_weight: must be a whole number for each row")
        if getattr(final, "class_weight", None) == "balanced":
            raise ValueError("sample_weight: cannot be combined with class_weight='balanced'")
        rows, weights = np.repeat(rows, counts.astype(int)), {"sample_weight": counts}
        X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    ours, known = isinstance(final, Classifier), final.classes_ if fitted else None
    problem = as_problem(X[rows] if weights else X, y[rows], classes=known, **test)
    solve = (lambda part: by_stream(final, part.X, part.y)[1]) if ours else reference

    def parts_of(m: Any, told: Problem) -> list[Part]:
        each = by_scikit(m, told, n, rows) if fitted else by_hand(m, told, loss, C, b, intercept)
        return [by_ours(m, told)] if ours else [*each]

    def trial(change: dict[str, Any], scaled: Callable | None) -> list[Part]:
        told = replace(problem, X=(Z := scaled(X))[rows]) if scaled else problem
        fit = clone(final).set_params(**change).fit
        return parts_of(fit(Z if scaled else X, y, **weights), told)

    parts, began = parts_of(final, problem), perf_counter()
    time = 0.0 if ours else max(1.0, sum(map(expected, parts)))
    about = f"about {time:,.0f} s" if time else f"up to {SECONDS:.0f} s"
    about += f", plus up to about {SECONDS:.0f} s of trials" * fitted
    size = f"{problem.n:,} rows of {problem.d:,} features, {problem.k} classes"
    print(f"certify: {size}, {about}", file=sys.stderr, flush=True)
    found = [bounds(part, solve) for part in tqdm(parts, "certify", leave=False, disable=None)]
    took = perf_counter() - began
    low, high, lower, upper = (sum(column) for column in list(zip(*found))[:4])
    at_least = max(0.0, below(low / upper - 1)) if upper else 0.0
    errors, sets = {}, {"training error": (problem.X, problem.y)}
    if test:
        sets["held-out error"] = problem.X_test, problem.y_test
    for name, (Z, truth) in sets.items():
        own, best = (predicted([row[i] for row in found], Z) for i in (4, 5))
        errors[name] = float(np.mean(own != truth)), float(np.mean(best != truth))
    told = f"{type(final).__name__}: " * fitted + words(parts[0].header)
    told += f"; the sum of {len(parts)} such problems" * (len(parts) > 1)
    at_most = excess(high, lower)
    advice = advised(final, problem, trial, solve, took, at_most, lower)
    doubles = -below(-high), below(lower), -below(-upper), at_least, at_most
    return Certificate(told, *doubles, errors, advice)


def percent(fraction: float) -> str:
    """Return a fraction in per cent, with two digits or whole."""
    return f"{100 * fraction:.2g} %" if fraction < 1 else f"{100 * fraction:,.0f} %"


def excess(high: Fraction, lower: Fraction) -> float:
    """Return at least high/lower - 1."""
    return max(0.0, -below(1 - high / lower)) if lower else math.inf


def bounds(part: Part, solve: Callable) -> tuple:
    """Return bounds of the objective and of the optimum, and scorers of given and best weights."""
    h, arrays = part.header, part.arrays
    with stated(Proof(h, arrays), part.X, part.y) as p:
        low, high, lower = p.primal(p.W, -1), p.primal(p.W, 1), Fraction(0)
        if h.get("loss", "hinge") not in checker.STORED:
            lower = max(lower, p.dual()[0])
        own = best = scorer(part, p.W, arrays)
    upper = high
    if high - lower > EXACT * high and (arrays := solve(part)) is not None:
        with stated(Proof(h, arrays), part.X, part.y) as p:
            bound, W = p.dual()
            lower, reached = max(lower, bound), p.primal(W, 1)
            if reached < upper:
                basis = {"basis": getattr(p.space, "basis", None)}
                upper, best = reached, scorer(part, W, arrays | basis)
    return low, high, lower, upper, own, best


def scorer(part: Part, W: np.ndarray, arrays: Arrays) -> Callable:
    """Return the scores of weights, (n, K), as a function of rows; for labels 0, 1 less 1/2."""
    h, d = part.header, part.X.shape[1]
    b = arrays.get("b", 0.0) if h.get("intercept") == "free" else 0.0
    b = b - 0.5 if h.get("loss") == "squared" else b
    if h["family"] == "kernel":
        held, g = part.X[arrays["basis"]], h["kernel"]["gamma"]
        return lambda Z: rbf_kernel(Z, held, g) @ W + b
    if len(W) > d:  # the minimax risk's last row, or a penalised intercept
        b = b + (h.get("intercept") or 1.0) * W[d]
    return lambda Z: np.asarray(Z @ W[:d]) + b


def predicted(scorers: list[Callable], Z) -> np.ndarray:
    """Return the codes of the classes that have the highest score for rows Z."""
    blocks = [Z[rows] for rows in pieces(Z.shape[0], checker.BLOCK)]
    F = np.vstack([np.hstack([score(rows) for score in scorers]) for rows in blocks])
    return F.argmax(axis=1) if F.shape[1] > 1 else (F[:, 0] > 0).astype(int)


def split(problem: Problem, told: Statement, C: float, w, arrays: Arrays) -> Iterator[Part]:
    """Yield the parts of weights for classes of weight `w`, each with its columns of W and b.

    Against the rest, LIBLINEAR and SGDClassifier weight the rows of the one class only.
    """
    whole, W, b = told["loss"] in JOINT or problem.k == 2, arrays["W"], arrays["b"]
    if "basis" not in arrays and W.shape[0] != problem.d:
        raise ValueError(f"weights: must have {problem.d} features, got {W.shape[0]}")
    if (s := told["intercept"]) is None and b.any():
        raise ValueError("b: must be zero without an intercept")
    for c, cost in enumerate(w[None] if whole else np.column_stack([np.ones_like(w), w])):
        one = slice(None) if whole else slice(c, c + 1)
        y = problem.y if whole else (problem.y == c).astype(int)
        costs = [float(C * value) for value in cost]
        header = {"format": 1, "family": "linear", "over": "sum", "alpha": 1.0, "l1": 0.0} | told
        header |= {"C": costs if len(set(costs)) > 1 else costs[0], "outputs": W[:, one].shape[1]}
        own = {name: value for name, value in arrays.items() if name == "basis"} | {"W": W[:, one]}
        own |= {} if s is None else {"b": b[one] / (1.0 if s == "free" else s)}
        yield Part(header | {"checksum": checksum(problem.X, y)}, own, problem.X, y)


def by_hand(W, problem: Problem, loss, C: float, b, intercept) -> Iterator[Part]:
    """Yield the parts of given weights."""
    if loss not in checker.LOSSES:
        raise ValueError(f"loss: {loss!r} is unknown; {hint(str(loss), checker.LOSSES)}")
    check_positive(C, "C")
    given, W = b is not None, np.asarray(W, dtype=float)
    W = W[:, None] if W.ndim == 1 else W
    two = W.shape[1] if loss == "squared" else 2 if loss in JOINT else 1
    outputs = two if problem.k == 2 else problem.k
    b = np.broadcast_to(np.asarray(b if given else 0.0, dtype=float), W.shape[1:])
    weights = {"W": of_outputs(W, outputs), "b": of_outputs(b[None], outputs)[0]}
    told = {"loss": loss, "intercept": intercept if given else None}
    yield from split(problem, told, C, np.ones(problem.k), weights)


def by_scikit(m: Any, problem: Problem, n: int, rows: np.ndarray) -> Iterator[Part]:
    """Yield the parts of a fitted classifier of scikit-learn; these are `rows` of its n rows."""
    kind, k, C, s, told = type(m).__name__, problem.k, getattr(m, "C", 1.0), "free", {}
    if kind == "LinearSVC":
        joint, s = m.multi_class == "crammer_singer", float(m.intercept_scaling)
        told["loss"] = "crammer_singer" if joint else m.loss
        told |= {"alpha": 0.0, "l1": 1.0} if m.penalty == "l1" and not joint else {}
    elif kind == "LogisticRegression":
        s = float(m.intercept_scaling) if m.solver == "liblinear" else s
        share = {"l1": 1.0, "l2": 0.0}.get(m.penalty, m.l1_ratio or 0.0)
        told |= {"loss": "logistic" if k == 2 else "softmax", "alpha": 1.0 - share, "l1": share}
        if m.penalty is None or not math.isfinite(C):
            raise ValueError("LogisticRegression: must have a penalty and a finite C")
    elif kind == "SGDClassifier":
        share = {"l2": 0.0, "l1": 1.0, "elasticnet": m.l1_ratio}.get(m.penalty)
        if m.loss not in SGD_LOSSES or share is None or not m.alpha:
            raise ValueError(f"SGDClassifier: must have a penalty and a loss of {[*SGD_LOSSES]}")
        told = {"loss": SGD_LOSSES[m.loss], "over": "mean"}
        told |= {"alpha": float(m.alpha * (1 - share)), "l1": float(m.alpha * share)}
        C = problem.n / n  # a repeated row counts in this mean
    elif kind == "RidgeClassifier":
        told = {"loss": "squared", "alpha": float(m.alpha)}
        if not m.fit_intercept or m.positive or not m.alpha:
            raise ValueError("RidgeClassifier: must have an intercept, a penalty, positive=False")
    elif kind == "SVC":
        told["loss"] = "hinge"
        if k > 2 or m.kernel not in ("rbf", "linear"):
            raise ValueError("SVC: must have two classes and the kernel 'rbf' or 'linear'")
    else:
        names = "LinearSVC, SVC, LogisticRegression, RidgeClassifier, SGDClassifier"
        raise ValueError(f"model: must be a workbench classifier or one of {names}, got {kind}")
    told["intercept"] = s if getattr(m, "fit_intercept", True) else None
    labels = problem.classes[problem.y]
    w = compute_class_weight(m.class_weight, classes=problem.classes, y=labels)
    if getattr(m, "kernel", None) == "rbf":
        kernel = {"name": "rbf", "gamma": float(m._gamma)}  # as "scale" was resolved
        told |= {"family": "kernel", "kernel": kernel}
        arrays = arrays_of(m, told | {"outputs": 1})
        if len(np.unique(rows)) < n:
            raise ValueError("sample_weight: must be positive, or SVC misnumbers its rows")
        basis = {"basis": np.searchsorted(rows, arrays["basis"])}
        yield from split(problem, told, C, w, arrays | basis)
        return
    W = m.coef_.toarray() if sp.issparse(m.coef_) else np.atleast_2d(m.coef_)
    W = W.T.astype(float)
    b = np.broadcast_to(np.asarray(m.intercept_, dtype=float), W.shape[1:])
    if kind == "RidgeClassifier":
        W, b = W / 2, (b + 1) / 2
    if told["loss"] == "crammer_singer":  # of two classes LinearSVC keeps the difference
        W, b = of_outputs(W, k), of_outputs(b[None], k)[0]
    yield from split(problem, told, C, w, {"W": W, "b": b})


def by_ours(m: Classifier, problem: Problem) -> Part:
    """Return the part of a classifier of ours."""
    header = by_stream(m, problem.X, problem.y, rounds=0)[0]
    arrays = arrays_of(m, header)
    if header["family"] == "linear" and "basis" in arrays:  # sampled cuts with the linear kernel
        arrays = {"W": np.asarray(problem.X[arrays["basis"]].T @ arrays["W"])}
    return Part(header, arrays, problem.X, problem.y)


def by_stream(m: Classifier, X, y: np.ndarray, rounds: int = 10**9) -> tuple[Statement, Arrays]:
    """Return the proof of a state of the classifier's own solver, near the optimum."""
    rows = as_problem(m._widened(X), y)
    name, parameters = m._solver(rows)
    if name.startswith("cuts_"):
        kept = {key: parameters[key] for key in ("kernel", "C", "gamma")}
        name, parameters = "cuts_exact", kept | {"eps": 1e-6, "stabilised": True}

    def near(row) -> str | None:
        upper = row.get("upper", row.get("primal"))
        return "near" if row["round"] >= rounds or upper - row["lower"] <= NEAR * upper else None

    trace, state = run(name, rows, near, seconds(SECONDS), parameters=parameters)
    if state is None:
        raise KeyboardInterrupt
    constant = getattr(m, "fit_intercept", False)
    return proof_of(rows, state, trace.header["parameters"], constant)


def expected(part: Part) -> float:
    """Return roughly how many seconds the reference of a part takes on one core; 0 without one."""
    h, X, (n, d) = part.header, part.X, part.X.shape
    K, m = h["outputs"], n * max(1, h["outputs"] - 1)
    if h["family"] == "kernel":
        return n**2 * (d + 30) / RATE
    about = 40.0 * m * min(d * K, m) ** 2 / RATE
    if h["loss"] in ("logistic", "softmax", "squared"):
        about = min(1e3 * (X.nnz if sp.issparse(X) else n * d) * K, n * (d * K) ** 2) / RATE
    none = h["l1"] or (h["loss"] == "squared_hinge" and about > LONGEST)
    return 0.0 if none else about


def reference(part: Part) -> Arrays | None:
    """Return the arrays of a proof of a part's problem; None if only its weights can bound it."""
    h, X, y, about = part.header, part.X, part.y, expected(part)
    s, C, N = h["intercept"], np.array(h["C"]), len(y) if h["over"] == "mean" else 1
    Z = X.astype(float)
    costs = np.broadcast_to(C, y.max() + 1)[y] / N
    if h["loss"] in checker.STORED and (h["l1"] or about > LONGEST):
        raise ValueError(
            "X: is too large for the reference of a hinge loss, or the penalty is l1; give fewer "
            "rows or features, or fit a classifier of the workbench, certified while it learns"
        )
    if h["family"] == "kernel":
        model = SVC(gamma=h["kernel"]["gamma"], tol=1e-9).fit(Z, y, sample_weight=costs)
        order = np.argsort(model.support_)
        A, rows = sp.csr_array(model.dual_coef_).toarray()[0, order], model.support_[order]
        point = sparse(balanced(np.abs(A), y[rows])[:, None], rows, exact=True)
        return point | {"basis": rows, "W": A[:, None], "b": model.intercept_}
    if not about:
        return None
    svm, free = h["loss"] in (*checker.STORED, "squared_hinge"), s == "free"
    if s is not None and (svm or not free):
        ones = np.full((len(y), 1), 1.0 if free else s)
        Z = sp.hstack([Z, ones], format="csr") if sp.issparse(Z) else np.hstack([Z, ones])
    if svm:
        return by_clarabel(h, Z, y, costs, N)
    if h["loss"] == "squared":
        own = y[:, None] == (np.arange(h["outputs"]) if h["outputs"] > 1 else [1])
        model, y = Ridge(h["alpha"], fit_intercept=free, tol=1e-12), own.astype(float)
    else:
        few = Z.shape[1] * h["outputs"] <= NEWTON
        how = {"solver": "newton-cholesky" if few else "lbfgs", "tol": 1e-12, "max_iter": 2000}
        model = LogisticRegression(C=1 / h["alpha"], fit_intercept=free, **how)
    with quiet():
        model.fit(Z, y, sample_weight=costs)
    W, b = np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)
    return {"W": W} if s is None else {"W": W, "b": b} if free else {"W": W[:-1], "b": W[-1]}


def by_clarabel(h: Statement, Z, y: np.ndarray, costs: np.ndarray, N: int) -> Arrays:
    """Return the arrays of a linear SVM's proof, by Clarabel's interior point method.

    It minimises alpha/2 |w|^2 + costs of slacks or of their squares, where each slack is at least 0
    and at least 1 - G w for the rows of G that belong to it.
    """
    import clarabel

    (n, d), K, squared = Z.shape, h["outputs"], h["loss"] == "squared_hinge"
    Z, rows, other, free = sp.csr_array(Z), np.arange(n), np.zeros(n, int), h["intercept"] == "free"
    if K == 1:
        G = Z.multiply((2.0 * y - 1)[:, None])
    else:
        rows, other = np.nonzero(y[:, None] != np.arange(K))
        own = [(y[rows] == c) * 1.0 - (other == c) for c in range(K)]
        G = sp.hstack([Z[rows].multiply(sign[:, None]) for sign in own])
    joint, m = h["loss"] == "crammer_singer", len(rows)
    costs, slack = (costs, rows) if joint else (costs[rows], np.arange(m))
    ridge = np.full((K, d), h["alpha"])
    ridge[:, d - free :] = 0.0
    quadratic = sp.diags_array(np.append(ridge, 2.0 * squared * costs))
    linear = np.append(np.zeros(K * d), (1.0 - squared) * costs)
    S = sp.csr_array((np.ones(m), (np.arange(m), slack)), (m, len(costs)))
    A = sp.csc_matrix(sp.block_array([[-G, -S], [None, -sp.eye_array(len(costs))]]))
    limits, settings = np.append(-np.ones(m), np.zeros(len(costs))), clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 100
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(len(limits))]
    matrices = sp.csc_matrix(quadratic), linear, A, limits
    found = clarabel.DefaultSolver(*matrices, cones, settings).solve()
    W = np.nan_to_num(np.array(found.x[: K * d])).reshape(K, d).T
    a = np.maximum(np.nan_to_num(np.array(found.z[:m])) * N, 0.0)
    arrays = {"W": W} if h["intercept"] is None else {"W": W[:-1], "b": W[-1]}
    if squared:
        return arrays
    if K == 1 and free:
        a = balanced(np.minimum(a, costs * N), y)
    return arrays | sparse(sp.csr_matrix((a, (rows, other)), (n, K)), exact=True)


def advised(m: Any, problem: Problem, trial, solve, took: float, most: float, lower) -> str:
    """Return a sentence of advice; all that it proposes has been tried on these rows."""
    if most <= CLOSE:
        return "none needed: no weights lower the objective by more than this excess"
    if not hasattr(m, "fit"):
        return "none: weights alone cannot be fitted again, so nothing was tried"
    p, began, tried, late = m.get_params(), perf_counter(), 0, 0
    longer = {"max_iter": 10 * p["max_iter"]} if (p.get("max_iter") or -1) > 0 else {}
    finer = longer | {"tol": float(f"{(p.get('tol') or 1e-3) / 1000:.1g}")}
    solvers, adaptive = ({"dual": False}, {"solver": "newton-cholesky"}), {"eta0": 0.01}
    adaptive |= {"learning_rate": "adaptive"} | finer
    changes = [*solvers, longer, finer, *(change | finer for change in solvers), adaptive]
    new = [c for c in changes if c.keys() <= p.keys() and any(p[name] != c[name] for name in c)]
    scaler = StandardScaler(with_mean=not problem.is_sparse).fit(problem.X)
    scaled: list = [] if np.allclose(scaler.scale_, 1.0) else [({}, scaler.transform)]
    best = min(most / 10, 0.1), ""
    for change, scale in [*((change, None) for change in new), *scaled]:
        start = perf_counter()
        if best[0] <= CLOSE or (scale and best[1]):
            break
        if start + took * bool(scale) > began + SECONDS:
            late += 1
            continue
        with quiet(), suppress(ValueError):  # of a setting that does not go with the others
            parts, spent = trial(change, scale), perf_counter() - start
            found = [bounds(part, solve if scale else lambda _: None) for part in parts]
            high, low = (sum(column) for column in list(zip(*found))[1:3])
            left, tried = excess(high, low if scale else lower), tried + 1
            what = ", ".join(f"{name}={value!r}" for name, value in change.items())
            what = what or "scale the features (StandardScaler), another problem"
            text = f"{what}: tried, an excess of at most {percent(left)} in {spent:.1f} s"
            best = min(best, (left, text))
    rest = f"; no time was left for {late} more" * bool(late)
    return (best[1] or f"none found in {count(tried, 'trial')}") + rest
