"""Saved models: the same predictions in another process, and files that run nothing."""

import io
import json
import pickle
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from test_estimators import CASES as ESTIMATORS
from test_estimators import STAGES

from workbench.estimators import (
    SampledCutClassifier,
    StagewiseLeastSquares,
    WestonWatkinsClassifier,
    load,
    save,
)

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = IRIS / 8
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
LABELS = [NAMES, SPECIES == 1, SPECIES * 2.0, SPECIES.astype(np.int8), NAMES.astype(object)]
CASES = dict(zip(ESTIMATORS, zip(ESTIMATORS.values(), [*LABELS, NAMES, NAMES, NAMES])))
CASES |= {
    "cuts of two": (SampledCutClassifier(kernel="linear", random_state=0), SPECIES > 0),
    "landmarks": (StagewiseLeastSquares("nystroem", **STAGES), SPECIES),
    "pipeline": (make_pipeline(StandardScaler(with_mean=False), ESTIMATORS["working set"]), NAMES),
}
DAMAGED = "bad.skops: not a saved model, or damaged: "


def answers(model, X):
    names = [n for n in ("decision_function", "predict", "predict_proba") if hasattr(model, n)]
    return [getattr(model, name)(X) for name in names]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Save every case, fitted on dense and on sparse rows; return models, rows and the folder."""
    folder, made = tmp_path_factory.mktemp("saved"), {}
    for name, (estimator, y) in CASES.items():
        for form, X in (("dense", IRIS), ("sparse", sp.csr_matrix(IRIS))):
            made[f"{name} {form}"] = clone(estimator).fit(X, y), X
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    made["names dense"] = WestonWatkinsClassifier().fit(frame, NAMES), frame
    for name, (model, _) in made.items():
        save(model, folder / f"{name}.skops")
    return made, folder


def test_everything_that_was_fitted_is_loaded(made, tmp_path):
    made, folder = made
    for name, (model, X) in made.items():
        again = load(folder / f"{name}.skops")
        assert type(again) is type(model) and vars(again).keys() == vars(model).keys()
        assert all(map(np.array_equal, answers(again, X), answers(model, X))), name
        assert getattr(again, "trace_", None) == getattr(model, "trace_", None)
        assert repr(again.get_params()) == repr(model.get_params())
        if name in {name for name, *_ in BAD}:  # which are refused for what changes in them
            good = rewritten(folder / f"{name}.skops", tmp_path / "m.skops", lambda *parts: None)
            assert all(map(np.array_equal, answers(load(good), X), answers(model, X))), name
    np.save(folder / "rows.npy", IRIS)
    program = "import sys, numpy as np; from workbench.estimators import load; "
    program += "print(load(sys.argv[1]).predict(np.load(sys.argv[2])).tolist())"
    for name in ("stagewise dense", "pipeline dense"):  # in another process
        call = [sys.executable, "-c", program, folder / f"{name}.skops", folder / "rows.npy"]
        said = subprocess.run(call, check=True, timeout=120, capture_output=True, text=True).stdout
        assert said.strip() == str(made[name][0].predict(IRIS).tolist())
    with pytest.raises(ValueError, match="feature names"):
        load(folder / "names dense.skops").predict(made["names dense"][1][list("dcba")])


def test_a_fitted_model_that_can_be_loaded_is_saved_by_the_name_it_is_given(made, tmp_path):
    odd = make_pipeline(FunctionTransformer(np.deg2rad), FunctionTransformer(print))
    with pytest.raises(TypeError, match=r"^model: cannot save .*print"):
        save(odd.fit(IRIS, SPECIES), tmp_path / "m.skops")
    model = clone(made[0]["generalized dense"][0])
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())
    model.fit(IRIS, NAMES).save(str(tmp_path / "m"))
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def rewritten(source, target, change, compression=zipfile.ZIP_STORED):
    """Copy a saved model with its parts changed: the schema, and the arrays by name."""
    with zipfile.ZipFile(source) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts["schema.json"])
    change(schema, parts)
    parts["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return target


def put(*path, value):
    """Return a change of one entry of the schema."""

    def change(schema, parts):
        entry = schema["content"]["content"]
        if path[0] not in entry:
            keys = schema["content"]["key_types"]["content"]
            keys.append(keys[0])
        for step in path[:-1]:
            entry = entry[step]
        entry[path[-1]] = value

    return change


def saved_array(value):
    sink = io.BytesIO()
    np.save(sink, value)
    return sink.getvalue()


def array(name, change_of):
    """Return a change of the bytes of one array."""

    def change(schema, parts):
        entry = schema["content"]["content"][name]
        parts["other.npy"] = change_of(parts[entry["file"]])
        entry["file"] = "other.npy"
        entry.pop("__id__", None)

    return change


def backwards(content):
    return saved_array(np.load(io.BytesIO(content))[::-1].copy())


def number(value):
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
    return text | {"content": json.dumps(value), "is_json": True}


SYSTEM = {"__class__": "system", "__module__": "posix", "__loader__": "FunctionNode"}
BAD = [  # a saved file, a change, and the message
    ("generalized dense", lambda s, p: s.update(__module__="os", __class__="system"), "os.system"),
    ("generalized dense", put("predict", value=SYSTEM), "posix.system"),
    ("generalized dense", put("predict", value=number("ls")), "predict: is not an attribute"),
    ("generalized dense", put("__class__", value=number(1)), "__class__: is not an attribute"),
    ("generalized dense", put("link", value=number("shell")), "link: unknown name"),
    ("generalized dense", put("n_features_in_", value=number("4")), "n_features_in_: must be"),
    ("generalized dense", array("classes_", backwards), "classes_: must be at least two"),
    ("working set dense", put("n_features_in_", value=number(2**40)), "_weights: must be floats"),
]


NUMBERS = {  # numbers inside the objects of a model
    "stagewise dense": ("generator_", "content", "content", "block"),
    "landmarks dense": ("generator_", "content", "content", "s"),
    "cuts dense": ("_kernel", "content", "content", "gamma"),
    "cuts sparse": ("gamma_",),
    "calibrated dense": ("basis",),
    "minimax risk dense": ("phi_",),
}
BAD += [
    (name, put(*path, value=number(value)), "")
    for name, path in NUMBERS.items()
    for value in (None, "3", -1, 1e400, [1], 10**6)
    if (name, value) != ("landmarks dense", 10**6)  # a bandwidth
]


@pytest.mark.parametrize(("name", "change", "message"), BAD)
def test_strange_files_are_refused(name, change, message, made, tmp_path):
    bad = rewritten(made[1] / f"{name}.skops", tmp_path / "bad.skops", change)
    with pytest.raises(ValueError, match=f"{DAMAGED}.*({message})"):
        load(bad)


def mutants(array):
    """Yield arrays of other types, shapes and values that the type can hold."""
    yield array.astype(array.dtype.newbyteorder())
    yield np.array([(value, 0) for value in array.ravel()], [("a", array.dtype), ("b", "i4")])
    yield array.astype("S")
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
            changed = array.copy()
            changed.ravel()[-1] = value
            yield changed


ONE_OF_EACH = "calibrated dense", "generalized dense", "memoir sparse", "memoir dense"
ONE_OF_EACH += "minimax risk dense", "cuts sparse", "cuts dense", "stagewise dense"
ONE_OF_EACH += "landmarks dense", "Weston-Watkins dense", "working set sparse"


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_an_array_of_another_type_shape_or_value_is_refused_or_predicts(name, made, tmp_path):
    rows = sp.csr_matrix(IRIS[::10]) if "sparse" in name else IRIS[::10]
    source = made[1] / f"{name}.skops"
    with zipfile.ZipFile(source) as archive:
        files = [file for file in archive.namelist() if file.endswith(".npy")]
        arrays = {file: np.load(io.BytesIO(archive.read(file))) for file in files}
    arrays = {file: array for file, array in arrays.items() if array.ndim}
    refused = 0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tried = [(file, mutant) for file, values in arrays.items() for mutant in mutants(values)]
        for file, mutant in tried:
            change = lambda _, parts, at=file, new=mutant: parts.update({at: saved_array(new)})  # noqa: E731
            bad = rewritten(source, tmp_path / "bad.skops", change)
            try:
                said = answers(load(bad), rows)
            except ValueError as error:  # or scores that are not finite
                refused += "damaged" in str(error)
                continue
            for answer in said:
                assert answer.dtype.kind != "f" or np.isfinite(answer).all()
    assert refused > len(tried) // 3


class Bomb:
    def __reduce__(self):
        return print, ("this has run",)


def test_damaged_files_are_refused_and_a_pickle_runs_nothing(made, tmp_path, capsys):
    (model, X), source = made[0]["Weston-Watkins dense"], made[1] / "Weston-Watkins dense.skops"
    whole, path, rng = source.read_bytes(), tmp_path / "bad.skops", np.random.default_rng(0)
    for length in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=DAMAGED):
            load(path)
    for at in rng.integers(len(whole), size=100):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ rng.integers(1, 256)]) + whole[at + 1 :])
        try:
            assert np.array_equal(load(path).predict(X), model.predict(X))  # a time, a comment
        except ValueError as error:
            assert DAMAGED in str(error)
    sink = io.BytesIO()
    np.save(sink, np.array([Bomb()] * 3, dtype=object), allow_pickle=True)
    rewritten(source, path, array("coef_", lambda _: sink.getvalue()))
    (tmp_path / "pickle").write_bytes(pickle.dumps(Bomb()))
    skops.io.dump([model], tmp_path / "list")
    for file in (path, tmp_path / "pickle", tmp_path / "list"):
        with pytest.raises(ValueError, match="not a saved model, or damaged"):
            load(file)
    assert capsys.readouterr().out == ""
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.skops")


def test_files_that_claim_too_much_are_refused(made, tmp_path):
    source, bad = made[1] / "Weston-Watkins dense.skops", tmp_path / "bad.skops"
    with pytest.raises(ValueError, match="compressed, or overlap"):
        load(rewritten(source, bad, lambda schema, parts: None, zipfile.ZIP_DEFLATED))
    claim = io.BytesIO()
    layout = {"descr": "<f8", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(claim, layout)
    with pytest.raises(ValueError, match=DAMAGED):
        load(rewritten(source, bad, array("coef_", lambda _: claim.getvalue())))
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("schema.json", '{"list": [' * 10**5)
    with pytest.raises(ValueError, match=DAMAGED):
        load(bad)
