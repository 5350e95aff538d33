"""Compare the accuracy and the fit times of estimators on ordinary tables.

``python benchmarks/tables.py [DATA...]`` prints the table of guides/tables.md. Each
estimator has its defaults and standardised features in double precision. It is first
fitted to a tenth of the training rows, which compiles our solvers, and then to all of
them. The time is in CPU seconds of one thread; a star marks a fit that warned that it
did not converge.
"""

from __future__ import annotations

import os
import sys
import warnings
from time import process_time

# One thread for every library; this must come before their import.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from workbench.data import load
from workbench.estimators import (
    GeneralizedLeastSquares,
    MinimaxRiskClassifier,
    SampledCutClassifier,
    WestonWatkinsClassifier,
    WorkingSetClassifier,
)
from workbench.estimators.base import Classifier
from workbench.runs.run import machine, versions

DATA = ["satellite", "letter_uci"]
ESTIMATORS = [
    LogisticRegression(),
    LinearSVC(),
    SVC(),
    RandomForestClassifier(random_state=0),
    HistGradientBoostingClassifier(random_state=0),
    GeneralizedLeastSquares(),
    WestonWatkinsClassifier(random_state=0),
    WorkingSetClassifier(random_state=0),
    MinimaxRiskClassifier(),
    SampledCutClassifier(random_state=0),
]


def measured(estimator, problem) -> str:
    """Return two cells: the accuracy on the test rows and the CPU seconds of a fit."""
    X = problem.X.astype(float)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        estimator.fit(X[::10], problem.y[::10])
        caught.clear()
        start = process_time()
        estimator.fit(X, problem.y)
        seconds = process_time() - start
    accuracy = estimator.score(problem.X_test, problem.y_test)
    return f"{accuracy:.3f} | {seconds:.2f} s{'*' if caught else ''}"


def main(names: list[str]) -> None:
    problems = [load(name, test=0.3, scale="standard") for name in names or DATA]
    titles = [f"{p.name}, {p.n:,} x {p.d}, {p.k} classes | CPU" for p in problems]
    print(f"| estimator | {' | '.join(titles)} |")
    print("|---" * (1 + 2 * len(problems)) + "|")
    for estimator in ESTIMATORS:
        cells = [measured(estimator, problem) for problem in problems]
        ours = " (ours)" if isinstance(estimator, Classifier) else ""
        name = type(estimator).__name__ + ours
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    cpu = machine()["cpu"]
    print(f"\n{cpu}, one thread, scikit-learn {versions()['scikit-learn']}.")


if __name__ == "__main__":
    main(sys.argv[1:])
