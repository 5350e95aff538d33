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
from workbench.estimators.saved import CLASSES

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = IRIS / 8
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
STAGES = partial(StagewiseLeastSquares, n_features=16, block=8, passes=1, random_state=0)
CASES = {
    "calibrated": (CalibratedLeastSquares(max_iter=3), NAMES),
    "calibrated, several labels": (
        CalibratedLeastSquares(max_iter=3),
        np.eye(3, dtype=int)[SPECIES],
    ),
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
    "Weston-Watkins, kernel": (WestonWatkinsClassifier(kernel="rbf", random_state=0), NAMES),
    "Weston-Watkins, searched": (WestonWatkinsClassifierCV([0.5, 1], cv=2, random_state=0), NAMES),
    "working set": (WorkingSetClassifier(random_state=np.random.RandomState(3)), NAMES),
    "working set, bytes": (WorkingSetClassifier(quantize=True, random_state=0), SPECIES),
}


def answers(model, X):
    """Return all that a model says of rows."""
    names = [n for n in ("decision_function", "predict", "predict_proba") if hasattr(model, n)]
    return [getattr(model, name)(X) for name in names]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Save every case, fitted on dense and on sparse rows, with what it says of the rows."""
    folder = tmp_path_factory.mktemp("saved")
    made = {}
    for name, (estimator, y) in CASES.items():
        for form, X in (("dense", IRIS), ("sparse", sp.csr_matrix(IRIS))):
            if form == "sparse" and name == "minimax risk":
                continue  # another solver, the same attributes
            model = clone(estimator).fit(X, y)
            model.save(folder / f"{name} {form}.npz")
            made[f"{name} {form}"] = model, X
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    made["names dense"] = CentroidClassifier().fit(frame, NAMES), frame
    made["names dense"][0].save(folder / "names dense.npz")
    chain = SampledCutChain(random_state=0).fit(*SEQUENCES)
    chain.save(folder / "chain.npz")
    return folder, made, chain


SEQUENCES = ([[[0.0], [9.0], [0.2]], [[9.1], [0.1]]], [["low", "high", "low"], ["high", "low"]])
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


def test_every_estimator_predicts_the_same_in_another_process(folder, tmp_path):
    folder, made, _ = folder
    assert {type(model).__name__ for model, _ in made.values()} == {*CLASSES} - {"SampledCutChain"}
    np.save(tmp_path / "rows.npy", IRIS)
    call = [sys.executable, "-W", "ignore", "-c", ELSEWHERE, folder, tmp_path / "rows.npy"]
    subprocess.run(list(map(str, call)), check=True, timeout=120)
    for name, (model, X) in made.items():
        with np.load(tmp_path / f"{name}.npz") as said:
            for expected, found in zip(answers(model, X), said.values(), strict=True):
                assert np.array_equal(expected, found), name


def test_all_that_was_fitted_is_loaded(folder):
    folder, made, _ = folder
    for name, (model, X) in made.items():
        again = load(folder / f"{name}.npz")
        assert type(again) is type(model)
        given = model.get_params()
        assert {k: v for k, v in again.get_params().items() if k != "random_state"} == {
            k: v for k, v in given.items() if k != "random_state"
        }
        found = {k: v for k, v in vars(model).items() if k not in given and k != "_state"}
        assert set(found) == {k for k in vars(again) if k not in given}
        for attribute, value in found.items():
            other = getattr(again, attribute)
            if isinstance(value, np.ndarray):
                assert other.dtype == value.dtype and np.array_equal(other, value), attribute
            elif sp.issparse(value):
                assert type(other) is type(value) and (other != value).nnz == 0
            elif isinstance(value, (bool, int, float)):
                assert type(other) is type(value) and repr(other) == repr(value), attribute
        if "trace_" in found:
            assert repr(again.trace_) == repr(model.trace_)
        assert all(map(np.array_equal, answers(again, X), answers(model, X))), name
    with pytest.raises(ValueError, match="feature names"):
        load(folder / "names dense.npz").predict(X[list("dcba")])


def test_a_chain_is_saved_too(folder):
    folder, _, chain = folder
    again = load(folder / "chain.npz")
    assert [list(y) for y in again.predict(SEQUENCES[0])] == SEQUENCES[1]
    for one, two in zip(
        again.decision_function(SEQUENCES[0]), chain.decision_function(SEQUENCES[0])
    ):
        assert np.array_equal(one, two)


def test_a_random_state_is_saved_where_it_stands(folder):
    folder, made, _ = folder
    drawn, again = (
        m.random_state
        for m in (made["working set dense"][0], load(folder / "working set dense.npz"))
    )
    assert type(again) is np.random.RandomState and again is not drawn
    assert np.array_equal(again.get_state()[1], np.random.RandomState(3).get_state()[1]) is False
    state = drawn.get_state()
    assert np.array_equal(again.randint(2**31, size=1000), drawn.randint(2**31, size=1000))
    drawn.set_state(state)


def test_what_goes_on_learning(folder, tmp_path):
    folder, made, _ = folder
    model, again = made["centroid dense"][0], load(folder / "centroid dense.npz")
    whole = clone(model).fit(np.vstack([IRIS, IRIS[:9]]), [*CASES["centroid"][1], *NAMES[:9]])
    assert np.allclose(again.partial_fit(IRIS[:9], NAMES[:9]).coef_, whole.coef_, rtol=1e-12)
    with pytest.raises(ValueError, match=r"^partial_fit: a loaded model only predicts"):
        load(folder / "memoir dense.npz").partial_fit(IRIS, SPECIES * 2.0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (WestonWatkinsClassifier(kernel=rbf_kernel), "^kernel: cannot save a function"),
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
def test_what_is_no_plain_data_is_refused(model, message, tmp_path):
    model.fit(IRIS, SPECIES)
    with pytest.raises(TypeError, match=message):
        estimators.saved.save(model, tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


def test_a_file_is_written_whole_or_not_at_all(folder, tmp_path, monkeypatch):
    model = folder[1]["centroid dense"][0]
    with pytest.raises(NotFittedError):
        clone(model).save(tmp_path / "m.npz")
    model.save(tmp_path / "m")
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
    del model.surprise_


def rewritten(source, target, change=lambda header, arrays: None, **options):
    """Copy a saved model, its header and arrays changed; return where it is."""
    with np.load(source) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    save = options.get("save", np.savez)
    save(target, header=text, **arrays)
    return target


def put(*path, value):
    """Return a change of one entry of the header."""

    def change(header, arrays):
        for step in path[:-1]:
            header = header[step]
        header[path[-1]] = value

    return change


def change_array(name, value):
    return lambda header, arrays: arrays.update({name: value})


def without(name):
    return lambda header, arrays: (header["fitted"].pop(name), arrays.pop(name))


BAD = {
    "unknown class 'os.system'": put("class", value="os.system"),
    "unknown class 'LinearSVC'": put("class", value="LinearSVC"),
    "header has no version": put("version", value="1"),
    "version 2 of the format": put("version", value=2),
    r"unknown parameters \['shell'\]": put("parameters", "shell", value="ls"),
    r"unknown attributes \['predict'\]": put("fitted", "predict", value=1),
    r"unknown attributes \['__class__'\]": put("fitted", "__class__", value="os.system"),
    "unknown kind 'eval'": put("fitted", "_sparse", value={"eval": {}}),
    "list without a kind": put("fitted", "_sparse", value=[1]),
    "'elsewhere'": put("fitted", "intercept_", value={"array": "elsewhere"}),
    r"unknown arrays \['\.\./\.\./evil'\]": change_array("../../evil", np.ones(3)),
    "intercept_: has a shape of": change_array("intercept_", np.zeros(2)),
    "intercept_: is missing": without("intercept_"),
    "n_features_in_: is not what a fit leaves": put("fitted", "n_features_in_", value="4"),
    "indices": change_array("coef_.indices", np.full(12, 10**6, np.int32)),
    "index pointer": change_array("coef_.indptr", np.array([0, 5, 10, 99], np.int32)),
}


@pytest.mark.parametrize("message", list(BAD))
def test_strange_files_are_refused(message, folder, tmp_path):
    source = folder[0] / "centroid sparse.npz"
    good = rewritten(source, tmp_path / "good.npz")
    assert np.array_equal(load(good).predict(IRIS), folder[1]["centroid sparse"][0].predict(IRIS))
    bad = rewritten(source, tmp_path / "bad.npz", BAD[message])
    with pytest.raises(
        ValueError, match=f"bad.npz: not a saved estimator, or damaged: .*{message}"
    ):
        load(bad)


def test_indices_that_compiled_code_would_trust_are_refused(folder, tmp_path):
    for name, array in (("working set, bytes dense", "classes"), ("memoir sparse", "indices")):
        source = folder[0] / f"{name}.npz"
        with np.load(source) as archive:
            values = archive[f"_weights.{array}"]
        wrong = change_array(f"_weights.{array}", np.full_like(values, 10**4))
        with pytest.raises(ValueError, match=r"damaged: .*ind"):
            load(rewritten(source, tmp_path / "bad.npz", wrong))
    source = folder[0] / "landmarks dense.npz"
    wrong = change_array("generators_.0.anchors", np.ones((9, 4), np.float32))
    with pytest.raises(ValueError, match="coefs_: one does not fit"):
        load(rewritten(source, tmp_path / "bad.npz", wrong))


ONE_OF_EACH = "calibrated dense", "centroid sparse", "generalized dense", "memoir sparse"
ONE_OF_EACH += "memoir dense", "minimax risk dense", "cuts sparse", "stages dense", "chain"
ONE_OF_EACH += "landmarks dense", "Weston-Watkins dense", "Weston-Watkins, kernel sparse"
ONE_OF_EACH += "Weston-Watkins, searched dense", "working set dense", "working set, bytes dense"


def with_entry(array, value):
    array = array.copy()
    array.ravel()[-1] = value
    return array


def mutants(array):
    """Yield arrays of other types, shapes and values; a value that the type cannot hold is none."""
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
        if array.dtype.kind == "f" or (
            value <= np.iinfo(array.dtype).max and (value >= np.iinfo(array.dtype).min)
        ):
            yield with_entry(array, value)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_an_array_of_another_type_shape_or_value_is_refused_or_predicts(name, folder, tmp_path):
    rows = sp.csr_matrix(IRIS[::10]) if "sparse" in name else IRIS[::10]
    rows = [[[0.0], [9.0]]] if name == "chain" else rows
    source = folder[0] / f"{name}.npz"
    with np.load(source) as archive:
        arrays = {key: archive[key] for key in archive.files if key != "header"}
    refused = 0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tried = [(key, mutant) for key, array in arrays.items() for mutant in mutants(array)]
    for key, mutant in tried:
        bad = rewritten(source, tmp_path / "bad.npz", change_array(key, mutant))
        try:
            model = load(bad)
        except ValueError as error:
            refused += "damaged" in str(error)
            continue
        assert mutant.dtype.names is None and mutant.dtype.isnative and mutant.flags.c_contiguous
        for said in answers(model, rows):
            said = np.concatenate([np.atleast_1d(part) for part in said])
            assert said.dtype.kind != "f" or np.isfinite(said).all()
    assert refused > len(tried) // 2


@pytest.mark.parametrize(
    ("name", "array", "value"),
    [
        ("working set, bytes dense", "_weights.classes", lambda a: a.astype(np.int64) + 2**32),
        ("working set, bytes dense", "_weights.values", lambda a: a[:1]),
        ("working set, bytes dense", "_weights.starts", lambda a: a[::-1].copy()),
        ("working set, bytes dense", "_weights.scales", lambda a: with_entry(a, np.nan)),
        ("memoir sparse", "_weights.data", lambda a: a.astype(np.float64)),
        ("memoir sparse", "_weights.indices", lambda a: a[::-1].copy()),
        ("memoir sparse", "_weights.indptr", lambda a: with_entry(a, -5)),
        ("cuts sparse", "support_vectors_.indices", lambda a: with_entry(a, 4)),
        ("stages dense", "coefs_.0", lambda a: with_entry(a, np.inf)),
        ("stages dense", "scaler_.mean_", lambda a: a[:1]),
        ("landmarks dense", "generators_.0.anchors", lambda a: a.astype(np.float64)),
        ("centroid dense", "intercept_", lambda a: with_entry(a, -np.inf)),
        ("minimax risk dense", "coef_", lambda a: with_entry(a, np.nan)),
        ("Weston-Watkins, kernel dense", "dual_coef_", np.asfortranarray),
        ("generalized dense", "classes_", lambda a: a[::-1].copy()),
        ("memoir dense", "classes_", lambda a: np.array([(v,) for v in a], [("label", "f8")])),
    ],
)
def test_arrays_that_compiled_code_would_misread_are_refused(name, array, value, folder, tmp_path):
    source = folder[0] / f"{name}.npz"
    with np.load(source) as archive:
        wrong = change_array(array, value(archive[array]))
    with pytest.raises(ValueError, match=r"bad.npz: not a saved estimator, or damaged: "):
        load(rewritten(source, tmp_path / "bad.npz", wrong))


NUMBERS = {
    "stages dense": ("fitted", "generators_", "list", 0, "Generator", "block"),
    "landmarks dense": ("fitted", "generators_", "list", 0, "Generator", "seed"),
    "cuts dense": ("fitted", "_kernel", "Kernel", "degree"),
    "cuts sparse": ("fitted", "gamma_"),
    "calibrated dense": ("parameters", "basis"),
    "working set, bytes dense": ("fitted", "_weights", "Quantized", "k"),
    "working set dense": ("parameters", "random_state", "RandomState", "state", "dict", "pos"),
    "Weston-Watkins, searched dense": ("parameters", "Cs"),
    "centroid sparse": ("fitted", "coef_", "csr_matrix", 3, 1),
    "minimax risk dense": ("fitted", "phi_"),
    "generalized dense": ("fitted", "multilabel_"),
}


@pytest.mark.parametrize("value", [None, "3", -1, 2**31, 1e400, {"list": []}, [1], {"eval": 1}])
@pytest.mark.parametrize("name", list(NUMBERS))
def test_numbers_of_the_header_are_refused_where_they_are_not_what_a_fit_leaves(
    name, value, folder, tmp_path
):
    if name in ("landmarks dense", "cuts dense") and value == 2**31:
        value = 1e999  # for what is a number, too
    change = put(*NUMBERS[name], value=value)
    with pytest.raises(ValueError, match=r"bad.npz: not a saved estimator, or damaged: "):
        load(rewritten(folder[0] / f"{name}.npz", tmp_path / "bad.npz", change))


class Bomb:
    def __reduce__(self):
        return print, ("this has run",)


def test_a_pickle_runs_nothing(folder, tmp_path, capsys):
    source = folder[0] / "centroid dense.npz"
    evil = change_array("coef_", np.array([Bomb()] * 3, dtype=object))
    pickled = io.BytesIO()
    np.save(pickled, np.array([Bomb()], dtype=object), allow_pickle=True)
    (tmp_path / "pickle.npz").write_bytes(pickled.getvalue())
    for path in (rewritten(source, tmp_path / "bad.npz", evil), tmp_path / "pickle.npz"):
        with pytest.raises(ValueError, match="not a saved estimator, or damaged"):
            load(path)
    assert capsys.readouterr().out == ""


def test_damaged_files_are_refused(folder, tmp_path):
    whole = (folder[0] / "centroid dense.npz").read_bytes()
    path = tmp_path / "part.npz"
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"part.npz: not a saved estimator, or damaged"):
            load(path)
    model, X = folder[1]["centroid dense"]
    rng = np.random.default_rng(0)
    for at in rng.integers(len(whole), size=200):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ rng.integers(1, 256)]) + whole[at + 1 :])
        try:
            assert np.array_equal(load(path).predict(X), model.predict(X))  # a time, a comment
        except ValueError as error:
            assert "not a saved estimator, or damaged" in str(error)
    np.save(tmp_path / "array.npy", np.ones(3))
    np.savez(tmp_path / "other.npz", coef_=np.ones(3))
    for name in ("array.npy", "other.npz"):
        with pytest.raises(ValueError, match="not a saved estimator, or damaged"):
            load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.npz")


def test_headers_that_claim_too_much_are_refused(folder, tmp_path, monkeypatch):
    source = folder[0] / "centroid dense.npz"
    squeezed = rewritten(source, tmp_path / "bad.npz", save=np.savez_compressed)
    with pytest.raises(ValueError, match="compressed or encrypted"):
        load(squeezed)
    claim = io.BytesIO()
    layout = {"descr": "<f8", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(claim, layout)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(tmp_path / "bad.npz", "w") as new:
        for name in old.namelist():
            new.writestr(name, claim.getvalue() if name == "coef_.npy" else old.read(name))
    with pytest.raises(ValueError, match="damaged"):
        load(tmp_path / "bad.npz")
    nested = np.frombuffer(b'{"list": [' * 10**5, np.uint8)
    np.savez(tmp_path / "bad.npz", header=nested)
    with pytest.raises(ValueError, match="damaged"):
        load(tmp_path / "bad.npz")
    monkeypatch.setattr(estimators.saved, "MAX_HEADER_BYTES", 100)
    with pytest.raises(ValueError, match="no header of a saved estimator"):
        load(source)
