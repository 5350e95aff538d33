"""The bounds of a proof in rational arithmetic, and optima by cvxpy: written from the
definitions.

Nothing here is shared with the checker. Logarithms, exponentials and roots have sixty
digits.
"""

import warnings
from decimal import Context, Decimal
from fractions import Fraction as Q
from functools import cached_property
from itertools import chain, combinations

import cvxpy as cp
import numpy as np

from helpers import oracles
from workbench.core.matrices import as_dense

SIXTY = Context(prec=60)
UNIT = Q(1, 10**50)  # more than sixty digits lose here


def decimal(q):
    return SIXTY.divide(Decimal(q.numerator), Decimal(q.denominator))


def elementwise(function):
    """Return a function of arrays of Fractions, to sixty digits."""
    return np.frompyfunc(lambda q: Q(function(decimal(q))), 1, 1)


log = elementwise(SIXTY.ln)
exp = elementwise(SIXTY.exp)
sqrt = elementwise(SIXTY.sqrt)
entropy = np.frompyfunc(lambda q: -q * log(q) if q > 0 else Q(0), 1, 1)
fractions = np.frompyfunc(lambda number: Q(float(number)), 1, 1)


def exact(array):
    """Return the numbers of an array or a sparse matrix as Fractions."""
    return fractions(as_dense(array))


def positive(array):
    return np.maximum(Q(0), array)


class Stated:
    """The problem of a header for these rows, at exact points.

    The arrays contain Fractions: X (n, d), with the constant column unless it is in a
    kernel, the costs c (n,) of the rows, and the zeros and ones `own` (n, K).
    """

    def __init__(self, header, X, y):
        self.y = np.asarray(y)
        self.n = len(y)
        self.k = max(self.y) + 1
        self.K = header["outputs"]
        self.loss = header["loss"]
        self.N = self.n if header["over"] == "mean" else 1
        C = header["C"] if isinstance(header["C"], list) else [header["C"]] * self.k
        self.c = exact(C)[self.y]
        self.alpha = Q(header["alpha"])
        self.l1 = Q(header.get("l1") or 0)
        s = header.get("intercept")
        self.free = s == "free"
        self.s = Q(0) if s in (None, "free") else Q(s)
        self.kernel = header.get("kernel")
        self.X = exact(X)
        if self.kernel is None and self.s:
            self.X = np.column_stack([self.X, np.full(self.n, self.s)])
        self.own = exact(np.equal.outer(self.y, range(self.k) if self.K > 1 else [1]))
        self.sign = 2 * self.own - 1

    @cached_property
    def gram(self):
        """The (n, n) inner products of rows, with the constant and in the kernel."""
        products = self.X @ self.X.T
        if self.kernel is None:
            return products
        if self.kernel["name"] == "rbf":
            squares = products.diagonal()
            distances = np.add.outer(squares, squares) - 2 * products
            products = exp(-Q(self.kernel["gamma"]) * distances)
        return products + self.s**2

    def primal(self, W, b, basis=None):
        """Return P at the weights W, their penalised intercept included, and a free
        intercept b."""
        scores = (self.X if basis is None else self.gram[:, basis]) @ W
        square = (W * (W if basis is None else scores[basis])).sum()
        losses = self.c @ self.losses(scores + b)
        return losses / self.N + self.alpha / 2 * square + self.l1 * abs(W).sum()

    def losses(self, F):
        """Return the losses (n,) of scores F."""
        short = 1 - self.sign * F
        if self.loss == "hinge":
            return positive(short).sum(axis=1)
        if self.loss == "squared_hinge":
            return (positive(short) ** 2).sum(axis=1)
        if self.loss == "logistic":
            return log(1 + exp(short - 1)).sum(axis=1)
        if self.loss == "squared":
            return ((F - self.own) ** 2).sum(axis=1) / 2
        ahead = F - (self.own * F).sum(axis=1)[:, None]
        if self.loss == "crammer_singer":
            return (1 - self.own + ahead).max(axis=1)
        if self.loss == "weston_watkins":
            return ((1 - self.own) * positive(1 + ahead)).sum(axis=1)
        return log(exp(ahead).sum(axis=1))

    def points(self, F):
        """Return the dual points of a smooth loss at scores F, at cost 1."""
        if self.loss == "squared_hinge":
            return 2 * positive(1 - self.sign * F)
        if self.loss == "logistic":
            return 1 / (1 + exp(self.sign * F))
        if self.loss == "squared":
            return self.own - F
        powers = exp(F - F.max(axis=1)[:, None])
        return powers / powers.sum(axis=1)[:, None]

    def expand(self, p):
        """Return A and the gains (n,) of dual points of cost 1, which must be
        feasible."""
        if self.loss == "squared":
            return p, (p * self.own - p**2 / 2).sum(axis=1)
        assert p.min() >= 0
        if self.loss == "squared_hinge":
            return self.sign * p, (p - p**2 / 4).sum(axis=1)
        assert p.max() <= 1
        if self.loss == "hinge":
            return self.sign * p, p.sum(axis=1)
        if self.loss == "logistic":
            return self.sign * p, (entropy(p) + entropy(1 - p)).sum(axis=1)
        if self.loss == "softmax":
            assert max(abs(p.sum(axis=1) - 1)) < UNIT
            return self.own - p, entropy(p).sum(axis=1)
        p = (1 - self.own) * p
        total = p.sum(axis=1)
        assert self.loss == "weston_watkins" or max(total) <= 1
        return self.own * total[:, None] - p, total

    def balanced(self, points):
        """Return points of cost 1 whose columns of A sum to zero, near these."""
        rest = self.c @ self.expand(points)[0]
        of_class = self.c @ exact(np.equal.outer(self.y, range(self.k)))
        t = 4 * max(abs(rest)) / min(of_class) * Q(1001, 1000)
        t = min(Q(1), t)
        if not t:
            return points
        total = sum(of_class)
        share = (of_class if self.K > 1 else of_class[1:]) / total
        new = self.own - share - (1 - t) * rest / (t * total)
        if self.loss in ("hinge", "squared_hinge", "logistic"):
            new = self.sign * new
        elif self.loss != "squared":
            new = self.own - new
        mixed = (1 - t) * points + t * new
        stored = self.loss in ("crammer_singer", "weston_watkins")
        return (1 - self.own) * mixed if stored else mixed

    def dual(self, points):
        """Return D at feasible points (of cost 1), scaled by the best factor in [0,
        1]."""
        points = self.balanced(points) if self.free else points
        A, gains = self.expand(points)
        A = self.c[:, None] * A
        gain = self.c @ gains
        if self.free:
            assert max(abs(A.sum(axis=0))) < UNIT
        if self.kernel:
            square = (A * (self.gram @ A)).sum()
        else:
            V = abs(self.X.T @ A)
            square = (positive(V - self.N * self.l1) ** 2).sum()
        if not self.alpha:
            peak = V.max()
            return gain / self.N * (min(Q(1), self.N * self.l1 / peak) if peak else 1)
        gain = max(Q(0), gain)  # at A = 0; gains are concave
        scale = min(Q(1), self.alpha * self.N * gain / square) if square else Q(1)
        return scale * gain / self.N - scale**2 * square / (2 * self.alpha * self.N**2)


class MinimaxRisk:
    """The minimax risk problem of a header for these rows, at exact points."""

    def __init__(self, header, X, y, weights=None):
        self.X = exact(np.column_stack([as_dense(X), np.ones(len(y))]))
        w = exact(np.ones(len(y)) if weights is None else weights)
        phi = np.equal.outer(range(max(y) + 1), y)[:, :, None] * self.X
        self.tau = w @ phi / sum(w)
        self.lam = Q(header["lambda0"]) * sqrt(w @ phi**2 / sum(w) - self.tau**2)
        self.seen = self.lam > 0

    def primal(self, M):
        M = self.seen * M
        value = (self.lam * abs(M) - self.tau * M).sum()
        scores = self.X @ M.T
        return (
            1 + value + max((sum(s) - 1) / len(s) for v in scores for s in subsets(v))
        )

    def dual(self, P):
        off = abs(P.T @ self.X / P.sum() - self.tau)
        rho = max([Q(1), *(off[self.seen] / self.lam[self.seen])])
        return (1 - P.max(axis=1).sum() / P.sum()) / rho


def subsets(items):
    return chain.from_iterable(combinations(items, r) for r in range(1, len(items) + 1))


def solve(header, X, y):
    """Return the optimum by cvxpy, and W, b and the dual point (or M and p) found
    there.

    With a kernel, W has coefficients of all rows. A smooth loss has no dual point,
    None.
    """
    n = len(y)
    if header["family"] == "mrc":
        Y = np.eye(max(y) + 1)[y]
        *_, value, M, p = oracles.minimax_risk(
            as_dense(X), Y, np.ones(n), header["lambda0"]
        )
        if M is None:
            raise ArithmeticError("the oracle finds no optimum")
        return value, M, np.zeros(len(M)), np.maximum(p, 0)
    stated = Stated(header, X, y)
    X = stated.X.astype(float)
    K = stated.K
    loss = stated.loss
    if stated.kernel:
        X = oracles.rows_of(stated.gram.astype(float))
    W = cp.Variable((X.shape[1], K))
    b = cp.Variable((1, K))
    F = X @ W + (np.ones((n, 1)) @ b if stated.free else 0)
    own = stated.own.astype(float)
    c = stated.c.astype(float)[:, None]
    constraints = []
    if loss in ("hinge", "weston_watkins", "crammer_singer"):
        slack = cp.Variable((n, 1 if loss == "crammer_singer" else K), nonneg=True)
        wide = slack @ np.ones((1, K)) if loss == "crammer_singer" else slack
        rivals = F - oracles.own(F, own) @ np.ones((1, K))
        violated = 1 - cp.multiply(2 * own - 1, F)
        constraints = [
            wide >= (violated if loss == "hinge" else cp.multiply(1 - own, 1 + rivals))
        ]
        total = cp.sum(cp.multiply(np.broadcast_to(c, slack.shape), slack))
    else:
        total = c[:, 0] @ smooth(loss)(F, own)
    objective = total / stated.N + header["alpha"] / 2 * cp.sum_squares(W)
    objective += (header.get("l1") or 0) * cp.sum(cp.abs(W))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(
            solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
        )
    if problem.status != "optimal":
        raise ArithmeticError(problem.status)
    dual = None
    if constraints:
        dual = np.maximum(constraints[0].dual_value, 0) * stated.N
        dual *= loss == "hinge" or own == 0
    weights = np.linalg.pinv(X, 1e-6).T @ W.value if stated.kernel else W.value
    b = b.value[0] if stated.free else np.zeros(K)
    return float(problem.value), weights, b, dual


def smooth(loss):
    """Return a smooth loss of a header, as the oracle of the solvers states it."""
    known = oracles.LINKS | {
        "logistic": oracles.logistic,
        "squared": oracles.LINKS["identity"],
    }
    return known[loss]
