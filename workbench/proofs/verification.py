"""Verify proofs about problems of this package, and bound how far other weights are
from them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.kinds import Given, Matrix, PathLike, Record
from workbench.core.problem import Problem
from workbench.data.specs import remade
from workbench.proofs import checker
from workbench.proofs.checker import Proof, ProofError, Verdict, below, objective, read


class Excess(NamedTuple):
    """Bounds of the excess of an objective over its minimum, as fractions of the
    minimum."""

    at_least: float
    at_most: float


def verify(proof: Proof | PathLike, X: Given = None, y: Given = None) -> Verdict:
    """Return an interval that certainly contains the optimum of the problem that a
    proof states.

    Parameters
    ----------
    proof : Proof, or the path of a file
    X : a Problem; or the rows, (n, d) array or SciPy sparse matrix, as they were
        solved, float32 or float64; None for the data set of the proof's recipe
    y : (n,) labels of any sortable type, if X are rows

    Raises
    ------
    ProofError
        If the file is not a proof, is about other rows, or its points do not fit its
        problem; and without rows if it has no recipe, or one that cannot be followed
        here.
    """
    proof = proof if isinstance(proof, Proof) else read(proof)
    name = "the rows given"
    if X is None:
        recipe = proof.header.get("recipe")
        if recipe is None:
            raise ProofError("has no recipe for its rows; give the rows")
        try:
            X = remade(recipe)
        except (ValueError, OSError) as error:
            raise ProofError(str(error)) from None
    if isinstance(X, Problem):
        name = named(X)
    return checker.verify(proof, *rows_of(X, y), name)


def bound_excess(weights: Given, X: Given, y: Given, proof: Proof | PathLike) -> Excess:
    """Return bounds on how far the objective of given weights is above the optimum.

    Parameters
    ----------
    weights : an estimator with ``coef_`` and ``intercept_``, or ``dual_coef_``,
        ``support_`` and ``intercept_``, as scikit-learn and this package have them; or
        W alone, (d, outputs)
    X, y : as of :func:`verify`
    proof : a proof of the problem that the weights are meant to solve

    Raises
    ------
    ValueError
        As :func:`verify`, and for weights that do not fit the stated problem.
    """
    proof = proof if isinstance(proof, Proof) else read(proof)
    X, y = rows_of(X, y)
    found = checker.verify(proof, X, y)
    low, high = objective(Proof(proof.header, arrays_of(weights, proof.header)), X, y)
    at_least = below(Fraction(low) / Fraction(found.upper) - 1) if found.upper else 0.0
    at_most = (
        -below(1 - Fraction(high) / Fraction(found.lower)) if found.lower else math.inf
    )
    return Excess(max(0.0, at_least), max(0.0, at_most))


def named(problem: Problem) -> str:
    """Return the description of a problem's data with its scale, or its name."""
    recipe = problem.recipe or {}
    words = [recipe.get("panel", problem.name), recipe.get("scale")]
    return " @ ".join(filter(None, words))


def rows_of(X: Given, y: Given) -> tuple[Matrix, np.ndarray]:
    """Return the rows and the codes 0..k-1 of their labels, of a Problem or of X and
    y."""
    if isinstance(X, Problem):
        return X.X, X.y
    if y is None:
        raise ValueError("y: give the labels of the rows")
    return X if sp.issparse(X) else np.asarray(X), np.unique(y, return_inverse=True)[1]


def arrays_of(weights: Given, header: Record) -> dict[str, np.ndarray]:
    """Return a proof's arrays for the weights of an estimator, or for W itself."""
    K, intercept, arrays = header["outputs"], header.get("intercept"), {}
    b = np.atleast_1d(getattr(weights, "intercept_", 0.0)).astype(float)
    W: Matrix
    if hasattr(weights, "dual_coef_"):
        order = np.argsort(weights.support_)
        W, arrays["basis"] = (
            weights.dual_coef_[:, order],
            np.asarray(weights.support_)[order],
        )
        W = (W.toarray() if sp.issparse(W) else W).T
    else:
        W = weights.coef_.T if hasattr(weights, "coef_") else np.asarray(weights)
    W = W.toarray() if sp.issparse(W) else np.atleast_2d(W.T).T
    W, b = of_outputs(W, K), of_outputs(np.broadcast_to(b, W.shape[1:])[None], K)[0]
    if header["family"] == "mrc":
        return {"M": np.column_stack([W.T, b])}
    if intercept is None and b.any():
        raise ValueError("weights: have an intercept, and the stated problem has none")
    if intercept is not None:
        arrays["b"] = b if intercept == "free" else b / intercept
    return arrays | {"W": W}


def of_outputs(W: np.ndarray, K: int) -> np.ndarray:
    """Return (d, K) weights; of two classes, one column w is -w/2 and w/2, and two a
    difference.

    Raises
    ------
    ValueError
        For another number of columns.
    """
    if W.shape[1] == 2 and K == 1:
        return W[:, 1:] - W[:, :1]
    if W.shape[1] == 1 and K == 2:
        return W * np.array([-0.5, 0.5])
    if W.shape[1] != K:
        raise ValueError(f"weights: must have {K} outputs, got {W.shape[1]}")
    return W
