"""Saved estimators: the same predictions in another process, and files that run nothing."""

import io
import json
import subprocess
import sys
import warnings
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC

from workbench import estimators
from workbench.estimators import (
    CalibratedLeastSquares,
    CentroidClassifier,
    GeneralizedLeastSquares,
    MemoirClassifier,
    MinimaxRiskClassifier,
    SampledCutChain,
    SampledCutClassifier,
    StagewiseLeastSquares,
    WestonWatkinsClassifier,
    WestonWatkinsClassifierCV,
    WorkingSetClassifier,
    load,
)
from workbench.estimators.saved import CLASSES, NOT_SAVED

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = IRIS / 8
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
LABELS = np.eye(3, dtype=int)[SPECIES]
STAGES = partial(StagewiseLeastSquares, n_features=16, block=8, passes=1, random_state=0)
CASES = {
    "calibrated": (CalibratedLeastSquares(max_iter=3), NAMES),
    "calibrated, several labels": (CalibratedLeastSquares(max_iter=3), LABELS),
    "centroid": (CentroidClassifier(), NAMES.astype(object)),
    "generalized": (GeneralizedLeastSquares(max_seconds=60.0), SPECIES == 1),
    "memoir": (MemoirClassifier(random_state=0), SPECIES * 2.0),
    "memoir l1": (MemoirClassifier("l1", preset="paper", n_batches=3, random_state=0), NAMES),
    "minimax risk": (MinimaxRiskClassifier(gap=0.05), SPECIES.astype(np.int8)),
    "cuts": (SampledCutClassifier(r=30, random_state=0), NAMES),
    "cuts, compressed": (
        SampledCutClassifier(kernel="poly", compress=9, random_state=0),
        SPECIES > 0,
    ),
    "stages": (STAGES(n_models=2), NAMES),
    "landmarks": (STAGES("nystroem", standardise=False, link="sigmoid"), SPECIES),
    "Weston-Watkins": (WestonWatkinsClassifier(fit_intercept=True, random_state=0), NAMES),
    "Weston-Watkins, certified": (
        WestonWatkinsClassifierCV(certify=0.05, C_range=(0.1, 1.0), cv=2, random_state=0),
        NAMES,
    ),
    "Weston-Watkins, searched": (WestonWatkinsClassifierCV([0.5, 1], cv=2, random_state=0), NAMES),
    "working set": (WorkingSetClassifier(random_state=np.random.RandomState(3)), NAMES),
    "working set, bytes": (WorkingSetClassifier(quantize=True, random_state=0), SPECIES),
}
SEQUENCES = ([[[0.0], [9.0], [0.2]], [[9.1], [0.1]]], [["low", "high", "low"], ["high", "low"]])
DAMAGED = "bad.npz: not a saved estimator, or damaged: "


def answers(model, X):
    """Return all answers of a model about rows, lists of sequences joined."""
    names = [n for n in ("decision_function", "predict", "predict_proba") if hasattr(model, n)]
    made = (getattr(model, name)(X) for name in names)
    return [np.concatenate(said) if isinstance(said, list) else said for said in made]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Save every case, fitted on dense and on sparse rows; return models, rows and the folder."""
    folder, made = tmp_path_factory.mktemp("saved"), {}
    for name, (estimator, y) in CASES.items():
        for form, X in (("dense", IRIS), ("sparse", sp.csr_matrix(IRIS))):
            if (name, form) != ("minimax risk", "sparse"):  # another solver, the same attributes
                made[f"{name} {form}"] = clone(estimator).fit(X, y), X
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    made["names dense"] = CentroidClassifier().fit(frame, NAMES), frame
    made["chain"] = SampledCutChain(random_state=0).fit(*SEQUENCES), SEQUENCES[0]
    for name, (model, _) in made.items():
        model.save(folder / f"{name}.npz")
    return made, folder


ELSEWHERE = """
import sys, numpy as np, scipy.sparse as sp
from pathlib import Path
from workbench.estimators import load
X = np.load(sys.argv[2])
for path in sorted(Path(sys.argv[1]).glob("* *.npz")):
    model = load(path)
    rows = sp.csr_matrix(X) if path.stem.endswith("sparse") else X
    names = [n for n in ("decision_function", "predict", "predict_proba") if hasattr(model, n)]
    said = {n: np.asarray(getattr(model, n)(rows)) for n in names}
    said = {n: a.astype("U") if a.dtype == object else a for n, a in said.items()}
    np.savez(Path(sys.argv[2]).parent / path.name, **said)
"""


def test_every_estimator_predicts_the_same_in_another_process(made, tmp_path):
    made, folder = made
    assert {type(model).__name__ for model, _ in made.values()} == {*CLASSES}
    assert {*CLASSES} == {*estimators.__all__} - {"load", "GapMonitor", "SolverClassifier"}
    with pytest.raises(TypeError, match=r"estimator: must be one of .*, got SolverClassifier"):
        estimators.SolverClassifier().fit(IRIS, SPECIES).save(tmp_path / "any.npz")
    np.save(tmp_path / "rows.npy", IRIS)
    call = [sys.executable, "-W", "ignore", "-c", ELSEWHERE, folder, tmp_path / "rows.npy"]
    subprocess.run(list(map(str, call)), check=True, timeout=120)
    for name in {*made} - {"chain"}:
        with np.load(tmp_path / f"{name}.npz") as said:
            for expected, found in zip(answers(*made[name]), said.values(), strict=True):
                assert np.array_equal(expected, found), name


def test_everything_that_was_fitted_is_loaded(made, tmp_path):
    made, folder = made
    for name, (model, X) in made.items():
        again, given = load(folder / f"{name}.npz"), model.get_params()
        assert type(again) is type(model)
        for key in given.keys() - {"random_state"}:
            assert again.get_params()[key] == given[key]
        found = {k: v for k, v in vars(model).items() if k not in (*given, *NOT_SAVED)}
        assert set(found) == {k for k in vars(again) if k not in given}
        for attribute, value in found.items():
            other = getattr(again, attribute)
            if isinstance(value, np.ndarray):
                assert other.dtype == value.dtype and np.array_equal(other, value), attribute
            elif sp.issparse(value):
                assert type(other) is type(value) and (other != value).nnz == 0
            elif isinstance(value, (bool, int, float)):
                assert type(other) is type(value) and repr(other) == repr(value), attribute
        assert repr(getattr(again, "trace_", None)) == repr(getattr(model, "trace_", None))
        assert all(map(np.array_equal, answers(again, X), answers(model, X))), name
        again.save(tmp_path / "again.npz")
        assert (tmp_path / "again.npz").read_bytes() == (folder / f"{name}.npz").read_bytes()
    with pytest.raises(ValueError, match="feature names"):
        load(folder / "names dense.npz").predict(made["names dense"][1][list("dcba")])


def test_a_random_state_is_saved_where_it_stands(made):
    made, folder = made
    drawn, again = made["working set dense"][0].random_state, load(folder / "working set dense.npz")
    again = again.random_state
    assert type(again) is np.random.RandomState and again is not drawn
    assert not np.array_equal(again.get_state()[1], np.random.RandomState(3).get_state()[1])
    state = drawn.get_state()
    assert np.array_equal(again.randint(2**31, size=1000), drawn.randint(2**31, size=1000))
    drawn.set_state(state)


def test_a_loaded_centroid_goes_on_learning_and_memoir_does_not(made):
    made, folder = made
    model, again = made["centroid dense"][0], load(folder / "centroid dense.npz")
    whole = clone(model).fit(np.vstack([IRIS, IRIS[:9]]), [*CASES["centroid"][1], *NAMES[:9]])
    assert np.allclose(again.partial_fit(IRIS[:9], NAMES[:9]).coef_, whole.coef_, rtol=1e-12)
    with pytest.raises(ValueError, match=r"^partial_fit: a loaded model only predicts"):
        load(folder / "memoir dense.npz").partial_fit(IRIS, SPECIES * 2.0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SampledCutClassifier(kernel=rbf_kernel), "^kernel: cannot save a function"),
        (
            CalibratedLeastSquares(basis=lambda Y: np.hstack([Y, Y**2]), max_iter=2),
            "^basis: cannot save a function",
        ),
        (
            WestonWatkinsClassifierCV(1, cv=KFold(3, shuffle=True, random_state=0)),
            "^cv: cannot save an object of type KFold",
        ),
        (LinearSVC(), "^estimator: must be one of CalibratedLeastSquares, .*, got LinearSVC"),
    ],
)
def test_values_that_are_not_plain_data_are_refused(model, message, tmp_path):
    model.fit(IRIS, SPECIES)
    with pytest.raises(TypeError, match=message):
        estimators.saved.save(model, tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


def test_a_file_is_written_whole_or_not_at_all(made, tmp_path, monkeypatch):
    model = clone(made[0]["centroid dense"][0])
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "m.npz")
    model.fit(IRIS, NAMES).save(tmp_path / "m")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]  # named as it was asked to be
    before = (tmp_path / "m").read_bytes()
    model.save(str(tmp_path / "m"))
    assert (tmp_path / "m").read_bytes() == before

    def full(sink, **arrays):
        sink.write(b"PK")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="disk full"):
        model.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    model.surprise_ = 1
    with pytest.raises(TypeError, match=r"^surprise_: not an attribute that a fit"):
        model.save(tmp_path / "m")


def rewritten(source, target, change=lambda header, arrays: None, save=np.savez):
    """Copy a saved model, its header and arrays changed; return its path."""
    with np.load(source) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    save(target, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
    return target


def put(*path, value):
    """Return a change of one entry of the header."""

    def change(header, arrays):
        for step in path[:-1]:
            header = header[step]
        header[path[-1]] = value

    return change


def array(name, value):
    """Return a change of one array; `value` may be a function of the saved one."""

    def change(header, arrays):
        arrays[name] = value(arrays[name]) if callable(value) else value

    return change


def without(name):
    return lambda header, arrays: (header["fitted"].pop(name), arrays.pop(name))


def last(value):
    """Return the function that changes the last entry of an array."""

    def change(array):
        array = array.copy()
        array.ravel()[-1] = value
        return array

    return change


BAD = [  # a saved file, a change, and the message
    ("centroid sparse", put("class", value="os.system"), "unknown class 'os.system'"),
    ("centroid sparse", put("class", value="LinearSVC"), "unknown class 'LinearSVC'"),
    ("centroid sparse", put("version", value="1"), "header has no version"),
    ("centroid sparse", put("version", value=2), "version 2 of the format"),
    ("centroid sparse", put("parameters", "shell", value="ls"), r"unknown parameters \['shell'\]"),
    ("centroid sparse", put("fitted", "predict", value=1), r"unknown attributes \['predict'\]"),
    ("centroid sparse", put("fitted", "__class__", value="os.system"), r"unknown attributes \['__"),
    ("centroid sparse", put("fitted", "_sparse", value={"eval": {}}), "unknown kind 'eval'"),
    ("centroid sparse", put("fitted", "_sparse", value=[1]), "list without a kind"),
    ("centroid sparse", put("fitted", "intercept_", value={"array": "elsewhere"}), "'elsewhere'"),
    ("centroid sparse", array("../../evil", np.ones(3)), r"unknown arrays \['\.\./\.\./evil'\]"),
    ("centroid sparse", array("intercept_", np.zeros(2)), "intercept_: has a shape of"),
    ("centroid sparse", without("intercept_"), "intercept_: is missing"),
    ("centroid sparse", put("fitted", "n_features_in_", value="4"), "n_features_in_: is not what"),
    ("centroid sparse", array("coef_.indices", np.full(12, 10**6, np.int32)), "indices"),
    ("centroid sparse", array("coef_.indptr", np.array([0, 5, 10, 99], np.int32)), "index pointer"),
    ("centroid dense", array("intercept_", last(-np.inf)), "intercept_: does not fit class_count_"),
    ("working set, bytes dense", array("_weights.classes", lambda a: a * 0 + 10**4), "indices"),
    (
        "working set, bytes dense",
        array("_weights.classes", lambda a: a.astype(int) + 2**32),
        "uint16",
    ),
    ("working set, bytes dense", array("_weights.values", lambda a: a[:1]), "starts: must be"),
    ("working set, bytes dense", array("_weights.starts", lambda a: a[::-1].copy()), "starts"),
    ("working set, bytes dense", array("_weights.scales", last(np.nan)), "scales: must be finite"),
    ("memoir sparse", array("_weights.indices", lambda a: a * 0 + 10**4), "indices"),
    ("memoir sparse", array("_weights.data", lambda a: a.astype(np.float64)), "_weights: is not"),
    ("memoir sparse", array("_weights.indices", lambda a: a[::-1].copy()), "indices|index"),
    ("memoir sparse", array("_weights.indptr", last(-5)), "indptr|index pointer"),
    ("memoir dense", array("classes_", lambda a: np.array([(v,) for v in a], [("l", "f8")])), ""),
    ("generalized dense", array("classes_", lambda a: a[::-1].copy()), "classes_: is not what"),
    ("cuts sparse", array("support_vectors_.indices", last(4)), "indices|index"),
    ("stages dense", array("coefs_.0", last(np.inf)), "coefs_: is not what"),
    ("stages dense", array("scaler_.mean_", lambda a: a[:1]), "scaler_: is not what"),
    ("landmarks dense", array("generators_.0.anchors", np.ones((9, 4), "f4")), "coefs_: one does"),
    ("landmarks dense", array("generators_.0.anchors", lambda a: a.astype(float)), "coefs_: one"),
    ("minimax risk dense", array("coef_", last(np.nan)), "coef_: is not what"),
    ("Weston-Watkins dense", array("intercept_", last(np.inf)), "intercept_: is not finite"),
]


@pytest.mark.parametrize(("name", "change", "message"), BAD)
def test_strange_files_are_refused(name, change, message, made, tmp_path):
    made, folder = made
    good = rewritten(folder / f"{name}.npz", tmp_path / "good.npz")
    assert all(map(np.array_equal, answers(load(good), made[name][1]), answers(*made[name])))
    bad = rewritten(folder / f"{name}.npz", tmp_path / "bad.npz", change)
    with pytest.raises(ValueError, match=f"{DAMAGED}.*{message}"):
        load(bad)


ONE_OF_EACH = "calibrated dense", "centroid sparse", "generalized dense", "memoir sparse"
ONE_OF_EACH += "memoir dense", "minimax risk dense", "cuts sparse", "stages dense", "chain"
ONE_OF_EACH += "landmarks dense", "Weston-Watkins dense", "Weston-Watkins sparse"
ONE_OF_EACH += "Weston-Watkins, searched dense", "working set dense", "working set, bytes dense"


def mutants(array):
    """Yield arrays of other types, shapes and values that the type can hold."""
    yield array.astype(array.dtype.newbyteorder())
    yield np.array([(value, 0) for value in array.ravel()], [("a", array.dtype), ("b", "i4")])
    yield array.astype("S")
    yield array.astype(object).astype("U")
    yield np.asfortranarray(array)
    yield array[None]
    yield array.ravel()[0] if array.size else np.zeros((), array.dtype)
    yield array[:1]
    yield array[:0]
    yield array[:-1]
    yield np.concatenate([array, array[-1:]])
    yield np.repeat(array[:1], len(array), axis=0)
    yield array[::-1].copy()
    if array.dtype.kind in "biuf":
        for dtype in ("?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "g", "c16"):
            yield array.astype(dtype)
        yield array.astype(np.int64) + 2**32
    values = (-1, 10**4, 2**31 - 1) if array.dtype.kind in "iu" else (np.nan, np.inf, -np.inf)
    for value in values if array.dtype.kind in "iuf" and array.size else ():
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
        if array.dtype.kind == "f" or limits.min <= value <= limits.max:
            yield last(value)(array)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_an_array_of_another_type_shape_or_value_is_refused_or_predicts(name, made, tmp_path):
    rows = sp.csr_matrix(IRIS[::10]) if "sparse" in name else IRIS[::10]
    rows = [[[0.0], [9.0]]] if name == "chain" else rows
    source = made[1] / f"{name}.npz"
    with np.load(source) as archive:
        arrays = {key: archive[key] for key in archive.files if key != "header"}
    refused = 0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tried = [(key, mutant) for key, values in arrays.items() for mutant in mutants(values)]
    for key, mutant in tried:
        bad = rewritten(source, tmp_path / "bad.npz", array(key, mutant))
        try:
            model = load(bad)
        except ValueError as error:
            refused += "damaged" in str(error)
            continue
        assert mutant.dtype.names is None and mutant.dtype.isnative and mutant.flags.c_contiguous
        for said in answers(model, rows):
            assert said.dtype.kind != "f" or np.isfinite(said).all()
    assert refused > len(tried) // 2


NUMBERS = {
    "stages dense": ("fitted", "generators_", "list", 0, "Generator", "block"),
    "landmarks dense": ("fitted", "generators_", "list", 0, "Generator", "seed"),
    "cuts dense": ("fitted", "_kernel", "Kernel", "degree"),
    "cuts sparse": ("fitted", "gamma_"),
    "calibrated dense": ("parameters", "basis"),
    "working set, bytes dense": ("fitted", "_weights", "Quantized", "k"),
    "working set dense": ("parameters", "random_state", "RandomState", "state", "dict", "pos"),
    "Weston-Watkins, searched dense": ("fitted", "C_"),
    "centroid sparse": ("fitted", "coef_", "csr_matrix", 3, 1),
    "minimax risk dense": ("fitted", "phi_"),
    "generalized dense": ("fitted", "multilabel_"),
}


@pytest.mark.parametrize("name", list(NUMBERS))
def test_other_numbers_in_the_header_are_refused(name, made, tmp_path):
    for value in (None, "3", -1, 2**31, 1e400, {"list": []}, [1], {"eval": 1}):
        if name in ("landmarks dense", "cuts dense") and value == 2**31:
            continue  # which is a seed and a degree
        change = put(*NUMBERS[name], value=value)
        with pytest.raises(ValueError, match=DAMAGED):
            load(rewritten(made[1] / f"{name}.npz", tmp_path / "bad.npz", change))


class Bomb:
    def __reduce__(self):
        return print, ("this has run",)


def test_damaged_files_are_refused_and_a_pickle_runs_nothing(made, tmp_path, capsys):
    (model, X), source = made[0]["centroid dense"], made[1] / "centroid dense.npz"
    whole, path, rng = source.read_bytes(), tmp_path / "bad.npz", np.random.default_rng(0)
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=DAMAGED):
            load(path)
    for at in rng.integers(len(whole), size=200):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ rng.integers(1, 256)]) + whole[at + 1 :])
        try:
            assert np.array_equal(load(path).predict(X), model.predict(X))  # a time, a comment
        except ValueError as error:
            assert DAMAGED in str(error)
    with open(path, "wb") as sink:
        np.save(sink, np.ones(3))
    np.savez(tmp_path / "other.npz", coef_=np.ones(3))
    with open(tmp_path / "pickle.npz", "wb") as sink:
        np.save(sink, np.array([Bomb()], dtype=object), allow_pickle=True)
    evil = array("coef_", np.array([Bomb()] * 3, dtype=object))
    evil = rewritten(source, tmp_path / "evil.npz", evil)
    for file in (path, tmp_path / "other.npz", tmp_path / "pickle.npz", evil):
        with pytest.raises(ValueError, match="not a saved estimator, or damaged"):
            load(file)
    assert capsys.readouterr().out == ""
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.npz")


def test_headers_that_claim_too_much_are_refused(made, tmp_path, monkeypatch):
    source, bad = made[1] / "centroid dense.npz", tmp_path / "bad.npz"
    with pytest.raises(ValueError, match="compressed or encrypted"):
        load(rewritten(source, bad, save=np.savez_compressed))
    claim = io.BytesIO()
    layout = {"descr": "<f8", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(claim, layout)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            new.writestr(name, claim.getvalue() if name == "coef_.npy" else old.read(name))
    with pytest.raises(ValueError, match=DAMAGED):
        load(bad)
    np.savez(bad, header=np.frombuffer(b'{"list": [' * 10**5, np.uint8))
    with pytest.raises(ValueError, match=DAMAGED):
        load(bad)
    monkeypatch.setattr(estimators.saved, "MAX_HEADER_BYTES", 100)
    with pytest.raises(ValueError, match="no header of a saved estimator"):
        load(source)
