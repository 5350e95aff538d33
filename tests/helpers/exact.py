"""The bounds of a proof in rational arithmetic, and optima by cvxpy: written from the
definitions.

Nothing here is shared with the checker. Logarithms, exponentials and roots have sixty
digits.
"""

import warnings
from decimal import Context, Decimal
from fractions import Fraction as Q
from itertools import chain, combinations

import cvxpy as cp
import numpy as np

from helpers import oracles
from workbench.core.matrices import as_dense

SIXTY = Context(prec=60)
UNIT = Q(1, 10**50)  # more than sixty digits lose here


def decimal(q):
    return SIXTY.divide(Decimal(q.numerator), Decimal(q.denominator))


def log(q):
    return Q(SIXTY.ln(decimal(q)))


def exp(q):
    return Q(SIXTY.exp(decimal(q)))


def sqrt(q):
    return Q(SIXTY.sqrt(decimal(q)))


def exact(array):
    """Return the numbers of an array as nested lists of Fractions."""
    array = as_dense(array)
    return [exact(part) for part in array] if array.ndim else Q(float(array))


def dot(a, b):
    return sum((x * y for x, y in zip(a, b) if x and y), Q(0))


def signed(values, own):
    """Return values, their sign turned for classes that are not a row's own."""
    return [v if o else -v for v, o in zip(values, own)]


class Stated:
    """The problem of a header for these rows, at exact points.

    `gram(i, j)` is the inner product of two rows, with the constant column and in the
    kernel.
    """

    def __init__(self, header, X, y):
        self.h = header
        self.y = [int(c) for c in y]
        self.X = exact(X)
        self.n = len(y)
        self.k = max(self.y) + 1
        self.K = header["outputs"]
        self.loss = header["loss"]
        self.N = self.n if header["over"] == "mean" else 1
        C = header["C"] if isinstance(header["C"], list) else [header["C"]] * self.k
        self.c = [Q(C[label]) for label in self.y]
        self.of_class = [
            sum(c for c, l in zip(self.c, self.y) if l == j) for j in range(self.k)
        ]
        self.alpha = Q(header["alpha"])
        self.l1 = Q(header.get("l1") or 0)
        s = header.get("intercept")
        self.free = s == "free"
        self.s = Q(0) if s in (None, "free") else Q(s)
        self.kernel = header.get("kernel")
        if self.kernel is None and self.s:
            self.X = [[*row, self.s] for row in self.X]
        classes = range(self.k) if self.K > 1 else [1]
        self.own = [[Q(label == c) for c in classes] for label in self.y]

    def gram(self, i, j):
        kernel = self.kernel or {"name": "linear"}
        inner = dot(self.X[i], self.X[j])
        if kernel["name"] == "rbf":
            square = sum((a - b) ** 2 for a, b in zip(self.X[i], self.X[j]))
            inner = exp(-Q(kernel["gamma"]) * square)
        return inner + (self.s**2 if self.kernel else 0)

    def primal(self, W, b, basis=None):
        """Return P at the weights W, their penalised intercept included, and a free
        intercept b."""
        columns = list(zip(*W))
        if basis is None:
            scores = [[dot(x, w) for w in columns] for x in self.X]
            square = sum(dot(w, w) for w in columns)
            l1 = sum(abs(v) for w in columns for v in w)
        else:
            rows = [[self.gram(i, j) for j in basis] for i in range(self.n)]
            scores = [[dot(row, w) for w in columns] for row in rows]
            l1 = 0
            square = sum(
                dot(w, [scores[i][c] for i in basis]) for c, w in enumerate(columns)
            )
        scores = [[f + shift for f, shift in zip(row, b)] for row in scores]
        losses = sum(
            c * self.loss_of(*row) for c, *row in zip(self.c, scores, self.own, self.y)
        )
        return losses / self.N + self.alpha / 2 * square + self.l1 * l1

    def loss_of(self, F, own, label):
        margins = signed(F, own)
        if self.loss == "hinge":
            return sum(max(Q(0), 1 - m) for m in margins)
        if self.loss == "squared_hinge":
            return sum(max(Q(0), 1 - m) ** 2 for m in margins)
        if self.loss == "logistic":
            return sum(log(1 + exp(-m)) for m in margins)
        if self.loss == "squared":
            return sum((f - o) ** 2 for f, o in zip(F, own)) / 2
        others = [f - F[label] for c, f in enumerate(F) if c != label]
        if self.loss == "crammer_singer":
            return max([Q(0), *(1 + z for z in others)])
        if self.loss == "weston_watkins":
            return sum(max(Q(0), 1 + z) for z in others)
        return log(1 + sum(exp(z) for z in others))

    def point(self, i, F):
        """Return the dual point of row i of a smooth loss at scores F, at cost 1."""
        own = self.own[i]
        margins = signed(F, own)
        if self.loss == "squared_hinge":
            return [2 * max(Q(0), 1 - m) for m in margins]
        if self.loss == "logistic":
            return [1 / (1 + exp(m)) for m in margins]
        if self.loss == "squared":
            return [o - f for f, o in zip(F, own)]
        total = sum(exp(f - max(F)) for f in F)
        return [exp(f - max(F)) / total for f in F]

    def expand(self, i, p):
        """Return A_i and the gain of a dual point of cost 1; it must be feasible."""
        own = self.own[i]

        if self.loss == "squared":
            return p, sum(v * o - v * v / 2 for v, o in zip(p, own))
        assert min(p) >= 0
        if self.loss == "squared_hinge":
            return signed(p, own), sum(v - v * v / 4 for v in p)
        assert max(p) <= 1
        if self.loss == "hinge":
            return signed(p, own), sum(p)
        if self.loss == "logistic":
            parts = [q for v in p for q in (v, 1 - v) if q > 0]
            return signed(p, own), -sum(q * log(q) for q in parts)
        if self.loss == "softmax":
            assert abs(sum(p) - 1) < UNIT
            return [o - v for v, o in zip(p, own)], -sum(v * log(v) for v in p if v > 0)
        p = [Q(0) if o else v for v, o in zip(p, own)]
        assert self.loss == "weston_watkins" or sum(p) <= 1
        return [sum(p) if o else -v for v, o in zip(p, own)], sum(p)

    def balanced(self, points):
        """Return points of cost 1 whose columns of A sum to zero, near these."""
        A = [
            [c * a for a in self.expand(i, p)[0]]
            for i, (c, p) in enumerate(zip(self.c, points))
        ]
        rest = [sum(column) for column in zip(*A)]
        total = sum(self.of_class)
        t = min(Q(1), 4 * max(map(abs, rest)) / min(self.of_class) * Q(1001, 1000))
        if not t:
            return points
        shift = [-(1 - t) * r / (t * total) for r in rest]
        share = [
            self.of_class[c] / total for c in (range(self.k) if self.K > 1 else [1])
        ]
        mixed = []
        for own, p in zip(self.own, points):
            new = [o - q + e for q, o, e in zip(share, own, shift)]
            if self.loss in ("hinge", "squared_hinge", "logistic"):
                new = signed(new, own)
            elif self.loss != "squared":
                new = [o - v for v, o in zip(new, own)]
            mixed.append([(1 - t) * a + t * b for a, b in zip(p, new)])
            if self.loss in ("crammer_singer", "weston_watkins"):
                mixed[-1] = [Q(0) if o else v for v, o in zip(mixed[-1], own)]
        return mixed

    def dual(self, points):
        """Return D at feasible points (of cost 1), scaled by the best factor in [0,
        1]."""
        points = self.balanced(points) if self.free else points
        pairs = [self.expand(i, p) for i, p in enumerate(points)]
        A = [[c * a for a in row] for c, (row, _) in zip(self.c, pairs)]
        gain = sum(c * part for c, (_, part) in zip(self.c, pairs))
        if self.free:
            assert max(abs(sum(column)) for column in zip(*A)) < UNIT
        if self.kernel:
            K = [[self.gram(i, j) for j in range(self.n)] for i in range(self.n)]
            square = sum(dot(a, [dot(row, a) for row in K]) for a in zip(*A))
        else:
            V = [dot(x, a) for x in zip(*self.X) for a in zip(*A)]
            square = sum(max(Q(0), abs(v) - self.N * self.l1) ** 2 for v in V)
        if not self.alpha:
            peak = max(map(abs, V))
            return gain / self.N * (min(Q(1), self.N * self.l1 / peak) if peak else 1)
        gain = max(Q(0), gain)  # at A = 0; gains are concave
        scale = min(Q(1), self.alpha * self.N * gain / square) if square else Q(1)
        return scale * gain / self.N - scale**2 * square / (2 * self.alpha * self.N**2)


class MinimaxRisk:
    """The minimax risk problem of a header for these rows, at exact points."""

    def __init__(self, header, X, y, weights=None):
        self.X = [[*row, Q(1)] for row in exact(X)]
        w = exact(np.ones(len(y)) if weights is None else weights)
        self.y = [int(c) for c in y]
        self.n = len(y)
        self.k = max(y) + 1
        self.d = len(self.X[0])
        self.tau = []
        self.lam = []
        for c in range(self.k):
            phi = [
                [v if label == c else Q(0) for v in x]
                for x, label in zip(self.X, self.y)
            ]
            self.tau.append([dot(w, column) / sum(w) for column in zip(*phi)])
            squares = [dot(w, [v * v for v in f]) / sum(w) for f in zip(*phi)]
            root = [sqrt(s - t * t) for s, t in zip(squares, self.tau[-1])]
            self.lam.append([Q(header["lambda0"]) * r for r in root])

    def primal(self, M):
        M = [[m if l else Q(0) for m, l in zip(*rows)] for rows in zip(M, self.lam)]
        value = sum(dot(l, map(abs, m)) for l, m in zip(self.lam, M)) - sum(
            map(dot, self.tau, M)
        )
        scores = [[dot(x, m) for m in M] for x in self.X]
        return (
            1 + value + max((sum(s) - 1) / len(s) for v in scores for s in subsets(v))
        )

    def dual(self, P):
        total = sum(map(sum, P))
        P = [[p / total for p in row] for row in P]
        rho = Q(1)
        for c in range(self.k):
            for j in range(self.d):
                if self.lam[c][j]:
                    mean = sum(row[c] * x[j] for row, x in zip(P, self.X))
                    rho = max(rho, abs(mean - self.tau[c][j]) / self.lam[c][j])
        return (1 - sum(map(max, P))) / rho


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
    X = np.array(stated.X, float)
    K = stated.K
    loss = stated.loss
    if stated.kernel:
        gram = [[float(stated.gram(i, j)) for j in range(n)] for i in range(n)]
        X = oracles.rows_of(gram)
    W = cp.Variable((X.shape[1], K))
    b = cp.Variable((1, K))
    F = X @ W + (np.ones((n, 1)) @ b if stated.free else 0)
    own = np.array(stated.own, float)
    c = np.array(stated.c, float)[:, None]
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
