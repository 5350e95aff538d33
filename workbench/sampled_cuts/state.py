"""The iterate of every cutting-plane method here: its cuts and how much of each it
takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.core.certificates import bounds
from workbench.core.problem import Matrix, Problem
from workbench.core.state import State
from workbench.core.stream import Row
from workbench.kernels.mercer import Kernel, KernelRows, fields_of, stored_as
from workbench.sampled_cuts.chain import decode


@dataclass(kw_only=True)
class CutState(KernelRows, State):
    """T cuts (c, g), the multipliers of the model that they make, and an iterate w.

    With v = -g, cut t says xi >= h[t] - w.v_t for v_t = sum_u phi(x_u) B[u] over its
    basis, rows ``rows[ends[t]:ends[t + 1]]`` of the training rows, and ``explicit[t]``
    of its own. The model's solution is sum_t alpha[t] v_t, and the iterate, which
    predicts, sum_t w[t] v_t; ``G`` are the inner products of the v_t.

    ``primal`` is the objective at the iterate, ``model`` the value of the model, both
    for this C, and ``violation`` their distance in units of the loss, or that of the
    last sampled cut if no more is known. ``calm`` counts rounds in a row: those whose
    sampled cut was satisfied, or those in which the distance of objective and model has
    not fallen much from ``mark``, compared with ``eps``. ``root`` takes coefficients in
    a Nystroem space to those of its rows ``landmarks``. ``sample`` are the units of the
    next sampled cut, if the algorithm judges by it. ``X`` are all training rows.
    """

    round: int
    rng: np.random.Generator
    rows: np.ndarray
    B: np.ndarray
    ends: np.ndarray
    explicit: np.ndarray
    h: np.ndarray
    G: np.ndarray
    alpha: np.ndarray
    w: np.ndarray
    idle: np.ndarray
    landmarks: np.ndarray
    root: np.ndarray
    sample: np.ndarray
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

    def scores(self, X: Matrix) -> np.ndarray:
        """Return the (n, k) scores of rows; two classes mirror each other."""
        rows, A = self.expansion()
        # Coefficients of landmarks nearly cancel: single precision is not enough for
        # them.
        kernel = self.made_kernel(np.float64 if len(self.root) else self.X.dtype)
        basis = kernel.points(self.X[rows])
        F = kernel.times(kernel.points(stored_as(self.X, X)), basis, A)
        return np.hstack([-F / 2, F / 2]) if F.shape[1] == 1 else F

    def info(self) -> Row:
        row = bounds(self.lower, self.upper) if self.certified else {}
        if len(
            self.landmarks
        ):  # of the least objective in their span, which is no less than all
            row = {f"span_{name}": value for name, value in row.items()}
        return row | {
            "primal": self.primal,
            "model": self.model,
            "violation": self.violation,
            "cuts": len(self.h),
            "kernel_values": self.kernel_values,
        }

    def expansion(self, of: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the training rows that the iterate is a sum of, and their coefficients
        (m, K).

        Parameters
        ----------
        of : (T,) how much of each cut is taken, by default the iterate's ``w``
        """
        taken = np.repeat(self.w if of is None else of, np.diff(self.ends))
        used = taken != 0.0
        rows, A = merged(self.rows[used], taken[used, None] * self.B[used])
        if len(self.root) and len(rows):
            A = self.root @ A
        return rows, A

    def paths(self, F: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return decode(F, self.transitions, starts)

    @property
    def transitions(self) -> np.ndarray:
        """The explicit weights of the iterate."""
        return self.w @ self.explicit


def start(
    problem: Problem, task, kernel: Kernel, C: float, eps: float, certified: bool, rng
) -> CutState:
    """Return round 0: no cuts and w = 0, whose risk is the mean of the largest
    losses."""
    K, q = task.K, task.explicit
    upper = C * float(
        task.answers(np.zeros((len(task.parts), K)), np.zeros(q)).losses.sum()
    )
    return CutState(
        round=0,
        rng=rng,
        B=np.zeros((0, K)),
        ends=np.zeros(1, np.int64),
        explicit=np.zeros((0, q)),
        **dict.fromkeys(("rows", "idle", "landmarks", "sample"), np.zeros(0, np.int64)),
        **dict.fromkeys(("h", "alpha", "w"), np.zeros(0)),
        **dict.fromkeys(("G", "root"), np.zeros((0, 0))),
        **fields_of(problem.X, kernel),
        **dict.fromkeys(("primal", "upper", "mark"), upper),
        **dict.fromkeys(("model", "lower"), 0.0),
        violation=np.inf,
        certified=certified,
        C=C,
        eps=eps,
    )


def append(s: CutState, rows, B, explicit, offset: float, products: np.ndarray) -> None:
    """Add one cut, with its inner products with all cuts, itself the last, (T + 1,)."""
    T = len(s.h)
    G = np.empty((T + 1, T + 1))
    G[:T, :T] = s.G
    G[T] = G[:, T] = products
    vars(s).update(
        rows=np.concatenate([s.rows, rows]),
        B=np.concatenate([s.B, B]),
        ends=np.append(s.ends, s.ends[-1] + len(rows)),
        explicit=np.vstack([s.explicit, explicit]),
        h=np.append(s.h, offset),
        G=G,
        alpha=np.append(s.alpha, 0.0),
        w=np.append(s.w, 0.0),
        idle=np.append(s.idle, 0),
    )


def keep(s: CutState, kept: np.ndarray) -> None:
    """Keep only the cuts in this mask."""
    lines = np.repeat(kept, np.diff(s.ends))
    vars(s).update(
        rows=s.rows[lines],
        B=s.B[lines],
        ends=np.concatenate([[0], np.cumsum(np.diff(s.ends)[kept])]),
        explicit=s.explicit[kept],
        h=s.h[kept],
        G=s.G[np.ix_(kept, kept)],
        alpha=s.alpha[kept],
        w=s.w[kept],
        idle=s.idle[kept],
    )


def merged(rows: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row once, sorted, with the sum of its coefficients."""
    order = np.argsort(rows, kind="stable")
    rows, B = rows[order], B[order]
    first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])[: len(rows)])
    return rows[first], np.add.reduceat(B, first, axis=0) if len(first) else B
