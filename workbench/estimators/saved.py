"""Fitted models in files of skops, without pickle: loading one runs none of its code."""

from __future__ import annotations

import os
import zipfile

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from workbench.core.files import whole

# The types of ours that a file may contain; each checks itself when it is loaded. skops adds
# numbers, texts, arrays and scikit-learn's own estimators.
NAMES = "CalibratedLeastSquares", "GeneralizedLeastSquares", "StagewiseLeastSquares"
NAMES += "MemoirClassifier", "WorkingSetClassifier", "MinimaxRiskClassifier"
NAMES += "SampledCutClassifier", "WestonWatkinsClassifier"
TRUSTED = [
    *(f"workbench.estimators.classifiers.{name}" for name in NAMES),
    "workbench.core.trace.Trace",
    "workbench.data.generators.Generator",
    "workbench.kernels.functions.Kernel",
    "numpy.dtype",
]


def save(model: BaseEstimator, path: str | os.PathLike) -> None:
    """Write a fitted model to `path`, whole or not at all; :func:`load` reads it.

    Parameters
    ----------
    model : one of our classifiers, or a pipeline or search of scikit-learn's around one
    path : file to write

    Raises
    ------
    TypeError
        If it contains anything that :func:`load` would refuse, such as a function.
    sklearn.exceptions.NotFittedError
        Before `fit`.
    """
    import skops.io  # it takes a second

    check_is_fitted(model)
    with whole(path) as part:
        skops.io.dump(model, part)
        unknown = set(skops.io.get_untrusted_types(file=part)) - set(TRUSTED)
        if unknown:
            raise TypeError(
                f"model: cannot save {', '.join(sorted(unknown))}; only numbers, texts, arrays, "
                "scikit-learn's estimators and ours"
            )


def load(path: str | os.PathLike) -> BaseEstimator:
    """Return the model that :func:`save` has written; it predicts the same, bit for bit.

    Raises
    ------
    ValueError
        If the file is damaged, or contains any type other than :data:`TRUSTED` and those that skops
        trusts, or arrays that no fit of its class leaves.
    OSError
        If it cannot be read.
    """
    import skops.io

    with open(path, "rb") as source:
        try:
            with zipfile.ZipFile(source) as archive:
                files = archive.infolist()
            size, stored = sum(file.file_size for file in files), zipfile.ZIP_STORED
            bare = all(file.compress_type == stored for file in files)
            if not bare or size > os.fstat(source.fileno()).st_size:
                raise ValueError("its entries are compressed, or overlap")
            source.seek(0)
            model = skops.io.load(source, trusted=TRUSTED)
            if not isinstance(model, BaseEstimator):
                raise TypeError(f"it contains an object of type {type(model).__name__}")
            check_is_fitted(model)
        except Exception as error:  # of skops, NumPy, zipfile or ours: nothing in it is trusted
            raise ValueError(f"{path}: not a saved model, or damaged: {error}") from None
    return model
