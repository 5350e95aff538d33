"""Values as JSON and arrays, and back: the types that a saved estimator may contain."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from workbench.core.checks import rebuilt
from workbench.core.trace import Trace, decode, encode
from workbench.data.generators import RANDOM, Generator
from workbench.kernels.functions import KERNELS, Kernel, check_kernel
from workbench.memoir.compress import Quantized

MATRICES = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
PARTS = {  # the arrays of a CSR matrix, and their types
    "data": (np.float32, np.float64),
    "indices": (np.int32, np.int64),
    "indptr": (np.int32, np.int64),
}
PLAIN = "biufSUmM"  # kinds of arrays: numbers, texts and times


def pack(value, name: str, arrays: dict[str, np.ndarray]):
    """Return `value` as JSON and put its arrays into `arrays`; `name` is its path for messages."""
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.dtype):  # of a kernel
        return value.name
    known = type(value).__name__
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"objects": [pack(v, name, arrays) for v in value.tolist()]}
        if value.dtype.kind not in PLAIN:
            raise TypeError(f"{name}: cannot save an array of dtype {value.dtype}")
        value = np.require(value, value.dtype.newbyteorder("="), "C")
        name = next((other for other, array in arrays.items() if array is value), name)
        arrays[name] = value
        return {"array": name}
    if known in MATRICES and sp.issparse(value):
        parts = [pack(getattr(value, part), f"{name}.{part}", arrays) for part in PARTS]
        return {known: [*parts, list(map(int, value.shape))]}
    if isinstance(value, (list, tuple)):
        return {known: [pack(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]}
    if isinstance(value, Trace):
        return {"Trace": [encode(value.header), encode(value.rows)]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inside = value
    elif isinstance(value, np.random.RandomState):
        inside = value.get_state(legacy=False)
    elif known in RECORDS and type(value) is RECORDS[known][0]:
        inside = {attribute: getattr(value, attribute) for attribute in RECORDS[known][1].split()}
    else:
        what = "a function" if callable(value) else f"an object of type {known}"
        raise TypeError(
            f"{name}: cannot save {what}; only numbers, texts, lists and arrays of them"
        )
    return {known: {k: pack(v, f"{name}.{k}", arrays) for k, v in inside.items()}}


def unpack(node, arrays: dict[str, np.ndarray], used: set[str]):
    """Return the value that :func:`pack` was given."""
    if not isinstance(node, dict):
        if isinstance(node, list):
            raise ValueError("its header has a list without a kind")
        return node
    ((kind, inside),) = node.items()
    if kind == "float":
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[inside]
    if kind == "array":
        used.add(inside)
        return arrays[inside]
    if kind == "Trace":
        trace = Trace(*decode(inside))
        if not (type(trace.header) is dict and are_all(is_a(dict))(trace.rows)):
            raise ValueError("its trace is damaged")
        return trace
    if kind in MATRICES:
        *parts, shape = inside
        return _matrix(MATRICES[kind], [unpack(v, arrays, used) for v in parts], tuple(shape))
    if kind in ("objects", "list", "tuple"):
        values = [unpack(v, arrays, used) for v in inside]
        if kind == "objects":
            return np.array([*values, None], dtype=object)[:-1]  # one axis for any values
        return values if kind == "list" else tuple(values)
    values = {k: unpack(v, arrays, used) for k, v in inside.items()}
    if kind == "dict":
        return values
    if kind == "RandomState":
        return _random_state(**values)
    if kind not in RECORDS:
        raise ValueError(f"its header has an unknown kind {kind!r}")
    return RECORDS[kind][2](**values)


def _matrix(kind: type, parts: list[np.ndarray], shape: tuple):
    """Return a CSR matrix that compiled code can read."""
    for (name, kinds), array in zip(PARTS.items(), parts, strict=True):
        if array.ndim != 1 or array.dtype not in kinds:
            raise ValueError(f"{name}: must be one-dimensional, of the type of a CSR matrix")
    if not are_all(is_count)(list(shape)):
        raise ValueError("the shape of a matrix must be whole numbers")
    matrix = rebuilt(kind(tuple(parts), shape=shape))
    if not matrix.has_canonical_format:
        raise ValueError("indices: must be in ascending order in each row of a matrix")
    return matrix


def _kernel(dtype, kind, gamma, degree, coef0, centre) -> Kernel:
    if dtype not in ("float32", "float64") or kind not in KERNELS:
        raise ValueError("its kernel is unknown")
    check_kernel(kind, gamma, degree, coef0)
    if not (type(gamma) is type(coef0) is float and are_finite(centre)):
        raise ValueError("_kernel: its numbers are not floats")
    return Kernel(kind, gamma, degree, coef0, dtype, centre)


def _generator(kind, d, n_features, block, seed, s, anchors) -> Generator:
    sizes = all(map(is_count, (d, n_features, block, seed))) and 1 <= block <= n_features
    if kind not in RANDOM or not sizes or not is_positive(s) or not are_finite(anchors):
        raise ValueError("generators_: one has fields that are not its own")
    made = Generator(kind, d, n_features, block, seed, s, anchors)
    if anchors.dtype != np.float32 or anchors.shape != made.anchors_shape():
        raise ValueError("coefs_: one does not fit its generator")
    return made


def _scaler(with_mean, n_samples_seen_, n_features_in_, **columns) -> StandardScaler:
    fits = all(are_floats(c) and c.shape == (n_features_in_,) for c in columns.values())
    numbers = type(with_mean) is bool and is_number(n_samples_seen_)
    finite = fits and np.isfinite([columns["mean_"], columns["var_"]]).all()
    if not (
        numbers and finite and math.isfinite(n_samples_seen_) and (columns["scale_"] > 0).all()
    ):
        raise ValueError("scaler_: is not what a fit leaves")
    scaler = StandardScaler(with_mean=with_mean)
    vars(scaler).update(columns, n_samples_seen_=n_samples_seen_, n_features_in_=n_features_in_)
    return scaler


def _random_state(**values) -> np.random.RandomState:
    key, pos = values["state"]["key"], values["state"]["pos"]
    drawn = np.random.RandomState()
    expected = drawn.get_state(legacy=False)
    if (
        any(type(values[name]) is not type(value) for name, value in expected.items())
        or key.dtype != np.uint32
        or key.shape != (624,)
        or not (is_count(pos) and pos <= 624)  # which NumPy trusts
    ):
        raise ValueError("its RandomState is damaged")
    drawn.set_state(values)
    return drawn


def are_floats(value) -> bool:
    """Return whether this is an array or a CSR matrix of single or double floats, none nan."""
    value = value.data if type(value) in MATRICES.values() else value
    floats = isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64)
    return floats and not np.isnan(value).any()


def are_finite(value) -> bool:
    """Return whether this is an array or a CSR matrix of finite floats."""
    values = value.data if sp.issparse(value) else value
    return are_floats(value) and bool(np.isfinite(values).all())


def are_whole(value) -> bool:
    """Return whether this is an array of whole numbers of at least 0."""
    return isinstance(value, np.ndarray) and value.dtype == np.int64 and not (value < 0).any()


def is_count(value) -> bool:
    """Return whether this is a whole number of at least 0."""
    return type(value) is int and value >= 0


def is_positive(value) -> bool:
    """Return whether this is a positive number, of the type that compiled code takes."""
    return type(value) is float and 0 < value < math.inf


def is_a(*kinds: type) -> Callable[[Any], bool]:
    """Return a function that tells whether its argument is of one of these types itself."""
    return lambda value: type(value) in kinds


def are_all(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a function that tells whether its argument is a list of such values."""
    return lambda value: type(value) is list and all(map(kind, value))


is_number = is_a(int, float)  # which may be infinite or nan
# Other objects in a file: class, the attributes that are saved, and a function that checks them.
RECORDS: dict[str, tuple[type, str, Callable]] = {
    "Generator": (Generator, "kind d n_features block seed s anchors", _generator),
    "Kernel": (Kernel, "kind gamma degree coef0 centre dtype", _kernel),
    "Quantized": (Quantized, "values classes starts scales k", Quantized),
    "StandardScaler": (
        StandardScaler,
        "mean_ var_ scale_ n_samples_seen_ n_features_in_ with_mean",
        _scaler,
    ),
}
