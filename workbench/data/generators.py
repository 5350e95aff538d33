"""Random features made block by block from a seed: the GEN of stagewise regression.

No block depends on another, and none is stored: a prediction needs a :class:`Generator`, which is
a few numbers and, for kinds that depend on the data, landmarks. Features are of single precision.
For rows like the training rows, waves have a mean square of order one; so have polynomials if the
rows are centred, and more far from zero. Those of a kernel lie in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_positive, check_whole
from workbench.core.names import hint
from workbench.core.problem import Matrix, Problem
from workbench.data.features import sampled_distances
from workbench.kernels.compiled import njit
from workbench.kernels.thin import multiply

Map = Callable[[Matrix, np.ndarray], None]  # rows (m, d), and where their (m, p) features go
HALF = np.float32(0.5)
# sqrt(2) cos(2 pi t) in powers of t^2, |t| <= 1/2
COEFFICIENTS = (1.414213546900218, -27.91545071358391, 91.83778064032919, -120.84474623131669)
COEFFICIENTS += (85.08987970707877, -36.72373104043279, 9.23291691669159)
COEFFICIENTS = tuple(map(np.float32, COEFFICIENTS))
JITTER = 1e-6  # on the diagonal of a kernel matrix of landmarks, which is one: singular otherwise


@dataclass(frozen=True, eq=False)
class Generator:
    """A recipe of `n_features` features of rows with `d` entries, `block` at a time."""

    kind: str  # a name of KINDS
    d: int
    n_features: int
    block: int
    seed: int
    s: float  # the squared distance that the kernel exp(-|x - x'|^2 / s) is scaled by
    # Landmarks of all blocks, one below the other; no rows if there are none.
    anchors: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @property
    def blocks(self) -> int:
        """Number of blocks; the last one may be smaller."""
        return -(-self.n_features // self.block)

    def anchors_shape(self) -> tuple[int, int]:
        """Return the shape of the anchors of a random kind."""
        return (self.n_features, self.d) if self.kind == "nystroem" else (0, 0)

    def part(self, b: int) -> slice:
        """Return where the features of block `b` lie among all."""
        return slice(b * self.block, min((b + 1) * self.block, self.n_features))

    def width(self, b: int) -> int:
        """Return the number of features of block `b`."""
        return self.part(b).stop - self.part(b).start

    def rng(self, b: int) -> np.random.Generator:
        """Return the random numbers of block `b`."""
        return np.random.default_rng([self.seed, b])

    def make(self, b: int) -> Map:
        """Return the function that puts block `b`'s features of (m, d) rows into (m, width) `Z`."""
        return KINDS[self.kind](self, b)

    @cached_property
    def centre(self) -> np.ndarray:
        """The mean of all landmarks, float32: what distances are measured from."""
        return self.anchors.mean(axis=0, dtype=np.float64).astype(np.float32)

    def penalty(self, b: int) -> np.ndarray | None:
        """Return the matrix M of block `b`'s regulariser tr(W'M W); None is the identity."""
        if self.kind != "nystroem":
            return None
        landmarks = self.anchors[self.part(b)].astype(np.float64)
        K = np.exp(-_squared_distances(landmarks, landmarks, self.centre) / self.s)
        K.flat[:: len(K) + 1] += JITTER
        return K


def fitted(
    problem: Problem, kind: str, n_features: int, block: int, bandwidth: float = 1.0, seed: int = 0
) -> Generator:
    """Return the generator of that kind for the training rows of `problem`.

    Parameters
    ----------
    kind : "fourier", sqrt(2) cos(w.x + b) (Rahimi, Recht, 2007); "orthogonal_fourier", the same
        with w orthogonal in groups of d (Yu et al., 2016); "poly2", "poly3", "poly4", the
        product of that many factors w.x + b; "nystroem", the kernel with random training rows as
        landmarks, which repeat if there are too few
    n_features, block : whole numbers of at least 1; a `block` above `n_features` is that many
    bandwidth : positive; the kernel is exp(-|x - x'|^2 / (bandwidth m^2)) with the median distance
        m of training rows that differ, 1 where none do
    seed : a whole number of at least 0, seeds all that is random

    Raises
    ------
    ValueError
        For an unknown kind, or sizes, a bandwidth or a seed out of range.
    """
    if not isinstance(kind, str) or kind not in RANDOM:
        raise ValueError(f"features: unknown name {kind!r}; {hint(str(kind), RANDOM)}")
    check_counts(n_features=n_features, block=block)
    n_features, block = int(n_features), int(min(block, n_features))
    seed = check_whole(seed, "seed", least=0)
    bandwidth = check_positive(bandwidth, "bandwidth")
    distances = sampled_distances(problem, seed)
    distances = distances[distances > 0]
    square = float(np.median(distances)) ** 2 if len(distances) else 1.0
    s = bandwidth * square
    if not 1e-36 < s < 1e36:  # features are of single precision
        raise ValueError(
            f"bandwidth: times the squared median distance of rows, {square:.3g}, must lie between "
            f"1e-36 and 1e36, got {bandwidth:.3g}"
        )
    anchors = np.zeros((0, 0), np.float32)
    if kind == "nystroem":
        rows = np.resize(np.random.default_rng(seed).permutation(problem.n), n_features)
        anchors = problem.X[rows]
        anchors = (anchors.toarray() if sp.issparse(anchors) else anchors).astype(np.float32)
    return Generator(kind, problem.d, n_features, block, seed, s, anchors)


def fourier(generator: Generator, b: int) -> Map:
    """Return sqrt(2) cos(w.x + b), w ~ N(0, 2/s I), b uniform over a period."""
    rng, p = generator.rng(b), generator.width(b)
    return _waves(generator, rng.standard_normal((generator.d, p), np.float32), rng)


def orthogonal_fourier(generator: Generator, b: int) -> Map:
    """Return the same with w orthogonal in groups of d, of the lengths they would have had."""
    rng, p, d = generator.rng(b), generator.width(b), generator.d
    groups = []
    for first in range(0, p, d):
        # Q of a QR factorisation is uniform once its signs are those of R's diagonal.
        Q, R = np.linalg.qr(rng.standard_normal((d, min(d, p - first))))
        lengths = np.sqrt(rng.chisquare(d, Q.shape[1]))
        groups.append(Q * (np.sign(np.diag(R)) * lengths))
    return _waves(generator, np.hstack(groups), rng)


def polynomial(generator: Generator, b: int) -> Map:
    """Return products of as many factors w.x + b as the name ends with, w ~ N(0, 2/s I).

    b is of N(0, 1/2).
    """
    rng, degree = generator.rng(b), int(generator.kind[-1])
    scale, (d, p) = np.sqrt(2 / generator.s), (generator.d, generator.width(b))
    W = [_scaled(rng.standard_normal((d, p)), scale) for _ in range(degree)]
    shifts = rng.standard_normal((degree, p), np.float32) * np.float32(0.7)

    def make(X: Matrix, Z: np.ndarray) -> None:
        multiply(X, W[0], Z)
        Z += shifts[0]
        factor = np.empty_like(Z)
        for w, shift in zip(W[1:], shifts[1:], strict=True):
            multiply(X, w, factor)
            times(Z, factor, shift)

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
    order = generator.anchors[generator.part(b)]
    position = np.full(generator.d, -1, np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)

    def make(X: Matrix, Z: np.ndarray) -> None:
        if sp.issparse(X):
            Z[...] = 0
            gather(X.data, X.indices, X.indptr, position, Z)
        else:
            Z[...] = X[:, order]

    return make


RANDOM: dict[str, Callable[[Generator, int], Map]] = {
    "fourier": fourier,
    "orthogonal_fourier": orthogonal_fourier,
    **dict.fromkeys(("poly2", "poly3", "poly4"), polynomial),
    "nystroem": nystroem,
}
KINDS = RANDOM | {"columns": columns}


def _waves(generator: Generator, W: np.ndarray, rng: np.random.Generator) -> Map:
    # Phases are in turns of the circle, not radians: whole turns fall away.
    W = _scaled(W, np.sqrt(2 / generator.s) / (2 * np.pi))
    shift = rng.random(W.shape[1], np.float32)

    def make(X: Matrix, Z: np.ndarray) -> None:
        multiply(X, W, Z)
        cosines(Z, shift)

    return make


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def cosines(Z, shift):
    """Put sqrt(2) cos(2 pi (z + shift)) into the float32 (m, p) `Z`, in place, to within 1e-6.

    A polynomial of the squared distance to the nearest whole turn, the interpolant at Chebyshev's
    points. It compiles to vector instructions, and is several times as fast as a library's cosine.
    """
    c0, c1, c2, c3, c4, c5, c6 = COEFFICIENTS
    for i in range(Z.shape[0]):
        z = Z[i]
        for j in range(np.uint64(z.shape[0])):
            t = z[j] + shift[j]
            t -= np.floor(t + HALF)
            q = t * t
            z[j] = c0 + q * (c1 + q * (c2 + q * (c3 + q * (c4 + q * (c5 + q * c6)))))


@njit(cache=True, nogil=True)
def gather(data, indices, indptr, position, Z):
    """Put the entries of a CSR matrix into (m, p) `Z`, column c of it into column position[c]."""
    for i in range(Z.shape[0]):
        for q in range(indptr[i], indptr[i + 1]):
            j = position[indices[q]]
            if j >= 0:
                Z[i, j] = data[q]


@njit(cache=True, nogil=True)
def times(Z, factor, shift):
    """Multiply the (m, p) `Z` by factor + shift, in place."""
    for i in range(Z.shape[0]):
        for j in range(np.uint64(Z.shape[1])):
            Z[i, j] *= factor[i, j] + shift[j]


def _squared_distances(X: Matrix, C: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return |x - c|^2 of rows and landmarks, in the landmarks' type."""
    if sp.issparse(X):
        # Not from the centre, which would fill them; most of their entries are zero anyway.
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        D = np.asarray(X.astype(C.dtype, copy=False) @ C.T)
    else:
        # From the centre, in the rows' own type: squares of an offset would drown the distances.
        X, C = np.asarray(X - centre, C.dtype), C - centre
        squares = np.einsum("ij,ij->i", X, X)
        D = X @ C.T
    D *= -2
    D += squares.astype(C.dtype)[:, None]
    D += np.einsum("ij,ij->i", C, C)
    return np.maximum(D, 0, out=D)


def _scaled(W: np.ndarray, scale: float) -> np.ndarray:
    return np.ascontiguousarray(W * scale, np.float32)
