"""The iterate of every cutting-plane method here: cuts with their weights."""

from dataclasses import dataclass

import numpy as np

from workbench.core.certificates import bounds
from workbench.core.problem import Array, Matrix, Problem
from workbench.core.state import Row, State
from workbench.kernels.mercer import Kernel, KernelRows, fields_of, stored_as
from workbench.sampled_cuts.chain import decode


@dataclass(kw_only=True)
class CutState(KernelRows, State):
    """T cuts (c, g), the multipliers of the model that they form, and an iterate w.

    With v = -g, cut t says xi >= h[t] - w.v_t for v_t = sum_u phi(x_u) B[u] over the
    training rows ``rows[ends[t]:ends[t + 1]]``, with explicit weights ``explicit[t]``.
    The model's solution is sum_t alpha[t] v_t, and the iterate, which predicts, is
    sum_t w[t] v_t. ``G`` contains the inner products of the v_t.

    ``primal`` is the objective at the iterate and ``model`` the value of the model,
    both for this C. ``violation`` is their distance in units of the loss, or the
    violation of the last sampled cut if the method computes no more. ``calm`` is the
    number of consecutive rounds whose sampled cut was satisfied, or in which the gap
    fell little below ``mark``, compared with ``eps``, and exact cuts were violated by
    rounding alone. ``idle`` is, for each cut, the number of consecutive rounds without
    a multiplier. ``root`` maps coefficients in a Nystroem space to coefficients of its
    rows ``landmarks``. ``sample`` contains the units of the next sampled cut if it is
    the stopping criterion. ``X`` contains all training rows.
    """

    round: int
    rng: np.random.Generator
    rows: Array
    B: Array
    ends: Array
    explicit: Array
    h: Array
    G: Array
    alpha: Array
    w: Array
    idle: Array
    landmarks: Array
    root: Array
    sample: Array
    primal: float
    model: float
    violation: float
    lower: float
    upper: float
    mark: float
    certified: bool
    C: float
    eps: float
    calm: int = 0
    kernel_values: float = 0.0

    def scores(self, X: Matrix) -> Array:
        """Return the (n, k) scores of rows; two classes have opposite scores."""
        rows, A = self.expansion()
        precision = self.X.dtype
        if len(self.root):  # the coefficients of landmarks nearly cancel
            precision = np.dtype(np.float64)
        kernel = self.made_kernel(precision)
        basis = kernel.points(self.X[rows])
        F = kernel.times(kernel.points(stored_as(self.X, X)), basis, A)
        return np.hstack([-F / 2, F / 2]) if F.shape[1] == 1 else F

    def info(self) -> Row:
        row: Row = {
            "primal": self.primal,
            "model": self.model,
            "violation": self.violation,
            "cuts": len(self.h),
            "kernel_values": self.kernel_values,
        }
        if not self.certified:
            return row
        # In a span, the bounds enclose the smallest objective there, not that of all w.
        prefix = "span_" if len(self.landmarks) else ""
        certificate = bounds(self.lower, self.upper)
        return {prefix + name: value for name, value in certificate.items()} | row

    def expansion(self, weights: Array | None = None) -> tuple[Array, Array]:
        """Return the training rows of a sum of cuts, with their (m, K) coefficients.

        Parameters
        ----------
        weights : (T,) weight of each cut, by default the iterate's ``w``
        """
        if weights is None:
            weights = self.w
        taken = np.repeat(weights, np.diff(self.ends))
        used = taken != 0.0
        rows, A = merged(self.rows[used], taken[used, None] * self.B[used])
        if len(self.root) and len(rows):
            A = self.root @ A
        return rows, A

    def paths(self, F: Array, starts: Array) -> Array:
        return decode(F, self.transitions, starts)

    @property
    def transitions(self) -> Array:
        """The explicit weights of the iterate."""
        return self.w @ self.explicit


def start(
    problem: Problem, task, kernel: Kernel, C: float, eps: float, certified: bool, rng
) -> CutState:
    """Return round 0, without cuts, at w = 0: the risk is the mean largest loss."""
    K = task.K
    q = task.explicit
    answers = task.answers(np.zeros((len(task.parts), K)), np.zeros(q))
    primal = C * float(answers.losses.sum())
    no_rows = np.zeros(0, np.int64)
    no_cuts = np.zeros(0)
    no_products = np.zeros((0, 0))
    return CutState(
        **fields_of(problem.X, kernel),
        round=0,
        rng=rng,
        rows=no_rows,
        B=np.zeros((0, K)),
        ends=np.zeros(1, np.int64),
        explicit=np.zeros((0, q)),
        h=no_cuts,
        G=no_products,
        alpha=no_cuts,
        w=no_cuts,
        idle=no_rows,
        landmarks=no_rows,
        root=no_products,
        sample=no_rows,
        primal=primal,
        model=0.0,
        violation=answers.losses.mean(),
        lower=0.0,
        upper=primal,
        mark=primal,
        certified=certified,
        C=C,
        eps=eps,
    )


def append(s: CutState, rows, B, explicit, offset: float, products: Array) -> None:
    """Add a cut and its (T + 1,) inner products with all cuts, the last with itself."""
    s.G = np.pad(s.G, (0, 1))
    s.G[-1] = products
    s.G[:, -1] = products
    s.rows = np.concatenate([s.rows, rows])
    s.B = np.concatenate([s.B, B])
    s.ends = np.append(s.ends, len(s.rows))
    s.explicit = np.vstack([s.explicit, explicit])
    s.h = np.append(s.h, offset)
    s.alpha = np.append(s.alpha, 0.0)
    s.w = np.append(s.w, 0.0)
    s.idle = np.append(s.idle, 0)


def keep(s: CutState, cuts: Array) -> None:
    """Keep only the cuts in this mask."""
    lengths = np.diff(s.ends)
    rows = np.repeat(cuts, lengths)
    s.rows = s.rows[rows]
    s.B = s.B[rows]
    s.ends = np.append(0, np.cumsum(lengths[cuts]))
    s.explicit = s.explicit[cuts]
    s.h = s.h[cuts]
    s.G = s.G[np.ix_(cuts, cuts)]
    s.alpha = s.alpha[cuts]
    s.w = s.w[cuts]
    s.idle = s.idle[cuts]


def merged(rows: Array, B: Array) -> tuple[Array, Array]:
    """Return each row once, sorted, with the sum of its coefficients."""
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    B = B[order]
    if not len(rows):
        return rows, B
    first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    return rows[first], np.add.reduceat(B, first, axis=0)
