"""Linear models as ONNX graphs, which other runtimes and languages can run.

The extra ``onnx`` brings the package that writes them: ``pip install "workbench-mc[onnx]"``.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

import workbench
from workbench.estimators.centroid import CentroidClassifier
from workbench.estimators.least_squares import GeneralizedLeastSquares
from workbench.estimators.memoir import MemoirClassifier
from workbench.estimators.minimax_risk import MinimaxRiskClassifier
from workbench.estimators.weston_watkins import WestonWatkinsClassifier
from workbench.estimators.weston_watkins_cv import WestonWatkinsClassifierCV
from workbench.estimators.working_set import WorkingSetClassifier

LINEAR = (
    CentroidClassifier,
    GeneralizedLeastSquares,
    MemoirClassifier,
    MinimaxRiskClassifier,
    WestonWatkinsClassifier,
    WestonWatkinsClassifierCV,
    WorkingSetClassifier,
)
OPSET, IR = 18, 9  # what runtimes from the middle of 2023 on take


def export(estimator, path: str | os.PathLike, dtype=np.float32) -> None:
    """Write the model of :func:`to_onnx` to `path`, whole or not at all; the same is raised."""
    written = to_onnx(estimator, dtype).SerializeToString()
    part = Path(f"{os.fspath(path)}.part")
    part.write_bytes(written)
    os.replace(part, path)


def to_onnx(estimator, dtype=np.float32):
    """Return a fitted linear estimator as an ``onnx.ModelProto``.

    Its input ``X`` has (n, d) numbers of this type. Its outputs are ``label``, (n,), or (n, k)
    zeros and ones where rows have several labels; ``scores``, (n, k), of which `decision_function`
    is the second column minus the first for two classes; and ``probabilities``, (n, k), for
    estimators with `predict_proba`. Labels are int64, texts, booleans or doubles. Weights of sparse
    models become dense ones.

    Parameters
    ----------
    dtype : float32 or float64. Rows on the border between classes may get another label than from
        the estimator, which computes in the type of its rows and weights

    Raises
    ------
    ImportError
        Without the extra ``onnx``.
    TypeError
        For an estimator that is not linear, or labels that ONNX has no type for.
    ValueError
        For another `dtype`.
    sklearn.exceptions.NotFittedError
        Before `fit`.
    """
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError:
        raise ImportError(
            'onnx: is not installed; it comes with the extra: pip install "workbench-mc[onnx]"'
        ) from None
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype: must be float32 or float64, got {dtype}")
    if not isinstance(estimator, LINEAR) or getattr(estimator, "kernel", None) is not None:
        names = ", ".join(kind.__name__ for kind in LINEAR)
        raise TypeError(
            "estimator: only linear models are exported, which are "
            f"{names} (without a kernel); got {type(estimator).__name__}"
        )
    check_is_fitted(estimator)
    constants, nodes = {}, []

    def constant(name: str, value) -> str:
        constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def add(operation: str, *inputs: str, out: str, **attributes) -> str:
        nodes.append(helper.make_node(operation, inputs, [out], name=out, **attributes))
        return out

    coef = estimator.coef_.toarray() if sp.issparse(estimator.coef_) else estimator.coef_
    k, d = coef.shape
    product = add("MatMul", "X", constant("coef", coef.T.astype(dtype)), out="product")
    add("Add", product, constant("intercept", estimator.intercept_.astype(dtype)), out="scores")
    several = getattr(estimator, "multilabel_", False)
    labels = np.zeros(0, np.int64) if several else _labels(estimator.classes_)
    if several:
        border = constant("border", dtype.type(estimator._threshold()))
        above = add("Greater", "scores", border, out="above")
        add("Cast", above, out="label", to=onnx.TensorProto.INT64)
    else:
        best = add("ArgMax", "scores", out="best", axis=1, keepdims=0)
        add("Gather", constant("classes", labels), best, out="label")
    number = helper.np_dtype_to_tensor_dtype(dtype)
    text = labels.dtype.kind in "OU"
    kind = onnx.TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(labels.dtype)
    outputs = [("label", kind, ["n", k] if several else ["n"]), ("scores", number, ["n", k])]
    if hasattr(estimator, "predict_proba"):
        _probabilities(estimator, dtype, k, several, constant, add)
        outputs.append(("probabilities", number, ["n", k]))
    graph = helper.make_graph(
        nodes,
        type(estimator).__name__,
        [helper.make_tensor_value_info("X", number, ["n", d])],
        [helper.make_tensor_value_info(*output) for output in outputs],
        list(constants.values()),
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="workbench",
        producer_version=workbench.__version__,
    )
    onnx.checker.check_model(model)
    return model


def _labels(classes: np.ndarray) -> np.ndarray:
    """Return the labels in a type that ONNX has."""
    if classes.dtype.kind in "iu" and classes.dtype != np.uint64:
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(np.float64)
    if classes.dtype.kind == "U" or all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    if classes.dtype.kind == "b":
        return classes
    raise TypeError(f"classes_: ONNX has no type for labels like {classes[0]!r}")


def _probabilities(estimator, dtype, k: int, several: bool, constant, add) -> None:
    """Add what `predict_proba` does to the scores."""
    if isinstance(estimator, MinimaxRiskClassifier):
        excess = add("Sub", "scores", constant("phi", dtype.type(estimator.phi_)), out="excess")
        excess = add("Relu", excess, out="positive")
        axis, zero = constant("axis", np.array([1])), constant("zero", dtype.type(0))
        total = add("ReduceSum", excess, axis, out="total", keepdims=1)
        some = add("Greater", total, zero, out="some")
        safe = add("Where", some, total, constant("one", dtype.type(1)), out="safe")
        shares = add("Div", excess, safe, out="shares")
        uniform = constant("uniform", np.full(k, 1 / k, dtype))
        add("Where", some, shares, uniform, out="probabilities")
    elif several:
        add("Sigmoid", "scores", out="probabilities")
    elif estimator.link == "softmax":
        add("Softmax", "scores", out="probabilities", axis=1)
    else:  # sigmoids over their sum, by their logarithms min(u, 0) - log(1 + exp(-|u|))
        size = add("Neg", add("Abs", "scores", out="size"), out="minus_size")
        one = constant("one", dtype.type(1))
        mass = add("Add", add("Exp", size, out="small"), one, out="mass")
        low = add("Min", "scores", constant("zero", dtype.type(0)), out="low")
        logs = add("Sub", low, add("Log", mass, out="rest"), out="logs")
        add("Softmax", logs, out="probabilities", axis=1)
