"""Verify a proof: an interval that certainly holds the optimum of a training problem.

A proof is a file with a stated problem, a primal and a dual point. Nothing in it is believed: both
points are evaluated here, with every rounding bounded, so any finite points give valid bounds. This
file needs NumPy and SciPy only, and runs by itself: ``python checker.py PROOF ROWS``.

The problem, with N = 1 ("sum") or n ("mean") and the cost c_i of row i's class, is to minimise

    P(W) = 1/N sum_i c_i loss(W'x_i + b, y_i) + alpha/2 |W|^2 + l1 |W|_1

where the intercept b is zero, free, or the weight of a constant column s of X. Weak duality is

    P(W) >= D(A) = gain(A)/N - |soft(X'A, N l1)|^2 / (2 alpha N^2)

for all A with sum_i c_i loss_i(F) >= gain(A) - <A, F> at all scores F. With s_ic = 1 for the own
class and -1 for others, and margins s F:

    hinge            sum_c (1 - sF_c)_+               0 <= a <= c_i      A = s a         sum a
    squared_hinge    sum_c (1 - sF_c)_+^2             a = c_i h >= 0     s a             c_i (h - h^2/4)
    logistic         sum_c log(1 + exp(-sF_c))        a = c_i p          s a             c_i H2(p)
    crammer_singer   max_c (F_c + [c != y]) - F_y     sum_c B_c <= c_i   e_y sum B - B   sum B
    weston_watkins   sum_{c != y} (1 + F_c - F_y)_+   0 <= B_c <= c_i    e_y sum B - B   sum B
    softmax          log sum_c exp(F_c) - F_y         p, sum_c p_c = 1   c_i (e_y - p)   c_i H(p)
    squared          |F - e_y|^2 / 2                  r                  c_i r           c_i (r_y - r^2/2)

One output of two classes is class 1 against class 0.
The dual point of a smooth loss is made from W's scores; where W is left out, it is made from A.
With a kernel, |X'A|^2 is <A, K A>, W has coefficients of basis rows, and a penalised intercept s
adds s^2 to the kernel.

The minimax risk problem over M, with the mean tau and lam = lambda0 * standard deviation of
Phi(x, y) = e_y (x, 1) and psi(v) = max over subsets C of (sum_C v - 1) / |C|, is

    R = min 1 - <tau, M> + <lam, |M|> + max_i psi(M (x_i, 1)) >= (1 - sum_i max_y p_iy) / rho

for all distributions p, rho = max(1, |E_p Phi - tau| / lam). Components of Phi that are zero in
all rows of their class are left out.

Rounding: u = 2^-53 and g(m) = 2mu. Inner products are bounded a priori for any order of summation;
exp, log and log1p are assumed to be right to 32 units in the last place. Radii are doubled, which
covers their own rounding; TINY covers underflow. Sums over rows are `math.fsum`, scalars Fractions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import sys
import time
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

BLOCK = 1024  # rows at a time
MAX_FILE_BYTES = 2**28
MAX_HEADER_BYTES = 2**20
TINY = 2.0**-900  # more than all underflow in one sum
NORM_FLOOR = 2.0**-480  # more than a norm loses where squares underflow
ONE_VS_REST = "hinge", "squared_hinge", "logistic"
STORED = "hinge", "crammer_singer", "weston_watkins"  # losses whose dual point is in the file
LOSSES = {
    "hinge": "one-vs-rest SVM",
    "squared_hinge": "one-vs-rest SVM with squared hinge",
    "logistic": "one-vs-rest logistic regression",
    "crammer_singer": "Crammer-Singer SVM",
    "weston_watkins": "Weston-Watkins SVM",
    "softmax": "softmax regression",
    "squared": "least squares",
}
DUAL = {"rows": "iu", "ends": "iu", "columns": "iu", "values": "f"}
ARRAYS = {"header": "u", "W": "f", "b": "f", "basis": "iu", "M": "f"} | DUAL  # and their kinds
FIELDS = {  # of the header, by family, next to what all have
    "linear": {"loss", "over", "C", "alpha", "l1", "intercept"},
    "kernel": {"loss", "over", "C", "alpha", "l1", "intercept", "kernel"},
    "mrc": {"lambda0"},
}
COMMON = {"format", "family", "outputs", "checksum", "recipe", "text"}
ARRAY_HEADER = re.compile(
    rb"\{'descr': '([<>|][fiu][1248])', 'fortran_order': (True|False), "
    rb"'shape': \((\d{1,18})?,? ?(\d{1,18})?\), \} *\n"
)


class ProofError(ValueError):
    """A file that is no proof, or no proof about these rows; the message says why."""


class Verdict(NamedTuple):
    """An interval that certainly holds the optimum.

    Attributes
    ----------
    lower, upper : float
    gap : (upper - lower) / lower, infinite if `lower` is 0
    statement : the problem, its rows and the interval in words, two lines
    """

    lower: float
    upper: float
    gap: float
    statement: str


@dataclass(frozen=True, eq=False)
class Proof:
    """A stated problem and points that are to prove its optimum; nothing is checked against rows.

    Attributes
    ----------
    header : dict of the fields of its family, each checked by itself
    arrays : dict of name to array, as in the file
    """

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        check_header(self.header)
        for name, array in self.arrays.items():
            require(name in ARRAYS, f"there is no array {shown(name)} in a proof")
            require(array.dtype.kind in ARRAYS[name], f"{name}: has the type {array.dtype}")
            require(array.dtype.kind != "f" or np.isfinite(array).all(), f"{name}: is not finite")


def require(condition: object, message: str) -> None:
    if not condition:
        raise ProofError(message)


def shown(value: object) -> str:
    """Return a value from the file as a short, printable text."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def read(path: str | os.PathLike) -> Proof:
    """Read a proof; memory stays below the file's size, and nothing in it can be executed.

    Raises
    ------
    ProofError
        If the file is not a proof of this format, or is larger than 256 MiB.
    """
    require(os.path.isfile(path), f"{path}: there is no such file")
    size = os.path.getsize(path)
    require(size <= MAX_FILE_BYTES, f"{path}: has {size} bytes, more than any proof")
    try:
        arrays = read_arrays(path, size)
        header = arrays.pop("header")
        require(header.dtype == np.uint8 and header.size <= MAX_HEADER_BYTES, "header: too large")
        fields = json.loads(header.tobytes().decode(), object_pairs_hook=unique)
        return Proof(fields, arrays)
    except ProofError as error:
        raise ProofError(f"{path}: {error}") from None
    except Exception as error:  # zipfile and json raise a dozen kinds for damaged files
        reason = shown(str(error) or type(error).__name__)
        raise ProofError(f"{path}: is not a proof, or is damaged ({reason})") from None


def read_arrays(path: str | os.PathLike, size: int) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file by name; the format is parsed here, without `eval`."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        require(len(members) <= 16, f"holds {len(members)} arrays, a proof has at most 16")
        require(sum(m.file_size for m in members) <= size, "its members are larger than the file")
        for member in members:
            name = member.filename.removesuffix(".npy")
            require(name in ARRAYS and name not in arrays, f"has a member {shown(member.filename)}")
            require(member.compress_type == zipfile.ZIP_STORED, f"{name}: is compressed")
            data = archive.read(member)
            require(data[:8] == b"\x93NUMPY\x01\x00", f"{name}: is not an array")
            start = 10 + int.from_bytes(data[8:10], "little")
            found = ARRAY_HEADER.fullmatch(data[10:start])
            require(found, f"{name}: is not an array of one or two dimensions of numbers")
            shape = tuple(int(length) for length in found.group(3, 4) if length)
            dtype = np.dtype(found[1].decode())
            expected = math.prod(shape) * dtype.itemsize
            require(len(data) - start == expected, f"{name}: its shape does not fit its size")
            order = "F" if found[2] == b"True" else "C"
            array = np.frombuffer(data, dtype, offset=start).reshape(shape, order=order)
            arrays[name] = array.astype(dtype.newbyteorder("="))
    require("header" in arrays, "has no header")
    return arrays


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, refusing names that appear twice."""
    fields = dict(pairs)
    require(len(fields) == len(pairs), "header: a name appears twice")
    return fields


def is_number(value: object, positive: bool = False) -> bool:
    """Return whether a value from the header is a non-negative or positive double."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (
        (0 < value or (value == 0 and not positive))
        and value <= sys.float_info.max
        and (float(value) == value)
    )


def check_header(header: dict[str, Any]) -> None:
    """Raise a ProofError unless every field has a value that is known here."""
    require(isinstance(header, dict), "header: is not an object")
    h = {name: value for name, value in header.items() if value is not None}
    require(h.get("format") == 1, f"format {shown(h.get('format'))}: only format 1 is known")
    family = h.get("family")
    require(isinstance(family, str) and family in FIELDS, f"family {shown(family)}: is not known")
    unknown = sorted(h.keys() - COMMON - FIELDS[family])
    require(not unknown, f"header: the family {family} has no {shown(unknown)}")
    K = h.get("outputs")
    require(type(K) is int and 1 <= K <= 2**31, f"outputs: {shown(K)} is not a number of outputs")
    known = isinstance(h.get("checksum"), str) and re.fullmatch("[0-9a-f]{64}", h["checksum"])
    require(known, f"checksum: {shown(h.get('checksum'))} is not a SHA-256")
    if family == "mrc":
        good = is_number(h.get("lambda0"), positive=True)
        require(good, f"lambda0: {shown(h.get('lambda0'))} is not a positive number")
        return
    loss, C = h.get("loss"), h.get("C")
    require(isinstance(loss, str) and loss in LOSSES, f"loss: {shown(loss)} is not known")
    require(h.get("over") in ("sum", "mean"), f"over: {shown(h.get('over'))} is not sum or mean")
    costs = C if isinstance(C, list) else [C]
    good = costs and all(is_number(c, positive=True) for c in costs)
    require(good, f"C: {shown(C)} is not a positive number, or one per class")
    for name in ("alpha", "l1"):
        require(is_number(h.get(name, 0.0)), f"{name}: {shown(h[name])} is not a number >= 0")
    require(h.get("alpha", 0) > 0 or h.get("l1", 0) > 0, "alpha, l1: one of them must be positive")
    s = h.get("intercept")
    good = s is None or s == "free" or is_number(s, positive=True)
    require(good, f"intercept: {shown(s)} is not free, null or a positive number")
    if family == "kernel":
        require(h.get("alpha", 0) > 0 and not h.get("l1"), "kernel: needs alpha > 0 and l1 = 0")
        kernel = h.get("kernel")
        require(isinstance(kernel, dict), f"kernel: {shown(kernel)} is not an object")
        known = {"linear": set(), "rbf": {"gamma"}, "poly": {"gamma", "degree", "coef0"}}
        name = kernel.get("name")
        require(isinstance(name, str) and name in known, f"kernel: {shown(name)} is not known")
        given = {key for key, value in kernel.items() if value is not None}
        require(given == known[name] | {"name"}, f"kernel: {name} has {sorted(known[name])}")
        good = is_number(kernel.get("gamma", 1), positive=True) and is_number(
            kernel.get("coef0", 0)
        )
        degree = kernel.get("degree", 1)
        good = good and type(degree) is int and 1 <= degree <= 64
        require(good, f"kernel: {shown(kernel)} has a parameter out of range")


class Rows:
    """Training rows and labels 0..k-1, checked.

    Attributes
    ----------
    X : (n, d) float32 or float64 array, or canonical CSR array
    y : (n,) int64
    counts : (k,) rows of each class
    longest : the most entries in a row
    norms : (n,) lengths of the rows, not rounded down
    """

    def __init__(self, X, y) -> None:
        if sp.issparse(X):
            X = sp.csr_array(X)
            X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
            X.check_format(full_check=True)  # no index may lead out of the array
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
        else:
            X = np.asarray(X)
        y = np.asarray(y)
        require(
            X.ndim == 2 and min(X.shape) > 0, f"X: has the shape {X.shape}, not rows x features"
        )
        require(X.dtype.kind in "fiub", f"X: has the type {X.dtype}, not real numbers")
        self.X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
        self.n, self.d = X.shape
        require(y.shape == (self.n,), f"y: has the shape {y.shape}, X has {self.n} rows")
        require(y.dtype.kind in "iu" and y.min() >= 0, "y: labels must be the integers 0..k-1")
        require(y.max() < self.n, f"y: label {y.max()}, but only {self.n} rows")
        self.y = y.astype(np.int64)
        self.counts = np.bincount(self.y)
        self.k = len(self.counts)
        require(
            self.k >= 2 and self.counts.min() > 0, "y: each of at least two classes needs a row"
        )
        self.longest = int(np.diff(X.indptr).max()) if sp.issparse(X) else self.d
        self.norms = np.concatenate([lengths(self.block(rows)) for rows in blocks(self.n)])
        require(np.isfinite(self.norms).all(), "X: holds values whose squares are not finite")

    def block(self, rows: slice | np.ndarray, constant: float = 0.0):
        """Return some rows in double precision, with a constant column unless it is zero."""
        X = self.X[rows].astype(np.float64)
        if not constant:
            return X
        column = np.full((X.shape[0], 1), constant)
        return sp.hstack([X, column], format="csr") if sp.issparse(X) else np.hstack([X, column])


def blocks(n: int) -> list[slice]:
    return [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]


def squares(X) -> np.ndarray:
    """Return the squared lengths of rows."""
    return X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def lengths(X) -> np.ndarray:
    return np.sqrt(squares(X)) + NORM_FLOOR


def checksum(X, y) -> str:
    """Return the full SHA-256 of rows (an array or a SciPy sparse matrix) and labels 0..k-1."""
    return digest(Rows(X, y))


def digest(rows: Rows) -> str:
    X = rows.X
    kind = "csr" if sp.issparse(X) else "dense"
    sha = hashlib.sha256(f"{kind} {X.dtype.name} {rows.n} {rows.d}\n".encode())
    values = np.dtype(X.dtype).newbyteorder("<")
    if sp.issparse(X):
        for part, dtype in ((X.indptr, "<i8"), (X.indices, "<i8"), (X.data, values)):
            sha.update(np.ascontiguousarray(part, dtype))
    else:
        for part in blocks(rows.n):
            sha.update(np.ascontiguousarray(X[part], values))
    sha.update(np.ascontiguousarray(rows.y, "<i8"))
    return sha.hexdigest()


def g(terms: float) -> float:
    """Return 2 m u, a bound of the relative error of `terms` roundings."""
    return terms * 2.0**-52


def fsum(parts: list[np.ndarray]) -> float:
    """Return the sum of arrays of numbers, rounded once."""
    return math.fsum(np.concatenate(parts).tolist()) if parts else 0.0


def summed(parts: list[np.ndarray], terms: float, side: int) -> Fraction:
    """Return an upper (side 1) or lower (-1) bound of a sum of values >= 0.

    Each value has a relative error of at most g(terms).
    """
    total = Fraction(fsum(parts)) * (1 + side * Fraction(g(terms + 4))) + side * Fraction(TINY)
    return max(Fraction(0), total)


def root(value: Fraction) -> Fraction:
    """Return the square root, rounded up."""
    return Fraction(math.sqrt(value)) * (1 + Fraction(g(8))) + Fraction(TINY)


class Linear:
    """Scores and norms of weights on the columns of X, and on a constant column unless it is 0.

    `scores` and `dual` return radii that are still to be doubled where they are not Fractions.
    """

    def __init__(
        self, rows: Rows, constant: float, alpha: float = 1.0, l1: float = 0.0, N: int = 1
    ):
        self.rows, self.constant, self.alpha, self.l1, self.N = rows, constant, alpha, l1, N
        self.norms = np.hypot(rows.norms, constant)
        self.terms = rows.longest + 1

    def scores(self, rows: slice, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        F = self.rows.block(rows, self.constant) @ W
        return F, g(self.terms + 10) * np.outer(self.norms[rows], lengths(W.T))

    def penalty(self, W: np.ndarray, side: int) -> Fraction:
        K = W.shape[1]
        l1 = Fraction(self.l1) * summed([np.abs(W).sum(axis=1)], K, side)
        return Fraction(self.alpha) / 2 * summed([(W * W).sum(axis=1)], K, side) + l1

    def dual(self, points) -> tuple[Fraction, Fraction, np.ndarray]:
        """Return |soft(X'A, N l1)| and max |X'A|, rounded up, and soft(X'A, N l1) / (alpha N).

        Parameters
        ----------
        points : of (rows, A, slack): A has errors of g(K + 16) (|A_i| + slack_i)
        """
        V, count, size, K = np.zeros((1, 1)), 0, 0.0, 1
        for rows, A, slack in points:
            V = V + self.rows.block(rows, self.constant).T @ A
            size += float(self.norms[rows] @ (lengths(A) + slack[:, 0]))
            count, K = count + 1, A.shape[1]
        radius = Fraction(2 * g(BLOCK + count + K + 16) * size) + Fraction(TINY)
        peak = Fraction(float(np.abs(V).max())) + radius
        S = np.sign(V) * np.maximum(np.abs(V) - self.N * self.l1 * (1 - g(4)), 0)
        norm = root(summed([squares(S)], K, 1)) + radius
        return norm, peak, S / (self.alpha * self.N) if self.alpha else S


class Kernel:
    """The same in the feature space of a kernel: weights are coefficients of the rows `basis`."""

    l1 = 0.0

    def __init__(self, rows: Rows, constant: float, alpha: float, N: int, kernel: dict[str, Any]):
        self.rows, self.constant, self.alpha, self.N = rows, constant, alpha, N
        self.name, self.gamma = kernel["name"], float(kernel.get("gamma") or 1.0)
        self.degree, self.coef0 = kernel.get("degree") or 1, float(kernel.get("coef0") or 0.0)
        self.basis = np.zeros(0, np.int64)
        self.centre = 0.0
        if self.name == "rbf" and not sp.issparse(rows.X):  # distances then lose fewer digits
            self.centre = sum(rows.block(part).sum(axis=0) for part in blocks(rows.n)) / rows.n
        self.squares = np.concatenate([squares(self.block(part)) for part in blocks(rows.n)])
        top, m = float(self.squares.max()), rows.longest
        if self.name == "rbf":
            self.top, self.off = 1.0, self.gamma * 32 * g(m + 16) * top + g(32)
        else:
            self.top = (self.gamma * top + self.coef0) ** self.degree
            self.off = 2 * g(self.degree * (m + 8)) * self.top
        self.top += constant**2  # the largest entry, and the largest error of one
        self.off += g(2) * self.top + TINY
        self.norms = np.full(rows.n, math.sqrt(self.top))

    def block(self, rows):
        X = self.rows.block(rows)
        return X if isinstance(self.centre, float) else X - self.centre

    def product(self, left, right: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Return K[left, right] @ A, a tile of the kernel matrix at a time."""
        X, total = self.block(left), 0.0
        for part in blocks(len(right)):
            G = X @ self.block(right[part]).T
            G = G.toarray() if sp.issparse(G) else G
            if self.name == "rbf":
                distances = self.squares[left][:, None] + self.squares[right[part]] - 2 * G
                G = np.exp(-self.gamma * np.maximum(distances, 0))
            elif self.name == "poly":
                base = self.gamma * G + self.coef0
                G = base
                for _ in range(self.degree - 1):
                    G = G * base
            total = total + (G + self.constant**2) @ A[part]
        return total

    def error(self, m: int, more: int) -> float:
        """Return the error of a sum of m kernel entries, in units of the weights' sum."""
        return self.off + g(BLOCK + m / BLOCK + more + 16) * self.top

    def square(self, basis: np.ndarray, A: np.ndarray, sizes: np.ndarray, side: int) -> Fraction:
        """Return a bound of <A, K A>; `sizes` are the columns' sums of |A|, and more."""
        values = [(A[p] * self.product(basis[p], basis, A)).sum(axis=1) for p in blocks(len(basis))]
        radius = 2 * self.error(len(basis), A.shape[1]) * float(sizes @ sizes) + TINY
        return max(Fraction(0), Fraction(fsum(values)) + side * Fraction(radius))

    def scores(self, rows: slice, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        F = np.zeros((rows.stop - rows.start, W.shape[1])) + self.product(rows, self.basis, W)
        radius = self.error(len(self.basis), 0) * np.abs(W).sum(axis=0)
        return F, np.broadcast_to(radius, F.shape)

    def penalty(self, W: np.ndarray, side: int) -> Fraction:
        square = self.square(self.basis, W, np.abs(W).sum(axis=0), side)
        return Fraction(self.alpha) / 2 * square

    def dual(self, points) -> tuple[Fraction, Fraction, np.ndarray]:
        parts = [(np.arange(self.rows.n)[rows], A, np.abs(A) + slack) for rows, A, slack in points]
        basis, A, sizes = (np.concatenate(part) for part in zip(*parts))
        norm = root(self.square(basis, A, sizes.sum(axis=0), 1))
        if not len(self.basis):
            self.basis = basis
        return norm, norm, A / (self.alpha * self.N)


class RegularisedRisk:
    """The problem of the families linear and kernel, for these rows."""

    def __init__(self, proof: Proof, rows: Rows) -> None:
        h, self.rows, self.arrays = proof.header, rows, proof.arrays
        self.loss, self.K, self.N = h["loss"], h["outputs"], rows.n if h["over"] == "mean" else 1
        single = self.K == 1 and rows.k == 2 and self.loss in (*ONE_VS_REST, "squared")
        require(
            self.K == rows.k or single, f"outputs: {self.K}, but the rows have {rows.k} classes"
        )
        self.classes = np.arange(rows.k) if self.K > 1 else np.array([1])
        C = h["C"] if isinstance(h["C"], list) else [h["C"]] * rows.k
        require(len(C) == rows.k, f"C: has {len(C)} costs, but the rows have {rows.k} classes")
        self.class_costs = np.array(C, dtype=np.float64)
        self.costs = self.class_costs[rows.y]
        self.alpha, self.l1 = float(h.get("alpha") or 0), float(h.get("l1") or 0)
        self.intercept = h.get("intercept")
        self.free = self.intercept == "free"
        constant = 0.0 if self.free or self.intercept is None else float(self.intercept)
        own = {"W", "b"} | (set() if self.smooth else DUAL.keys())
        if h["family"] == "kernel":
            own = own | {"basis"}
            self.space = Kernel(rows, constant, self.alpha, self.N, h["kernel"])
        else:
            self.space = Linear(rows, constant, self.alpha, self.l1, self.N)
        for name in self.arrays:
            require(name in own, f"{name}: is not part of such a proof")
        self.W, self.b = self.weights(h["family"] == "kernel")

    @property
    def smooth(self) -> bool:
        return self.loss not in STORED

    def weights(self, kernel: bool) -> tuple[np.ndarray | None, np.ndarray]:
        """Return W, with the penalised intercept as its last row, and the free intercept."""
        W, b = (None if a is None else a.astype(np.float64) for a in map(self.arrays.get, "Wb"))
        zero = np.zeros(self.K)
        length = self.rows.d
        if kernel:
            basis = self.arrays.get("basis")
            require((basis is None) == (W is None), "W, basis: give both or neither")
            if basis is not None:
                self.space.basis = increasing(basis, self.rows.n, "basis")
                length = len(basis)
        require(W is None or W.shape == (length, self.K), f"W: is not of shape {(length, self.K)}")
        require(b is None or b.shape == (self.K,), f"b: is not of shape {(self.K,)}")
        if self.free:
            return W, zero if b is None else b
        column = self.intercept is not None and not kernel and W is not None
        require(b is None or column, "b: there is no intercept with weights of its own here")
        return (np.vstack([W, zero if b is None else b]) if column else W), zero

    def own(self, rows) -> np.ndarray:
        """Return where an output is that of the row's class, (rows, K) bool."""
        return self.rows.y[rows][:, None] == self.classes

    def primal(self, W: np.ndarray, side: int) -> Fraction:
        """Return an upper (side 1) or lower (-1) bound of P(W)."""
        losses = []
        for rows in blocks(self.rows.n):
            F, radius = self.space.scores(rows, W)
            radius = 2 * (radius + g(10) * (np.abs(self.b) + 1)) + TINY
            losses.append(
                self.costs[rows] * self.loss_of(F + self.b, self.own(rows), side * radius)
            )
        total = summed(losses, 2 * self.K + 256, side) / self.N
        return total + self.space.penalty(W, side)

    def loss_of(self, F: np.ndarray, own: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Return the losses of rows where every margin is worse by its `shift`."""
        if self.loss == "squared":
            return (np.maximum(np.abs(F - own) + shift, 0) ** 2 / 2).sum(axis=1)
        if self.loss in ONE_VS_REST:
            z = np.where(own, -F, F) + shift
        else:
            z = F - F[own][:, None] + (shift + shift[own][:, None])
            z[own] = -1.0 if self.loss != "softmax" else 0.0
        hinge = np.maximum(1 + z, 0)
        if self.loss in ("hinge", "weston_watkins"):
            return hinge.sum(axis=1)
        if self.loss == "crammer_singer":
            return hinge.max(axis=1)
        if self.loss == "squared_hinge":
            return (hinge**2).sum(axis=1)
        if self.loss == "logistic":
            return (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))).sum(axis=1)
        first, others = np.arange(len(z)), z.argmax(axis=1)
        top = z[first, others]
        z[first, others] = -np.inf
        return top + np.log1p(np.exp(z - top[:, None]).sum(axis=1))

    def dual(self) -> tuple[Fraction, np.ndarray]:
        """Return a lower bound of the optimum, and W, made of A if the proof has none."""
        gains, sizes, sums, inside = [], [], [], 0.0

        def points():
            nonlocal inside
            for rows, A, slack, gain, size in (
                self.smooth_points() if self.smooth else self.stored()
            ):
                gains.append(gain)
                sizes.append(size)
                if self.free:
                    sums.append([math.fsum(column) for column in A.T.tolist()])
                    inside += (np.abs(A) + slack).sum(axis=0)
                yield rows, A, slack

        norm, peak, W = self.space.dual(points())
        lost = Fraction(g(2 * self.K + 256)) * Fraction(fsum(sizes)) + Fraction(TINY)
        gain = max(Fraction(0), Fraction(fsum(gains)) - lost)
        if self.free:
            exact = self.loss == "hinge"
            rest = np.abs([math.fsum(column) for column in zip(*sums)])
            rest = rest * (1 + g(4)) + (0.0 if exact else 2 * g(self.K + 16) * inside) + TINY
            least = float((self.class_costs * self.rows.counts).min())
            share = min(1.0, 4 * float(rest.max()) / least)
            pull = 4 * math.sqrt(self.K) * share * fsum([self.costs * self.space.norms])
            gain *= 1 - Fraction(share)
            norm, peak = norm + Fraction(pull), peak + Fraction(pull)
        N, alpha = self.N, Fraction(self.alpha)
        if not self.alpha:  # feasible where |X'A| <= N l1
            return min(1, N * Fraction(self.l1) / peak) * gain / N, W
        scale = min(1, alpha * N * gain / norm**2)
        return scale * gain / N - (scale * norm) ** 2 / (2 * alpha * N**2), W

    def smooth_points(self):
        """Yield rows, A, slack, gains and their sizes of the point that W's scores suggest."""
        require(self.W is not None, f"W: is missing, the dual point of {self.loss} is made from it")
        for rows in blocks(self.rows.n):
            F, own, c = (
                self.space.scores(rows, self.W)[0] + self.b,
                self.own(rows),
                self.costs[rows],
            )
            sign = np.where(own, 1.0, -1.0)
            if self.loss == "squared_hinge":
                h = 2 * np.maximum(1 - sign * F, 0)
                A, gain, size = sign * h, h * (1 - h / 4), h * (1 + h / 4)
            elif self.loss == "logistic":
                p = np.clip(1 / (1 + np.exp(sign * F)), 1e-300, 1 - 2.0**-53)
                A, gain = sign * p, -(p * np.log(p) + (1 - p) * np.log1p(-p))
                size = gain
            elif self.loss == "softmax":
                q = np.maximum(np.exp(F - F.max(axis=1, keepdims=True)), 1e-300)
                total = q.sum(axis=1, keepdims=True)
                A, gain = own - q / total, q / total * np.log(total / q)
                size = gain + 1.0 / self.K
            else:
                A = own - F
                gain, size = A * own - A * A / 2, np.abs(A) + A * A / 2
            c = c[:, None]
            yield rows, c * A, c, (c * gain).sum(axis=1), (c * size).sum(axis=1)

    def stored(self):
        """Yield the same of the dual point in the file, made feasible."""
        index, row, column, values = sparse(self.arrays, self.rows.n, self.K)
        y, c, K = self.rows.y[index], self.costs[index], self.K
        values = np.minimum(values, c[row])
        pairs = self.loss != "hinge"
        require(
            not pairs or (column != y[row]).all(), "columns: a row has an entry of its own class"
        )
        if self.loss == "crammer_singer":
            total = np.bincount(row, values, len(index))
            scale = np.where(total * (1 + g(K + 2)) <= c, 1.0, c / total * (1 - g(4 * K + 32)))
            values = values * scale[row]
            total = np.bincount(row, values, len(index))
            values = values * (total * (1 + g(K + 2)) <= c)[row]
        gain = np.bincount(row, values, len(index))
        if pairs:
            row, column = np.concatenate([row, np.arange(len(index))]), np.concatenate([column, y])
            values = np.concatenate([-values, gain])
        else:
            values = values * np.where(self.classes[column] == y[row], 1.0, -1.0)
        A = sp.csr_array((values, (row, column)), (len(index), K))
        for part in blocks(len(index)):
            yield index[part], A[part].toarray(), np.zeros((1, 1)), gain[part], gain[part]


class MinimaxRisk:
    """The minimax risk problem of these rows, with bounds of tau and lam."""

    def __init__(self, proof: Proof, rows: Rows) -> None:
        self.rows, self.arrays, self.k = rows, proof.arrays, rows.k
        K, lambda0 = proof.header["outputs"], float(proof.header["lambda0"])
        require(K == self.k, f"outputs: {K}, but the rows have {self.k} classes")
        for name in self.arrays:
            require(name == "M" or name in DUAL, f"{name}: is not part of such a proof")
        self.space = Linear(rows, 1.0)
        mean = size = square = 0.0
        for part in blocks(rows.n):
            X, own = rows.block(part, 1.0), rows.y[part][:, None] == np.arange(self.k)
            own = own.astype(np.float64)
            mean, size, square = mean + X.T @ own, size + abs(X).T @ own, square + (X * X).T @ own
        self.error = g(BLOCK + rows.n / BLOCK + 16)
        self.tau, self.tau_error = mean / rows.n, self.error * size / rows.n
        self.active = size > 0
        self.lam = lambda0 * np.sqrt(np.maximum(square / rows.n - self.tau**2, 0))
        self.lam_error = 8 * self.error * rows.n / (rows.n - rows.counts)  # relative
        good = min(square[self.active].min(), self.lam[self.active].min()) > TINY
        require(good and self.lam_error.max() < 0.1, "lambda0, X: too small, or too large")
        M = self.arrays.get("M")
        self.W = None if M is None else self.weights(M)

    def weights(self, M: np.ndarray) -> np.ndarray:
        shape = (self.k, self.rows.d + 1)
        require(M.shape == shape, f"M: is not of shape {shape}")
        return np.where(self.active, M.T.astype(np.float64), 0.0)

    def primal(self, W: np.ndarray, side: int) -> Fraction:
        """Return an upper (side 1) or lower (-1) bound of U(M), W = M'."""
        size, k = np.abs(W), self.k
        linear = (self.lam * size - self.tau * W).sum(axis=1)
        relative = self.lam * (self.lam_error + g(k + 8)) + np.abs(self.tau) * g(k + 8)
        radius = Fraction(2 * fsum([(size * (relative + self.tau_error)).sum(axis=1)]) + TINY)
        heights = []
        for rows in blocks(self.rows.n):
            F, error = self.space.scores(rows, W)
            error = 2 * (error.max(axis=1) + g(k + 4) * (np.abs(F).max(axis=1) + 1)) + TINY
            psi = ((np.cumsum(-np.sort(-F), axis=1) - 1) / np.arange(1, k + 1)).max(axis=1)
            heights.append((psi + side * error).max())
        return 1 + Fraction(fsum([linear])) + Fraction(float(np.max(heights))) + side * radius

    def dual(self) -> tuple[Fraction, np.ndarray]:
        require(self.W is not None, "M: is missing")
        index, row, column, p = sparse(self.arrays, self.rows.n, self.k)
        P = sp.csr_array((p, (row, column)), (len(index), self.k))
        total, top = Fraction(fsum([p])), Fraction(fsum([P.max(axis=1).toarray().ravel()]))
        require(total > TINY, "values: have no mass")
        bayes = 1 - top / total * (1 + Fraction(g(4)))
        mean = size = 0.0
        for part in blocks(len(index)):
            X, mass = self.rows.block(index[part], 1.0), P[part].toarray()
            mean, size = mean + X.T @ mass, size + abs(X).T @ mass
        off = np.abs(mean / float(total) - self.tau)
        off += 2 * (self.error * size / float(total) + self.tau_error) + TINY
        ratio = (off / (self.lam * (1 - self.lam_error)))[self.active].max()
        return bayes / max(Fraction(1), Fraction(float(ratio)) * (1 + Fraction(g(8)))), self.W


def increasing(array: np.ndarray, below: int, name: str) -> np.ndarray:
    """Return strictly increasing indices in [0, below) as int64."""
    require(array.ndim == 1 and array.size > 0, f"{name}: is not a list of indices")
    require(0 <= array.min() and array.max() < below, f"{name}: has indices beyond {below - 1}")
    array = array.astype(np.int64)
    require((np.diff(array) > 0).all(), f"{name}: is not strictly increasing")
    return array


def sparse(arrays: dict[str, np.ndarray], n: int, K: int) -> tuple[np.ndarray, ...]:
    """Return the rows with entries, and the position there, column and value of every entry."""
    missing = sorted(DUAL.keys() - arrays.keys())
    require(not missing, f"{', '.join(missing)}: missing, the dual point of this loss is needed")
    rows, ends, columns, values = (arrays[name] for name in DUAL)
    rows = increasing(rows, n, "rows")
    require(ends.shape == rows.shape, "ends: is not as long as rows")
    require(values.ndim == 1 and columns.shape == values.shape, "columns, values: differ in shape")
    require(0 <= ends.min() and ends.max() <= len(values), "ends: point beyond values")
    counts = np.diff(ends.astype(np.int64), prepend=0)
    good = counts.min() >= 0 and counts.sum() == len(values)
    require(good, "ends: are not the ends of the rows' entries")
    require(len(values) == 0 or (0 <= columns.min() and columns.max() < K), "columns: out of range")
    require(len(values) == 0 or values.min() >= 0, "values: some are negative")
    row, columns = np.repeat(np.arange(len(rows)), counts), columns.astype(np.int64)
    require((np.diff(row * K + columns) > 0).all(), "columns: not strictly increasing in a row")
    return rows, row, columns, values.astype(np.float64)


def stated(proof: Proof, X, y) -> RegularisedRisk | MinimaxRisk:
    """Return the problem of a proof for these rows."""
    rows = Rows(X, y)
    require(proof.header["checksum"] == digest(rows), "checksum: this is a proof about other rows")
    return (MinimaxRisk if proof.header["family"] == "mrc" else RegularisedRisk)(proof, rows)


def objective(proof: Proof, X, y) -> tuple[float, float]:
    """Return an interval that holds the stated objective at the proof's own weights.

    Raises
    ------
    ProofError
        As :func:`verify`, or where the proof has no weights.
    """
    with finite():
        problem = stated(proof, X, y)
        require(problem.W is not None, "W: is missing")
        return below(problem.primal(problem.W, -1)), -below(-problem.primal(problem.W, 1))


def verify(proof: Proof | str | os.PathLike, X, y, name: str = "the rows given") -> Verdict:
    """Return an interval that certainly holds the optimum of the problem that a proof states.

    Parameters
    ----------
    proof : a Proof, or the path of a file
    X : (n, d) array or SciPy sparse matrix; float32 is kept, all else becomes float64
    y : (n,) labels 0..k-1, every one of which occurs
    name : of the rows, for the statement

    Raises
    ------
    ProofError
        If the file is not a proof, is about other rows, or its points do not fit its problem.
    """
    if not isinstance(proof, Proof):
        proof = read(proof)
    with finite():
        problem = stated(proof, X, y)
        low, W = problem.dual()
        high = problem.primal(W if problem.W is None else problem.W, 1)
        lower, upper = max(0.0, below(low)), -below(-high)
    require(lower <= upper, "the bounds contradict each other: this machine's arithmetic is off")
    gap = (upper - lower) / lower if lower else math.inf if upper else 0.0
    rows = f"{name}, {problem.rows.n} x {problem.rows.d}, {problem.rows.k} classes"
    interval = f"optimum in {digits(lower, upper)}, relative gap {gap:.1e}"
    return Verdict(lower, upper, gap, f"{words(proof.header)}; {rows}\n  {interval}")


@contextmanager
def finite():
    """Refuse numbers that overflow: `Fraction` and `fsum` raise for what is not finite."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ProofError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise ProofError(f"its numbers leave the range of double precision ({error})") from None


def below(value: Fraction) -> float:
    """Return the largest double that is not above a number."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def digits(lower: float, upper: float) -> str:
    """Return an interval in the digits that are certain and one more, rounded outwards."""
    width, size = Decimal(upper) - Decimal(lower), Decimal(upper or 1)
    last = max(min(width.adjusted() if width else -400, size.adjusted()) - 1, size.adjusted() - 16)
    ends = []
    for end, rounding in ((lower, ROUND_FLOOR), (upper, ROUND_CEILING)):
        with localcontext(prec=800):
            end = Decimal(end).quantize(Decimal((0, (1,), min(last, 0))), rounding)
        ends.append(f"{end:f}" if -16 < last < 16 else f"{end:.17g}")
    return f"[{ends[0]}, {ends[1]}]"


def short(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def words(header: dict[str, Any]) -> str:
    """Return the stated problem in words, with every parameter."""
    if header["family"] == "mrc":
        return f"minimax risk classifier, lambda0={short(header['lambda0'])}"
    C = header["C"] if isinstance(header["C"], list) else [header["C"]]
    parts = [LOSSES[header["loss"]], "C=" + "|".join(map(short, C))]
    if len(C) > 8:
        parts[1] = f"{len(C)} costs C from {short(min(C))} to {short(max(C))}"
    if header["over"] == "mean":
        parts.append("mean over rows")
    if header.get("alpha", 0) != 1:
        parts.append(f"alpha={short(header.get('alpha') or 0)}")
    if header.get("l1"):
        parts.append(f"l1={short(header['l1'])}")
    s = header.get("intercept")
    if s is not None:
        parts.append("free intercept" if s == "free" else f"penalised intercept {short(s)}")
    if header["family"] == "kernel":
        given = [f"{k}={short(v)}" for k, v in header["kernel"].items() if k != "name" and v]
        parts.append(" ".join([header["kernel"]["name"], "kernel", *given]))
    return ", ".join(parts)


def load_rows(path: str) -> tuple[Any, np.ndarray]:
    """Return X and y of a csv file, labels in its last column, or of an npz file.

    The npz file has y, and X or the four parts of a CSR matrix as `scipy.sparse.save_npz` names
    them: data, indices, indptr, shape.
    """
    if not path.endswith(".npz"):
        table = np.loadtxt(path, delimiter=",", ndmin=2)
        require((table[:, -1] % 1 == 0).all(), f"{path}: the last column has to hold labels 0..k-1")
        return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    with np.load(path, allow_pickle=False) as file:
        if "X" in file:
            return file["X"], file["y"]
        parts = file["data"], file["indices"], file["indptr"]
        return sp.csr_array(parts, shape=tuple(file["shape"])), file["y"]


def main(argv: list[str] | None = None) -> int:
    """Verify one file against rows, print the verdict, and return 0 if it holds, else 1."""
    parser = argparse.ArgumentParser(description="Verify a proof against its training rows.")
    parser.add_argument("proof", help="file of the proof")
    parser.add_argument(
        "rows", help="training rows: .npz with X and y, or csv, labels in the last column"
    )
    given = parser.parse_args(argv)
    start = time.perf_counter()
    try:
        try:
            X, y = load_rows(given.rows)
        except (OSError, KeyError, ValueError) as error:
            raise ProofError(f"{given.rows}: cannot be read as rows and labels ({error})") from None
        start = time.perf_counter()
        verdict = verify(given.proof, X, y, os.path.basename(given.rows))
    except ProofError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    print(f"{verdict.statement}; verified in {time.perf_counter() - start:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
