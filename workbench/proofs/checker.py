"""Verify a proof: an interval that certainly contains the optimum of a training
problem.

A proof is a file that states a problem and contains a primal and a dual point. Nothing
in it is trusted: both points are evaluated here, with every rounding bounded (FORMAT.md
derives the terms), and any finite points give valid bounds. Bounds are Fractions. This
file needs only NumPy and SciPy, and runs by itself: ``python checker.py PROOF ROWS``.
It reads from top to bottom: the header, the file, the rows, rounding, the two spaces of
weights, the two problems, and :func:`verify`.

The problem is to minimise

    P(W) = 1/N sum_i c_i loss(W'x_i + b, y_i) + alpha/2 |W|^2 + l1 |W|_1

where N is 1 ("sum") or the number of rows ("mean"), and c_i is the cost of row i's
class. The intercept b is zero, free, or the weight of a constant column s of X. Weak
duality says that

    P(W) >= D(A) = gain(A)/N - |soft(X'A, N l1)|^2 / (2 alpha N^2)

for all A with sum_i c_i loss_i(F) >= gain(A) - <A, F> at all scores F. The losses are,
with s_c = 1 for the own class of a row and -1 for all others,

    hinge           sum_c (1 - s_c F_c)_+
    squared_hinge   sum_c (1 - s_c F_c)_+^2
    logistic        sum_c log(1 + exp(-s_c F_c))
    crammer_singer  max_c (F_c + [c != y]) - F_y
    weston_watkins  sum_{c != y} (1 + F_c - F_y)_+
    softmax         log sum_c exp(F_c) - F_y
    squared         |F - e_y|^2 / 2

and each has a dual point, from which A_i and the gain of the row are made:

    loss            dual point        A_i            gain
    hinge           0 <= a <= c_i     s a            sum a
    squared_hinge   a = c_i h >= 0    s a            c_i (h - h²/4)
    logistic        a = c_i p         s a            c_i H2(p)
    crammer_singer  sum_c B_c <= c_i  e_y sum B - B  sum B
    weston_watkins  0 <= B_c <= c_i   e_y sum B - B  sum B
    softmax         sum_c p_c = 1     c_i (e_y - p)  c_i H(p)
    squared         r                 c_i r          c_i (r_y - |r|²/2)

If there is one output for two classes, it is class 1 against class 0. The dual point of
a smooth loss is computed from the scores of W; a W that is left out is computed from A.
With a kernel, |X'A|^2 is <A, K A>, W contains the coefficients of basis rows, and a
penalised intercept s adds s^2 to the kernel.

The minimax risk problem is to minimise over all M

    1 - <tau, M> + <lam, |M|> + max_i psi(M (x_i, 1)) >= (1 - sum_i max_y p_iy) / rho

where Phi(x, y) = e_y (x, 1), tau is its mean and lam is lambda0 times its standard
deviation; psi(v) is the maximum of (sum_S v - 1) / |S| over non-empty subsets S. The
bound holds for all distributions p, with rho = max(1, |E_p Phi - tau| / lam), where the
maximum is over all components. Components of Phi that are zero in all rows of their
class are left out.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

Given: TypeAlias = Any  # a value from a file or a caller that is still to be checked
Array: TypeAlias = np.ndarray
Matrix: TypeAlias = Any  # an array or a CSR matrix: SciPy has no types
Header: TypeAlias = dict[str, Any]
Arrays: TypeAlias = dict[str, Array]
Path: TypeAlias = str | os.PathLike[str]
BLOCK = 1024  # rows that are processed together
MAX_BYTES = 2**28
MAX_BRACKETS = 256  # in a header, so that parsers do not run out of stack
MAX_NUMBER = 2.0**500  # its square, times many rows, is a double
TINY = 2.0**-900  # larger than the error of a sum from underflow
NORM_FLOOR = 2.0**-480  # larger than the error of a norm from squares that underflow

# --- The header ---------------------------------------------------------------------

LOSSES = {
    "hinge": "one-vs-rest SVM",
    "squared_hinge": "one-vs-rest SVM with squared hinge",
    "logistic": "one-vs-rest logistic regression",
    "crammer_singer": "Crammer-Singer SVM",
    "weston_watkins": "Weston-Watkins SVM",
    "softmax": "softmax regression",
    "squared": "least squares",
}
# These losses may have one output.
ONE_VS_REST = ("hinge", "squared_hinge", "logistic", "squared")
# The file contains the dual points of these losses.
STORED = ("hinge", "crammer_singer", "weston_watkins")
# Arrays, and the kinds of numbers that they may contain: integers or floats.
DUAL = {"rows": "iu", "ends": "iu", "columns": "iu", "values": "f"}
ARRAYS = {"W": "f", "b": "f", "basis": "iu", "M": "f"} | DUAL
AT_LEAST_0 = "a number from 0 to 2^500"
POSITIVE = "a positive number up to 2^500"
ACCEPTED = {  # the values of each field of the header, in words
    "format": "1",
    "family": "linear, kernel or mrc",
    "outputs": "an integer from 1 to 2^31 - 1",
    "checksum": "64 lower-case hexadecimal digits",
    "loss": ", ".join(LOSSES),
    "over": "sum or mean",
    "C": f"{POSITIVE}, or a list of them",
    "intercept": f"null, free or {POSITIVE}",
    "kernel": "an object",
    "name": "linear or rbf",
    "alpha": AT_LEAST_0,
    "l1": AT_LEAST_0,
    "gamma": POSITIVE,
    "lambda0": POSITIVE,
    "recipe": "anything",
    "text": "anything",
}
# The fields that are needed, by family or by name of a kernel.
NEEDED = {
    "mrc": "format family outputs checksum lambda0",
    "linear": "format family outputs checksum loss over C alpha",
    "kernel": "format family outputs checksum loss over C alpha kernel",
    "rbf kernel": "name gamma",
}
# Further fields that may be given.
POSSIBLE = {
    "mrc": "recipe text",
    "linear": "l1 intercept recipe text",
    "kernel": "l1 intercept recipe text",
}


class ProofError(ValueError):
    """A file is not a proof, or is not about these rows; the message says why."""


def require(condition: object, message: str) -> None:
    """Raise a ProofError unless the condition holds."""
    if not condition:
        raise ProofError(message)


def shown(value: object) -> str:
    """Return a value in at most 60 characters of ASCII."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_number(value: Given) -> bool:
    """Return whether a value is a double in [0, MAX_NUMBER], but not -0.0."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    in_range = 0 <= value <= MAX_NUMBER
    return in_range and float(value) == value and math.copysign(1, value) > 0


def is_positive(value: Given) -> bool:
    """Return whether a value is a number as in :func:`is_number`, and above 0."""
    return is_number(value) and value > 0


# The fields whose values are one of a few words.
CHOICES = {
    "family": ("linear", "kernel", "mrc"),
    "loss": (*LOSSES,),
    "over": ("sum", "mean"),
    "name": ("linear", "rbf"),
}


def is_accepted(field: str, value: Given) -> object:
    """Return whether a field of the header may have this value (see ACCEPTED)."""
    if field in CHOICES:
        return value in CHOICES[field]
    match field:
        case "format":
            return type(value) is int and value == 1
        case "outputs":
            return type(value) is int and 0 < value < 2**31
        case "checksum":
            return re.fullmatch("[0-9a-f]{64}", str(value))
        case "kernel":
            return type(value) is dict
        case "alpha" | "l1":
            return is_number(value)
        case "gamma" | "lambda0":
            return is_positive(value)
        case "intercept":
            return value == "free" or is_positive(value)
        case "C":
            costs = value if type(value) is list else [value]
            return all(map(is_positive, costs))
        case "recipe" | "text":
            return True
    return False


def check_fields(fields: Header, kind: str) -> None:
    """Raise a ProofError unless all fields are known and accepted, and none is missing.

    A field that is null counts as missing.
    """
    names = {name for name, value in fields.items() if value is not None}
    for name, value in fields.items():
        if name in names:
            require(name in ACCEPTED, f"header: there is no field {shown(name)}")
            if not is_accepted(name, value):
                got = shown(value)
                raise ProofError(f"{name}: must be {ACCEPTED[name]}, got {got}")
    needed = {*NEEDED.get(kind, "name").split()}
    missing = ", ".join(sorted(needed - names))
    require(not missing, f"header: {missing} missing")
    unknown = ", ".join(sorted(names - needed - {*POSSIBLE.get(kind, "").split()}))
    require(not unknown, f"header: {kind} has no field {unknown}")


@dataclass(frozen=True, eq=False)
class Proof:
    """The header of a proof and its arrays by name.

    Both are checked, but not against any rows.
    """

    header: Header
    arrays: Arrays

    def __post_init__(self) -> None:
        header = self.header
        has_family = type(header) is dict and type(header.get("family")) is str
        require(has_family, "header: has no family")
        family = header["family"]
        check_fields(header, family)
        if family == "kernel":
            kernel = header["kernel"]
            check_fields(kernel, f"{kernel.get('name')} kernel")
            has_norm_only = header["alpha"] > 0 and not header.get("l1")
            require(has_norm_only, "alpha, l1: a kernel needs l1 = 0 < alpha")
        is_regularised = family == "mrc" or header["alpha"] > 0 or header.get("l1")
        require(is_regularised, "alpha, l1: one of them must be positive")
        for name, array in self.arrays.items():
            require(name in ARRAYS, f"no proof has an array {shown(name)}")
            kind = array.dtype.kind
            require(kind in ARRAYS[name], f"{name}: has the wrong type {array.dtype}")
            require(kind != "f" or np.isfinite(array).all(), f"{name}: is not finite")


# --- The file -----------------------------------------------------------------------

ENTRY = struct.Struct("<4s4x2H4x3I3H8xI")  # in the directory of a zip archive
ARRAY_HEADER = re.compile(
    rb"\{'descr': '([<>][fiu][248]|[<>|][iu]1)', 'fortran_order': (True|False), "
    rb"'shape': \((?:(0|[1-9]\d{0,17}),(?: (0|[1-9]\d{0,17}))?)?\), \} *\n"
)


def read(path: Path) -> Proof:
    """Read a proof of at most 256 MiB in twice its size of memory; nothing in it runs.

    Raises
    ------
    ProofError
        If the file is not a proof of format 1; the message is one sentence.
    """
    try:
        require(os.path.isfile(path), "there is no such file")
        size = os.path.getsize(path)
        require(size <= MAX_BYTES, f"has {size} bytes, more than any proof")
        with open(path, "rb") as file:
            arrays = unpacked(memoryview(file.read()))
        return Proof(parsed_header(arrays.pop("header", np.empty(0))), arrays)
    except Exception as error:  # struct and json raise several kinds for damaged files
        reason = str(error) or type(error).__name__
        if not isinstance(error, ProofError):
            reason = f"is not a proof, or is damaged ({shown(reason)})"
        raise ProofError(f"{path}: {reason}") from None


def parsed_header(data: Array) -> Header:
    """Return the header of a proof from its bytes."""
    require(data.dtype == np.uint8 and data.ndim == 1, "has no header of bytes")
    text = data.tobytes().decode()
    brackets = text.count("[") + text.count("{")
    require(brackets <= MAX_BRACKETS, "header: has too many brackets")
    return json.loads(
        text,
        object_pairs_hook=unique,
        parse_int=whole,
        parse_constant=int,  # which refuses NaN and Infinity
    )


def unique(pairs: list[tuple[str, Any]]) -> Header:
    """Return a JSON object; raise a ProofError if a name appears twice."""
    fields = dict(pairs)
    require(len(fields) == len(pairs), "header: a name appears twice")
    return fields


def whole(text: str) -> int | float:
    """Return a JSON number without point and exponent.

    -0 and numbers of more than 400 digits become floats, which only `recipe` and `text`
    may contain.
    """
    return float(text) if text == "-0" or len(text) > 400 else int(text)


def unpacked(data: memoryview) -> Arrays:
    """Return the arrays of a zip archive that is written as FORMAT.md, section 1, says.

    The members follow each other without gaps; their directory and an end record follow
    them.
    """
    arrays: Arrays = {}
    end = len(data) - 22  # the end of the directory; the record has 22 bytes
    (directory,) = struct.unpack_from("<I", data, end + 16)
    entry = directory  # where the next entry of the directory starts
    member = 0  # where the next member starts
    while entry < end:
        mark, flags, method, crc, packed, size, *lengths, start = ENTRY.unpack_from(
            data, entry
        )
        member_mark, label_length, extra_length = struct.unpack_from(
            "<4s22x2H", data, start
        )
        label = data[entry + 46 : entry + 46 + lengths[0]]
        file = str(label, "latin1")
        name = file.removesuffix(".npy")
        is_known = name in {"header", *ARRAYS} and name != file
        require(is_known and name not in arrays, f"no proof has a member {shown(file)}")
        label_end = start + 30 + label_length
        content = label_end + extra_length
        content_end = content + size
        is_plain = (mark, member_mark) == (b"PK\1\2", b"PK\3\4")
        is_plain = is_plain and (flags, method, packed) == (0, 0, size)
        fits = start == member and content_end <= directory
        fits = fits and data[start + 30 : label_end] == label
        is_whole = zlib.crc32(data[content:content_end]) == crc
        message = "is compressed, damaged, or not where the member before it ends"
        require(is_plain and fits and is_whole, f"{name}: {message}")
        arrays[name] = parsed(data[content:content_end], name)
        member = content_end
        entry += 46 + sum(lengths)
    is_complete = member == directory and entry == end
    if is_complete:
        sizes = len(arrays), len(arrays), end - directory, directory
        record = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, *sizes, 0)
        is_complete = data[end:] == record
    require(is_complete, "has bytes around it, or another end record")
    return arrays


def parsed(data: memoryview, name: str) -> Array:
    """Return the array of an npy file; its header is matched, but never evaluated."""
    start = 10 + int.from_bytes(data[8:10], "little")
    header = ARRAY_HEADER.fullmatch(data[10:start])
    if bytes(data[:8]) != b"\x93NUMPY\1\0" or not header:
        raise ProofError(f"{name}: is not an array of numbers")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(length) for length in header.group(3, 4) if length)
    size = math.prod(shape) * dtype.itemsize
    require(size == len(data) - start, f"{name}: its size does not match its shape")
    array = np.frombuffer(data, dtype, offset=start)
    if header[2] == b"True":  # column by column
        array = array.reshape(shape, order="F")
    else:
        array = array.reshape(shape)
    return array.astype(dtype.newbyteorder("="))


# --- The rows -----------------------------------------------------------------------


class Rows:
    """Training rows and labels 0..k-1 that have been checked.

    `longest` is the largest number of entries in a row.
    """

    def __init__(self, X: Given, y: Given) -> None:
        X = canonical(X) if sp.issparse(X) else np.asarray(X)
        is_matrix = X.ndim == 2 and min(X.shape) > 0 and X.dtype.kind in "fiub"
        require(is_matrix, "X: must be a matrix of numbers, with rows and columns")
        if X.dtype != np.float32:
            X = X.astype(np.float64, copy=False)
        self.X: Matrix = X
        self.n, self.d = X.shape
        y = np.asarray(y)
        is_labels = y.shape == (self.n,) and y.dtype.kind in "iu"
        is_labels = is_labels and 0 <= y.min() and y.max() < self.n
        require(is_labels, "y: must have a label 0..k-1 for each row")
        self.y = y.astype(np.int64)
        self.counts = np.bincount(self.y)
        self.k = len(self.counts)
        has_classes = self.k >= 2 and self.counts.min() > 0
        require(has_classes, "y: must have at least two classes, each with a row")
        self.longest = int(np.diff(getattr(X, "indptr", [0, self.d])).max())
        norms = [lengths(self.block(part)) for part in blocks(self.n)]
        self.norms = np.concatenate(norms)
        require(
            np.isfinite(self.norms).all(),
            "X: some values, or their squares, are not finite",
        )

    def block(self, rows: slice | Array, constant: float = 0.0) -> Matrix:
        """Return rows in double precision, with a constant column unless it is zero."""
        X = self.X[rows].astype(np.float64)
        if not constant:
            return X
        column = np.full((X.shape[0], 1), constant)
        if sp.issparse(X):
            return sp.hstack([X, column], format="csr")
        return np.hstack([X, column])


def canonical(X: Matrix) -> Matrix:
    """Return a CSR matrix whose indices are checked, sorted and unique in each row."""
    X = sp.csr_array(X)
    X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    X.check_format(full_check=True)  # no index may lead out of the arrays
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def checksum(X: Given, y: Given) -> str:
    """Return the SHA-256 of rows and their labels 0..k-1.

    Parameters
    ----------
    X : (n, d) array or SciPy sparse matrix
    y : (n,) labels
    """
    return digest(Rows(X, y))


def digest(rows: Rows) -> str:
    """Return the SHA-256 of checked rows: their sizes, type, values and labels."""
    values = rows.X
    dtype = values.dtype
    kind = "csr" if sp.issparse(values) else "dense"
    sha = hashlib.sha256(f"{kind} {dtype.name} {rows.n} {rows.d}\n".encode())
    if kind == "csr":
        for indices in (values.indptr, values.indices):
            sha.update(np.ascontiguousarray(indices, "<i8").data)
        values = values.data
    for part in blocks(len(values)):
        sha.update(np.ascontiguousarray(values[part], dtype.newbyteorder("<")).data)
    sha.update(np.ascontiguousarray(rows.y, "<i8").data)
    return sha.hexdigest()


def blocks(n: int) -> list[slice]:
    """Return slices of n rows, BLOCK at a time."""
    return [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]


# --- Rounding: FORMAT.md, section 5 -------------------------------------------------


def squares(X: Matrix) -> Array:
    """Return the squared length of each row."""
    if sp.issparse(X):
        return X.multiply(X).sum(axis=1)
    return np.einsum("ij,ij->i", X, X)


def lengths(X: Matrix) -> Array:
    """Return the length of each row, without a bound on the rounding of its sum."""
    return np.sqrt(squares(X)) + NORM_FLOOR


def g(terms: float) -> float:
    """Return 2mu, u = 2^-53, a bound on the relative error of a sum of m terms."""
    return terms * 2.0**-52


def fsum(parts: list[Array]) -> float:
    """Return the sum of all entries, rounded once."""
    return math.fsum(np.concatenate(parts).tolist())


def summed(parts: list[Array], terms: float, side: int) -> Fraction:
    """Return an upper (side 1) or lower (-1) bound on a sum of values >= 0.

    Each value has a relative error of at most g(terms).
    """
    factor = 1 + side * Fraction(g(terms + 4))
    return max(Fraction(0), Fraction(fsum(parts)) * factor + side * Fraction(TINY))


def root(value: Fraction) -> Fraction:
    """Return the square root, rounded up."""
    return Fraction(math.sqrt(value)) * (1 + Fraction(g(8))) + Fraction(TINY)


def below(value: Fraction) -> float:
    """Return the largest double that is at most `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def above(value: Fraction) -> float:
    """Return the smallest double that is at least `value`."""
    return -below(-value)


# --- Spaces of weights: linear, and of a kernel -------------------------------------


class DualBlock(NamedTuple):
    """A dual point for some rows: the error of A_i is <= g(K + 16) (|A_i| + slack_i).

    ``sizes`` has the sums of the absolute values of the terms that ``gains`` adds.
    """

    rows: slice | Array
    A: Array
    slack: Array
    gains: Array
    sizes: Array


# |S| and max |X'A|, both rounded up, and S = soft(X'A, threshold).
Norms: TypeAlias = tuple[Fraction, Fraction, Array]


class Linear:
    """Weights of the columns of X, and of a constant column unless it is zero."""

    def __init__(self, rows: Rows, constant: float) -> None:
        self.rows = rows
        self.constant = constant
        self.terms = rows.longest + 1
        self.width = rows.d + 1 if constant else rows.d
        self.norms = np.hypot(rows.norms, constant)

    def scores(self, rows: slice, W: Array) -> tuple[Array, Array]:
        """Return the scores of rows, and half a bound of their errors."""
        F = self.rows.block(rows, self.constant) @ W
        return F, g(self.terms + 10) * np.outer(self.norms[rows], lengths(W.T))

    def square(self, W: Array, side: int) -> Fraction:
        """Return an upper (side 1) or lower (-1) bound of |W|^2."""
        return summed([squares(W)], W.shape[1], side)

    def dual(self, points: Iterable[DualBlock], K: int, threshold: float) -> Norms:
        """Return the norms of a dual point with K outputs."""
        V = np.zeros((self.width, K))
        size = 0.0
        count = 0
        for part in points:
            V += self.rows.block(part.rows, self.constant).T @ part.A
            size += self.norms[part.rows] @ (lengths(part.A) + part.slack[:, 0])
            count += 1
        S = V
        if threshold:
            S = np.copysign(np.maximum(np.abs(V) - threshold * (1 - g(4)), 0), V)
        radius = Fraction(float(2 * g(BLOCK + count + K + 16) * size)) + Fraction(TINY)
        peak = Fraction(float(max(V.max(), -V.min())))
        return root(self.square(S, 1)) + radius, peak + radius, S


class Kernel:
    """Like Linear, in the feature space of a kernel: weights are coefficients of rows.

    `basis` has the numbers of the rows of the weights W, or of the dual point if there
    is no W.
    """

    basis: Matrix = None

    def __init__(self, rows: Rows, constant: float, kernel: Header) -> None:
        self.rows = rows
        self.constant = constant
        self.is_rbf = kernel["name"] == "rbf"
        self.gamma = float(kernel.get("gamma") or 1)
        self.centre = 0.0
        parts = blocks(rows.n)
        if self.is_rbf and not sp.issparse(rows.X):  # centre, to lose fewer digits
            self.centre = sum(rows.block(part).sum(axis=0) for part in parts) / rows.n
        self.squares = np.concatenate([squares(self.block(part)) for part in parts])
        largest = float(self.squares.max())
        terms = rows.longest
        # `top` is the largest entry of the kernel matrix, and `off` bounds the errors
        # of entries.
        if self.is_rbf:
            top = 1.0
            off = 32 * self.gamma * g(terms + 16) * largest + g(32)
        else:
            top = largest
            off = 2 * g(terms + 8) * largest
        self.top = top + constant**2
        self.off = off + (g(2) * self.top + TINY)
        self.norms = np.full(rows.n, math.sqrt(self.top))

    def block(self, rows: slice | Array) -> Matrix:
        """Return rows in double precision, centred unless they are sparse."""
        X = self.rows.block(rows)
        return X if sp.issparse(X) else X - self.centre

    def product(self, left: slice | Array, right: Array, A: Array) -> Array:
        """Return K[left, right] @ A, from one tile of the kernel matrix K at a time."""
        X = self.block(left)
        total = np.zeros(A.shape[1])
        for part in blocks(len(right)):
            tile = X @ self.block(right[part]).T
            if sp.issparse(tile):
                tile = tile.toarray()
            if self.is_rbf:
                norms = self.squares[left][:, None] + self.squares[right[part]]
                tile = np.exp(-self.gamma * np.maximum(norms - 2 * tile, 0))
            total = total + (tile + self.constant**2) @ A[part]
        return total

    def error(self, basis: Array, terms: float) -> float:
        """Return the error of a sum over a basis, relative to |W|_1 of its weights."""
        return self.off + g(BLOCK + len(basis) / BLOCK + terms + 16) * self.top

    def scores(self, rows: slice, W: Array) -> tuple[Array, Array]:
        """Return the scores of rows, and half a bound of their errors."""
        F = self.product(rows, self.basis, W)
        error = self.error(self.basis, 0) * np.abs(W).sum(axis=0)
        return F, np.broadcast_to(error, F.shape)

    def square(self, W: Array, side: int) -> Fraction:
        """Return an upper (side 1) or lower (-1) bound of |W|^2 = <W, K W>."""
        return self.form(W, self.basis, side)

    def form(self, W: Array, basis: Array, side: int, slack: float = 0.0) -> Fraction:
        """Return a bound on <W, K W>; |W|_1 of each column may be larger by `slack`."""
        values = []
        for part in blocks(len(basis)):
            product = self.product(basis[part], basis, W)
            values.append((W[part] * product).sum(axis=1))
        size = np.abs(W).sum(axis=0) + slack
        error = 2 * self.error(basis, W.shape[1]) * (size @ size)
        radius = Fraction(float(error)) + Fraction(TINY)
        return max(Fraction(0), Fraction(fsum(values)) + side * radius)

    def dual(self, points: Iterable[DualBlock], K: int, threshold: float) -> Norms:
        """Return the norms of a dual point, for which S is the point itself."""
        parts = list(points)
        rows = np.arange(self.rows.n)
        basis = np.concatenate([rows[part.rows] for part in parts])
        A = np.concatenate([part.A for part in parts])
        slack = float(sum(part.slack.sum() for part in parts))
        norm = root(self.form(A, basis, 1, slack))
        if self.basis is None:
            self.basis = basis
        return norm, norm, A


# --- Regularised risks: the families linear and kernel ------------------------------


def loss_of(name: str, F: Array, one_hot: Array, shift: Array) -> Array:
    """Return the losses of rows at the scores F, each score made worse by its `shift`.

    ``one_hot`` is true for the output of the row's class.
    """
    if name == "squared":
        distance = np.maximum(np.abs(F - one_hot) + shift, 0)
        return (distance**2).sum(axis=1) / 2
    if name in ONE_VS_REST:
        z = np.where(one_hot, -F, F) + shift
    else:
        z = F - F[one_hot][:, None] + (shift + shift[one_hot][:, None])
        z[one_hot] = 0 if name == "softmax" else -1
    if name == "logistic":
        return (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))).sum(axis=1)
    if name == "softmax":
        largest = np.arange(len(z)), z.argmax(axis=1)
        top = z[largest]
        z[largest] = -np.inf
        return top + np.log1p(np.exp(z - top[:, None]).sum(axis=1))
    hinge = np.maximum(1 + z, 0)
    if name == "crammer_singer":
        return hinge.max(axis=1)
    if name == "squared_hinge":
        hinge = hinge**2
    return hinge.sum(axis=1)


def smooth_point(name: str, F: Array, one_hot: Array) -> tuple[Array, ...]:
    """Return A, the gains and the sizes of the dual point that F gives, at cost 1.

    Gains and sizes are per row and output.
    """
    sign = np.where(one_hot, 1.0, -1.0)
    if name == "squared_hinge":
        h = 2 * np.maximum(1 - sign * F, 0)
        return sign * h, h * (1 - h / 4), h * (1 + h / 4)
    if name == "logistic":
        p = np.clip(1 / (1 + np.exp(sign * F)), 1e-300, 1 - 2.0**-53)
        gain = -(p * np.log(p) + (1 - p) * np.log1p(-p))
        return sign * p, gain, gain
    if name == "softmax":
        q = np.maximum(np.exp(F - F.max(axis=1, keepdims=True)), 1e-300)
        total = q.sum(axis=1, keepdims=True)
        gain = q / total * np.log(total / q)
        return one_hot - q / total, gain, gain + q / total
    r = one_hot - F
    return r, r * one_hot - r * r / 2, np.abs(r) + r * r / 2


class RegularisedRisk:
    """A problem of the family linear or kernel, with the weights of a proof.

    In the family linear, a penalised intercept is the last row of W. W is None if it
    has to be computed from the dual point.
    """

    space: Linear | Kernel
    W: Matrix
    b: Array

    def __init__(self, proof: Proof, rows: Rows) -> None:
        header = proof.header
        self.rows = rows
        self.arrays = proof.arrays
        self.loss = header["loss"]
        self.alpha = float(header["alpha"])
        self.l1 = float(header.get("l1") or 0)
        self.N = rows.n if header["over"] == "mean" else 1
        self.set_outputs(header["outputs"])
        self.set_costs(header["C"])
        intercept = header.get("intercept")
        self.free = intercept == "free"
        constant = 0.0 if self.free else float(intercept or 0)
        possible = {"W"}
        if self.loss in STORED:
            possible |= DUAL.keys()
        if header["family"] == "kernel":
            self.space = Kernel(rows, constant, header["kernel"])
            possible.add("basis")
            constant = 0.0  # W has no row for the constant
        else:
            self.space = Linear(rows, constant)
        if self.free or constant:
            possible.add("b")
        refuse_others(self.arrays, possible)
        self.set_weights()
        if constant and self.W is not None:
            self.W = np.vstack([self.W, self.b])
        if not self.free:
            self.b = np.zeros(self.K)

    def set_outputs(self, K: int) -> None:
        """Set the number K of outputs, and the class of each."""
        k = self.rows.k
        is_single = K == 1 and k == 2 and self.loss in ONE_VS_REST
        require(is_single or K == k, f"outputs: {K}, but the rows have {k} classes")
        self.K = K
        self.classes = np.array([1]) if is_single else np.arange(k)

    def set_costs(self, C: float | list[float]) -> None:
        """Set the cost of each row, and the smallest cost of a whole class."""
        k = self.rows.k
        costs = C if isinstance(C, list) else [C] * k
        number = len(costs)
        require(number == k, f"C: {number} costs, but the rows have {k} classes")
        of_class = np.array(costs, dtype=np.float64)
        self.costs = of_class[self.rows.y]
        self.smallest_cost = float((of_class * self.rows.counts).min())

    def set_weights(self) -> None:
        """Set W without a row for the intercept, its basis, and b."""
        length = self.rows.d
        if isinstance(self.space, Kernel):
            has_basis = "basis" in self.arrays
            require(has_basis == ("W" in self.arrays), "W, basis: give both or neither")
            if has_basis:
                basis = increasing(self.arrays["basis"], self.rows.n, "basis")
                self.space.basis = basis
                length = len(basis)
        self.W = floats(self.arrays, "W", length, self.K)
        b = floats(self.arrays, "b", self.K)
        if self.W is None:
            require(b is None or self.free, "b: needs W")
            can_be_made = self.alpha > 0 and self.loss in STORED
            require(can_be_made, "W: is missing, and cannot be computed")
        self.b = np.zeros(self.K) if b is None else b

    def one_hot(self, rows: slice | Array) -> Array:
        """Return a mask (rows, K) of the outputs of the rows' classes."""
        return self.rows.y[rows][:, None] == self.classes

    def primal(self, W: Array, side: int) -> Fraction:
        """Return an upper (side 1) or lower (-1) bound on P(W)."""
        losses = []
        for rows in blocks(self.rows.n):
            F, error = self.space.scores(rows, W)
            shift = side * (2 * (error + g(10) * (np.abs(self.b) + 1)) + TINY)
            loss = loss_of(self.loss, F + self.b, self.one_hot(rows), shift)
            losses.append(self.costs[rows] * loss)
        norm = Fraction(self.alpha) / 2 * self.space.square(W, side)
        l1 = Fraction(self.l1) * summed([np.abs(W).sum(axis=1)], self.K, side)
        return norm + l1 + summed(losses, 2 * self.K + 256, side) / self.N

    def points(self) -> Iterator[DualBlock]:
        """Yield the dual point, from the file or, for smooth losses, from W."""
        if self.loss in STORED:
            yield from self.stored()
            return
        for rows in blocks(self.rows.n):
            F = self.space.scores(rows, self.W)[0] + self.b
            c = self.costs[rows][:, None]
            A, gain, size = smooth_point(self.loss, F, self.one_hot(rows))
            gains = (c * gain).sum(axis=1)
            sizes = (c * size).sum(axis=1)
            yield DualBlock(rows, c * A, c, gains, sizes)

    def stored(self) -> Iterator[DualBlock]:
        """Yield the dual point of the file, after making it feasible."""
        rows, row, column, values = sparse(self.arrays, self.rows.n, self.K)
        costs = self.costs[rows]
        values = np.minimum(values, costs[row])
        is_target = self.classes[column] == self.rows.y[rows][row]
        if self.loss != "hinge":
            message = "columns: a row has an entry of its own class"
            require(not is_target.any(), message)
        if self.loss == "crammer_singer":
            values = capped(values, row, costs, self.K)
        gains = np.bincount(row, values, len(rows))
        signed = np.where(is_target, values, -values)
        A = sp.csr_array((signed, (row, column)), (len(rows), self.K))
        no_slack = np.zeros((1, 1))
        for part in blocks(len(rows)):
            dense = A[part].toarray()
            if self.loss != "hinge":
                dense[self.one_hot(rows[part])] = gains[part]
            yield DualBlock(rows[part], dense, no_slack, gains[part], gains[part])

    def dual(self) -> tuple[Fraction, Array]:
        """Return a lower bound on the optimum, and W, from A if it is left out."""
        gains: list[Array] = []
        sizes: list[Array] = []
        sums: list[list[float]] = []  # of the columns of A, per block
        inside = np.zeros(self.K)  # sums of absolute values of the columns

        def noted() -> Iterator[DualBlock]:
            """Yield the blocks of the dual point, and record their sums."""
            for part in self.points():
                gains.append(part.gains)
                sizes.append(part.sizes)
                if self.free:
                    sums.append([math.fsum(column) for column in part.A.T.tolist()])
                    inside[:] += (np.abs(part.A) + part.slack).sum(axis=0)
                yield part

        K = self.K
        N = self.N
        norm, peak, S = self.space.dual(noted(), K, N * self.l1)
        lost = Fraction(g(2 * K + 256)) * Fraction(fsum(sizes)) + Fraction(TINY)
        gain = max(Fraction(0), Fraction(fsum(gains)) - lost)
        if self.free:
            # Mixing in a fraction of a feasible point with the opposite sums makes all
            # sums zero.
            totals = [math.fsum(column) for column in zip(*sums)]
            off = np.abs(totals) * (1 + g(4)) + TINY
            if self.loss != "hinge":
                off += 2 * g(K + 16) * inside
            share = min(1.0, 4 * float(off.max()) / self.smallest_cost)
            reach = fsum([self.costs * self.space.norms])
            pull = Fraction(4 * math.sqrt(K) * share * reach)
            gain *= 1 - Fraction(share)
            norm += pull
            peak += pull
        if not self.alpha:  # then |X'A| <= N l1
            return min(1, N * Fraction(self.l1) / peak) * gain / N, self.W
        alpha = Fraction(self.alpha)
        scale = min(1, alpha * N * gain / norm**2)
        W = S / (self.alpha * N) if self.W is None else self.W
        return scale * gain / N - (scale * norm) ** 2 / (2 * alpha * N**2), W


def capped(values: Array, row: Array, costs: Array, K: int) -> Array:
    """Return entries, scaled down so that their sum in each row is at most its cost."""
    total = np.bincount(row, values, len(costs))
    fits = total * (1 + g(K + 2)) <= costs
    scale = np.where(fits, 1.0, costs / total * (1 - g(4 * K + 32)))
    values = values * scale[row]
    total = np.bincount(row, values, len(costs))
    fits = total * (1 + g(K + 2)) <= costs
    return values * fits[row]


# --- Minimax risk -------------------------------------------------------------------


class MinimaxRisk:
    """The minimax risk problem; W is M', with 0 for components that are left out."""

    def __init__(self, proof: Proof, rows: Rows) -> None:
        self.rows = rows
        self.arrays = proof.arrays
        self.space = Linear(rows, 1.0)
        k = rows.k
        outputs = proof.header["outputs"]
        require(outputs == k, f"outputs: {outputs}, but the rows have {k} classes")
        refuse_others(self.arrays, {"M", *DUAL})
        self.set_moments(float(proof.header["lambda0"]))
        M = floats(self.arrays, "M", k, rows.d + 1)
        if M is None:
            raise ProofError("M: is missing")
        self.W = np.where(self.active, M.T, 0.0)

    def set_moments(self, lambda0: float) -> None:
        """Set tau and lam, their errors, and the mask of components that are used."""
        rows = self.rows
        n = rows.n
        mean = np.zeros((rows.d + 1, rows.k))
        size = np.zeros_like(mean)
        square = np.zeros_like(mean)
        for part in blocks(n):
            X = rows.block(part, 1.0)
            one_hot = (rows.y[part][:, None] == np.arange(rows.k)).astype(float)
            mean += X.T @ one_hot
            size += abs(X).T @ one_hot
            square += (X * X).T @ one_hot
        self.active = size > 0
        self.relative = g(BLOCK + n / BLOCK + 16)
        self.tau = mean / n
        self.tau_error = self.relative * size / n
        self.lam = lambda0 * np.sqrt(np.maximum(square / n - self.tau**2, 0))
        self.lam_error = 8 * self.relative * n / (n - rows.counts)  # relative
        smallest = min(square[self.active].min(), self.lam[self.active].min())
        is_large = smallest > TINY and self.lam_error.max() < 0.1
        require(is_large, "lambda0, X: values are too small")

    def primal(self, W: Array, side: int) -> Fraction:
        """Return an upper (side 1) or lower (-1) bound on U(M)."""
        k = W.shape[1]
        size = np.abs(W)
        linear = fsum([(self.lam * size - self.tau * W).sum(axis=1)])
        errors = self.lam * (self.lam_error + g(k + 8)) + np.abs(self.tau) * g(k + 8)
        radius = 2 * fsum([(size * (errors + self.tau_error)).sum(axis=1)]) + TINY
        heights = []
        for rows in blocks(self.rows.n):
            F, error = self.space.scores(rows, W)
            rounding = g(k + 4) * (np.abs(F).max(axis=1) + 1)
            shift = 2 * (error.max(axis=1) + rounding) + TINY
            sums = np.cumsum(-np.sort(-F), axis=1)  # of the largest 1, 2, ..., k
            psi = ((sums - 1) / np.arange(1, k + 1)).max(axis=1)
            heights.append((psi + side * shift).max())
        bound = 1 + Fraction(linear) + side * Fraction(radius)
        return bound + Fraction(float(np.max(heights)))

    def dual(self) -> tuple[Fraction, Array]:
        """Return a lower bound of the optimum, and W."""
        rows, row, column, p = sparse(self.arrays, self.rows.n, self.rows.k)
        P = sp.csr_array((p, (row, column)), (len(rows), self.rows.k))
        mean = np.zeros_like(self.tau)
        size = np.zeros_like(self.tau)
        tops = []
        for part in blocks(len(rows)):
            X = self.rows.block(rows[part], 1.0)
            mass = P[part].toarray()
            mean += X.T @ mass
            size += abs(X).T @ mass
            tops.append(mass.max(axis=1))
        total = fsum([p])
        require(total > TINY, "values: have no mass")
        off = np.abs(mean / total - self.tau) + TINY
        off += 2 * (self.relative * size / total + self.tau_error)
        ratios = off / (self.lam * (1 - self.lam_error))
        rho = Fraction(float(ratios[self.active].max())) * (1 + Fraction(g(8)))
        top = Fraction(fsum(tops)) / Fraction(total) * (1 + Fraction(g(4)))
        return (1 - top) / max(Fraction(1), rho), self.W


# --- The arrays ---------------------------------------------------------------------


def refuse_others(arrays: Arrays, possible: set[str]) -> None:
    """Raise a ProofError if there are arrays that the problem cannot have."""
    more = ", ".join(sorted(arrays.keys() - possible))
    require(not more, f"{more}: not accepted in a proof of this problem")


def floats(arrays: Arrays, name: str, *shape: int) -> Array | None:
    """Return an array in double precision after checking its shape; None without it."""
    if name not in arrays:
        return None
    require(arrays[name].shape == shape, f"{name}: must have the shape {shape}")
    return arrays[name].astype(np.float64)


def increasing(array: Array, end: int, name: str) -> Array:
    """Return indices, which must be strictly increasing and below `end`."""
    is_list = array.ndim == 1 and array.size > 0
    is_below = is_list and 0 <= array.min() and array.max() < end
    require(is_below, f"{name}: must be indices below {end}")
    array = array.astype(np.int64)
    require((np.diff(array) > 0).all(), f"{name}: must be strictly increasing")
    return array


def sparse(arrays: Arrays, n: int, K: int) -> tuple[Array, ...]:
    """Return a dual point of the file.

    The result has the rows that have entries and, for each entry, the position of its
    row among them, its column and its value.
    """
    require(
        DUAL.keys() <= arrays.keys(), f"the dual point is missing: {', '.join(DUAL)}"
    )
    rows = increasing(arrays["rows"], n, "rows")
    ends = arrays["ends"]
    columns = arrays["columns"]
    values = arrays["values"]
    is_list = values.ndim == 1 and values.size > 0
    fits = is_list and columns.shape == values.shape
    require(fits, "columns, values: must have equal lengths")
    require(0 <= columns.min() and columns.max() < K, f"columns: must be below {K}")
    require(values.min() >= 0, "values: must not be negative")
    fits = ends.shape == rows.shape and ends.max() <= len(values)
    require(fits, "ends: do not fit rows")
    counts: Array = np.diff(ends.astype(np.int64), prepend=0)
    fits = counts.min() >= 0 and counts.sum() == len(values)
    require(fits, "ends: do not fit values")
    row = np.repeat(np.arange(len(rows)), counts)
    column = columns.astype(np.int64)
    require(
        (np.diff(row * K + column) > 0).all(), "columns: must increase within a row"
    )
    return rows, row, column, values.astype(np.float64)


# --- The interval -------------------------------------------------------------------


class Interval(NamedTuple):
    """An interval that certainly contains the optimum.

    `gap` is (upper - lower) / lower, or infinite if `lower` is 0.
    """

    lower: float
    upper: float
    gap: float
    statement: str


@contextmanager
def stated(proof: Proof, X: Given, y: Given) -> Iterator[MinimaxRisk | RegularisedRisk]:
    """Yield the problem of a proof for these rows; turn overflow into a ProofError."""
    rows = Rows(X, y)
    require(
        proof.header["checksum"] == digest(rows),
        "checksum: the proof is about other rows",
    )
    try:
        with np.errstate(all="ignore"):
            if proof.header["family"] == "mrc":
                yield MinimaxRisk(proof, rows)
            else:
                yield RegularisedRisk(proof, rows)
    except ProofError:
        raise
    except (ArithmeticError, ValueError) as error:  # Fraction and fsum refuse inf, NaN
        message = f"its numbers leave the range of double precision ({error})"
        raise ProofError(message) from None


def objective(proof: Proof, X: Given, y: Given) -> tuple[float, float]:
    """Return an interval that contains the stated objective at the proof's W."""
    with stated(proof, X, y) as problem:
        W = problem.W
        require(W is not None, "W: is missing")
        return below(problem.primal(W, -1)), above(problem.primal(W, 1))


def verify(
    proof: Proof | Path, X: Given, y: Given, name: str = "the rows given"
) -> Interval:
    """Return an interval that certainly contains the optimum of a stated problem.

    Parameters
    ----------
    proof : a Proof, or the path of a file
    X : (n, d) array or SciPy sparse matrix; float32 is kept, all else becomes float64
    y : (n,) labels 0..k-1; each of them must occur
    name : the name of the rows in the statement

    Raises
    ------
    ProofError
        If the file is not a proof, is about other rows, or has arrays that do not fit
        its problem; if X or y is not accepted; or if numbers overflow.
    """
    if not isinstance(proof, Proof):
        proof = read(proof)
    with stated(proof, X, y) as problem:
        bound, W = problem.dual()
        lower = max(0.0, below(bound))
        upper = above(problem.primal(W, 1))
        require(
            lower <= upper, "its bounds contradict each other: this machine is broken"
        )
    gap = (upper - lower) / lower if lower else math.inf
    size = f"{problem.rows.n} x {problem.rows.d}, {problem.rows.k} classes"
    interval = f"optimum in {digits(lower, upper)}, relative gap {gap:.1e}"
    statement = f"{words(proof.header)}; {name}, {size}\n  {interval}"
    return Interval(lower, upper, gap, statement)


def digits(lower: float, upper: float) -> str:
    """Return an interval as text with two digits of its width, rounded outwards."""
    low = Decimal(lower)
    high = Decimal(upper)
    width = (high - low).adjusted() if high > low else -400
    exponent = min(width - 1, high.adjusted() - 1, 0)
    unit = Decimal(1).scaleb(max(exponent, high.adjusted() - 16))
    low = low.quantize(unit, ROUND_FLOOR)
    high = high.quantize(unit, ROUND_CEILING)
    return f"[{low or 0}, {high}]"


def words(header: Header) -> str:
    """Return the stated problem with all its parameters."""
    if header["family"] == "mrc":
        return f"minimax risk classifier, lambda0={header['lambda0']}"
    parts = [LOSSES[header["loss"]], f"C={header['C']}"]
    if header["over"] == "mean":
        parts.append("mean over rows")
    if header["alpha"] != 1:
        parts.append(f"alpha={header['alpha']}")
    if header.get("l1"):
        parts.append(f"l1={header['l1']}")
    intercept = header.get("intercept")
    if intercept == "free":
        parts.append("free intercept")
    elif intercept is not None:
        parts.append(f"penalised intercept {intercept}")
    kernel = header.get("kernel")
    if kernel:
        gamma = kernel.get("gamma")
        width = "" if gamma is None else f" gamma={gamma}"
        parts.append(f"{kernel['name']} kernel{width}")
    return ", ".join(parts)


# --- The script ---------------------------------------------------------------------


def load_rows(path: str) -> tuple[Matrix, Array]:
    """Return X and y of a file.

    It is an npz file with y and with X or a CSR matrix as scipy.sparse.save_npz writes
    it. Any other file is read as csv with y in the last column.
    """
    if not path.endswith(".npz"):
        table = np.loadtxt(path, delimiter=",", ndmin=2)
        y = table[:, -1]
        require((y % 1 == 0).all(), "the last column must contain labels 0..k-1")
        return table[:, :-1], y.astype(np.int64)
    with np.load(path, allow_pickle=False) as file:
        if "X" in file:
            return file["X"], file["y"]
        parts = file["data"], file["indices"], file["indptr"]
        return sp.csr_array(parts, shape=tuple(file["shape"])), file["y"]


def main(argv: list[str]) -> int:
    """Print the interval of a proof; return 0 if it is verified, 1 if it is refused."""
    try:
        require(
            len(argv) == 2, "usage: python checker.py PROOF ROWS, rows in .npz or .csv"
        )
        X, y = load_rows(argv[1])
        start = time.perf_counter()
        interval = verify(argv[0], X, y, os.path.basename(argv[1]))
    except (OSError, KeyError, ValueError) as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    print(f"{interval.statement}; verified in {time.perf_counter() - start:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
