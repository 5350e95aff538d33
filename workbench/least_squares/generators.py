"""Random features, made block by block from a seed: the GEN of stagewise regression.

Blocks do not depend on each other, and none is stored: a prediction needs only a
:class:`Generator`, which consists of a few numbers and, for kernels, landmarks.
Features are float32. On rows like the training rows, waves, logits and polynomials of
centred rows have a mean square of order one; kernel values lie in [0, 1].
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from workbench.core.checks import (
    check_known,
    check_memory,
    check_positive,
    check_whole,
)
from workbench.core.problem import Array, Matrix, Problem
from workbench.data.features import sampled_distances
from workbench.kernels.compiled import njit
from workbench.kernels.rows import write_product
from workbench.least_squares.products import check_size

# A function of (m, d) rows and of an (m, p) array, to which it writes their features.
Map = Callable[[Matrix, Array], None]
HALF = np.float32(0.5)
# sqrt(2) cos(2 pi t) in powers of t^2, |t| <= 1/2
COEFFICIENTS = tuple(
    np.array(
        [
            1.414213546900218,
            -27.91545071358391,
            91.83778064032919,
            -120.84474623131669,
            85.08987970707877,
            -36.72373104043279,
            9.23291691669159,
        ],
        np.float32,
    )
)
# This is added to the diagonal of the landmarks' kernel matrix, which may be singular.
JITTER = 1e-6


@dataclass(frozen=True, eq=False)
class Generator:
    """A recipe for `n_features` features of rows with `d` entries, made in blocks."""

    kind: str  # a name of KINDS
    d: int
    n_features: int
    block: int
    seed: int
    s: float  # the kernel is exp(-|x - x'|^2 / s)
    # The landmarks of all blocks, one below the other; for "columns", their order; else
    # empty.
    anchors: Array = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @property
    def blocks(self) -> int:
        """Number of blocks; the last one may be smaller."""
        return -(-self.n_features // self.block)

    def part(self, b: int) -> slice:
        """Return which of all features are in block `b`."""
        return slice(b * self.block, min((b + 1) * self.block, self.n_features))

    def width(self, b: int) -> int:
        """Return the number of features of block `b`."""
        part = self.part(b)
        return part.stop - part.start

    def own(self, b: int) -> slice | Array:
        """Return the index of the weights of block `b`.

        The weights of "columns" are in the order of X.
        """
        part = self.part(b)
        return self.anchors[part] if self.kind == "columns" else part

    def rng(self, b: int) -> np.random.Generator:
        """Return the random number generator of block `b`."""
        return np.random.default_rng([self.seed, b])

    def make(self, b: int) -> Map:
        """Return the function that writes the features of block `b` to an array."""
        return KINDS[self.kind](self, b)

    @cached_property
    def centre(self) -> Array:
        """The mean of all landmarks (float32), which is the origin for distances."""
        return self.anchors.mean(axis=0, dtype=np.float64).astype(np.float32)

    def penalty(self, b: int) -> Array | None:
        """Return M of block `b`'s regulariser tr(W'M W); None is the identity."""
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
        the same with vectors w that are orthogonal in groups of d (Yu et al., 2016);
        "poly2", "poly3", "poly4", products of 2, 3 or 4 factors w.x + b; "logits", 1 /
        (1 + exp(-u)) of one such factor u; "nystroem", the kernel with random training
        rows as landmarks, some of them repeatedly if there are too few. The paper
        prints neither the variance of logits nor the degree of polynomials (appendix
        A.2.1)
    n_features, block : int >= 1, the numbers of all features and of those in a block; a
        `block` above `n_features` means `n_features`
    bandwidth : float > 0, the width of the kernel exp(-|x - x'|^2 / (bandwidth m^2)),
        where m is the median distance between up to 1,000 random training rows, without
        pairs of equal rows, or 1 if all are equal
    seed : int >= 0, seeds the features

    Raises
    ------
    ValueError
        If an argument is out of its range, or the features do not fit into memory.
    """
    check_known(kind, RANDOM, "features")
    n_features = check_whole(n_features, "n_features")
    block = min(check_whole(block, "block"), n_features)
    check_size(block, "block: its")
    seed = check_whole(seed, "seed", least=0)
    bandwidth = check_positive(bandwidth, "bandwidth")
    kernel = kind == "nystroem"
    stored = n_features if kernel else block
    what = f"{stored} {kind} features of {problem.d} columns, which"
    check_memory(what, 4 * stored * problem.d)
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
    if kernel:
        order = np.random.default_rng(seed).permutation(problem.n)
        landmarks = problem.X[np.resize(order, n_features)]
        if sp.issparse(landmarks):
            landmarks = landmarks.toarray()
        anchors = landmarks.astype(np.float32)
    return Generator(kind, problem.d, n_features, block, seed, s, anchors)


def fourier(generator: Generator, b: int) -> Map:
    """Return sqrt(2) cos(w.x + b), w ~ N(0, 2/s I), b uniform over a period."""
    rng = generator.rng(b)
    shape = generator.d, generator.width(b)
    return _waves(generator, rng.standard_normal(shape, np.float32), rng)


def orthogonal_fourier(generator: Generator, b: int) -> Map:
    """Return features as in :func:`fourier`, with w orthogonal in groups of d."""
    rng = generator.rng(b)
    p = generator.width(b)
    d = generator.d
    groups = []
    for first in range(0, p, d):
        # With the signs of R's diagonal, Q of a QR factorisation is uniform.
        Q, R = np.linalg.qr(rng.standard_normal((d, min(d, p - first))))
        lengths = np.sqrt(rng.chisquare(d, Q.shape[1]))
        groups.append(Q * (np.sign(np.diag(R)) * lengths))
    return _waves(generator, np.hstack(groups), rng)


def polynomial(generator: Generator, b: int) -> Map:
    """Return products of 2, 3 or 4 factors w.x + b, w ~ N(0, 2/s I), b ~ N(0, 0.49)."""
    return _products(generator, b, int(generator.kind[-1]))


def logits(generator: Generator, b: int) -> Map:
    """Return 1 / (1 + exp(-u)) of the factors u in :func:`polynomial`."""
    factors = _products(generator, b, 1)

    def make(X: Matrix, Z: Array) -> None:
        factors(X, Z)
        expit(Z, out=Z)

    return make


def nystroem(generator: Generator, b: int) -> Map:
    """Return the kernel exp(-|x - c|^2 / s) with the landmarks c of the block."""
    landmarks = generator.anchors[generator.part(b)]
    scale = np.float32(1 / generator.s)

    def make(X: Matrix, Z: Array) -> None:
        Z[...] = _squared_distances(X, landmarks, generator.centre)
        Z *= -scale
        np.exp(Z, out=Z)

    return make


def columns(generator: Generator, b: int) -> Map:
    """Return columns of the rows themselves, in the order of ``anchors``."""
    order = generator.own(b)

    def make(X: Matrix, Z: Array) -> None:
        Z[...] = X[:, order].toarray() if sp.issparse(X) else X[:, order]

    return make


RANDOM: dict[str, Callable[[Generator, int], Map]] = {
    "fourier": fourier,
    "orthogonal_fourier": orthogonal_fourier,
    "poly2": polynomial,
    "poly3": polynomial,
    "poly4": polynomial,
    "logits": logits,
    "nystroem": nystroem,
}
KINDS = RANDOM | {"columns": columns}


def _products(generator: Generator, b: int, degree: int) -> Map:
    rng = generator.rng(b)
    d = generator.d
    p = generator.width(b)
    scale = np.sqrt(2 / generator.s)
    W = [(rng.standard_normal((d, p)) * scale).astype("f4") for _ in range(degree)]
    shifts = rng.standard_normal((degree, p), np.float32) * np.float32(0.7)

    def make(X: Matrix, Z: Array) -> None:
        write_product(X, W[0], Z)
        Z += shifts[0]
        factor = np.empty_like(Z)
        for w, shift in zip(W[1:], shifts[1:], strict=True):
            write_product(X, w, factor)
            factor += shift
            Z *= factor

    return make


def _waves(generator: Generator, W: Array, rng: np.random.Generator) -> Map:
    turns = np.sqrt(2 / generator.s) / (2 * np.pi)  # W is in turns, not radians
    W = np.ascontiguousarray(W * turns, np.float32)
    shift = rng.random(W.shape[1], np.float32)

    def make(X: Matrix, Z: Array) -> None:
        write_product(X, W, Z)
        cosines(Z, shift)

    return make


@njit(nogil=True, fastmath=True, error_model="numpy")
def cosines(Z, shift):
    """Replace the float32 (m, p) `Z` by sqrt(2) cos(2 pi (z + shift)), to within 1e-6.

    A polynomial in the squared distance to the nearest whole turn interpolates the
    cosine at Chebyshev points. With vector instructions it is several times as fast as
    a library's cosine.
    """
    c0, c1, c2, c3, c4, c5, c6 = COEFFICIENTS
    for i in range(Z.shape[0]):
        z = Z[i]
        for j in range(np.uint64(z.shape[0])):
            t = z[j] + shift[j]
            t -= np.floor(t + HALF)
            q = t * t
            z[j] = c0 + q * (c1 + q * (c2 + q * (c3 + q * (c4 + q * (c5 + q * c6)))))


def _squared_distances(X: Matrix, C: Array, centre: Array) -> Array:
    """Return |x - c|^2 for all rows and landmarks, in the type of the landmarks."""
    if sp.issparse(X):
        # Sparse rows are not centred, which would make them dense.
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        D = np.asarray(X.astype(C.dtype, copy=False) @ C.T)
    else:
        # Rows are centred in their own type, because the squares of a common offset
        # would be much larger than the distances.
        X = np.asarray(X - centre, C.dtype)
        C = C - centre
        squares = np.einsum("ij,ij->i", X, X)
        D = X @ C.T
    D *= -2
    D += squares.astype(C.dtype)[:, None]
    D += np.einsum("ij,ij->i", C, C)
    return np.maximum(D, 0, out=D)
