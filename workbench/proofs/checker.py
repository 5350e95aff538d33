"""Verify a proof: an interval that certainly contains the optimum of a training
problem.

A proof is a file that states a problem and has a primal and a dual point. Nothing in it
is trusted: both points are evaluated here, with every rounding bounded (FORMAT.md has
the terms), and any finite points give valid bounds. Scalars are Fractions. This file
needs NumPy and SciPy only and runs by itself: ``python checker.py PROOF ROWS``.

The problem, with N = 1 ("sum") or n ("mean") and the cost c_i of row i's class, is to
minimise

    P(W) = 1/N sum_i c_i loss(W'x_i + b, y_i) + alpha/2 |W|^2 + l1 |W|_1

where the intercept b is zero, free, or the weight of a constant column s of X. Weak
duality is

    P(W) >= D(A) = gain(A)/N - |soft(X'A, N l1)|^2 / (2 alpha N^2)

for all A with sum_i c_i loss_i(F) >= gain(A) - <A, F> at all scores F. With s_c = 1 for
the own class and -1 for others,

    loss            definition                       dual point         A_i            gain
    hinge           sum_c (1 - s_c F_c)_+            0 <= a <= c_i      s a            sum a
    squared_hinge   sum_c (1 - s_c F_c)_+^2          a = c_i h >= 0     s a            c_i(h - h²/4)
    logistic        sum_c log(1 + exp(-s_c F_c))     a = c_i p          s a            c_i H2(p)
    crammer_singer  max_c (F_c + [c != y]) - F_y     sum_c B_c <= c_i   e_y sum B - B  sum B
    weston_watkins  sum_{c != y} (1 + F_c - F_y)_+   0 <= B_c <= c_i    e_y sum B - B  sum B
    softmax         log sum_c exp(F_c) - F_y         sum_c p_c = 1      c_i (e_y - p)  c_i H(p)
    squared         |F - e_y|^2 / 2                  r                  c_i r   c_i(r_y - |r|²/2)

One output of two classes is class 1 against class 0. The dual point of a smooth loss is
made from W's scores; a W that is left out is made from A. With a kernel, |X'A|^2 is <A,
K A>, W has the coefficients of basis rows, and a penalised intercept s adds s^2 to the
kernel.

The minimax risk problem is, with the mean tau and lam = lambda0 * standard deviation of
Phi(x, y) = e_y (x, 1) and psi(v) = max over subsets S of (sum_S v - 1) / |S|, over all
M

    min 1 - <tau, M> + <lam, |M|> + max_i psi(M (x_i, 1)) >= (1 - sum_i max_y p_iy) /
    rho

for all distributions p, rho = max(1, |E_p Phi - tau| / lam). Components of Phi that are
zero in all rows of their class are left out.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

Given: TypeAlias = Any  # of a file or a caller, still to be checked
Matrix: TypeAlias = Any  # an array or a CSR matrix: SciPy has no types
Points: TypeAlias = Iterator[tuple[Any, ...]]  # rows, and arrays that belong to them
Norms: TypeAlias = tuple[Fraction, Fraction, np.ndarray]
Path: TypeAlias = str | os.PathLike[str]
Test: TypeAlias = tuple[str, Callable[[Given], object]]
BLOCK = 1024  # rows at a time
MAX_BYTES = 2**28
MAX_BRACKETS = 256  # in a header: no parser then runs out of stack
MAX_NUMBER = 2.0**500  # its square, times many rows, is a double
TINY = 2.0**-900  # more than all underflow in a sum
NORM_FLOOR = 2.0**-480  # more than a length loses where squares underflow
LOSSES = {
    "hinge": "one-vs-rest SVM",
    "squared_hinge": "one-vs-rest SVM with squared hinge",
    "logistic": "one-vs-rest logistic regression",
    "crammer_singer": "Crammer-Singer SVM",
    "weston_watkins": "Weston-Watkins SVM",
    "softmax": "softmax regression",
    "squared": "least squares",
}
ONE_VS_REST = ("hinge", "squared_hinge", "logistic", "squared")  # may have one output
STORED = (
    "hinge",
    "crammer_singer",
    "weston_watkins",
)  # their dual points are in the file
DUAL = {"rows": "iu", "ends": "iu", "columns": "iu", "values": "f"}
ARRAYS = {"W": "f", "b": "f", "basis": "iu", "M": "f"} | DUAL  # kinds of numbers
ENTRY = struct.Struct("<4s4x2H4x3I3H8xI")  # of the directory of a zip archive
ARRAY_HEADER = re.compile(
    rb"\{'descr': '([<>][fiu][248]|[<>|][iu]1)', 'fortran_order': (True|False), "
    rb"'shape': \((?:(0|[1-9]\d{0,17}),(?: (0|[1-9]\d{0,17}))?)?\), \} *\n"
)


class ProofError(ValueError):
    """A file is not a proof, or not a proof about these rows; the message gives the
    reason."""


def require(condition: object, message: str) -> None:
    """Raise a ProofError unless the condition holds."""
    if not condition:
        raise ProofError(message)


def shown(value: object) -> str:
    """Return a value in at most 60 characters of ASCII."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def number(v: Given) -> bool:
    """Return whether a value is a double from 0, not -0.0, to MAX_NUMBER."""
    good = (
        isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v <= MAX_NUMBER
    )
    return good and float(v) == v and math.copysign(1, v) > 0


def positive(v: Given) -> bool:
    """Return whether a value is such a number and not 0."""
    return number(v) and v > 0


AT_LEAST_0 = "a number from 0 to 2^500", number
POSITIVE = "a positive number up to 2^500", positive
ANY = "anything", lambda v: True
FAMILIES = "linear", "kernel", "mrc"
ACCEPTED: dict[str, Test] = (
    {  # the values of each field of the header, in words and as a test
        "format": ("1", lambda v: type(v) is int and v == 1),
        "family": ("linear, kernel or mrc", lambda v: v in FAMILIES),
        "outputs": (
            "the number of outputs",
            lambda v: type(v) is int and 0 < v < 2**31,
        ),
        "checksum": ("a SHA-256", lambda v: re.fullmatch("[0-9a-f]{64}", str(v))),
        "loss": (", ".join(LOSSES), lambda v: v in [*LOSSES]),
        "over": ("sum or mean", lambda v: v in ("sum", "mean")),
        "C": (
            f"{POSITIVE[0]}, or a list of them",
            lambda v: all(map(positive, v if type(v) is list else [v])),
        ),
        "intercept": (
            f"null, free or {POSITIVE[0]}",
            lambda v: v == "free" or positive(v),
        ),
        "kernel": ("an object", lambda v: type(v) is dict),
        "name": ("linear or rbf", lambda v: v in ("linear", "rbf")),
    }
    | dict(
        alpha=AT_LEAST_0,
        l1=AT_LEAST_0,
        gamma=POSITIVE,
        lambda0=POSITIVE,
        recipe=ANY,
        text=ANY,
    )
)
# by family or name of a kernel: needed fields and, after the bar, possible ones
FIELDS = {
    "mrc": "format family outputs checksum lambda0 | recipe text",
    "linear": "format family outputs checksum loss over C alpha | l1 intercept recipe text",
    "kernel": "format family outputs checksum loss over C alpha kernel | l1 intercept recipe text",
    "rbf kernel": "name gamma |",
}


def check_fields(fields: dict[str, Any], kind: str) -> None:
    """Raise a ProofError unless all fields are known and accepted; null counts as left
    out."""
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        require(name in ACCEPTED, f"header: there is no field {shown(name)}")
        words, test = ACCEPTED[name]
        require(test(value), f"{name}: must be {words}, got {shown(value)}")
    needed, possible = (
        set(part.split()) for part in FIELDS.get(kind, "name |").split("|")
    )
    require(
        needed <= given.keys(),
        f"header: {', '.join(sorted(needed - given.keys()))} missing",
    )
    more = sorted(given.keys() - needed - possible)
    require(not more, f"header: {kind} has no field {', '.join(more)}")


@dataclass(frozen=True, eq=False)
class Proof:
    """The header of a proof and its arrays by name, checked, but not against any
    rows."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        h = self.header
        require(
            type(h) is dict and type(h.get("family")) is str, "header: has no family"
        )
        check_fields(h, h["family"])
        if h["family"] == "kernel":
            check_fields(h["kernel"], f"{h['kernel'].get('name')} kernel")
            require(
                h["alpha"] > 0 and not h.get("l1"),
                "alpha, l1: a kernel needs l1 = 0 < alpha",
            )
        good = h["family"] == "mrc" or h["alpha"] > 0 or h.get("l1")
        require(good, "alpha, l1: one of them must be positive")
        for name, array in self.arrays.items():
            require(name in ARRAYS, f"no proof has an array {shown(name)}")
            require(
                array.dtype.kind in ARRAYS[name], f"{name}: has the type {array.dtype}"
            )
            require(
                array.dtype.kind != "f" or np.isfinite(array).all(),
                f"{name}: is not finite",
            )


class Verdict(NamedTuple):
    """An interval that certainly contains the optimum; `gap` is (upper - lower) /
    lower."""

    lower: float
    upper: float
    gap: float
    statement: str


def read(path: Path) -> Proof:
    """Read a proof of at most 256 MiB, in twice its memory; nothing in it is executed.

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
        header = arrays.pop("header", np.empty(0))
        require(header.dtype == np.uint8 and header.ndim == 1, "has no header of bytes")
        text = header.tobytes().decode()
        require(
            text.count("[") + text.count("{") <= MAX_BRACKETS,
            "header: has too many brackets",
        )
        hooks: dict[str, Any] = {
            "parse_int": whole,
            "parse_constant": int,
        }  # int refuses NaN
        return Proof(json.loads(text, object_pairs_hook=unique, **hooks), arrays)
    except Exception as error:  # struct and json raise several kinds for damaged files
        reason = str(error) or type(error).__name__
        if not isinstance(error, ProofError):
            reason = f"is not a proof, or is damaged ({shown(reason)})"
        raise ProofError(f"{path}: {reason}") from None


def unpacked(data: memoryview) -> dict[str, np.ndarray]:
    """Return the arrays of a zip archive in the one form that FORMAT.md, section 1,
    allows."""
    arrays: dict[str, np.ndarray] = {}
    place, end = 0, len(data) - 22
    (directory,) = struct.unpack_from("<I", data, end + 16)
    at = directory
    while at < end:
        mark, flags, method, crc, packed, size, *lengths, start = ENTRY.unpack_from(
            data, at
        )
        local, named, more = struct.unpack_from("<4s22x2H", data, start)
        label = data[at + 46 : at + 46 + lengths[0]]
        file = str(label, "latin1")
        name = file.removesuffix(".npy")
        possible = {"header", *ARRAYS} - {file, *arrays}
        require(name in possible, f"no proof has a member {shown(file)}")
        stated = mark, local, flags, method, packed, start
        good = stated == (b"PK\1\2", b"PK\3\4", 0, 0, size, place)
        good = good and data[start + 30 : start + 30 + named] == label
        place = start + 30 + named + more + size
        member = data[place - size : place]
        good = good and place <= directory and zlib.crc32(member) == crc
        require(
            good,
            f"{name}: is compressed, damaged, or not where the member before it ends",
        )
        arrays[name] = parsed(member, name)
        at += 46 + sum(lengths)
    record = b"PK\5\6", 0, 0, len(arrays), len(arrays), end - directory, directory, 0
    good = (place, at) == (directory, end) and data[end:] == struct.pack(
        "<4s4H2IH", *record
    )
    require(good, "has bytes around it, or another end record")
    return arrays


def parsed(data: memoryview, name: str) -> np.ndarray:
    """Return the array of an npy file; its header is matched, never evaluated."""
    start = 10 + int.from_bytes(data[8:10], "little")
    found = ARRAY_HEADER.fullmatch(data[10:start])
    if bytes(data[:8]) != b"\x93NUMPY\1\0" or not found:
        raise ProofError(f"{name}: is not an array of numbers")
    shape, dtype = (
        tuple(int(m) for m in found.group(3, 4) if m),
        np.dtype(found[1].decode()),
    )
    require(
        math.prod(shape) * dtype.itemsize == len(data) - start,
        f"{name}: has another size",
    )
    array = np.frombuffer(data, dtype, offset=start)
    array = array.reshape(shape, order="F" if found[2] == b"True" else "C")
    return array.astype(dtype.newbyteorder("="))


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise a ProofError if a name appears twice."""
    require(len(dict(pairs)) == len(pairs), "header: a name appears twice")
    return dict(pairs)


def whole(text: str) -> int | float:
    """Return a JSON number without point and exponent; -0.0 and inf are refused as
    numbers."""
    return float(text) if text == "-0" or len(text) > 400 else int(text)


class Rows:
    """Training rows and labels 0..k-1, checked; `longest` is the most entries in a
    row."""

    def __init__(self, X: Given, y: Given) -> None:
        y = np.asarray(y)
        if sp.issparse(X):
            X = sp.csr_array(X)
            X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
            X.check_format(full_check=True)  # no index may lead out of the arrays
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
        else:
            X = np.asarray(X)
        good = X.ndim == 2 and min(X.shape) > 0 and X.dtype.kind in "fiub"
        require(good, "X: must be rows of numbers")
        self.X: Matrix = (
            X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
        )
        self.n, self.d = X.shape
        good = (
            y.shape == (self.n,)
            and y.dtype.kind in "iu"
            and 0 <= y.min()
            and y.max() < self.n
        )
        require(good, "y: must have a label 0..k-1 for each row")
        self.y = y.astype(np.int64)
        self.counts = np.bincount(self.y)
        self.k = len(self.counts)
        good = self.k >= 2 and self.counts.min() > 0
        require(good, "y: must have at least two classes, each with a row")
        self.longest = int(np.diff(getattr(X, "indptr", [0, self.d])).max())
        self.norms = np.concatenate(
            [lengths(self.block(part)) for part in blocks(self.n)]
        )
        require(
            np.isfinite(self.norms).all(),
            "X: some values, or their squares, are not finite",
        )

    def block(self, rows: slice | np.ndarray, constant: float = 0.0) -> Matrix:
        """Return rows in double precision, with a constant column unless it is zero."""
        X = self.X[rows].astype(np.float64)
        column = np.full((X.shape[0], 1 if constant else 0), constant)
        return (
            sp.hstack([X, column], format="csr")
            if sp.issparse(X)
            else np.hstack([X, column])
        )


def checksum(X: Given, y: Given) -> str:
    """Return the SHA-256 of rows (array or SciPy sparse matrix) and their labels
    0..k-1."""
    return digest(Rows(X, y))


def digest(rows: Rows) -> str:
    """Return the SHA-256 of checked rows: sizes, type, values in their order,
    labels."""
    X, kind = rows.X, "csr" if sp.issparse(rows.X) else "dense"
    sha = hashlib.sha256(f"{kind} {X.dtype.name} {rows.n} {rows.d}\n".encode())
    for part in (X.indptr, X.indices) if kind == "csr" else ():
        sha.update(np.ascontiguousarray(part, "<i8").data)
    for part in [X.data] if kind == "csr" else (X[part] for part in blocks(rows.n)):
        sha.update(np.ascontiguousarray(part, X.dtype.newbyteorder("<")).data)
    sha.update(np.ascontiguousarray(rows.y, "<i8").data)
    return sha.hexdigest()


def blocks(n: int) -> list[slice]:
    """Return slices of n rows, BLOCK at a time."""
    return [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]


def squares(X: Matrix) -> np.ndarray:
    """Return the squared length of each row."""
    return X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def lengths(X: Matrix) -> np.ndarray:
    """Return at least the length of each row, up to rounding."""
    return np.sqrt(squares(X)) + NORM_FLOOR


def g(terms: float) -> float:
    """Return 2mu, a bound of the relative error of a sum of m terms."""
    return terms * 2.0**-52


def fsum(parts: list[np.ndarray]) -> float:
    """Return the sum of all entries, rounded once."""
    return math.fsum(np.concatenate(parts).tolist())


def summed(parts: list[np.ndarray], terms: float, side: int) -> Fraction:
    """Return an upper (side 1) or lower (-1) bound of a sum of values >= 0, right to
    g(terms)."""
    total = Fraction(fsum(parts)) * (
        1 + side * Fraction(g(terms + 4))
    ) + side * Fraction(TINY)
    return max(Fraction(0), total)


def root(value: Fraction) -> Fraction:
    """Return the square root, rounded up."""
    return Fraction(math.sqrt(value)) * (1 + Fraction(g(8))) + Fraction(TINY)


class Linear:
    """Weights of the columns of X, and of a constant column unless `constant` is
    zero."""

    def __init__(self, rows: Rows, constant: float) -> None:
        self.rows, self.constant, self.terms = rows, constant, rows.longest + 1
        self.norms = np.hypot(rows.norms, constant)

    def scores(self, rows: slice, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of rows, and a bound of their errors that is still to be
        doubled."""
        F = self.rows.block(rows, self.constant) @ W
        return F, g(self.terms + 10) * np.outer(self.norms[rows], lengths(W.T))

    def square(self, W: np.ndarray, side: int) -> Fraction:
        return summed([squares(W)], W.shape[1], side)

    def dual(self, points: Points, K: int, threshold: float) -> Norms:
        """Return |S| for S = soft(X'A, threshold) and max |X'A|, both rounded up, and
        S.

        `points` yields (rows, A, slack), where A_i is right to g(K + 16) (|A_i| +
        slack_i).
        """
        V, size, count = np.zeros((self.rows.d + (self.constant > 0), K)), 0.0, 0
        for rows, A, slack in points:
            V += self.rows.block(rows, self.constant).T @ A
            size, count = (
                size + self.norms[rows] @ (lengths(A) + slack[:, 0]),
                count + 1,
            )
        S = V
        if threshold:
            S = np.copysign(np.maximum(np.abs(V) - threshold * (1 - g(4)), 0), V)
        radius = Fraction(float(2 * g(BLOCK + count + K + 16) * size)) + Fraction(TINY)
        peak = Fraction(float(max(V.max(), -V.min())))
        return root(self.square(S, 1)) + radius, peak + radius, S


class Kernel:
    """As Linear in the feature space of a kernel; weights are coefficients of the rows
    `basis`."""

    def __init__(self, rows: Rows, constant: float, kernel: dict[str, Any]) -> None:
        self.rows, self.constant, self.name = rows, constant, kernel["name"]
        self.gamma = float(kernel.get("gamma") or 1)
        self.basis: Matrix = None  # of W, or made by dual()
        self.centre = 0.0
        if self.name == "rbf" and not sp.issparse(
            rows.X
        ):  # distances then lose fewer digits
            self.centre = (
                sum(rows.block(part).sum(axis=0) for part in blocks(rows.n)) / rows.n
            )
        self.squares = np.concatenate(
            [squares(self.block(part)) for part in blocks(rows.n)]
        )
        top, m = float(self.squares.max()), rows.longest
        if self.name == "rbf":
            self.top, self.off = 1.0, 32 * self.gamma * g(m + 16) * top + g(32)
        else:
            self.top, self.off = top, 2 * g(m + 8) * top
        self.top += constant**2  # the largest entry, and the largest error of one
        self.off += g(2) * self.top + TINY
        self.norms = np.full(rows.n, math.sqrt(self.top))

    def block(self, rows: slice | np.ndarray) -> Matrix:
        X = self.rows.block(rows)
        return X if sp.issparse(X) else X - self.centre

    def product(
        self, left: slice | np.ndarray, right: np.ndarray, A: np.ndarray
    ) -> np.ndarray:
        """Return K[left, right] @ A, a tile of the kernel matrix K at a time."""
        X, total = self.block(left), np.zeros(A.shape[1])
        for part in blocks(len(right)):
            G = X @ self.block(right[part]).T
            G = G.toarray() if sp.issparse(G) else G
            if self.name == "rbf":
                G = self.squares[left][:, None] + self.squares[right[part]] - 2 * G
                G = np.exp(-self.gamma * np.maximum(G, 0))
            total = total + (G + self.constant**2) @ A[part]
        return total

    def error(self, terms: float) -> float:
        """Return the error of a sum over the basis, relative to the sum of all
        |weights|."""
        return self.off + g(BLOCK + len(self.basis) / BLOCK + terms + 16) * self.top

    def scores(self, rows: slice, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        F = self.product(rows, self.basis, W)
        return F, np.broadcast_to(self.error(0) * np.abs(W).sum(axis=0), F.shape)

    def square(self, W: np.ndarray, side: int, slack: float = 0.0) -> Fraction:
        """Return a bound of <W, K W>, where the columns' |W|_1 are larger by
        `slack`."""
        values, basis = [], self.basis
        for part in blocks(len(basis)):
            values.append((W[part] * self.product(basis[part], basis, W)).sum(axis=1))
        size = np.abs(W).sum(axis=0) + slack
        radius = Fraction(float(2 * self.error(W.shape[1]) * (size @ size))) + Fraction(
            TINY
        )
        return max(Fraction(0), Fraction(fsum(values)) + side * radius)

    def dual(self, points: Points, K: int, threshold: float) -> Norms:
        given, parts = (
            self.basis,
            [*points],
        )  # smooth points need the basis of W until here
        self.basis = np.concatenate(
            [np.arange(self.rows.n)[rows] for rows, _, _ in parts]
        )
        A = np.concatenate([A for _, A, _ in parts])
        slack = float(sum(slack.sum() for _, _, slack in parts))
        norm = root(self.square(A, 1, slack))
        self.basis = self.basis if given is None else given
        return norm, norm, A


def loss_of(name: str, F: np.ndarray, own: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return the losses of rows at the scores F, each of them made worse by its
    `shift`."""
    if name == "squared":
        return (np.maximum(np.abs(F - own) + shift, 0) ** 2).sum(axis=1) / 2
    if name in ONE_VS_REST:
        z = np.where(own, -F, F) + shift
    else:
        z = F - F[own][:, None] + (shift + shift[own][:, None])
        z[own] = 0 if name == "softmax" else -1
    if name == "logistic":
        return (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))).sum(axis=1)
    if name == "softmax":
        best = np.arange(len(z)), z.argmax(axis=1)
        top, z[best] = z[best], -np.inf
        return top + np.log1p(np.exp(z - top[:, None]).sum(axis=1))
    hinge = np.maximum(1 + z, 0)
    if name == "crammer_singer":
        return hinge.max(axis=1)
    return (hinge**2 if name == "squared_hinge" else hinge).sum(axis=1)


def smooth_point(name: str, F: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return A, the gain and the size of its terms, at cost 1, for the dual point made
    from F."""
    sign = np.where(own, 1.0, -1.0)
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
        return own - q / total, gain, gain + q / total
    r = own - F
    return r, r * own - r * r / 2, np.abs(r) + r * r / 2


class RegularisedRisk:
    """A problem of the families linear and kernel; W has a row for a penalised
    intercept."""

    def __init__(self, proof: Proof, rows: Rows) -> None:
        self.rows, self.arrays, header = rows, proof.arrays, proof.header
        self.set_losses(header)
        self.alpha, self.l1 = float(header["alpha"]), float(header.get("l1") or 0)
        intercept = header.get("intercept")
        self.free = intercept == "free"
        constant = 0.0 if self.free else float(intercept or 0)
        possible = {"W"}
        if self.loss in STORED:
            possible |= DUAL.keys()
        self.space: Linear | Kernel
        if header["family"] == "kernel":
            possible.add("basis")
            self.space = Kernel(rows, constant, header["kernel"])
        else:
            self.space = Linear(rows, constant)
        has_row = constant > 0 and isinstance(
            self.space, Linear
        )  # of W, for the constant
        if self.free or has_row:
            possible.add("b")
        refuse_others(self.arrays, possible)
        self.set_weights(has_row)

    def set_losses(self, header: dict[str, Any]) -> None:
        """Set the loss, the outputs, N and the cost of each row."""
        self.loss, self.K, k = header["loss"], header["outputs"], self.rows.k
        single = self.K == 1 and k == 2 and self.loss in ONE_VS_REST
        require(
            single or self.K == k, f"outputs: {self.K}, but the rows have {k} classes"
        )
        self.classes = np.array([1]) if single else np.arange(k)
        self.N = self.rows.n if header["over"] == "mean" else 1
        C = header["C"]
        of_class = np.array(C if isinstance(C, list) else [C] * k, dtype=np.float64)
        require(
            len(of_class) == k,
            f"C: {len(of_class)} costs, but the rows have {k} classes",
        )
        self.costs = of_class[self.rows.y]
        self.least = float((of_class * self.rows.counts).min())

    def set_weights(self, has_row: bool) -> None:
        """Set the basis of W, W, None if it is left out, and the free intercept b."""
        length = self.rows.d
        if isinstance(self.space, Kernel):
            given = "basis" in self.arrays
            require(given == ("W" in self.arrays), "W, basis: give both or neither")
            if given:
                self.space.basis = increasing(
                    self.arrays["basis"], self.rows.n, "basis"
                )
                length = len(self.space.basis)
        W, b = (
            floats(self.arrays, "W", length, self.K),
            floats(self.arrays, "b", self.K),
        )
        if W is None:
            require(b is None or self.free, "b: needs W")
            can_be_made = self.alpha > 0 and self.loss in STORED
            require(can_be_made, "W: is missing, and cannot be made")
        b = np.zeros(self.K) if b is None else b
        if has_row and W is not None:
            W = np.vstack([W, b])
        self.W: Matrix = W
        self.b = b if self.free else np.zeros(self.K)

    def own(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return whether an output is that of the row's class, (rows, K)."""
        return self.rows.y[rows][:, None] == self.classes

    def primal(self, W: np.ndarray, side: int) -> Fraction:
        """Return an upper (side 1) or lower (-1) bound of P(W)."""
        losses = []
        for rows in blocks(self.rows.n):
            F, radius = self.space.scores(rows, W)
            shift = side * (2 * (radius + g(10) * (np.abs(self.b) + 1)) + TINY)
            loss = loss_of(self.loss, F + self.b, self.own(rows), shift)
            losses.append(self.costs[rows] * loss)
        norm = Fraction(self.alpha) / 2 * self.space.square(W, side)
        l1 = Fraction(self.l1) * summed([np.abs(W).sum(axis=1)], self.K, side)
        return summed(losses, 2 * self.K + 256, side) / self.N + norm + l1

    def points(self) -> Points:
        """Yield the rows, A, the slack of A, the gains and the sizes of their terms."""
        if self.loss in STORED:
            yield from self.stored()
            return
        for rows in blocks(self.rows.n):
            F, c = (
                self.space.scores(rows, self.W)[0] + self.b,
                self.costs[rows][:, None],
            )
            A, gain, size = smooth_point(self.loss, F, self.own(rows))
            yield rows, c * A, c, (c * gain).sum(axis=1), (c * size).sum(axis=1)

    def stored(self) -> Points:
        """Yield the same for the point in the file, after making it feasible."""
        rows, row, column, values = sparse(self.arrays, self.rows.n, self.K)
        y, c, K = self.rows.y[rows], self.costs[rows], self.K
        values = np.minimum(values, c[row])
        if self.loss == "hinge":
            sign = np.where(self.classes[column] == y[row], 1.0, -1.0)
        else:
            require(
                (column != y[row]).all(), "columns: a row has an entry of its own class"
            )
            sign = -1.0
        if self.loss == "crammer_singer":
            total = np.bincount(row, values, len(rows))
            scale = np.where(
                total * (1 + g(K + 2)) <= c, 1.0, c / total * (1 - g(4 * K + 32))
            )
            values = values * scale[row]
            total = np.bincount(row, values, len(rows))
            values = values * (total * (1 + g(K + 2)) <= c)[row]
        gain = np.bincount(row, values, len(rows))
        A = sp.csr_array((sign * values, (row, column)), (len(rows), K))
        for part in blocks(len(rows)):
            block = A[part].toarray()
            if self.loss != "hinge":
                block[self.own(rows[part])] = gain[part]
            yield rows[part], block, np.zeros((1, 1)), gain[part], gain[part]

    def dual(self) -> tuple[Fraction, np.ndarray]:
        """Return a lower bound of the optimum, and W, made from A if the proof has
        none."""
        gains, sizes, sums, inside = [], [], [], np.zeros(self.K)

        def points() -> Points:
            for rows, A, slack, gain, size in self.points():
                gains.append(gain)
                sizes.append(size)
                if self.free:
                    sums.append([math.fsum(column) for column in A.T.tolist()])
                    inside[:] += (np.abs(A) + slack).sum(axis=0)
                yield rows, A, slack

        K, N, alpha, l1 = self.K, self.N, Fraction(self.alpha), self.l1
        norm, peak, S = self.space.dual(points(), K, N * l1)
        lost = Fraction(g(2 * K + 256)) * Fraction(fsum(sizes)) + Fraction(TINY)
        gain = max(Fraction(0), Fraction(fsum(gains)) - lost)
        if (
            self.free
        ):  # a share of the class shares' point, shifted, cancels the columns' sums
            off = (
                np.abs([math.fsum(column) for column in zip(*sums)]) * (1 + g(4)) + TINY
            )
            off += 0 if self.loss == "hinge" else 2 * g(K + 16) * inside
            share = min(1.0, 4 * float(off.max()) / self.least)
            pull = Fraction(
                4 * math.sqrt(K) * share * fsum([self.costs * self.space.norms])
            )
            gain, norm, peak = gain * (1 - Fraction(share)), norm + pull, peak + pull
        if not alpha:  # then |X'A| <= N l1
            return min(1, N * Fraction(l1) / peak) * gain / N, self.W
        scale = min(1, alpha * N * gain / norm**2)
        W = S / (self.alpha * N) if self.W is None else self.W
        return scale * gain / N - (scale * norm) ** 2 / (2 * alpha * N**2), W


class MinimaxRisk:
    """The minimax risk problem; W is the transpose of M, with 0 for components left
    out."""

    def __init__(self, proof: Proof, rows: Rows) -> None:
        self.rows, self.arrays, self.space, k = (
            rows,
            proof.arrays,
            Linear(rows, 1.0),
            rows.k,
        )
        outputs, lambda0 = proof.header["outputs"], float(proof.header["lambda0"])
        require(outputs == k, f"outputs: {outputs}, but the rows have {k} classes")
        refuse_others(self.arrays, {"M", *DUAL})
        mean = size = square = np.zeros(())
        for part in blocks(rows.n):
            X, own = (
                rows.block(part, 1.0),
                (rows.y[part][:, None] == np.arange(k)).astype(float),
            )
            mean, size, square = (
                mean + X.T @ own,
                size + abs(X).T @ own,
                square + (X * X).T @ own,
            )
        self.relative, self.active = g(BLOCK + rows.n / BLOCK + 16), size > 0
        self.tau, self.tau_error = mean / rows.n, self.relative * size / rows.n
        self.lam = lambda0 * np.sqrt(np.maximum(square / rows.n - self.tau**2, 0))
        self.lam_error = 8 * self.relative * rows.n / (rows.n - rows.counts)  # relative
        good = min(square[self.active].min(), self.lam[self.active].min()) > TINY
        require(good and self.lam_error.max() < 0.1, "lambda0, X: values are too small")
        M = floats(self.arrays, "M", k, rows.d + 1)
        if M is None:
            raise ProofError("M: is missing")
        self.W = np.where(self.active, M.T, 0.0)

    def primal(self, W: np.ndarray, side: int) -> Fraction:
        """Return an upper (side 1) or lower (-1) bound of U(M)."""
        size, k, heights = np.abs(W), W.shape[1], []
        linear = fsum([(self.lam * size - self.tau * W).sum(axis=1)])
        errors = self.lam * (self.lam_error + g(k + 8)) + np.abs(self.tau) * g(k + 8)
        radius = 2 * fsum([(size * (errors + self.tau_error)).sum(axis=1)]) + TINY
        for rows in blocks(self.rows.n):
            F, error = self.space.scores(rows, W)
            error = (
                2 * (error.max(axis=1) + g(k + 4) * (np.abs(F).max(axis=1) + 1)) + TINY
            )
            psi = ((np.cumsum(-np.sort(-F), axis=1) - 1) / np.arange(1, k + 1)).max(
                axis=1
            )
            heights.append((psi + side * error).max())
        return (
            1
            + Fraction(linear)
            + side * Fraction(radius)
            + Fraction(float(np.max(heights)))
        )

    def dual(self) -> tuple[Fraction, np.ndarray]:
        """Return a lower bound of the optimum, and W."""
        rows, row, column, p = sparse(self.arrays, self.rows.n, self.rows.k)
        P = sp.csr_array((p, (row, column)), (len(rows), self.rows.k))
        mean, size, tops = np.zeros(()), np.zeros(()), []
        for part in blocks(len(rows)):
            X, mass = self.rows.block(rows[part], 1.0), P[part].toarray()
            mean, size = mean + X.T @ mass, size + abs(X).T @ mass
            tops.append(mass.max(axis=1))
        total = fsum([p])
        require(total > TINY, "values: have no mass")
        off = np.abs(mean / total - self.tau) + TINY
        off += 2 * (self.relative * size / total + self.tau_error)
        ratio = Fraction(
            float((off / (self.lam * (1 - self.lam_error)))[self.active].max())
        )
        bayes = 1 - Fraction(fsum(tops)) / Fraction(total) * (1 + Fraction(g(4)))
        return bayes / max(Fraction(1), ratio * (1 + Fraction(g(8)))), self.W


def refuse_others(arrays: dict[str, np.ndarray], possible: set[str]) -> None:
    """Raise a ProofError if there are arrays that the problem cannot have."""
    more = sorted(arrays.keys() - possible)
    require(not more, f"{', '.join(more)}: are not arrays of such a proof")


def floats(arrays: dict[str, np.ndarray], name: str, *shape: int) -> np.ndarray | None:
    """Return an array in double precision, None if it is left out; check its shape."""
    if name not in arrays:
        return None
    require(arrays[name].shape == shape, f"{name}: is not of shape {shape}")
    return arrays[name].astype(np.float64)


def increasing(array: np.ndarray, end: int, name: str) -> np.ndarray:
    """Return indices, which must be strictly increasing and below `end`."""
    good = array.ndim == 1 and array.size > 0 and 0 <= array.min() and array.max() < end
    require(good, f"{name}: must be indices below {end}")
    array = array.astype(np.int64)
    require((np.diff(array) > 0).all(), f"{name}: must be strictly increasing")
    return array


def sparse(arrays: dict[str, np.ndarray], n: int, K: int) -> tuple[np.ndarray, ...]:
    """Return the rows that have entries, and per entry its place in them, column and
    value."""
    require(
        DUAL.keys() <= arrays.keys(), f"the dual point is missing, {', '.join(DUAL)}"
    )
    rows, ends, columns, values = (arrays[name] for name in DUAL)
    rows, good = increasing(rows, n, "rows"), values.ndim == 1 and values.size > 0
    require(
        good and columns.shape == values.shape,
        "columns, values: must have equal lengths",
    )
    require(0 <= columns.min() and columns.max() < K, f"columns: must be below {K}")
    require(values.min() >= 0, "values: must not be negative")
    require(
        ends.shape == rows.shape and ends.max() <= len(values), "ends: do not fit rows"
    )
    counts: np.ndarray = np.diff(ends.astype(np.int64), prepend=0)
    require(
        counts.min() >= 0 and counts.sum() == len(values), "ends: do not fit values"
    )
    row, columns = np.repeat(np.arange(len(rows)), counts), columns.astype(np.int64)
    require(
        (np.diff(row * K + columns) > 0).all(), "columns: must increase within a row"
    )
    return rows, row, columns, values.astype(np.float64)


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
            yield (MinimaxRisk if proof.header["family"] == "mrc" else RegularisedRisk)(
                proof, rows
            )
    except ProofError:
        raise
    except (
        ArithmeticError,
        ValueError,
    ) as error:  # of Fraction and fsum, for infinity and NaN
        raise ProofError(
            f"its numbers leave the range of double precision ({error})"
        ) from None


def below(value: Fraction) -> float:
    """Return the largest double that is at most a number."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def objective(proof: Proof, X: Given, y: Given) -> tuple[float, float]:
    """Return an interval that certainly contains the stated objective at the proof's
    weights."""
    with stated(proof, X, y) as problem:
        require(problem.W is not None, "W: is missing")
        return below(problem.primal(problem.W, -1)), -below(
            -problem.primal(problem.W, 1)
        )


def verify(
    proof: Proof | Path, X: Given, y: Given, name: str = "the rows given"
) -> Verdict:
    """Return an interval that certainly contains the optimum of the problem that a
    proof states.

    Parameters
    ----------
    proof : a Proof, or the path of a file
    X : (n, d) array or SciPy sparse matrix; float32 is kept, all else becomes float64
    y : (n,) labels 0..k-1; each of them must occur
    name : the name of the rows in the statement

    Raises
    ------
    ProofError
        If the file is not a proof, is about other rows, or its arrays do not fit its
        problem.
    """
    proof = proof if isinstance(proof, Proof) else read(proof)
    with stated(proof, X, y) as problem:
        low, W = problem.dual()
        lower, upper = max(0.0, below(low)), -below(-problem.primal(W, 1))
        require(
            lower <= upper, "its bounds contradict each other: this machine is broken"
        )
    gap = (upper - lower) / lower if lower else math.inf
    rows = f"{problem.rows.n} x {problem.rows.d}, {problem.rows.k} classes"
    interval = f"optimum in {digits(lower, upper)}, relative gap {gap:.1e}"
    return Verdict(
        lower, upper, gap, f"{words(proof.header)}; {name}, {rows}\n  {interval}"
    )


def digits(lower: float, upper: float) -> str:
    """Return an interval with two digits of its width, rounded outwards."""
    low, high = Decimal(lower), Decimal(upper)
    width = (high - low).adjusted() if high > low else -400
    unit = Decimal(
        (0, (1,), max(min(width - 1, high.adjusted() - 1, 0), high.adjusted() - 16))
    )
    low, high = low.quantize(unit, ROUND_FLOOR), high.quantize(unit, ROUND_CEILING)
    return f"[{low or 0}, {high}]"


def words(header: dict[str, Any]) -> str:
    """Return the stated problem with all its parameters."""
    h = {name: value for name, value in header.items() if value is not None}
    if h["family"] == "mrc":
        return f"minimax risk classifier, lambda0={h['lambda0']}"
    s, kernel = h.get("intercept"), h.get("kernel") or {}
    parts = [
        LOSSES[h["loss"]],
        f"C={h['C']}",
        *["mean over rows"] * (h["over"] == "mean"),
    ]
    parts += [f"alpha={h['alpha']}"] * (h["alpha"] != 1) + [f"l1={h.get('l1')}"] * bool(
        h.get("l1")
    )
    parts += (
        []
        if s is None
        else ["free intercept" if s == "free" else f"penalised intercept {s}"]
    )
    more = "".join(
        f" {name}={v}" for name, v in kernel.items() if name != "name" and v is not None
    )
    return ", ".join(parts + ([f"{kernel['name']} kernel{more}"] if kernel else []))


def load_rows(path: str) -> tuple[Matrix, np.ndarray]:
    """Return X and y of an npz file (X, or as scipy.sparse.save_npz) or csv file (y
    last)."""
    if not path.endswith(".npz"):
        table = np.loadtxt(path, delimiter=",", ndmin=2)
        require(
            (table[:, -1] % 1 == 0).all(), "the last column must hold labels 0..k-1"
        )
        return table[:, :-1], table[:, -1].astype(np.int64)
    with np.load(path, allow_pickle=False) as file:
        if "X" in file:
            return file["X"], file["y"]
        parts = file["data"], file["indices"], file["indptr"]
        return sp.csr_array(parts, shape=tuple(file["shape"])), file["y"]


def main(argv: list[str]) -> int:
    """Print the verdict on a file; return 0 if it is verified, 1 if it is refused."""
    try:
        require(
            len(argv) == 2, "usage: python checker.py PROOF ROWS, rows in .npz or .csv"
        )
        X, y = load_rows(argv[1])
        start = time.perf_counter()
        verdict = verify(argv[0], X, y, os.path.basename(argv[1]))
    except (OSError, KeyError, ValueError) as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    print(f"{verdict.statement}; verified in {time.perf_counter() - start:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
