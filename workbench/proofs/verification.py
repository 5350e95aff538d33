"""Verify proofs about problems of this package, and bound the excess of other
weights."""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from workbench.core.kinds import Given, Matrix, PathLike, Record
from workbench.core.problem import Problem
from workbench.data.specs import remade
from workbench.proofs import checker
from workbench.proofs.checker import (
    Array,
    Arrays,
    Interval,
    Proof,
    ProofError,
    above,
    below,
    read,
)


class Excess(NamedTuple):
    """Bounds on an objective's excess over its minimum, as fractions of the minimum."""

    at_least: float
    at_most: float


def verify(proof: Proof | PathLike, X: Given = None, y: Given = None) -> Interval:
    """Return an interval that certainly contains the optimum of a stated problem.

    Parameters
    ----------
    proof : Proof, or the path of a file
    X : a Problem; or the rows, an (n, d) array or SciPy sparse matrix, float32 or
        float64, exactly as they were solved; or None for the data set of the proof's
        recipe
    y : (n,) labels of any sortable type, if X has rows

    Raises
    ------
    ProofError
        If the file is not a proof, is about other rows, or has points that do not fit
        its problem. Without rows, also if it has no recipe, or a recipe that cannot be
        followed.
    """
    if not isinstance(proof, Proof):
        proof = read(proof)
    if X is None:
        X = recalled(proof)
    name = named(X) if isinstance(X, Problem) else "the rows given"
    return checker.verify(proof, *rows_of(X, y), name)


def bound_excess(weights: Given, X: Given, y: Given, proof: Proof | PathLike) -> Excess:
    """Return bounds on the excess of the objective of given weights over the optimum.

    Parameters
    ----------
    weights : an estimator with ``coef_`` and ``intercept_``, or ``dual_coef_``,
        ``support_`` and ``intercept_``, as scikit-learn and this package have them; or
        W alone, (d, outputs)
    X, y : as for :func:`verify`, but X must not be None
    proof : a proof of the problem that the weights are meant to solve

    Raises
    ------
    ValueError
        As in :func:`verify`, or if the weights do not fit the stated problem.
    """
    if not isinstance(proof, Proof):
        proof = read(proof)
    X, y = rows_of(X, y)
    optimum = checker.verify(proof, X, y)
    point = Proof(proof.header, arrays_of(weights, proof.header))
    low, high = checker.objective(point, X, y)
    lower = Fraction(optimum.lower)
    upper = Fraction(optimum.upper)
    return Excess(
        least_excess(Fraction(low), upper), most_excess(Fraction(high), lower)
    )


def least_excess(low: Fraction, upper: Fraction) -> float:
    """Return low / upper - 1, rounded down: no excess is smaller."""
    return max(0.0, below(low / upper - 1)) if upper else 0.0


def most_excess(high: Fraction, lower: Fraction) -> float:
    """Return high / lower - 1, rounded up: no excess is larger."""
    return max(0.0, above(high / lower - 1)) if lower else math.inf


def recalled(proof: Proof) -> Problem:
    """Return the data set of a proof's recipe; raise a ProofError if that fails."""
    recipe = proof.header.get("recipe")
    if recipe is None:
        raise ProofError("has no recipe for its rows; give the rows")
    try:
        return remade(recipe)
    except (ValueError, OSError) as error:
        raise ProofError(str(error)) from None


def named(problem: Problem) -> str:
    """Return the description of a problem's data with its scale, or its name."""
    recipe = problem.recipe or {}
    words = [recipe.get("panel", problem.name), recipe.get("scale")]
    return " @ ".join(filter(None, words))


def rows_of(X: Given, y: Given) -> tuple[Matrix, Array]:
    """Return the rows and the codes 0..k-1 of their labels."""
    if isinstance(X, Problem):
        return X.X, X.y
    if y is None:
        raise ValueError("y: give the labels of the rows")
    codes = np.unique(y, return_inverse=True)[1]
    return X if sp.issparse(X) else np.asarray(X), codes


def arrays_of(weights: Given, header: Record) -> Arrays:
    """Return a proof's arrays for the weights of an estimator, or for W itself."""
    K = header["outputs"]
    arrays = {}
    W: Matrix
    if hasattr(weights, "dual_coef_"):
        order = np.argsort(weights.support_)
        arrays["basis"] = np.asarray(weights.support_)[order]
        W = weights.dual_coef_[:, order].T
    elif hasattr(weights, "coef_"):
        W = weights.coef_.T
    else:
        W = np.asarray(weights)
    W = W.toarray() if sp.issparse(W) else np.atleast_2d(W.T).T
    b = np.atleast_1d(getattr(weights, "intercept_", 0.0)).astype(float)
    b = of_outputs(np.broadcast_to(b, W.shape[1:])[None], K)[0]
    W = of_outputs(W, K)
    if header["family"] == "mrc":
        return {"M": np.column_stack([W.T, b])}
    intercept = header.get("intercept")
    if intercept == "free":
        arrays["b"] = b
    elif intercept is not None:
        arrays["b"] = b / intercept
    elif b.any():
        raise ValueError("weights: have an intercept, and the stated problem has none")
    return arrays | {"W": W}


def of_outputs(W: Array, K: int) -> Array:
    """Return (d, K) weights, converted for two classes between one and two outputs.

    One column w becomes -w/2 and w/2, and two columns become their difference. Weights
    with K columns are returned unchanged.

    Raises
    ------
    ValueError
        If the number of columns does not fit.
    """
    if W.shape[1] == 2 and K == 1:
        return W[:, 1:] - W[:, :1]
    if W.shape[1] == 1 and K == 2:
        return W * np.array([-0.5, 0.5])
    if W.shape[1] != K:
        raise ValueError(f"weights: must have {K} outputs, got {W.shape[1]}")
    return W
