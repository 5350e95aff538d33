"""The methods of `memoir_comparison`, what they predict with, and their memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.measures import predictions
from workbench.core.problem import Matrix, Problem
from workbench.figures.reference import printed
from workbench.memoir.mips import scores
from workbench.memoir.working_set import truncated

ONTOLOGY = {"phenotypes", "diseases"}  # data whose licence asks to name their origin


class Method(NamedTuple):
    """A solver, its fixed parameters, the one to choose with a list of its values in
    words, the largest number of rounds, and steps that make its rows from the data."""

    solver: str | Callable
    fixed: dict
    tuned: str
    values: str
    rounds: int
    steps: str = ""

    def liblinear_bytes(self, problem: Problem) -> int:
        """Return the bytes of LIBLINEAR beyond the rows, weights and dual variables as
        doubles; 0 for other solvers."""
        if not str(self.solver).startswith("liblinear"):
            return 0
        n = problem.n if self.solver == "liblinear_cs" else 0
        return 8 * problem.k * (problem.d + n)


@dataclass
class Linear:
    """A linear model with weights W (d, k), sparse or dense."""

    W: Matrix

    def scores(self, X) -> np.ndarray:
        return scores(X, self.W)


def predictor(state, truncate: float):
    """Return the model that predicts, and its size in bytes.

    Weights below `truncate` times their root mean square are cut. The others take 8
    bytes each, or all weights take 4 bytes each if that is less.
    """
    if hasattr(state, "predicted"):  # the recall tree
        return state, len(state.model)
    if hasattr(state, "model"):
        W = state.model()
    elif hasattr(state, "predictor"):  # of the authors' code
        W = state.predictor()
    else:  # LIBLINEAR's (d, k), or the centroids' (k, d)
        W = state.W.T if sp.issparse(state.W) else state.W
    W = truncated(sp.csr_array(W, dtype=np.float32, copy=True), truncate)
    dense = 4 * W.shape[0] * W.shape[1]
    return Linear(W if 8 * W.nnz <= dense else W.toarray()), min(8 * W.nnz, dense)


def stand_ins(problems: Iterable[Problem]) -> str:
    """Return sentences on the texts that are not the paper's, for a caption."""
    names = set(printed("memoir")["dataset"])
    others = {}
    for problem in problems:
        name = re.sub(r" \d+x\d+|,.*", "", problem.name)
        if name not in names:
            others[name] = name + " (synthetic)" * problem.synthetic
    text = f" These texts are not the paper's: {', '.join(others.values())}."
    if ONTOLOGY & others.keys():
        text += (
            f" {' and '.join(sorted(ONTOLOGY & others.keys()))}: Human Phenotype "
            "Ontology, 2025-01-16, human-phenotype-ontology.org."
        )
    return text * bool(others)


def milliseconds_per_row(model, problem: Problem) -> float:
    """Return the CPU time of a prediction, the median of three passes over the
    test rows."""
    times = []
    for _ in range(3):
        begun = process_time()
        predictions(model, problem.X_test, problem.k)
        times.append(process_time() - begun)
    return 1e3 * float(np.median(times)) / len(problem.y_test)


def training_bytes(method: Method, problem: Problem, state) -> int:
    """Return the bytes of a solver's arrays, without the rows."""
    if known := method.liblinear_bytes(problem):
        return known
    arrays = [a for a in vars(state).values() if isinstance(a, np.ndarray)]
    return sum(array.nbytes for array in arrays)
