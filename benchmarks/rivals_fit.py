"""Tune, fit and evaluate one system on one data set, in its own environment.

``rivals_fit.py FOLDER`` reads the folder's ``arm.json`` and the rows ``search.npz``,
``held.npz``, ``train.npz`` and ``test.npz``; it prints one line of JSON per trial and
one for the last fit. Only NumPy, SciPy, scikit-learn and the system itself are
imported.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from measuring import forget_peak, load_rows, peak_memory
from sklearn.datasets import dump_svmlight_file

LOSS = (1e-4, 1e2)  # C of a row's loss; all ranges have a log scale
BOOSTS = {"learning_rate": (0.02, 0.5), "reg_lambda": (1e-3, 1e3)}
AUTHORS = "the authors' code"  # not from a package index
# This gamma is multiplied by the features' variance and number.
KERNEL = {"C": (1e-2, 1e4), "gamma": (1e-3, 1e3)}


class System(NamedTuple):
    """A system to measure: its package, its rows, its searched ranges and its
    factory."""

    package: str
    rows: str  # "dense" or "sparse"
    ranges: Mapping[str, tuple[float, float]]
    make: Callable[..., Any]


def of(path: str, **fixed: Any) -> Callable[..., Any]:
    """Return a factory of scikit-learn-like estimators, imported on the first call."""
    module, _, name = path.rpartition(".")
    return lambda **setting: getattr(import_module(module), name)(**fixed, **setting)


class LibSVM:
    """LIBSVM through its own Python interface."""

    def __init__(self, C: float = 1.0, gamma: float | None = None) -> None:
        self.options = f"-s 0 -t 2 -c {C} -m 512 -q" + (f" -g {gamma}" if gamma else "")

    def fit(self, X, y) -> None:
        from libsvm.svmutil import svm_train

        self.model = svm_train(y.astype(float), X, self.options)

    def predict(self, X) -> np.ndarray:
        from libsvm.svmutil import svm_predict

        return np.array(svm_predict([], X, self.model, "-q")[0]).astype(int)


class Liblinear:
    """The Crammer-Singer SVM of LIBLINEAR's multicore edition, with one thread."""

    def __init__(self, C: float = 1.0) -> None:
        self.options = f"-s 4 -c {C} -B 1 -q"

    def fit(self, X, y) -> None:
        from liblinear.liblinearutil import train

        self.model = train(y.astype(float), X, self.options)

    def predict(self, X) -> np.ndarray:
        from liblinear.liblinearutil import predict

        return np.array(predict([], X, self.model, "-q")[0]).astype(int)


class NapkinXC:
    """The probabilistic label tree of napkinXC, or its classifier for each class."""

    def __init__(self, kind: str, **setting: float) -> None:
        self.model = getattr(import_module("napkinxc.models"), kind)(
            mkdtemp(dir="."), threads=1, **setting
        )

    def fit(self, X, y) -> None:
        self.model.fit(X, [[label] for label in y.tolist()])

    def predict(self, X) -> np.ndarray:
        return np.array(
            [labels[0] if labels else -1 for labels in self.model.predict(X, top_k=1)]
        )


class Omikuji:
    """Omikuji's three balanced label trees, which read the rows from a file."""

    def __init__(self, c: float | None = None) -> None:
        self.c = c

    def fit(self, X, y) -> None:
        import omikuji

        parameters = omikuji.Model.default_hyper_param()
        if self.c is not None:
            parameters.linear_c = self.c
        path = f"{mkdtemp(dir='.')}/rows.txt"
        with open(path, "wb") as out:
            out.write(b"%d %d %d\n" % (*X.shape, y.max() + 1))
            dump_svmlight_file(X, y, out)
        self.model = omikuji.Model.train_on_data(path, parameters, n_threads=1)

    def predict(self, X) -> np.ndarray:
        labels = []
        for i in range(X.shape[0]):
            part = slice(X.indptr[i], X.indptr[i + 1])
            row = list(
                zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)
            )
            top = self.model.predict(row, top_k=1)
            labels.append(top[0][0] if top else -1)
        return np.array(labels)


class PDSparse:
    """The authors' programs of PD-Sparse in the folder PDSPARSE, with their post-solve.

    A tenth of the rows is held out in a file for the early stop.
    """

    def __init__(self, c: float = 1.0, l1: float = 0.1) -> None:
        self.options = [
            "-s",
            "1",
            "-c",
            str(c),
            "-l",
            str(l1),
            "-m",
            "200",
            "-p",
            "200",
        ]

    def fit(self, X, y) -> None:
        self.folder = mkdtemp(dir=".")
        held = np.arange(len(y)) % 10 == 0
        held &= np.isin(y, y[~held])
        for name, rows in {"train": ~held, "held": held}.items():
            dump_svmlight_file(
                X[rows], y[rows], f"{self.folder}/{name}", zero_based=False
            )
        files = ["-h", "held", "train", "model"]
        program = [f"{os.environ['PDSPARSE']}/multiTrain", *self.options, *files]
        subprocess.run(program, cwd=self.folder, check=True, capture_output=True)

    def error(self, X, y) -> float:
        dump_svmlight_file(X, y, f"{self.folder}/test", zero_based=False)
        models = [n for n in ("model.p", "model") if Path(self.folder, n).exists()]
        program = [f"{os.environ['PDSPARSE']}/multiPred", "test", models[0], "1"]
        said = subprocess.run(
            program, cwd=self.folder, check=True, capture_output=True, text=True
        )
        return 1 - float(re.findall(r"Acc=([\d.e-]+)", said.stderr)[0])


def fourier_risk(**setting: float):
    """Return a minimax risk classifier on as many Fourier features as in its paper."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.pipeline import make_pipeline

    from workbench.estimators import MinimaxRiskClassifier

    features = RBFSampler(gamma="scale", n_components=400, random_state=0)
    return make_pipeline(features, MinimaxRiskClassifier(max_seconds=10, **setting))


class Streamed:
    """A solver of ours without an estimator, which predicts after some rounds."""

    def __init__(
        self, solver: str, rounds: int, scale: str = "given", **parameters: Any
    ) -> None:
        self.solver = solver
        self.rounds = rounds
        self.scale = scale
        self.parameters = parameters

    def fit(self, X, y) -> None:
        from sklearn.preprocessing import StandardScaler

        from workbench import as_problem, rounds, run

        self.scaler = StandardScaler().fit(X) if self.scale == "standard" else None
        problem = as_problem(self.scaler.transform(X) if self.scaler else X, y)
        rules = [rounds(self.rounds)]
        how = {"parameters": self.parameters, "warm_up": False}
        self.classes = problem.classes
        self.state = run(self.solver, problem, *rules, **how)[1]

    def predict(self, X) -> np.ndarray:
        X = self.scaler.transform(X) if self.scaler else X
        return self.classes[self.state.scores(X).argmax(axis=1)]


def stages(**setting: float) -> Streamed:
    """Return three passes of stagewise least squares on standardised columns."""
    sizes = {
        "features": "orthogonal_fourier",
        "n_features": 8192,
        "block": 1024,
        "passes": 3,
    }
    return Streamed(
        "ls_stagewise_passes", 24, "standard", link="softmax", **sizes, **setting
    )


def averaged(**setting: float) -> Streamed:
    """Return five passes of MEMOIR's averaged steps."""
    return Streamed("memoir_averaged", 5, eta_step=1e-4, **setting)


OURS = "workbench.estimators."
SYSTEMS = {
    "LightGBM": System(
        "lightgbm",
        "dense",
        BOOSTS,
        of("lightgbm.LGBMClassifier", n_jobs=1, verbosity=-1),
    ),
    "XGBoost": System(
        "xgboost", "dense", BOOSTS, of("xgboost.XGBClassifier", n_jobs=1)
    ),
    "Snap ML boosting": System(
        "snapml",
        "dense",
        {"learning_rate": (0.02, 0.5), "lambda_l2": (1e-3, 1e3)},
        of("snapml.BoostingMachineClassifier", n_jobs=1),
    ),
    "Snap ML logistic": System(
        "snapml",
        "dense sparse",
        {"regularizer": (1e-2, 1e4)},
        of("snapml.LogisticRegression", n_jobs=1, fit_intercept=True),
    ),
    "Intel SVC": System(
        "scikit-learn-intelex", "dense", KERNEL, of("sklearnex.svm.SVC", cache_size=512)
    ),
    "Intel logistic": System(
        "scikit-learn-intelex",
        "dense",
        {"C": LOSS},
        of("sklearnex.linear_model.LogisticRegression", max_iter=1000),
    ),
    "LIBSVM": System("libsvm-official", "dense", KERNEL, LibSVM),
    "LIBLINEAR Crammer-Singer": System(
        "liblinear-multicore", "dense sparse", {"C": LOSS}, Liblinear
    ),
    "napkinXC label tree": System(
        "napkinxc",
        "sparse",
        {"liblinear_c": (1e-1, 1e3)},
        lambda **setting: NapkinXC("PLT", **setting),
    ),
    "napkinXC one per class": System(
        "napkinxc",
        "sparse",
        {"liblinear_c": (1e-1, 1e3)},
        lambda **setting: NapkinXC("OVR", **setting),
    ),
    "Omikuji": System("omikuji", "sparse", {"c": (1e-2, 1e2)}, Omikuji),
    "PD-Sparse": System(
        AUTHORS, "sparse", {"c": (1e-1, 1e2), "l1": (1e-3, 1.0)}, PDSparse
    ),
    "scikit-learn boosting": System(
        "scikit-learn",
        "dense",
        {"learning_rate": (0.02, 0.5), "l2_regularization": (1e-3, 1e3)},
        of("sklearn.ensemble.HistGradientBoostingClassifier"),
    ),
    "scikit-learn extra trees": System(
        "scikit-learn",
        "dense",
        {},
        of("sklearn.ensemble.ExtraTreesClassifier", n_estimators=300),
    ),
    "ours: Weston-Watkins": System(
        "workbench",
        "dense sparse",
        {"C": LOSS},
        of(OURS + "WestonWatkinsClassifier", fit_intercept=False),
    ),
    "ours: sampled cuts": System(
        "workbench", "dense", KERNEL, of(OURS + "SampledCutClassifier")
    ),
    "ours: stagewise": System(
        "workbench",
        "dense",
        {"alpha": (1e-7, 1e-1), "bandwidth": (0.03, 30.0)},
        stages,
    ),
    "ours: minimax risk, 400 Fourier features": System(
        "workbench", "dense", {"lambda0": (1e-4, 1.0)}, fourier_risk
    ),
    "ours: working sets": System(
        "workbench",
        "sparse",
        {"C": LOSS},
        of(
            OURS + "WorkingSetClassifier",
            l1=0.0,
            max_iter=3,
            fit_intercept=False,
            truncate=0.25,
        ),
    ),
    "ours: averaged steps": System(
        "workbench", "sparse", {"eta0": (1e-2, 1e1)}, averaged
    ),
}


def cpu() -> float:
    """Return the CPU seconds of this process and of the programs that it ran."""
    return sum(os.times()[:4])


def trial(
    system: System, setting: Mapping[str, float], rows: str, judges: str
) -> dict[str, Any]:
    """Fit on the rows of one file, timed, and compute the error on those of another."""
    X, y = load_rows(Path(rows))
    known, y = np.unique(y, return_inverse=True)
    forget_peak()
    seconds = perf_counter()
    spent = cpu()
    model = system.make(**setting)
    model.fit(X, y)
    seconds = perf_counter() - seconds
    spent = cpu() - spent
    programs = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    X, y = load_rows(Path(judges))
    # A class without training rows gets a code that is never predicted.
    y = np.where(np.isin(y, known), np.searchsorted(known, y), len(known))
    if hasattr(model, "error"):
        error = model.error(X, y)
    else:
        error = float(np.mean(np.asarray(model.predict(X)).ravel() != y))
    return {
        "setting": setting,
        "error": error,
        "seconds": seconds,
        "cpu": spent,
        "peak_mb": max(peak_memory(), programs),
    }


def settings(system: System, unit: float):
    """Yield the system's defaults, then random settings, with gamma in units of
    `unit`."""
    yield {}
    rng = np.random.default_rng(0)
    while system.ranges:
        drawn = {
            name: float(np.exp(rng.uniform(*np.log(ends))))
            for name, ends in system.ranges.items()
        }
        yield drawn | {name: drawn[name] * unit for name in drawn if name == "gamma"}


def main(folder: Path) -> None:
    """Search until the budget is spent, then fit the best setting to all training
    rows."""
    arm = json.loads((folder / "arm.json").read_text(encoding="utf-8"))
    os.chdir(folder)
    system = SYSTEMS[arm["system"]]
    X, y = load_rows(Path("search.npz"))
    square = X.multiply(X) if sp.issparse(X) else X * X
    unit = float(1 / (X.shape[1] * (square.mean() - X.mean() ** 2)))
    with np.load("few.npz") as few:  # a warm-up for lazy imports and kernels
        rows = few["rows"]
    system.make().fit(X[rows], np.unique(y[rows], return_inverse=True)[1])
    best = None
    start = cpu()
    for setting in settings(system, unit):
        done = trial(system, setting, "search.npz", "held.npz")
        print(json.dumps({"trial": done}), flush=True)
        if best is None or done["error"] < best["error"]:
            best = done
        if cpu() - start > arm["budget"]:
            break
    done = trial(system, best["setting"], "train.npz", "test.npz")
    print(json.dumps({"last": done}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
