"""The optimum of every certified solver's problem, by cvxpy and none of our own
solvers.

Each problem is written down here once more, from its definition. Features are brought
to a size of about one first, and so is the objective: rows scaled by s with C / s^2 are
the same problem.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import cvxpy as cp
import numpy as np

# Of the oracle alone: by how much of its size the objective may lie below what Clarabel
# found.
PRECISION = 1e-7
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11, "max_iter": 500}


class Family(NamedTuple):
    """min over W of ridge/2 |W|^2 + l1 |W|_1 + sum_i costs_i loss(V, Y)_i at the scores
    V = X W.

    Attributes
    ----------
    weight : name and default of the parameter that weighs the regulariser, or the loss
    loss : of (n, k) scores V and the (n, k) zeros and ones Y, an (n,) convex expression
    of_loss : whether `weight` multiplies the sum of losses, or the norm next to their
        mean
    norm : "l2", or "l1" with an intercept that is free
    """

    weight: tuple[str, float]
    loss: Callable
    of_loss: bool = True
    norm: str = "l2"


def own(V, Y):
    return cp.sum(cp.multiply(Y, V), axis=1, keepdims=True)


def weston_watkins(V, Y):
    return cp.sum(
        cp.multiply(1 - Y, cp.pos(1 + V - own(V, Y) @ np.ones((1, Y.shape[1])))), axis=1
    )


def crammer_singer(V, Y):
    return cp.max(V + (1 - Y), axis=1) - own(V, Y)[:, 0]


def hinge(V, Y):
    """Of two classes whose scores differ by V's second column less its first."""
    return cp.pos(1 - cp.multiply(2 * Y[:, 1] - 1, V[:, 1] - V[:, 0]))


def wang_shen(V, Y):
    return cp.sum(cp.multiply(1 - Y, cp.pos(1 + V)), axis=1)


LINKS = {
    "identity": lambda V, Y: cp.sum(cp.square(V - Y), axis=1) / 2,
    "softmax": lambda V, Y: cp.log_sum_exp(V, axis=1) - own(V, Y)[:, 0],
    "squared_hinge": lambda V, Y: cp.sum(
        cp.square(cp.pos(1 - cp.multiply(2 * Y - 1, V))), axis=1
    ),
}


def logistic(V, Y):
    return cp.sum(cp.logistic(V), axis=1) - own(V, Y)[:, 0]


WW = Family(("C", 1.0), weston_watkins)
CS = Family(("C", 1.0), crammer_singer)
L1 = Family(("lam", 0.01), hinge, of_loss=False, norm="l1")
LS = Family(("alpha", 1e-5), LINKS["softmax"], of_loss=False)
FAMILIES = {
    "svm_lp": L1,
    "svm_ccg": L1,
    "svm_multi": L1._replace(loss=wang_shen),
    "memoir_pegasos": Family(("lam", 1e-3), crammer_singer, of_loss=False),
    "cs_working_set": CS,
    "ww_walrus": WW,
    "ww_shark": WW,
    "ww_walrus_fast": WW,
    "ls_generalized": LS,
    "ls_accelerated": LS,
    "cuts_exact": CS,
    "cuts_exact_fast": CS,
    "cuts_nystroem": CS,
    # the example's
    "frank_wolfe": Family(("alpha", 1e-2), crammer_singer, of_loss=False),
}


def plain(row):
    """Return a row with the bounds of a span of landmarks under the names of others.

    The optimum of that problem is what :func:`optimum` states for them.
    """
    return {key.removeprefix("span_"): value for key, value in row.items()}


def optimum(name, problem, parameters=None, state=None):
    """Return an interval that holds the optimum: the objective at a point found, and
    less.

    The upper end is the objective at some point, whatever Clarabel thinks of it; the
    lower end trusts it to :data:`PRECISION`, and is minus infinity where it cannot be
    trusted.

    Parameters
    ----------
    state : of a solver with a kernel, which knows its gamma, or the landmarks that span
        its space
    """
    parameters = parameters or {}
    X = problem.X.toarray() if problem.is_sparse else problem.X
    X = X.astype(float)
    Y = np.eye(problem.k)[problem.y]
    weights = problem.weights
    if name.startswith("mrc"):
        low, high, *_ = minimax_risk(X, Y, weights, parameters.get("lambda0", 0.01))
    else:
        assert name in FAMILIES, (
            f"{name} certifies its rows: state its problem in tests/helpers/oracles.py"
        )
        cuts = name.startswith("cuts")
        rows = features(X, parameters, state, name == "cuts_nystroem") if cuts else X
        low, high = regularised(rows, Y, *terms(name, problem.k, weights, parameters))
    return (low if of_one_size(abs(X[X != 0.0])) else -np.inf), high


def terms(name, k, weights, parameters):
    """Return the costs of rows, their loss, ridge and l1, and whether the intercept is
    free."""
    family = FAMILIES[name]
    lam = parameters.get(*family.weight)
    loss = family.loss
    ridge = 1.0
    l1 = parameters.get("l1", 0.02 if name == "cs_working_set" else 0.0)
    if family.of_loss:
        costs = lam * weights
    else:
        costs = weights / weights.sum()
        ridge, l1 = (lam, 0.0) if family.norm == "l2" else (0.0, lam)
    if name.startswith("ls"):
        loss = LINKS[parameters.get("link", "softmax")]
    if name.startswith("cuts") and k == 2:
        loss, ridge = hinge, 2.0  # of w / 2 and - w / 2, the norm of w
    return costs, loss, ridge, l1, family.norm == "l1"


def objective(name, problem, M, parameters):
    """Return the objective of a problem of :data:`FAMILIES` at (k, d + 1)
    coefficients."""
    costs, loss, ridge, l1, _ = terms(name, problem.k, problem.weights, parameters)
    M = M / 2 if loss is hinge else M  # the scores of these are f and -f
    V = problem.X @ M[:, :-1].T + M[:, -1]
    losses = (costs @ loss(V, np.eye(problem.k)[problem.y])).value
    return losses + ridge / 2 * (M**2).sum() + l1 * abs(M[:, :-1]).sum()


def regularised(X, Y, costs, loss, ridge, l1, intercept):
    """Minimise ridge/2 |W|^2 + l1 |W|_1 + sum_i costs_i loss(X W)_i."""
    n, k = Y.shape
    if intercept:  # it is free and takes the columns' means
        X = X - X.mean(axis=0)
    elif not l1:  # the norm of W does not change when the columns are turned
        U, size, _ = np.linalg.svd(X, full_matrices=False)
        X = (U * size)[:, size >= 1e-12 * size.max()]  # the others are rounding
    spread = np.eye(k) - 1.0 / k if intercept else np.eye(k)  # scores that sum to zero
    total = costs.sum()
    size = np.sqrt(np.mean(X**2, axis=0))
    size[size == 0.0] = 1.0
    # At W = t U the objective over `total` is of a moderate size, and so is U.
    t = np.minimum(1.0, total * size**2 / ridge) / size if ridge else 1.0 / size
    t = np.minimum(t, total / l1) if l1 else t
    U = cp.Variable((X.shape[1], k))
    b = cp.Variable((1, k))
    V = X * t @ U @ spread
    if intercept:
        V = V + np.ones((n, 1)) @ b @ spread
    parts = [costs / total @ loss(V, Y)]
    if ridge:
        parts.append(cp.sum(ridge / (2 * total) * t**2 @ cp.square(U)))
    if l1:  # of two classes, whose scores are w'x / 2 and -w'x / 2, |w| counts once
        parts.append(cp.sum(l1 / total * t @ cp.abs(U @ spread)))
    low, high = solved(sum(parts), [])
    trusted = well_posed(X / size, costs, U.value)
    return low * total if trusted else -np.inf, high * total


def well_posed(X, costs, U):
    """Return whether Clarabel can be trusted with rows of these lengths, directions and
    costs.

    The solution U tells, too: rows that a few others make look alike want a long one.
    """
    sizes = np.linalg.svd(X, compute_uv=False), np.linalg.norm(X, axis=1), costs
    near = all(of_one_size(s[s > 1e-12 * s.max()]) for s in sizes)
    return near and U is not None and abs(U).max() <= 1e4


def of_one_size(values):
    """Return whether positive values differ by less than five orders of magnitude."""
    return not len(values) or values.max() < 1e5 * values.min()


def minimax_risk(X, Y, weights, lambda0):
    """Minimise 1 - <tau, M> + <lam, |M|> + max_i psi(M x_i), formula (3) of the paper.

    Returns the interval, the objective at M, M (k, d + 1), and the dual point p (n, k).
    """
    X = np.column_stack([X, np.ones(len(X))])
    shares = weights / weights.sum()
    tau = Y.T @ (shares[:, None] * X)
    parts = Y[:, :, None] * X[:, None, :]  # Phi of every row, (n, k, d')
    deviation = np.sqrt(np.einsum("i,icj->cj", shares, (parts - tau) ** 2))
    seen = parts.any(axis=0)
    size = np.sqrt(np.mean(X**2, axis=0)) + ~X.any(axis=0)
    X /= size
    tau /= size
    lam = lambda0 * deviation / size
    M = cp.Variable(tau.shape)
    phi = cp.Variable()
    above = cp.Variable(Y.shape, nonneg=True)
    V = X @ cp.multiply(seen, M).T
    value = (
        1
        - cp.sum(cp.multiply(tau * seen, M))
        + cp.sum(cp.multiply(lam * seen, cp.abs(M)))
    )
    # psi(v) is the root t of sum_y (v_y - t)_+ = 1.
    constraints = [above >= V - phi, cp.sum(above, axis=1) <= 1]
    low, high = solved(value + phi, constraints)
    if high == np.inf:
        return low, high, np.nan, None, None
    ordered = -np.sort(-V.value, axis=1)
    psi = ((np.cumsum(ordered, axis=1) - 1) / np.arange(1, Y.shape[1] + 1)).max()
    exact = float(value.value + psi)
    # The more, the larger M: constraints are met to an absolute tolerance.
    rounding = PRECISION * max(1.0, float(abs(M.value).max()))
    trusted = well_posed(X, weights, M.value)
    low = min(low, exact) - rounding if trusted else -np.inf
    p = constraints[0].dual_value
    return low, exact + PRECISION, exact, seen * M.value / size, p


def solved(value, constraints):
    """Minimise an expression of about the size of one; of what is not vouched for, only
    the top."""
    problem = cp.Problem(cp.Minimize(value), constraints)
    with warnings.catch_warnings():
        # that the solution may be inaccurate
        warnings.simplefilter("ignore", UserWarning)
        try:
            problem.solve(cp.CLARABEL, **TIGHT)
        except cp.SolverError:
            return -np.inf, np.inf
    if value.value is None:
        return -np.inf, np.inf
    found = float(value.value)
    rounding = PRECISION * max(abs(found), 1e-3)
    low = found - rounding if problem.status == cp.OPTIMAL else -np.inf
    return low, found + rounding


def features(X, parameters, state, nystroem):
    """Return rows whose inner products are those of a state's kernel, or of its
    Nystroem space."""
    kind = parameters.get("kernel", "rbf")
    gamma = state.gamma
    if kind == "rbf":
        K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    else:
        K = X @ X.T
    return K[:, state.landmarks] @ state.root if nystroem else rows_of(K)


def rows_of(K):
    """Return rows whose inner products are K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))
