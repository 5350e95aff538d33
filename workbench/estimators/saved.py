"""Fitted estimators in one npz file without pickle: loading a file can never run code.

The file is an uncompressed zip of arrays, and one of them, ``header``, is a text in JSON that says
what they belong to: class, parameters, what the fit has found, and its trace. Classes are looked
up in the table below, never imported by name. Attributes that are not there are refused, and so
are arrays whose shapes do not fit together, since compiled code does not check them again.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import workbench
from workbench.core.checks import rebuilt
from workbench.core.trace import Trace, decode, encode
from workbench.data.generators import RANDOM, Generator
from workbench.estimators.centroid import CentroidClassifier
from workbench.estimators.common import FLOATS
from workbench.estimators.least_squares import CalibratedLeastSquares, GeneralizedLeastSquares
from workbench.estimators.memoir import MemoirClassifier
from workbench.estimators.minimax_risk import MinimaxRiskClassifier
from workbench.estimators.sampled_chain import SampledCutChain
from workbench.estimators.sampled_cuts import SampledCutClassifier
from workbench.estimators.stagewise import StagewiseLeastSquares
from workbench.estimators.weston_watkins import WestonWatkinsClassifier
from workbench.estimators.weston_watkins_cv import WestonWatkinsClassifierCV
from workbench.estimators.working_set import WorkingSetClassifier
from workbench.kernels.functions import KERNELS, Kernel, check_kernel
from workbench.memoir.compress import Quantized

VERSION = 1  # of the format
LONGEST = 2**28  # bytes of the header, most of which is the trace
NOT_KEPT = (
    "_metadata_request",
    "_state",
)  # of scikit-learn's routing; what MEMOIR's steps go on from

ALL = "classes_:k n_features_in_ feature_names_in_:d?"
STREAM = "n_iter_ trace_"
BOUNDS = f"{STREAM} lower_ upper_"
SPARSE = "_weights:dk _from_sparse intercept_:k nbytes_"
CUTS = f"{BOUNDS} _kernel gamma_ gap_ compression_error_ support_:m support_vectors_:md"
# What a fit leaves, with the letters of an array's axes, equal ones of equal lengths; "?" where not
# every fit leaves it. k and d are the numbers of classes and of features, r is that of functions.
MODELS = {
    "CalibratedLeastSquares": (
        CalibratedLeastSquares,
        f"{STREAM} coef_:tdk intercept_:tk calibration_:tqk squared_error_ multilabel_",
    ),
    "CentroidClassifier": (
        CentroidClassifier,
        "coef_:kd intercept_:k class_count_:k _sums:kd _sparse",
    ),
    "GeneralizedLeastSquares": (
        GeneralizedLeastSquares,
        f"{BOUNDS} coef_:kd intercept_:k gap_ multilabel_",
    ),
    "MemoirClassifier": (MemoirClassifier, f"{STREAM} {SPARSE}"),
    "MinimaxRiskClassifier": (MinimaxRiskClassifier, f"{BOUNDS} coef_:kd intercept_:k phi_"),
    "SampledCutChain": (SampledCutChain, f"{CUTS} dual_coef_:km transitions_:kk"),
    "SampledCutClassifier": (SampledCutClassifier, f"{CUTS} dual_coef_:rm"),
    "StagewiseLeastSquares": (
        StagewiseLeastSquares,
        f"{STREAM} generators_ coefs_ traces_ generator_ coef_:pk scaler_ multilabel_",
    ),
    "WestonWatkinsClassifier": (
        WestonWatkinsClassifier,
        f"{BOUNDS} gap_ratio_ coef_:kd? intercept_:k? gamma_? support_:m? support_vectors_:md? "
        "dual_coef_:km?",
    ),
    "WestonWatkinsClassifierCV": (
        WestonWatkinsClassifierCV,
        f"{BOUNDS} gap_ratio_ coef_:kd intercept_:k C_ Cs_:c scores_:fc",
    ),
    "WorkingSetClassifier": (WorkingSetClassifier, f"{BOUNDS} {SPARSE} gap_"),
}
RECORDS = {"Generator": Generator, "Quantized": Quantized}
MATRICES = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
PARTS = "data", "indices", "indptr"
KERNEL = "kind", "gamma", "degree", "coef0", "centre"
SCALER = "mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"
PLAIN = "biufSUmM"  # kinds of arrays: numbers, texts and times


def save(estimator, path: str | os.PathLike) -> None:
    """Write a fitted estimator to `path`, one npz file, whole or not at all.

    All of it is kept but metadata routing and the state from which ``MemoirClassifier`` goes on: a
    loaded one predicts, and has no ``partial_fit``. A RandomState is saved with where it stands.

    Raises
    ------
    TypeError
        Naming a parameter or attribute that is no plain data, such as a kernel function, a
        splitter or a scorer; or for an estimator of another kind.
    sklearn.exceptions.NotFittedError
        Before `fit`.
    """
    name = type(estimator).__name__
    kind, layout = MODELS.get(name, (None, ""))
    if type(estimator) is not kind:
        raise TypeError(f"estimator: must be one of {', '.join(MODELS)}, got {name}")
    check_is_fitted(estimator)
    parameters, arrays = estimator.get_params(deep=False), {}
    found = {k: v for k, v in vars(estimator).items() if k not in (*parameters, *NOT_KEPT)}
    if other := set(found) - set(_axes(layout)):
        raise TypeError(f"{', '.join(sorted(other))}: no attribute that a fit of {name} leaves")
    header = {
        "workbench": workbench.__version__,
        "version": VERSION,
        "class": name,
        "parameters": {k: _pack(v, k, arrays) for k, v in parameters.items()},
        "fitted": {k: _pack(v, k, arrays) for k, v in found.items()},
    }
    text = json.dumps(header, allow_nan=False).encode()
    part = Path(f"{os.fspath(path)}.part")
    with open(part, "wb") as sink:
        np.savez(sink, allow_pickle=False, header=np.frombuffer(text, np.uint8), **arrays)
    os.replace(part, path)


def load(path: str | os.PathLike):
    """Return the estimator that :func:`save` has written; it predicts the same, bit for bit.

    Raises
    ------
    ValueError
        If the file is damaged, was written by a newer version, or holds anything that a saved
        estimator does not.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as source:
        try:
            return _estimator(_arrays(source))
        except (
            ArithmeticError,  # a number that is none, a zero divisor
            AttributeError,
            EOFError,
            LookupError,
            MemoryError,
            OSError,
            RuntimeError,
            SyntaxError,
            TypeError,
            ValueError,
            zipfile.BadZipFile,
        ) as error:
            raise ValueError(f"{path}: not a saved estimator, or damaged: {error}") from None


def _arrays(source) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file none of which takes more room than the file itself."""
    size = os.fstat(source.fileno()).st_size
    with zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        if any(e.compress_type != zipfile.ZIP_STORED or e.flag_bits & 1 for e in entries):
            raise ValueError("it has compressed or encrypted entries")
        names = {e.filename for e in entries}
        if len(names) < len(entries) or sum(e.file_size for e in entries) > size:
            raise ValueError("it has entries that overlap")
        if "header.npy" not in names or archive.getinfo("header.npy").file_size > LONGEST:
            raise ValueError("it has no header of a saved estimator")
    source.seek(0)
    with np.load(source, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        native = array.dtype.kind in PLAIN and array.dtype.isnative
        if not (native and array.flags.c_contiguous):
            raise ValueError(
                f"{name}: must be an array of plain values in C order, of this machine"
            )
    return arrays


def _estimator(arrays: dict[str, np.ndarray]):
    header = json.loads(arrays.pop("header").astype(np.uint8, casting="no").tobytes())
    if not isinstance(header, dict) or type(header.get("version")) is not int:
        raise ValueError("its header has no version")
    if header["version"] > VERSION:
        raise ValueError(
            f"it has version {header['version']} of the format, this package reads up to {VERSION}"
        )
    if header["class"] not in MODELS:
        raise ValueError(f"unknown class {header['class']!r}; known are {', '.join(MODELS)}")
    kind, layout = MODELS[header["class"]]
    given, found, used = header["parameters"], header["fitted"], set()
    if other := set(given) - set(kind._get_param_names()):
        raise ValueError(f"unknown parameters {sorted(other)}")
    if other := set(found) - set(_axes(layout)):
        raise ValueError(f"unknown attributes {sorted(other)}")
    estimator = kind(**{k: _unpack(v, arrays, used) for k, v in given.items()})
    found = {k: _unpack(v, arrays, used) for k, v in found.items()}
    if other := set(arrays) - used:
        raise ValueError(f"unknown arrays {sorted(other)}")
    estimator._check_parameters()
    _check(estimator, found, _axes(layout))
    vars(estimator).update(found)
    return estimator


def _axes(layout: str) -> dict[str, str]:
    """Return the axes of each attribute, with a "?" where it may be missing."""
    pairs = (entry.partition(":") for entry in f"{ALL} {layout}".split())
    return {name.rstrip("?"): axes + "?" * name.endswith("?") for name, _, axes in pairs}


def _check(estimator, found: dict[str, Any], layout: dict[str, str]) -> None:
    """Raise a ValueError unless the attributes are complete, of their kinds, and fit together.

    Compiled code does not look again, so what is looked at are the arrays that it will read.
    """
    for name, axes in layout.items():
        if name not in found and not axes.endswith("?"):
            raise ValueError(f"{name}: is missing")
    centroids = isinstance(estimator, CentroidClassifier)
    allowed = {"_weights", "support_vectors_"} | ({"_sums", "coef_"} if centroids else set())
    for name, value in found.items():
        misplaced = sp.issparse(value) and name not in allowed
        if misplaced or not KINDS.get(name, are_finite)(value):
            raise ValueError(f"{name}: is not what a fit leaves")
    d, k = found["n_features_in_"], len(found["classes_"])
    lengths = {"d": d, "k": k, "r": 1 if k == 2 else k}
    for name, value in found.items():
        axes = layout[name].rstrip("?")
        shape = getattr(value, "shape", ()) if axes else ()
        wanted = tuple(lengths.setdefault(axis, n) for axis, n in zip(axes, shape))
        if len(shape) != len(axes) or shape != wanted:
            raise ValueError(f"{name}: has a shape of {shape}, which does not fit the others")
    if not d:
        raise ValueError("n_features_in_: must be at least 1")
    if centroids:
        expected = np.where(found["class_count_"] > 0, 0.0, -np.inf)
        if not np.array_equal(found["intercept_"], expected):
            raise ValueError("intercept_: does not fit class_count_")
        if not sp.issparse(found["_sums"]):
            raise ValueError("_sums: must be a matrix")
    elif not np.isfinite(found.get("intercept_", 0.0)).all():
        raise ValueError("intercept_: is not finite")
    if isinstance(estimator, CalibratedLeastSquares):
        if found["calibration_"].shape[1] != estimator.basis * k:
            raise ValueError("calibration_: does not fit basis")
    if isinstance(estimator, WestonWatkinsClassifier):
        linear, kernel = {"coef_", "intercept_"}, {"gamma_", "support_", "support_vectors_"}
        wanted = {"dual_coef_", *kernel} if "dual_coef_" in found else linear
        if set(found) & {"dual_coef_", *kernel, *linear} != wanted:
            raise ValueError("coef_, dual_coef_: must be there, one of them, with what it needs")
        if "dual_coef_" in found and estimator.kernel is None:
            raise ValueError("kernel: must be a name where there is a dual_coef_")
    if "_kernel" in found and found["_kernel"].centre.shape not in ((0,), (d,)):
        raise ValueError("_kernel: its centre does not fit the features")
    if isinstance(estimator, StagewiseLeastSquares):
        _check_stages(found, d, k)


def _check_stages(found: dict[str, Any], d: int, k: int) -> None:
    """Raise a ValueError unless generators, weights and scaler fit the features and classes.

    A file says twice what the first model is; here it is what predicts.
    """
    generators, coefs, traces = found["generators_"], found["coefs_"], found["traces_"]
    if not len(generators) == len(coefs) == len(traces) > 0:
        raise ValueError("generators_, coefs_, traces_: must be of one length, at least one")
    for g, W in zip(generators, coefs):
        if g.d != d:
            raise ValueError("generators_: one does not fit the features")
        if W.shape != (g.n_features, k):
            raise ValueError("coefs_: one does not fit its generator")
    if found["scaler_"] is not None and found["scaler_"].n_features_in_ != d:
        raise ValueError("scaler_: does not fit the features")
    found["generator_"], found["coef_"], found["trace_"] = generators[0], coefs[0], traces[0]


def are_floats(value) -> bool:
    """Say whether this is an array or a CSR matrix of single or double floats, none of them nan."""
    value = value.data if type(value) in MATRICES.values() else value
    kinds = np.float32, np.float64
    return isinstance(value, np.ndarray) and value.dtype in kinds and not np.isnan(value).any()


def are_finite(value) -> bool:
    """Say whether this is an array or a CSR matrix of finite floats."""
    values = value.data if sp.issparse(value) else value
    return are_floats(value) and bool(np.isfinite(values).all())


def are_labels(value) -> bool:
    """Say whether these are two labels or more, of one type, in ascending order."""
    if not isinstance(value, np.ndarray) or value.ndim != 1 or len(value) < 2:
        return False
    if value.dtype == object and {type(label) for label in value} not in LABELS:
        return False
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        return False
    return bool((value[1:] > value[:-1]).all())


def are_weights(value) -> bool:
    """Say whether these are weights that compiled code takes: quantized ones, or floats."""
    return isinstance(value, Quantized) or (are_finite(value) and value.dtype == np.float32)


def are_names(value) -> bool:
    """Say whether this is an array of texts."""
    return isinstance(value, np.ndarray) and all(type(name) is str for name in value.tolist())


def are_counts(value) -> bool:
    """Say whether this is an array of numbers of at least 0."""
    whole = isinstance(value, np.ndarray) and value.dtype == np.int64
    return (whole or are_finite(value)) and not (value < 0).any()


def are_places(value) -> bool:
    """Say whether this is an array of whole numbers of at least 0."""
    return isinstance(value, np.ndarray) and value.dtype == np.int64 and not (value < 0).any()


def is_count(value) -> bool:
    """Say whether this is a whole number of at least 0."""
    return type(value) is int and value >= 0


def is_number(value) -> bool:
    """Say whether this is a number, infinite or nan."""
    return type(value) in (int, float)


def is_positive(value) -> bool:
    """Say whether this is a positive number, of the type that compiled code takes."""
    return type(value) is float and 0 < value < math.inf


def is_a(kind: type) -> Callable[[Any], bool]:
    """Return a function that says whether its argument is of this type itself."""
    return lambda value: type(value) is kind


def are_all(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a function that says whether its argument is a list of such values."""
    return lambda value: type(value) is list and all(map(kind, value))


LABELS = {str}, {int}, {float}, {bool}
KINDS = {  # of attributes; all others are arrays or CSR matrices of finite floats
    "C_": is_positive,
    "_from_sparse": is_a(bool),
    "_kernel": is_a(Kernel),
    "_sparse": is_a(bool),
    "_weights": are_weights,
    "class_count_": are_counts,
    "classes_": are_labels,
    "coefs_": are_all(are_finite),
    "compression_error_": is_number,
    "feature_names_in_": are_names,
    "gamma_": is_positive,
    "gap_": is_number,
    "gap_ratio_": is_number,
    "generator_": is_a(Generator),
    "generators_": are_all(is_a(Generator)),
    "intercept_": are_floats,
    "lower_": is_number,
    "multilabel_": is_a(bool),
    "n_features_in_": is_count,
    "n_iter_": is_count,
    "nbytes_": is_count,
    "phi_": lambda value: type(value) is float and math.isfinite(value),
    "scaler_": lambda value: value is None or type(value) is StandardScaler,
    "scores_": are_floats,
    "squared_error_": is_number,
    "support_": are_places,
    "trace_": is_a(Trace),
    "traces_": are_all(is_a(Trace)),
    "upper_": is_number,
}


def _pack(value, name: str, arrays: dict[str, np.ndarray]):
    """Return `value` as JSON, its arrays being put into `arrays`; `name` says where it is from."""
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"objects": [_pack(v, name, arrays) for v in value.tolist()]}
        if value.dtype.kind not in PLAIN:
            raise TypeError(f"{name}: cannot save an array of dtype {value.dtype}")
        value = np.require(value, value.dtype.newbyteorder("="), "C")
        same = (known for known, array in arrays.items() if array is value)
        known = next(same, name)
        arrays[known] = value
        return {"array": known}
    if type(value).__name__ in MATRICES and sp.issparse(value):
        parts = [_pack(getattr(value, part), f"{name}.{part}", arrays) for part in PARTS]
        return {type(value).__name__: [*parts, list(map(int, value.shape))]}
    if isinstance(value, (list, tuple)):
        return {
            type(value).__name__: [_pack(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
        }
    if isinstance(value, Trace):
        return {"Trace": [encode(value.header), encode(value.rows)]}
    known = type(value).__name__
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inside = value
    elif known in RECORDS and isinstance(value, RECORDS[known]):
        inside = {f.name: getattr(value, f.name) for f in fields(value)}
    elif isinstance(value, Kernel):
        inside = {f: getattr(value, f) for f in KERNEL} | {"dtype": value.dtype.name}
    elif isinstance(value, StandardScaler):
        inside = {f: getattr(value, f) for f in SCALER} | {"with_mean": value.with_mean}
    elif isinstance(value, np.random.RandomState):
        known, inside = "RandomState", value.get_state(legacy=False)
    else:
        what = "a function" if callable(value) else f"an object of type {type(value).__name__}"
        raise TypeError(
            f"{name}: cannot save {what}; only numbers, texts, lists and arrays of them"
        )
    return {known: {k: _pack(v, f"{name}.{k}", arrays) for k, v in inside.items()}}


def _unpack(node, arrays: dict[str, np.ndarray], used: set[str]):
    """Return what :func:`_pack` was given."""
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
            raise ValueError("its trace is none")
        return trace
    if kind in ("objects", "list", "tuple", *MATRICES):
        *values, last = [*inside, None]
        if kind in MATRICES:
            values, last = values[:-1], tuple(values[-1])
        values = [_unpack(v, arrays, used) for v in values]
        if kind == "objects":
            return np.array([*values, None], dtype=object)[:-1]  # one axis, whatever they are
        if kind in ("list", "tuple"):
            return values if kind == "list" else tuple(values)
        return _matrix(MATRICES[kind], values, last)
    values = {k: _unpack(v, arrays, used) for k, v in inside.items()}
    if kind not in MAKERS:
        raise ValueError(f"its header has an unknown kind {kind!r}")
    return MAKERS[kind](**values)


def _matrix(kind: type, parts: list[np.ndarray], shape: tuple):
    """Return a CSR matrix that compiled code can read."""
    for name, array in zip(PARTS, parts, strict=True):
        kinds = FLOATS if name == "data" else (np.int32, np.int64)
        if array.ndim != 1 or array.dtype not in kinds:
            raise ValueError(f"{name}: must be one-dimensional, of the type of a CSR matrix")
    if not are_all(is_count)(list(shape)):
        raise ValueError("the shape of a matrix is none")
    matrix = rebuilt(kind(tuple(parts), shape=shape))
    if not matrix.has_canonical_format:
        raise ValueError("indices: must be in ascending order in each row of a matrix")
    return matrix


def _kernel(dtype, kind, gamma, degree, coef0, centre) -> Kernel:
    if dtype not in ("float32", "float64") or kind not in KERNELS:
        raise ValueError("its kernel is none that we know")
    check_kernel(kind, gamma, degree, coef0)
    if not (type(gamma) is type(coef0) is float and are_finite(centre)):
        raise ValueError("_kernel: its numbers are none")
    return Kernel(kind, gamma, degree, coef0, dtype, centre)


def _generator(kind, d, n_features, block, seed, s, anchors) -> Generator:
    sizes = all(map(is_count, (d, n_features, block, seed))) and 1 <= block <= n_features
    if kind not in RANDOM or not sizes or not is_positive(s) or not are_finite(anchors):
        raise ValueError("generators_: one has fields that are not its own")
    made = Generator(kind, d, n_features, block, seed, s, anchors)
    if anchors.dtype != np.float32 or anchors.shape != made.anchors_shape():
        raise ValueError("coefs_: one does not fit its generator")
    return made


def _scaler(with_mean, mean_, var_, scale_, n_samples_seen_, n_features_in_) -> StandardScaler:
    found = dict(zip(SCALER, (mean_, var_, scale_, n_samples_seen_, n_features_in_)))
    shape = (n_features_in_,)
    fits = all(map(are_floats, (mean_, var_, scale_))) and type(with_mean) is bool
    if not (fits and mean_.shape == var_.shape == scale_.shape == shape and (scale_ > 0).all()):
        raise ValueError("scaler_: is not what a fit leaves")
    if not (is_number(n_samples_seen_) and np.isfinite([*mean_, *var_]).all()):
        raise ValueError("scaler_: is not what a fit leaves")
    scaler = StandardScaler(with_mean=with_mean)
    vars(scaler).update(found)
    return scaler


def _random_state(**values) -> np.random.RandomState:
    key, pos = values["state"]["key"], values["state"]["pos"]
    drawn = np.random.RandomState()
    wanted = drawn.get_state(legacy=False)
    if (
        any(type(values[name]) is not type(value) for name, value in wanted.items())
        or key.dtype != np.uint32
        or key.shape != (624,)
        or not (is_count(pos) and pos <= 624)  # which NumPy trusts
    ):
        raise ValueError("its RandomState is none")
    drawn.set_state(values)
    return drawn


MAKERS: dict[str, Callable] = {
    "Generator": _generator,
    "Kernel": _kernel,
    "Quantized": Quantized,
    "RandomState": _random_state,
    "StandardScaler": _scaler,
    "dict": dict,
}
