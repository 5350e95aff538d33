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
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import workbench
from workbench.core.trace import Trace, decode, encode
from workbench.data.generators import RANDOM, Generator
from workbench.estimators.centroid import CentroidClassifier
from workbench.estimators.least_squares import CalibratedLeastSquares, GeneralizedLeastSquares
from workbench.estimators.memoir import MemoirClassifier
from workbench.estimators.minimax_risk import MinimaxRiskClassifier
from workbench.estimators.sampled_chain import SampledCutChain
from workbench.estimators.sampled_cuts import SampledCutClassifier
from workbench.estimators.stagewise import StagewiseLeastSquares
from workbench.estimators.weston_watkins import WestonWatkinsClassifier
from workbench.estimators.weston_watkins_cv import WestonWatkinsClassifierCV
from workbench.estimators.working_set import WorkingSetClassifier
from workbench.kernels.functions import Kernel
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
# every fit leaves it. k and d are the numbers of classes and of features.
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
        return {name: archive[name] for name in archive.files}


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
    _check(found, _axes(layout))
    vars(estimator).update(found)
    return estimator


def _axes(layout: str) -> dict[str, str]:
    """Return the axes of each attribute, with a "?" where it may be missing."""
    pairs = (entry.partition(":") for entry in f"{ALL} {layout}".split())
    return {name.rstrip("?"): axes + "?" * name.endswith("?") for name, _, axes in pairs}


def _check(found: dict[str, Any], layout: dict[str, str]) -> None:
    """Raise a ValueError unless the attributes are complete and their shapes fit together."""
    lengths = {"d": found.get("n_features_in_"), "k": len(found.get("classes_", ()))}
    if type(lengths["d"]) is not int or lengths["d"] < 1 or lengths["k"] < 1:
        raise ValueError("n_features_in_ or classes_ is missing or no such thing")
    for name, axes in layout.items():
        if name not in found:
            if not axes.endswith("?"):
                raise ValueError(f"{name}: is missing")
            continue
        value, axes = found[name], axes.rstrip("?")
        if isinstance(value, Quantized):
            value = value.weights()
            value.check_format()
        shape = getattr(value, "shape", ())
        wanted = tuple(lengths.setdefault(axis, n) for axis, n in zip(axes, shape))
        if len(shape) != len(axes) or shape != wanted:
            raise ValueError(f"{name}: has a shape of {shape}, which does not fit the others")
    kernel, d = found.get("_kernel"), lengths["d"]
    if kernel is not None and kernel.centre.shape not in ((0,), (d,)):
        raise ValueError("_kernel: its centre does not fit the features")
    generators, coefs = found.get("generators_", []), found.get("coefs_", [])
    if len(generators) != len(coefs):
        raise ValueError("coefs_: must be as many as generators_")
    for g, W in zip(generators, coefs):
        block_fits = type(g.block) is type(g.n_features) is int and 1 <= g.block <= g.n_features
        anchored = g.kind == "nystroem"
        if g.kind not in RANDOM or g.d != d or not block_fits or g.anchors.ndim != 2:
            raise ValueError("generators_: one does not fit the features")
        if W.shape != (g.n_features, lengths["k"]) or (anchored and len(g.anchors) != len(W)):
            raise ValueError("coefs_: one does not fit its generator")


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
        return Trace(*decode(inside))
    if kind in ("objects", "list", "tuple", *MATRICES):
        *values, last = [*inside, None]
        if kind in MATRICES:
            values, last = values[:-1], tuple(values[-1])
        values = [_unpack(v, arrays, used) for v in values]
        if kind == "objects":
            return np.array([*values, None], dtype=object)[:-1]  # one axis, whatever they are
        if kind in ("list", "tuple"):
            return values if kind == "list" else tuple(values)
        matrix = MATRICES[kind](tuple(values), shape=last)
        matrix.check_format()  # compiled code trusts the indices
        return matrix
    values = {k: _unpack(v, arrays, used) for k, v in inside.items()}
    if kind == "dict":
        return values
    if kind in RECORDS:
        return RECORDS[kind](**values)
    if kind == "Kernel":
        if values["dtype"] not in ("float32", "float64") or set(values) != {*KERNEL, "dtype"}:
            raise ValueError("its kernel has other fields")
        return Kernel(**values)
    if kind == "StandardScaler":
        scaler = StandardScaler(with_mean=values.pop("with_mean"))
        vars(scaler).update({name: values[name] for name in SCALER})
        return scaler
    if kind == "RandomState":
        if not 0 <= values["state"]["pos"] <= 624:  # which NumPy trusts
            raise ValueError("its RandomState is none")
        drawn = np.random.RandomState()
        drawn.set_state(values)
        return drawn
    raise ValueError(f"its header has an unknown kind {kind!r}")
