"""SimpleLSH: random hyperplanes, after a transform that turns inner products into
cosines.

A weight vector w becomes (w/M, sqrt(1 - |w/M|^2)) and a row x becomes (x/|x|, 0), both
of length 1, where M is the largest norm of any class's weights. A bit is the side of a
random hyperplane on which a vector lies, so a bit of w and of x agrees with probability
1 - arccos(x.w / (M |x|)) / pi. The classes nearest in Hamming distance are found by
comparing the bits of all classes.

References
----------
Neyshabur, Srebro: On symmetric and asymmetric LSHs for inner product search. ICML 2015.
"""

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_memory, check_whole
from workbench.core.problem import Array, Matrix
from workbench.kernels.compiled import njit
from workbench.kernels.rows import rows_of
from workbench.memoir.mips.oracle import Oracle, parts


def collision_probability(cosine):
    """Return the probability that one bit of two vectors agrees, given their cosine or
    an array of cosines.

    The paper's (9) prints cos instead of arccos.
    """
    return 1 - np.arccos(np.clip(cosine, -1, 1)) / np.pi


def hash_exponent(c, S):
    """Return rho(c, S) = log p1 / log p2 of (9); a search takes about n^rho hashes.

    p1 and p2 are the probabilities that a bit agrees for the inner products S and c S
    of a vector of length 1 and one of length at most 1, with 0 < c < 1 and 0 < S < 1.
    The paper's "log p1/p2" stands for this quotient.
    """
    return np.log(collision_probability(S)) / np.log(collision_probability(c * S))


class SimpleLSH(Oracle):
    """Approximate search for the class whose bits are nearest to the row's.

    If several classes have the same distance, the first one is returned. Weights are
    divided by the largest norm of the weights of any class, as the theory requires. The
    code of MEMOIR's authors does not divide them. Then all hashes of short weights are
    nearly the same, and longer weights lose their last coordinate.

    Parameters
    ----------
    k, d : int, the numbers of classes and of features
    seed : int or random number generator, for the hyperplanes, which are drawn once
    bits : int >= 1, the number of bits of a hash; the hyperplanes take 4 (d + 1) `bits`
        bytes
    rerank : None, or int >= 1, the number of nearest classes among which exact inner
        products decide

    Raises
    ------
    ValueError
        If `bits` or `rerank` is not a positive whole number, or the hyperplanes are too
        large.
    """

    def __init__(
        self, k: int, d: int, seed=0, *, bits: int = 64, rerank: int | None = None
    ):
        super().__init__(k, d, seed)
        self.bits = check_whole(bits, "bits")
        what = f"hyperplanes of {d} features and {bits} bits, which"
        check_memory(what, 4 * bits * (d + 1))
        self.rerank = None if rerank is None else check_whole(rerank, "rerank")
        shape = self.d + 1, self.bits
        self.planes = self.rng.standard_normal(shape, dtype=np.float32)

    def _build(self, W: Matrix) -> None:
        self.codes = np.ascontiguousarray(self.hash_weights(W).T)
        if self.rerank is not None:
            self.classes = rows_of(sp.csr_array(W.T))

    def _find(self, X: Matrix, rows: Array, y: Array) -> Array:
        answers = np.empty(len(rows), np.int32)
        width = 4 * self.k
        if not sp.issparse(X):
            width = max(width, self.d)
        for part in parts(len(rows), width):
            Z = X[rows[part]]
            distances = np.zeros((Z.shape[0], self.k), np.uint32)
            for words, codes in zip(self.hash_rows(Z).T, self.codes, strict=True):
                distances += np.bitwise_count(words[:, None] ^ codes)
            distances[np.arange(len(distances)), y[part]] = np.iinfo(np.uint32).max
            answers[part] = distances.argmin(axis=1)
            if self.rerank is not None:
                order = np.argsort(distances, axis=1, kind="stable")
                nearest = np.sort(order[:, : min(self.rerank, self.k - 1)], axis=1)
                rows_of_part = rows_of(sp.csr_array(Z))
                _rerank(rows_of_part, self.classes, nearest, self.d, answers[part])
        return answers

    def hash_weights(self, W: Matrix) -> Array:
        """Return (C, ceil(bits / 64)) uint64, the packed bits of the classes of `W`."""
        if sp.issparse(W):
            squares = np.bincount(W.indices, W.data.astype(np.float64) ** 2, self.k)
        else:
            squares = np.einsum("fc,fc->c", W, W, dtype=np.float64)
        norms = np.sqrt(squares)
        longest = norms.max() if norms.max() > 0 else 1.0
        last = np.sqrt(np.maximum(0, 1 - (norms / longest) ** 2))
        # The last entry is in units of `longest`, so that the large array is not
        # divided.
        sides = W.T @ self.planes[:-1] + np.outer(last * longest, self.planes[-1])
        return _pack(sides > 0)

    def hash_rows(self, X: Matrix) -> Array:
        """Return the packed bits of rows; they do not depend on the lengths of rows."""
        return _pack(X @ self.planes[:-1] > 0)


def _pack(sides: Array) -> Array:
    """Return (n, bits) booleans as (n, words) uint64, padded with zeros."""
    sides = np.pad(sides, ((0, 0), (0, -sides.shape[1] % 64)))
    return np.packbits(sides, axis=1).view(np.uint64)


@njit
def _rerank(rows, classes, nearest, d, answers):
    """Write each row's first candidate with the largest inner product to `answers`."""
    x = np.zeros(d, classes.data.dtype)
    one = np.uint64(1)
    for j in range(np.uint64(len(nearest))):
        start = rows.starts[j]
        end = rows.starts[j + one]
        for p in range(start, end):
            x[rows.indices[p]] = rows.data[p]
        best = -np.inf
        for c in nearest[j].astype(np.uint64):
            score = x.dtype.type(0)
            for q in range(classes.starts[c], classes.starts[c + one]):
                score += classes.data[q] * x[classes.indices[q]]
            if score > best:
                best = score
                answers[j] = c
        for p in range(start, end):
            x[rows.indices[p]] = 0
