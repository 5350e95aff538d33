"""The rows of stagewise regression in arrays of another library, such as those of a GPU.

All that touches rows is done there, in single precision; sums over pieces of rows, the factors of
blocks and the steps are the same code as ever, on the processor and in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from workbench.arrays import Library
from workbench.core.problem import Matrix
from workbench.data.generators import WAVES, Generator
from workbench.least_squares.products import pieces

ROWS = 2**16  # of one product: a GPU wants them long


class DeviceShare:
    """What :class:`~workbench.least_squares.rows.Share` does, for all rows, elsewhere.

    The features of a block are kept where they are made, as many as fit into `kept` bytes.

    Raises
    ------
    ValueError
        For sparse rows, or features that are no random waves.
    """

    def __init__(
        self,
        X: Matrix,
        y: np.ndarray,
        F: np.ndarray,
        generator: Generator,
        link: str,
        kept: float,
        calibrate: bool,
        library: Library,
    ):
        if not isinstance(X, np.ndarray):
            raise ValueError("arrays: sparse rows stay on the processor; use arrays='numpy'")
        if generator.kind not in WAVES:
            known = ", ".join(WAVES)
            raise ValueError(
                f"arrays: features {generator.kind!r} are made on the processor alone; {known} "
                "are made elsewhere too"
            )
        self.xp, self.put, self.get = library
        targets = y if y.ndim == 2 else np.arange(F.shape[1]) == y[:, None]
        self.X, self.T = self.put(X.astype(np.float32)), self.put(targets.astype(np.float32))
        self.own, self.F = F, self.put(F)
        self.generator, self.link = generator, ARRAY_LINKS[link]
        self.kept, self.calibrate = kept, calibrate

    def loss(self) -> float:
        """Return the loss at the scores."""
        return sum(self._residuals(self.F[rows, :], rows)[0] for rows in self._pieces())

    def open(self, b: int) -> None:
        """Begin a visit of block `b`."""
        waves = WAVES[self.generator.kind](self.generator, b)
        self.W, self.shift = map(self.put, waves)
        self.made: list = []

    def sums(self, with_gram: bool) -> tuple[np.ndarray | None, np.ndarray, float]:
        """Return Z'Z, or None, and Z'R and the loss at the scores."""
        S, G, loss = 0.0, 0.0, 0.0
        for rows, Z in self._features():
            if with_gram:
                S = S + self._double(self.xp.matmul(Z.T, Z))
            l, R = self._residuals(self.F[rows, :], rows)
            G, loss = G + self._double(self.xp.matmul(Z.T, R)), loss + l
        return (S if with_gram else None), G, loss

    def residuals(self, V: np.ndarray) -> tuple[np.ndarray, float]:
        """Return Z'R and the loss at the scores F + ZV."""
        V, G, loss = self.put(V.astype(np.float32)), 0.0, 0.0
        for rows, Z in self._features():
            l, R = self._residuals(self.F[rows, :] + self.xp.matmul(Z, V), rows)
            G, loss = G + self._double(self.xp.matmul(Z.T, R)), loss + l
        return G, loss

    def advance(self, V: np.ndarray) -> float:
        """Put the scores F + ZV aside and return the loss there."""
        V, aside, loss = self.put(V.astype(np.float32)), [], 0.0
        for rows, Z in self._features():
            aside.append(self.F[rows, :] + self.xp.matmul(Z, V))
            loss += self._residuals(aside[-1], rows)[0]
        self.aside = self.xp.concat(aside, axis=0)
        return loss

    def accept(self) -> None:
        """Make the scores that were put aside those of the rows: the end of a visit."""
        self.F = self.aside
        self.own[...] = self.get(self.F)

    def _pieces(self) -> Iterator[slice]:
        return pieces(len(self.own), ROWS)

    def _features(self) -> Iterator[tuple]:
        xp = self.xp
        for place, rows in enumerate(self._pieces()):
            if place < len(self.made):
                Z = self.made[place]
            else:
                turns = xp.matmul(self.X[rows, :], self.W) + self.shift
                Z = math.sqrt(2) * xp.cos(2 * math.pi * (turns - xp.round(turns)))
                if 4 * self.W.shape[1] * rows.stop <= self.kept:
                    self.made.append(Z)
            yield rows, xp.concat([Z, self.F[rows, :]], axis=1) if self.calibrate else Z

    def _residuals(self, F, rows: slice) -> tuple[float, object]:
        loss, R = self.link(self.xp, F, self.T[rows, :])
        return float(loss), R

    def _double(self, a) -> np.ndarray:
        return self.get(a).astype(np.float64)


def identity(xp, F, T):
    """1/2 |u - y|^2: least squares."""
    R = F - T
    return xp.sum(R * R, dtype=xp.float64) / 2, R


def softmax(xp, F, T):
    """log sum_c exp(u_c) - y.u: the multinomial logit."""
    U = F - xp.max(F, axis=1, keepdims=True)
    E = xp.exp(U)
    mass = xp.sum(E, axis=1, keepdims=True)
    loss = xp.sum(xp.log(mass), dtype=xp.float64) - xp.sum(T * U, dtype=xp.float64)
    return loss, E / mass - T


def sigmoid(xp, F, T):
    """sum_c log(1 + exp(u_c)) - y_c u_c: one logit for each class, for rows of several labels."""
    small = xp.exp(-xp.abs(F))  # in (0, 1]: no overflow
    losses = (F + xp.abs(F)) / 2 - T * F + xp.log1p(small)
    return xp.sum(losses, dtype=xp.float64), (1 + xp.tanh(F / 2)) / 2 - T


def squared_hinge(xp, F, T):
    """sum_c max(0, 1 - t_c u_c)^2 with t_c = 2 y_c - 1: the L2-loss SVM, one against the rest."""
    t = 2 * T - 1
    margin = 1 - t * F
    short = (margin + xp.abs(margin)) / 2
    return xp.sum(short * short, dtype=xp.float64), -2 * t * short


# The losses of workbench.least_squares.links, of whole arrays: their sum, and g(F) - T for targets
# T (m, k) of zeros and ones.
ARRAY_LINKS: dict[str, Callable] = {
    "identity": identity,
    "softmax": softmax,
    "squared_hinge": squared_hinge,
    "sigmoid": sigmoid,
}
