"""Linear models in ONNX: another runtime gives the same labels, scores and probabilities."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from workbench.estimators import (
    CalibratedLeastSquares,
    CentroidClassifier,
    GeneralizedLeastSquares,
    MemoirClassifier,
    MinimaxRiskClassifier,
    SampledCutClassifier,
    StagewiseLeastSquares,
    WestonWatkinsClassifier,
    WestonWatkinsClassifierCV,
    WorkingSetClassifier,
)
from workbench.estimators.onnx import LINEAR, export, to_onnx

pytest.importorskip("onnx", reason="needs the extra onnx")
runtime = pytest.importorskip("onnxruntime", reason="runs what is exported")

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = IRIS / 8
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
MODELS = {
    "centroid": CentroidClassifier(),
    "centroid, sparse": CentroidClassifier(),
    "softmax": GeneralizedLeastSquares(),
    "sigmoid": GeneralizedLeastSquares("sigmoid"),
    "hinge": GeneralizedLeastSquares("squared_hinge", alpha=1e-3),
    "memoir": MemoirClassifier(random_state=0),
    "memoir, sparse": MemoirClassifier(random_state=0),
    "minimax risk": MinimaxRiskClassifier(),
    "Weston-Watkins": WestonWatkinsClassifier(fit_intercept=True, random_state=0),
    "Weston-Watkins, searched": WestonWatkinsClassifierCV([1], cv=2, random_state=0),
    "working set": WorkingSetClassifier(random_state=0),
    "working set, bytes": WorkingSetClassifier(quantize=True, random_state=0),
}


def outputs(model, X):
    """Return what the runtime makes of rows, by the outputs' names."""
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def test_every_linear_estimator_is_here():
    assert {type(model) for model in MODELS.values()} == {*LINEAR}


@pytest.mark.parametrize("name", list(MODELS))
def test_the_runtime_agrees(name):
    rows = sp.csr_matrix(IRIS) if "sparse" in name else IRIS
    model = clone(MODELS[name]).fit(rows, NAMES)
    for dtype, digits in ((np.float32, 1e-4), (np.float64, 1e-6)):
        X = IRIS.astype(dtype)
        found = outputs(to_onnx(model, dtype), X)
        scores = model.decision_function(X)
        assert found["scores"].dtype == dtype
        np.testing.assert_allclose(found["scores"], scores, rtol=digits, atol=digits)
        top = np.sort(scores, axis=1)
        clear = top[:, -1] - top[:, -2] > 1e-4
        assert clear.mean() > 0.95
        assert np.array_equal(found["label"][clear], model.predict(X)[clear])
        assert ("probabilities" in found) == hasattr(model, "predict_proba")
        if "probabilities" in found:
            expected = model.predict_proba(X)
            tolerance = {"rtol": 10 * digits, "atol": 10 * digits}
            np.testing.assert_allclose(found["probabilities"], expected, **tolerance)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (np.array([3, -7, 2**40])[SPECIES], np.int64),
        (np.array([3, 7, 200], np.uint8)[SPECIES], np.int64),
        (SPECIES > 0, np.bool_),
        (np.where(SPECIES > 0, "später", "früh"), np.object_),
        (NAMES.astype(object), np.object_),
        (SPECIES * 2.0, np.float64),
    ],
)
def test_labels_keep_their_kind(labels, dtype):
    model = GeneralizedLeastSquares(alpha=1e-3).fit(IRIS, labels)
    found = outputs(to_onnx(model), IRIS.astype(np.float32))
    assert found["label"].dtype == dtype and found["label"].shape == (150,)
    assert np.mean(found["label"] == model.predict(IRIS)) > 0.99
    if len(model.classes_) == 2:
        decision = found["scores"][:, 1] - found["scores"][:, 0]
        np.testing.assert_allclose(decision, model.decision_function(IRIS), atol=1e-4)


def test_several_labels_a_row():
    Y = np.stack([SPECIES > 0, SPECIES == 1, SPECIES < 2], axis=1).astype(int)
    model = GeneralizedLeastSquares("sigmoid", alpha=1e-3).fit(IRIS, Y)
    found = outputs(to_onnx(model, np.float64), IRIS)
    assert np.array_equal(found["label"], model.predict(IRIS))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(IRIS), atol=1e-6)


def test_scores_far_from_the_border():
    risk = MinimaxRiskClassifier().fit(IRIS, SPECIES)
    link = GeneralizedLeastSquares("sigmoid").fit(IRIS, SPECIES)
    far = np.vstack([IRIS * 1e4, -IRIS * 1e4, 0 * IRIS])
    for model in (risk, link):
        found = outputs(to_onnx(model, np.float64), far)["probabilities"]
        np.testing.assert_allclose(found, model.predict_proba(far), atol=1e-6)
    assert (np.ptp(risk.predict_proba(far), axis=1) == 0).any()  # where no score exceeds phi


def test_a_class_without_rows_is_never_the_label():
    model = CentroidClassifier().partial_fit(IRIS[50:], SPECIES[50:], classes=[0, 1, 2])
    found = outputs(to_onnx(model), IRIS.astype(np.float32))
    assert np.isneginf(found["scores"][:, 0]).all()
    assert np.array_equal(found["label"], model.predict(IRIS))


def test_a_file_is_written_whole(tmp_path):
    model = CentroidClassifier().fit(IRIS, SPECIES)
    export(model, tmp_path / "m.onnx", np.float64)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(["label"], {"X": IRIS})[0], model.predict(IRIS))


@pytest.mark.parametrize(
    "model",
    [
        CalibratedLeastSquares(max_iter=1),
        StagewiseLeastSquares(n_features=8, block=8, random_state=0),
        SampledCutClassifier(r=9, random_state=0),
        WestonWatkinsClassifier(kernel="rbf", random_state=0),
    ],
)
def test_what_is_not_linear_is_refused(model):
    with pytest.raises(TypeError, match=r"only linear .*CentroidClassifier, .*; got \w+$"):
        to_onnx(model.fit(IRIS, SPECIES))


def test_what_else_is_refused(monkeypatch):
    with pytest.raises(NotFittedError):
        to_onnx(CentroidClassifier())
    model = CentroidClassifier().fit(IRIS, SPECIES)
    with pytest.raises(ValueError, match=r"^dtype: must be float32 or float64, got float16"):
        to_onnx(model, np.float16)
    mixed = CentroidClassifier()
    mixed.fit(IRIS, SPECIES).classes_ = np.array([1, "a", 2], dtype=object)
    with pytest.raises(TypeError, match=r"^classes_: ONNX has no type for labels like 1"):
        to_onnx(mixed)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"extra: pip install .workbench-mc\[onnx\]"):
        to_onnx(model)
