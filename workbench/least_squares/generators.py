"""Random features made block by block from a seed: the GEN of stagewise regression.

No block depends on another, and none is stored: a prediction needs a
:class:`Generator`, a few numbers and, for kernels, landmarks. Features are float32. On
rows like the training rows, waves, logits and polynomials of centred rows have a mean
square of order one; kernel values lie in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from workbench.core.checks import check_memory, check_positive, check_whole
from workbench.core.names import hint
from workbench.core.problem import Matrix, Problem
from workbench.data.features import sampled_distances
from workbench.kernels.compiled import njit
from workbench.kernels.rows import write_product
from workbench.least_squares.products import check_size

Map = Callable[
    [Matrix, np.ndarray], None
]  # rows (m, d), and where their (m, p) features go
HALF = np.float32(0.5)
# sqrt(2) cos(2 pi t) in powers of t^2, |t| <= 1/2
COEFFICIENTS = (
    1.414213546900218,
    -27.91545071358391,
    91.83778064032919,
    -120.84474623131669,
)
COEFFICIENTS += (85.08987970707877, -36.72373104043279, 9.23291691669159)
COEFFICIENTS = tuple(map(np.float32, COEFFICIENTS))
JITTER = (
    1e-6  # added to the diagonal of the landmarks' kernel matrix, which may be singular
)


@dataclass(frozen=True, eq=False)
class Generator:
    """A recipe of `n_features` features of rows with `d` entries, `block` at a time."""

    kind: str  # a name of KINDS
    d: int
    n_features: int
    block: int
    seed: int
    s: float  # the kernel is exp(-|x - x'|^2 / s)
    # Landmarks of all blocks, one below the other, or no rows; of columns, their order.
    anchors: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @property
    def blocks(self) -> int:
        """Number of blocks; the last one may be smaller."""
        return -(-self.n_features // self.block)

    def part(self, b: int) -> slice:
        """Return the slice of all features that block `b` has."""
        return slice(b * self.block, min((b + 1) * self.block, self.n_features))

    def width(self, b: int) -> int:
        """Return the number of features of block `b`."""
        return self.part(b).stop - self.part(b).start

    def own(self, b: int) -> slice | np.ndarray:
        """Return the index of the weights of block `b`; those of columns are in X's
        order."""
        return self.anchors[self.part(b)] if self.kind == "columns" else self.part(b)

    def rng(self, b: int) -> np.random.Generator:
        """Return the random number generator of block `b`."""
        return np.random.default_rng([self.seed, b])

    def make(self, b: int) -> Map:
        """Return the function that writes block `b`'s features of (m, d) rows to (m,
        width) `Z`."""
        return KINDS[self.kind](self, b)

    @cached_property
    def centre(self) -> np.ndarray:
        """The mean of all landmarks, float32, the origin for distances."""
        return self.anchors.mean(axis=0, dtype=np.float64).astype(np.float32)

    def penalty(self, b: int) -> np.ndarray | None:
        """Return the matrix M of block `b`'s regulariser tr(W'M W); None is the
        identity."""
        if self.kind != "nystroem":
            return None
        landmarks = self.anchors[self.part(b)].astype(np.float64)
        K = np.exp(-_squared_distances(landmarks, landmarks, self.centre) / self.s)
        K.flat[:: len(K) + 1] += JITTER
        return K


def fitted(
    problem: Problem,
    kind: str,
    n_features: int,
    block: int,
    bandwidth: float = 1.0,
    seed: int = 0,
) -> Generator:
    """Return the generator of a given kind for the training rows of `problem`.

    Parameters
    ----------
    kind : "fourier", sqrt(2) cos(w.x + b) (Rahimi, Recht, 2007); "orthogonal_fourier",
        the same with w orthogonal in groups of d (Yu et al., 2016); "poly2", "poly3",
        "poly4", the product of that many factors w.x + b; "logits", 1 / (1 + exp(-u))
        of one such factor u; "nystroem", the kernel with random training rows as
        landmarks, which repeat if there are too few. The paper prints neither the
        variance of logits nor the degree of polynomials (appendix A.2.1)
    n_features, block : int, at least 1; a `block` above `n_features` means `n_features`
    bandwidth : positive; the kernel is exp(-|x - x'|^2 / (bandwidth m^2)) with the
        median distance m of training rows that differ, or 1 if all are equal
    seed : int, at least 0, seeds all that is random
    """
    if kind not in [*RANDOM]:
        raise ValueError(f"features: unknown name {kind!r}; {hint(str(kind), RANDOM)}")
    n_features = check_whole(n_features, "n_features")
    block = min(check_whole(block, "block"), n_features)
    check_size(block, "block: its")
    seed = check_whole(seed, "seed", least=0)
    bandwidth = check_positive(bandwidth, "bandwidth")
    held = n_features if kind == "nystroem" else block
    check_memory(
        f"{held} {kind} features of {problem.d} columns, which", 4 * held * problem.d
    )
    distances = sampled_distances(problem, seed)
    distances = distances[distances > 0]
    square = float(np.median(distances)) ** 2 if len(distances) else 1.0
    s = bandwidth * square
    if not 1e-36 < s < 1e36:  # features are of single precision
        raise ValueError(
            f"bandwidth: times the squared median distance of rows, {square:.3g}, "
            f"must lie between 1e-36 and 1e36, got {bandwidth:.3g}"
        )
    anchors = np.zeros((0, 0), np.float32)
    if kind == "nystroem":
        rows = np.resize(np.random.default_rng(seed).permutation(problem.n), n_features)
        anchors = problem.X[rows]
        anchors = (anchors.toarray() if sp.issparse(anchors) else anchors).astype(
            np.float32
        )
    return Generator(kind, problem.d, n_features, block, seed, s, anchors)


def fourier(generator: Generator, b: int) -> Map:
    """Return sqrt(2) cos(w.x + b), w ~ N(0, 2/s I), b uniform over a period."""
    rng, p = generator.rng(b), generator.width(b)
    return _waves(generator, rng.standard_normal((generator.d, p), np.float32), rng)


def orthogonal_fourier(generator: Generator, b: int) -> Map:
    """Return features as :func:`fourier` with w orthogonal in groups of d, of the same
    lengths."""
    rng, p, d = generator.rng(b), generator.width(b), generator.d
    groups = []
    for first in range(0, p, d):
        # Q of a QR factorisation is uniform once its signs are those of R's diagonal.
        Q, R = np.linalg.qr(rng.standard_normal((d, min(d, p - first))))
        lengths = np.sqrt(rng.chisquare(d, Q.shape[1]))
        groups.append(Q * (np.sign(np.diag(R)) * lengths))
    return _waves(generator, np.hstack(groups), rng)


def polynomial(generator: Generator, b: int) -> Map:
    """Return products of 2, 3 or 4 factors w.x + b, w ~ N(0, 2/s I), b ~ N(0, 1/2)."""
    return _products(generator, b, int(generator.kind[-1]))


def logits(generator: Generator, b: int) -> Map:
    """Return 1 / (1 + exp(-u)) of factors u as those of :func:`polynomial`."""
    factors = _products(generator, b, 1)

    def make(X: Matrix, Z: np.ndarray) -> None:
        factors(X, Z)
        expit(Z, out=Z)

    return make


def nystroem(generator: Generator, b: int) -> Map:
    """Return the kernel exp(-|x - c|^2 / s) with the landmarks c of the block."""
    landmarks = generator.anchors[generator.part(b)]
    centre, scale = generator.centre, np.float32(1 / generator.s)

    def make(X: Matrix, Z: np.ndarray) -> None:
        Z[...] = _squared_distances(X, landmarks, centre)
        Z *= -scale
        np.exp(Z, out=Z)

    return make


def columns(generator: Generator, b: int) -> Map:
    """Return columns of the rows themselves, in the order that the anchors name."""
    order = generator.own(b)

    def make(X: Matrix, Z: np.ndarray) -> None:
        Z[...] = X[:, order].toarray() if sp.issparse(X) else X[:, order]

    return make


RANDOM: dict[str, Callable[[Generator, int], Map]] = {
    "fourier": fourier,
    "orthogonal_fourier": orthogonal_fourier,
    **dict.fromkeys(("poly2", "poly3", "poly4"), polynomial),
    "logits": logits,
    "nystroem": nystroem,
}
KINDS = RANDOM | {"columns": columns}


def _products(generator: Generator, b: int, degree: int) -> Map:
    rng = generator.rng(b)
    scale, (d, p) = np.sqrt(2 / generator.s), (generator.d, generator.width(b))
    W = [_scaled(rng.standard_normal((d, p)), scale) for _ in range(degree)]
    shifts = rng.standard_normal((degree, p), np.float32) * np.float32(0.7)

    def make(X: Matrix, Z: np.ndarray) -> None:
        write_product(X, W[0], Z)
        Z += shifts[0]
        factor = np.empty_like(Z)
        for w, shift in zip(W[1:], shifts[1:], strict=True):
            write_product(X, w, factor)
            factor += shift
            Z *= factor

    return make


def _waves(generator: Generator, W: np.ndarray, rng: np.random.Generator) -> Map:
    W = _scaled(
        W, np.sqrt(2 / generator.s) / (2 * np.pi)
    )  # phases in turns, not radians
    shift = rng.random(W.shape[1], np.float32)

    def make(X: Matrix, Z: np.ndarray) -> None:
        write_product(X, W, Z)
        cosines(Z, shift)

    return make


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def cosines(Z, shift):
    """Replace the float32 (m, p) `Z` by sqrt(2) cos(2 pi (z + shift)), to within 1e-6.

    This interpolates the cosine at Chebyshev points by a polynomial of the squared
    distance to the nearest whole turn. Vector instructions make it several times as
    fast as a library's cosine.
    """
    c0, c1, c2, c3, c4, c5, c6 = COEFFICIENTS
    for i in range(Z.shape[0]):
        z = Z[i]
        for j in range(np.uint64(z.shape[0])):
            t = z[j] + shift[j]
            t -= np.floor(t + HALF)
            q = t * t
            z[j] = c0 + q * (c1 + q * (c2 + q * (c3 + q * (c4 + q * (c5 + q * c6)))))


def _squared_distances(X: Matrix, C: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return |x - c|^2 of rows and landmarks, in the landmarks' type."""
    if sp.issparse(X):
        # Sparse rows are not centred: that would fill them, and most entries are zero
        # anyway.
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        D = np.asarray(X.astype(C.dtype, copy=False) @ C.T)
    else:
        # Centre in the rows' own type: squares of an offset would swamp the distances.
        X, C = np.asarray(X - centre, C.dtype), C - centre
        squares = np.einsum("ij,ij->i", X, X)
        D = X @ C.T
    D *= -2
    D += squares.astype(C.dtype)[:, None]
    D += np.einsum("ij,ij->i", C, C)
    return np.maximum(D, 0, out=D)


def _scaled(W: np.ndarray, scale: float) -> np.ndarray:
    return np.ascontiguousarray(W * scale, np.float32)
