"""Rows and labels of every kind that a caller may hold, next to plain ones; how often
to try."""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

MORE = 100  # times as many examples in the long profile
settings.register_profile("long", deadline=None)


def examples(count):
    """Return the settings for that many inputs, always the same; more in the long
    profile."""
    long = settings.get_current_profile_name() == "long"
    return settings(
        max_examples=count * MORE if long else count,
        derandomize=not long,
        database=None,
        deadline=None,
        print_blob=long,
        suppress_health_check=list(HealthCheck),
    )


def refused(error):
    """Return whether an error is a ValueError that begins with the name of what is
    wrong."""
    text = str(error)
    return type(error) is ValueError and text.partition(":")[2].strip() != ""


FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-"))  # holds memory-mapped arrays
FLOATS = "f2 f4 f8 >f4 >f8 g".split()
WHOLE = "? i1 u1 i2 >i2 u2 i4 >u4 i8 u8".split()


class Rows(NamedTuple):
    """Rows as a caller gives them, and the (n, d) float64 array of their values."""

    given: Any
    plain: np.ndarray


class Labels(NamedTuple):
    """Labels as a caller gives them, the sorted list of the classes and the codes."""

    given: Any
    classes: list
    codes: np.ndarray


def strided(X):
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), 7, X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def backwards(X):
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def mapped(X, mode="r"):
    path = FOLDER / "rows.npy"
    # the file of an earlier map lives on until that one goes
    path.unlink(missing_ok=True)
    np.save(path, X)
    return np.load(path, mmap_mode=mode)


def swapped(X):
    return X.astype(X.dtype.newbyteorder())


def unaligned(X):
    raw = np.zeros(X.nbytes + 1, "u1")
    raw[1:] = np.frombuffer(X.tobytes(), "u1")
    return raw[1:].view(X.dtype).reshape(X.shape)


STORED = {
    "as it is": np.asarray,
    "in Fortran's order": np.asfortranarray,
    "strided": strided,
    "backwards": backwards,
    "read-only": read_only,
    "memory-mapped": mapped,
    "of the other byte order": swapped,
    "unaligned": unaligned,
}


def unsorted(X):
    """All values stored, zeros too, the columns of a row from right to left."""
    n, d = X.shape
    indices = np.tile(np.arange(d)[::-1], n)
    return sp.csr_matrix(
        (X[:, ::-1].ravel(), indices, np.arange(0, n * d + 1, d)), X.shape
    )


def doubled(X):
    """Each value in two parts of the same place, which are to be added."""
    i, j = np.nonzero(X)
    part = X[i, j] // 2 if X.dtype.kind in "iu" else X[i, j] / 2
    data = np.concatenate([part, X[i, j] - part]).astype(X.dtype)
    return sp.coo_matrix((data, (np.r_[i, i], np.r_[j, j])), X.shape)


def long_indices(X):
    X = sp.csr_matrix(X)
    X.indices = X.indices.astype("i8")
    X.indptr = X.indptr.astype("i8")
    return X


def big_endian(X):
    X = sp.csr_matrix(X)
    X.data = swapped(X.data)
    X.indices = X.indices.astype(">i4")
    return X


def frozen(X):
    X = sp.csr_matrix(X)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    return X


SPARSE = {
    "CSR": sp.csr_matrix,
    "a CSR array": sp.csr_array,
    "CSC": sp.csc_matrix,
    "COO": sp.coo_array,
    "unsorted": unsorted,
    "doubled": doubled,
    "long indices": long_indices,
    "big-endian": big_endian,
    "read-only": frozen,
}
LISTED = {
    "a list": np.ndarray.tolist,
    "a frame": lambda X: pd.DataFrame(X.astype(X.dtype.newbyteorder("="))),
    "objects": lambda X: X.astype(object),
}


@st.composite
def values(draw, n, d):
    """Draw multiples of 1/8 in [-8, 8], which every float type but float16's products
    holds."""
    flat = draw(st.lists(st.integers(-64, 64), min_size=n * d, max_size=n * d))
    X = np.array(flat, float).reshape(n, d) / 8
    kind = draw(
        st.sampled_from(
            "any, any, zeros, equal rows, constant, ones, twice".split(", ")
        )
    )
    if kind == "zeros":
        X[abs(X) < 5] = 0
    elif kind == "equal rows":
        X[:] = X[0]
    elif kind == "constant":
        X[:, draw(st.integers(0, d - 1))] = 2.5
    elif kind == "ones":
        X[:] = 1
    elif kind == "twice":
        X[n // 2 :] = X[: n - n // 2]
    return X


@st.composite
def rows(draw, n, d):
    """Draw rows of any type and storage, all of which are to be taken."""
    X = draw(values(n, d))
    dtype = np.dtype(draw(st.sampled_from(FLOATS + WHOLE)))
    X = abs(X) if dtype.kind in "u?" else X
    X = (np.floor(X) if dtype.kind in "iu?" else X).astype(dtype)
    plain = X.astype(float)
    ways = draw(st.sampled_from([STORED, LISTED, SPARSE]))
    if ways is SPARSE:
        native = {"e": np.float32, "g": np.float64}
        X = X.astype(native.get(dtype.char, dtype.newbyteorder("=")))
    way = draw(st.sampled_from(sorted(ways)))
    return Rows(ways[way](X), plain)


LABELS = {
    "small": list(range(-3, 5)),
    "int64": [-(2**63), -(2**63) + 1, -1, 0, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1],
    "words": ["", " ", "0", "a", "a b", "ä", "\N{SNOWMAN}", "\U0001f600"],
    "floats": [-np.inf, -1e300, -0.5, 0.0, 5e-324, 0.1, 1e300, np.inf],
    "dates": [f"20{year}-01-01" for year in range(10, 18)],
}
TYPED = {
    "small": ("i1", "i2", ">i4", "i8", "f4", "f8", object),
    "int64": ("i8", ">i8", object),
    "words": ("U", ">U", object),
    "floats": ("f8", ">f8", object),
    "dates": ("M8[D]", "M8[ns]"),
}
HELD = {
    "an array": lambda y: y,
    "a list": lambda y: y.tolist(),
    "a column": lambda y: y[:, None],
    "a series": lambda y: pd.Series(y.tolist()),
    "a categorical": lambda y: pd.Categorical(y.tolist()),
    "strided": lambda y: np.repeat(y, 2)[::2],
    "read-only": read_only,
}


@st.composite
def labels(draw, n, most=8):
    """Draw n labels of 2 classes or more, each of which occurs."""
    kind = draw(st.sampled_from(sorted(LABELS)))
    k = draw(st.integers(2, min(n, most)))
    classes = sorted(draw(st.permutations(LABELS[kind]))[:k])
    others = draw(st.lists(st.integers(0, k - 1), min_size=n - k, max_size=n - k))
    codes = np.array(draw(st.permutations([*range(k), *others])))
    dtype = draw(st.sampled_from(TYPED[kind]))
    y = np.empty(n, object)
    y[:] = [classes[c] for c in codes]
    y = y.astype(dtype)
    held = draw(
        st.sampled_from(["an array", "strided"] if kind == "dates" else sorted(HELD))
    )
    given = HELD[held](y)
    return Labels(given, classes, codes)
