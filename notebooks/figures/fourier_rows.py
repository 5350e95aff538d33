"""Rows with all of their random Fourier features, for `ls_vs_solvers` and
`ls_time_vs_error`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from notebooks.figures.tuned_fits import Method, as_file, validation_rows
from workbench.core.problem import Problem
from workbench.core.trace import Trace
from workbench.data.specs import with_test_rows
from workbench.least_squares.generators import Generator, fitted
from workbench.runs.grid import Point, grid

OURS = "ls_stagewise_passes"


def all_features(generator: Generator, X: np.ndarray) -> np.ndarray:
    """Return the features of all blocks of a generator as the columns of one matrix."""
    parts = []
    for b in range(generator.blocks):
        part = np.empty((len(X), generator.width(b)), np.float32)
        generator.make(b)(X, part)
        parts.append(part)
    return np.hstack(parts)


class FourierRows:
    """Files with the rows of data sets, and files with their random features.

    The features are those that our solvers generate, scaled to norm one. A file is
    written when it is first needed.

    Parameters
    ----------
    features : dict of str to int
        The number of features of each data set.
    block : int
        The number of features of a block.
    test, validation : float
        The fraction of test rows for data without a published split, and the fraction
        of the training rows that is used for choices.
    """

    def __init__(
        self, features: Mapping[str, int], block: int, test: float, validation: float
    ):
        self.features, self.block = features, block
        self.folder = TemporaryDirectory()
        self.problem = cache(lambda spec: with_test_rows(spec, test))
        self.tuning = cache(
            lambda spec: validation_rows(self.problem(spec), validation)
        )
        self.file = cache(self._file)

    def _file(self, spec: str, final: bool, given: bool) -> str:
        """Return the description of a file with the rows as they are, or with their
        features."""
        problem = self.problem(spec) if final else self.tuning(spec)
        name = problem.name.split(",")[0]
        if not given:
            name = f"{name}, Fourier"
            problem = self.lifted(problem, self.features[spec])
        place = f"{list(self.features).index(spec)} {final}"
        return as_file(problem, Path(self.folder.name) / place / f"{name}.npz")

    def points(
        self, spec: str, method: Method, values: list[float], final: bool, stop: dict
    ) -> list[Point]:
        """Return the grid of some values; see
        :class:`notebooks.figures.tuned_fits.Contest`."""
        m, fixed, ours = self.features[spec], method.fixed, method.solver == OURS
        if ours:
            fixed = fixed | {"n_features": m}
        if method.solver == "ridge":  # its rows are shorter by sqrt(m) than ours
            values = [value / m for value in values]
        file = self.file(spec, final, ours)
        return grid({method.solver: fixed | {method.tuned: values}}, [file], stop=stop)

    def named(self, trace: Trace, spec: str) -> Trace:
        """Return the trace with the name of the data; the workers read a file."""
        problem = self.problem(spec)
        name = problem.name
        if trace.header["solver"] != OURS:
            name += f", {self.features[spec]} Fourier"
        trace.header["problem"] |= {"name": name, "synthetic": problem.synthetic}
        return trace

    def lifted(self, problem: Problem, m: int) -> Problem:
        generator = fitted(problem, "orthogonal_fourier", m, self.block)
        X, X_test = (
            all_features(generator, rows) / np.float32(np.sqrt(m))
            for rows in (problem.X, problem.X_test)
        )
        return replace(problem, X=X, X_test=X_test)
