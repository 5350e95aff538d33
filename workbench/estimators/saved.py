"""Fitted estimators in one npz file without pickle: loading a file can never run code.

The file is an uncompressed zip of arrays. One of them, ``header``, is a text in JSON: class,
parameters, fitted attributes, and the trace. Classes are looked up in :data:`CLASSES`, where each
estimator registers itself, and are never imported by name. Attributes that its class does not
leave are refused, and so are arrays of other types, or of shapes that do not fit together: compiled
code does not check them again.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import workbench
from workbench.core.files import whole
from workbench.core.trace import Trace
from workbench.data.generators import Generator
from workbench.estimators.packing import (
    PLAIN,
    are_all,
    are_finite,
    are_floats,
    are_whole,
    is_a,
    is_count,
    is_number,
    is_positive,
    pack,
    unpack,
)
from workbench.kernels.functions import Kernel
from workbench.memoir.compress import Quantized

VERSION = 1  # version of the file format
MAX_HEADER_BYTES = 2**28  # most of them are the trace
# Scikit-learn's routing, the state from which MEMOIR's steps go on, and the proof.
NOT_SAVED = "_metadata_request", "_state", "_proof"
# Each class with the attributes that a fit leaves, in addition to COMMON: a name, the letters of
# an array's axes, "~" if it may be a CSR matrix, "?" if not every fit leaves it. Equal letters are
# equal lengths: k classes, d features, r functions (1 for two classes), others as they come.
CLASSES: dict[str, tuple[type, str]] = {}
COMMON = "classes_:k n_features_in_ feature_names_in_:d?"


def save(estimator, path: str | os.PathLike) -> None:
    """Write a fitted estimator to `path`, one npz file, whole or not at all.

    Everything is kept except metadata routing and the state from which ``MemoirClassifier`` goes
    on: a loaded one predicts, and has no ``partial_fit``. A RandomState is saved with its position.

    Raises
    ------
    TypeError
        Naming a parameter or attribute that is not plain data, such as a kernel function, a
        splitter or a scorer; or for an estimator of another kind.
    sklearn.exceptions.NotFittedError
        Before `fit`.
    """
    name = type(estimator).__name__
    kind, layout = CLASSES.get(name, (None, ""))
    if type(estimator) is not kind:
        raise TypeError(f"estimator: must be one of {', '.join(sorted(CLASSES))}, got {name}")
    check_is_fitted(estimator)
    parameters, arrays = estimator.get_params(deep=False), {}
    found = {k: v for k, v in vars(estimator).items() if k not in (*parameters, *NOT_SAVED)}
    if other := set(found) - set(_axes(layout)):
        raise TypeError(f"{', '.join(sorted(other))}: not an attribute that a fit of {name} leaves")
    header = {
        "workbench": workbench.__version__,
        "version": VERSION,
        "class": name,
        "parameters": {k: pack(v, k, arrays) for k, v in parameters.items()},
        "fitted": {k: pack(v, k, arrays) for k, v in found.items()},
    }
    text = json.dumps(header, allow_nan=False).encode()
    with whole(path) as part, open(part, "wb") as sink:
        np.savez(sink, allow_pickle=False, header=np.frombuffer(text, np.uint8), **arrays)


def load(path: str | os.PathLike):
    """Return the estimator that :func:`save` has written; it predicts the same, bit for bit.

    Raises
    ------
    ValueError
        If the file is damaged, was written by a newer version, or contains anything that a saved
        estimator does not.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as source:
        try:
            return _estimator(_arrays(source))
        except Exception as error:  # of NumPy, zipfile, json or ours: nothing in it is trusted
            raise ValueError(f"{path}: not a saved estimator, or damaged: {error}") from None


def _arrays(source) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file none of which takes more room than the file itself."""
    size = os.fstat(source.fileno()).st_size
    with zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        if any(e.compress_type != zipfile.ZIP_STORED or e.flag_bits & 1 for e in entries):
            raise ValueError("it has compressed or encrypted entries")
        sizes = {e.filename: e.file_size for e in entries}
        if len(sizes) < len(entries) or sum(sizes.values()) > size:
            raise ValueError("it has entries that overlap")
        if sizes.get("header.npy", math.inf) > MAX_HEADER_BYTES:
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
    if header["class"] not in CLASSES:
        known = ", ".join(sorted(CLASSES))
        raise ValueError(f"unknown class {header['class']!r}; known classes: {known}")
    kind, layout = CLASSES[header["class"]]
    _refuse_unknown("parameters", header["parameters"], kind._get_param_names())
    _refuse_unknown("attributes", header["fitted"], _axes(layout))
    used: set[str] = set()
    given, found = (
        {k: unpack(v, arrays, used) for k, v in header[part].items()}
        for part in ("parameters", "fitted")
    )
    _refuse_unknown("arrays", arrays, used)
    estimator = kind(**given)
    estimator._check_parameters()
    lengths = _check(found, _axes(layout))
    estimator._check_saved(found, lengths["d"], lengths["k"])
    vars(estimator).update(found)
    return estimator


def _refuse_unknown(what: str, names, known) -> None:
    if other := set(names) - set(known):
        raise ValueError(f"unknown {what} {sorted(other)}")


def _axes(layout: str) -> dict[str, str]:
    """Return the axes and marks of each attribute that a class may have."""
    pairs = (entry.partition(":") for entry in f"{COMMON} {layout}".split())
    return {name.rstrip("?"): axes + "?" * name.endswith("?") for name, _, axes in pairs}


def _check(found: dict[str, Any], layout: dict[str, str]) -> dict[str, int]:
    """Return the lengths of the axes; a ValueError unless all attributes are there and fit."""
    for name, marks in layout.items():
        if name not in found:
            if not marks.endswith("?"):
                raise ValueError(f"{name}: is missing")
            continue
        misplaced = sp.issparse(found[name]) and "~" not in marks
        if misplaced or not KINDS.get(name, are_finite)(found[name]):
            raise ValueError(f"{name}: is not what a fit leaves")
    d, k = found["n_features_in_"], len(found["classes_"])
    if not d:
        raise ValueError("n_features_in_: must be at least 1")
    lengths = {"d": d, "k": k, "r": 1 if k == 2 else k}
    for name, value in found.items():
        axes = layout[name].rstrip("~?")
        shape = getattr(value, "shape", ()) if axes else ()
        expected = tuple(lengths.setdefault(axis, n) for axis, n in zip(axes, shape))
        if len(shape) != len(axes) or shape != expected:
            raise ValueError(f"{name}: has a shape of {shape}, which does not fit the others")
    return lengths


def are_labels(value) -> bool:
    """Return whether these are at least two labels, of one type, in ascending order."""
    if not isinstance(value, np.ndarray) or value.ndim != 1 or len(value) < 2:
        return False
    if value.dtype == object and {type(v) for v in value} not in ({str}, {int}, {float}, {bool}):
        return False
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        return False
    return bool((value[1:] > value[:-1]).all())


KINDS = {  # kinds of attributes; all others are arrays or CSR matrices of finite floats
    **dict.fromkeys(("n_features_in_", "n_iter_", "n_solves_", "nbytes_"), is_count),
    **dict.fromkeys(("lower_", "upper_", "gap_", "gap_ratio_", "squared_error_"), is_number),
    **dict.fromkeys(("certified_eps_", "compression_error_"), is_number),
    **dict.fromkeys(("C_", "alpha_", "gamma_"), is_positive),
    **dict.fromkeys(("_from_sparse", "_sparse", "certified_", "multilabel_"), is_a(bool)),
    **dict.fromkeys(("intercept_", "scores_"), are_floats),
    "_kernel": is_a(Kernel),
    "_weights": lambda v: isinstance(v, Quantized) or (are_finite(v) and v.dtype == np.float32),
    "class_count_": lambda v: are_whole(v) or (are_finite(v) and not (v < 0).any()),
    "classes_": are_labels,
    "coefs_": are_all(are_finite),
    "feature_names_in_": lambda v: isinstance(v, np.ndarray) and are_all(is_a(str))(v.tolist()),
    "generator_": is_a(Generator),
    "generators_": are_all(is_a(Generator)),
    "phi_": lambda v: type(v) is float and math.isfinite(v),
    "scaler_": is_a(type(None), StandardScaler),
    "support_": are_whole,
    "trace_": is_a(Trace),
    "traces_": are_all(is_a(Trace)),
}
