"""The kernel Weston-Watkins SVM that the paper (Wang, Scott) leaves for the future, by blocks.

With A_i = S_i e_{y_i} - B_i a row's coefficients, K the kernel matrix and F = K A the scores,

    D(B) = sum_i S_i - 1/2 <A, F>,    P = 1/2 <A, F> + C sum_i sum_{j != y_i} max(0, z_ij),

z_ij = 1 - F[i, y_i] + F[i, j]; the subproblem of row i has K_ii for |x_i|^2. F is kept, so the
certificate costs O(n k). Here B and F lie class by class, (k, n): a visit changes a few classes of
a row and, with them, whole rows of F.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from workbench.core.checks import check_memory, check_positive, check_whole
from workbench.core.measures import EPS, bounds
from workbench.core.problem import Problem
from workbench.core.stream import Row
from workbench.kernels.compiled import njit
from workbench.kernels.functions import Kernel, KernelRows, check_kernel, fields_of, kernel_of
from workbench.kernels.gram import Gram, add_rows
from workbench.kernels.rows import FAST
from workbench.weston_watkins.bcd import LOWEST
from workbench.weston_watkins.dual import restated, scaling, share_of
from workbench.weston_watkins.walrus import threshold

# Fraction of the mean part of the gap: rows with less are left alone. It must be small: if a kernel
# has a large constant part, all rows must move a little for a few to move, and parts grow with C.
SHARE = 1e-6
VISITS = 6.0  # average visits of a row between two certificates
BLOCK = 128  # rows that are solved together before the scores of all others follow
SWEEPS = 10  # at most, over a block
RUN = 8  # neighbours that stay together in the random order, as they share cache lines


@dataclass(kw_only=True)
class KernelState(KernelRows):
    """The iterate: ``B`` and the scores ``F`` of the training rows, both (k, n).

    The rows held are all training rows, and ``y`` their labels. Other fields are as in
    :class:`~workbench.weston_watkins.dual.WWState`.
    """

    round: int
    rng: np.random.Generator
    B: np.ndarray
    F: np.ndarray
    y: np.ndarray
    C: float
    primal: float = math.inf
    dual: float = 0.0
    lower: float = 0.0
    upper: float = math.inf
    first: float = math.inf
    visits: float = 0.0
    updates: float = 0.0

    def scores(self, X) -> np.ndarray:
        A = coefficients(self.B, self.y)
        used = np.flatnonzero(A.any(axis=0))
        kernel = self.made_kernel(np.float64)
        basis = kernel.points(self.held_rows()[used])
        return kernel.times(kernel.points(self.as_held(X)), basis, A[:, used].T)

    def info(self) -> Row:
        row = bounds(self.lower, self.upper) | {"primal": self.primal, "dual": self.dual}
        if self.round:
            row["gap_ratio"] = share_of(self.first, self.primal, self.dual)
        return row | {"C": self.C, "updates": self.updates, "visits": self.visits}

    def rescale(self, problem: Problem, C: float, level: float) -> None:
        """Take the iterate to the problem with another `C`, as :meth:`WWState.rescale` does."""
        kernel = self.made_kernel(np.float64)
        diagonal = kernel.diagonal(kernel.points(problem.X))
        square = float(np.vdot(coefficients(self.B, self.y), self.F))
        ratio = scaling(C / self.C, float(self.B[:, diagonal > 0.0].sum()), square)
        self.B *= ratio
        self.F *= ratio
        fill(self.B, self.y, diagonal, C, problem.weights)
        self.C, self.lower, self.upper = C, 0.0, math.inf


def ww_kernel(
    problem: Problem,
    *,
    C: float = 1.0,
    kernel: str | Callable = "rbf",
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
    cache_mb: float = 512.0,
    seed: int = 0,
    state: KernelState | None = None,
) -> Iterator[KernelState]:
    """Minimise 1/2 |f|^2 + C sum_i sum_{j != y_i} max(0, 1 - f_{y_i}(x_i) + f_j(x_i)).

    The f_j are functions of the kernel's space and sum to zero. A round passes several times over
    the rows that hold the gap, in random order and 128 at a time: these are swept over on their
    own, each visit solving its block exactly as in :func:`~workbench.weston_watkins.bcd.ww_walrus`;
    then the scores of all rows follow, by what has changed in sum. Round 1 is one plain sweep.

    The stream ends when no gap is left. The clock counts everything: the kernel and certificates
    too.

    Parameters
    ----------
    C : positive, the weight of each pair of a row and a wrong class; divided by nothing
    kernel : "linear", x'z; "poly", (gamma x'z + coef0)^degree; "rbf", exp(-gamma |x - z|^2); or
        a symmetric, positive semidefinite function k(X, Z) that returns a (len(X), len(Z)) array
    gamma : positive; None for 1 / (d times the variance of all entries)
    degree : a whole number >= 1
    coef0 : not negative
    cache_mb : megabytes of rows of the kernel matrix that are kept; those used last stay
    seed : int, seeds the order of the rows

    Raises
    ------
    ValueError
        Naming the argument, if it is not as above, or the problem does not fit into memory.
    """
    C = check_positive(C, "C")
    check_kernel(kernel, gamma, degree, coef0)
    if state is None:
        rows = f"n = {problem.n} rows of k = {problem.k} classes"
        check_memory(f"ww_kernel, {rows}", 16 * problem.n * problem.k)
    given = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
    weights, made = problem.weights, kernel_of(problem, **given, dtype=np.float64)
    gram = Gram(made, made.points(problem.X), cache_mb)
    diagonal, precision = made.diagonal(gram.points), made.precision(gram.points)
    fresh = ww_kernel(problem, C=C, **given, cache_mb=cache_mb, seed=seed)
    s = restated(problem, state, fresh, C=C) if state else start(problem, made, diagonal, C, seed)
    gaps = certify(s, diagonal, precision, weights)
    yield s
    while not s.round or share_of(s.first, s.primal, s.dual) > 0.0:
        share = SHARE * gaps.mean() if s.round else 0.0
        active = shuffled(np.flatnonzero((gaps > share) & (diagonal > 0.0)), s.rng)
        looked = moved = 0
        for first in range(0, len(active), gram.most):  # what the cache holds at a time
            chunk = np.sort(active[first : first + gram.most])
            alive, left = chunk, VISITS * len(chunk) if s.round else len(chunk)
            while 0 < len(alive) <= left:
                left -= len(alive)
                order = shuffled(alive, s.rng)
                for at in range(0, len(order), BLOCK):
                    block = s.rng.permutation(order[at : at + BLOCK])
                    found = visit(s, gram, diagonal, block, share, weights)
                    looked, moved = looked + found[0], moved + found[1]
                gaps, _ = judge(s.F, s.y, s.B, C, weights, 0.0)
                alive = chunk[gaps[chunk] > share]
        s.round += 1
        s.visits += looked / problem.n
        s.updates = moved / max(looked, 1)
        gaps = certify(s, diagonal, precision, weights)
        if s.round == 1:
            s.first = s.primal - s.dual
        yield s


def start(problem: Problem, kernel: Kernel, diagonal, C: float, seed: int) -> KernelState:
    """Return round 0: B = 0, but C where K_ii = 0: no f changes the loss of such a row."""
    B, F = np.zeros((2, problem.k, problem.n))
    fill(B, problem.y, diagonal, C, problem.weights)
    rng = np.random.default_rng(check_whole(seed, "seed", least=0))
    rows = fields_of(problem.X, kernel)
    return KernelState(round=0, rng=rng, B=B, F=F, y=problem.y, C=C, **rows)


def fill(B: np.ndarray, y: np.ndarray, diagonal, C: float, weights) -> None:
    """Put the best dual variables into rows with K_ii = 0: C for each wrong class."""
    zero = np.flatnonzero(diagonal == 0.0)
    B[:, zero] = C * weights[zero]
    B[y[zero], zero] = 0.0


def certify(s: KernelState, diagonal: np.ndarray, precision: float, weights) -> np.ndarray:
    """Note the objectives of this iterate and its bounds, if they are the best; return the gaps.

    Bounds have room for rounding: F has been rounded once per visit, and so are the values of the
    kernel it is made of. The gaps are every row's part of the whole one, (n,).
    """
    gaps, hinge = judge(s.F, s.y, s.B, s.C, weights, 0.0)
    A, linear = coefficients(s.B, s.y), float(s.B.sum())
    half = 0.5 * float(np.vdot(A, s.F))
    s.primal, s.dual = half + s.C * hinge, linear - half
    (k, n), A, lengths = s.B.shape, np.abs(A).sum(axis=0), np.sqrt(diagonal)
    of_visits = EPS * (n + k + n * s.visits)
    off = of_visits * float(np.abs(s.F).max() + s.B.max() * diagonal.max())
    off += precision * float(lengths.max() * (A @ lengths))
    lost = EPS * (n + k) * linear + off * float(A.sum())
    _, hinge = judge(s.F, s.y, s.B, s.C, weights, 2.0 * off + 4.0 * EPS)
    upper = half + s.C * hinge + lost
    s.lower = max(s.lower, s.dual - 2.0 * lost)
    s.upper = min(s.upper, upper + EPS * (n + k) * upper)
    return gaps


def coefficients(B: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return A, (k, n): -B, and in each row's own class the sum of its B."""
    A = -B
    A[y, np.arange(len(y))] += B.sum(axis=0)
    return A


def shuffled(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rows in a random order of runs of eight."""
    runs = -(-len(rows) // RUN)
    order = rng.permutation(runs)[:, None] * RUN + np.arange(RUN)
    order = order.ravel()
    return rows[order[order < len(rows)]]


def visit(s, gram, diagonal, block, share, weights) -> tuple[int, int]:
    """Solve these rows' blocks in turn, several times; return how many it looked at and moved."""
    y = s.y[block]
    places = gram.at(block)
    K = gram.held[places[:, None], block]
    F, B = s.F.take(block, axis=1), s.B.take(block, axis=1)
    before = coefficients(B, y)
    sweeps = SWEEPS if s.round else 1
    own = weights[block]
    found = solve(K, y, diagonal[block], s.C, share, F, B, sweeps, own)
    s.B[:, block] = B
    delta = coefficients(B, y) - before
    classes, at = np.nonzero(delta)
    ends = np.searchsorted(classes, np.arange(len(B) + 1)).astype(np.uint64)
    add_rows(s.F, ends, places[at].astype(np.uint64), delta[classes, at], gram.held)
    return found


@njit(cache=True, fastmath=FAST)
def judge(F, y, B, C, weights, slack):
    """Return ``sum_j (C_i max(0, z_ij + slack) - B_ij z_ij)`` of every row, (n,), and all hinges.

    C_i is ``weights[i] * C``; row i counts `weights[i]` times in the sum of all hinges. The slack
    is what rounding may have taken from z_ij.
    """
    n, total = np.uint64(len(y)), 0.0
    margin, gaps = np.empty(len(y)), np.zeros(len(y))
    for i in range(n):
        margin[i] = 1.0 - F[np.uint64(y[i]), i]
    for j in range(np.uint64(F.shape[0])):
        for i in range(n):
            z = margin[i] + F[j, i]
            hinge = max(0.0, z + slack) * (np.uint64(y[i]) != j)
            hinge *= weights[i]
            total += hinge
            gaps[i] += C * hinge - B[j, i] * z
    return gaps, total


@njit(cache=True, fastmath=FAST)
def solve(K, y, diagonal, C, share, F, B, sweeps, weights):
    """Sweep over (k, m) `B` and `F`, in place, until no row's part of the gap exceeds `share`.

    Return the number of rows looked at, and of those that did. For `weights` see :func:`judge`.
    """
    k, m = np.uint64(F.shape[0]), np.uint64(F.shape[1])
    z, v = np.empty(F.shape[0]), np.empty(F.shape[0])
    looked = moved = 0
    for _ in range(sweeps):
        before = moved
        looked += len(y)
        for i in range(m):
            own = np.uint64(y[i])
            margin = 1.0 - F[own, i]
            S, hinge, linear = 0.0, 0.0, 0.0
            for j in range(k):
                z[j] = F[j, i] + margin
                S += B[j, i]
                hinge += max(0.0, z[j]) * (own != j)
                linear += B[j, i] * z[j]
            bound = C * weights[i]
            if bound * hinge - linear <= share:
                continue
            moved += 1
            for j in range(k):  # Proposition 3.5
                v[j] = z[j] / diagonal[i] + B[j, i] + S
            v[own] = LOWEST
            g = threshold(v, bound, S)
            total = 0.0
            for j in range(k):
                b = min(max(v[j] - g, 0.0), bound)
                delta = b - B[j, i]
                if delta != 0.0:
                    total += delta
                    B[j, i] = b
                    for t in range(m):
                        F[j, t] -= delta * K[i, t]
            for t in range(m):
                F[own, t] += total * K[i, t]
        if moved == before:
            break
    return looked, moved
