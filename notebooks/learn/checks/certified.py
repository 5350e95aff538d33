"""Grade weights by a proof of the optimum, whatever algorithm found them."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from checks.exercise import array, exercise, need
from workbench.core.problem import Problem
from workbench.mrc.risk import minimax_risk, psi
from workbench.proofs import Proof, bound_excess
from workbench.proofs.writers import proof_of
from workbench.registry import SOLVERS

# by hinges, 1 + score less that of the own class (0 there), and by z, without the 1
LOSSES = {
    "weston_watkins": lambda hinges, z: np.maximum(hinges, 0).sum(axis=1),
    "crammer_singer": lambda hinges, z: hinges.max(axis=1),
    "softmax": lambda hinges, z: np.logaddexp.reduce(z, axis=1),
}
PROOFS: dict = {}


@exercise
def check_certified(W, problem: Problem, solver: str, gap: float = 1e-3, **parameters):
    """`W` is within the fraction `gap` of the optimum of the problem that `solver`
    solves.

    `W` is (d, k), or (k, d + 1) for a minimax risk classifier. The solver only makes
    the proof, in a fraction of a second; the checker of :mod:`workbench.proofs`
    evaluates it. A hint begins with the partial credit, as "1.5 of 3 decades".
    """
    proof, best = proved(problem, solver, gap, **parameters)
    mrc = proof.header["family"] == "mrc"
    shape = (problem.k, problem.d + 1) if mrc else (problem.d, problem.k)
    name = "M" if mrc else "W"
    W = array(W, shape, name).astype(float)
    need(
        np.abs(W).max() < 1e50,
        f"{name} is not finite, or enormous: were the steps too long?",
    )
    found, decades = excess(W, problem, proof), -np.log10(gap)
    reached = max(0.0, np.floor(-10 * np.log10(max(found, gap / 2))) / 10)
    away = f"within {found:.1e} of the optimum"
    if found >= 1:
        away = f"{1 + found:.2g} times the optimum"
    why = "" if found <= gap else reason(W, problem, proof, best, found)
    need(found <= gap, f"{away}: {reached:.1f} of {decades:g} decades. {why}")
    return f"certainly {away}, all {decades:g} decades"


def proved(
    problem: Problem, solver: str, gap: float, **parameters
) -> tuple[Proof, np.ndarray]:
    """Return a proof much tighter than `gap`, and the scores of the solver's last
    state."""
    key = problem.checksum, solver, gap, *sorted(parameters.items())
    if key not in PROOFS:
        for state in SOLVERS[solver].steps(problem, **parameters):
            row = state.info()
            if row["gap"] <= gap / 20 * row["lower"]:
                break
        PROOFS[key] = (
            Proof(*proof_of(problem, state, parameters)),
            state.scores(problem.X),
        )
    return PROOFS[key]


def excess(W: np.ndarray, problem: Problem, proof: Proof) -> float:
    """Return how far the objective is above the optimum, at most, as a fraction of the
    optimum."""
    if proof.header["family"] == "mrc":
        W = Weights(W)
    return bound_excess(W, problem, None, proof).at_most


class Weights:
    """A classifier of minimax risk with the names of an estimator."""

    def __init__(self, M: np.ndarray) -> None:
        self.coef_, self.intercept_ = M[:, :-1], M[:, -1]


def reason(
    W: np.ndarray, problem: Problem, proof: Proof, best: np.ndarray, found: float
) -> str:
    """Return a hint at the error that explains most of the distance `found`."""
    header, y = proof.header, problem.y
    mrc = header["family"] == "mrc"
    F = problem.X @ W[:, :-1].T + W[:, -1] if mrc else problem.X @ W
    mean_scores = np.array([F[y == c].mean(axis=0) for c in range(problem.k)])
    # which column is high on class 0, 1, ...
    order = linear_sum_assignment(-mean_scores)[1]
    if excess(W[order] if mrc else W[:, order], problem, proof) < found / 3:
        c = np.flatnonzero(order != range(problem.k))[0]
        return (
            f"The classes are in another order: class {c} is scored by number "
            f"{order[c]}"
        )
    multiples = 2.0 ** (np.arange(-20, 21) / 4)
    found = min(found, excess(0 * W, problem, proof))
    t = min(multiples, key=lambda t: excess(t * W, problem, proof))
    if excess(t * W, problem, proof) < found / 3:
        return (
            f"{t:.2g} times it is far better: does the penalty have the right weight?"
        )
    if mrc:
        risk = minimax_risk(problem, header["lambda0"])
        i = psi(F).argmax()
        C = np.sort(np.argsort(-F[i])[: (F[i] > psi(F)[i]).sum()]).tolist()
        size = (risk.lam * np.abs(W)).sum()
        return (
            f"lam'|M| is {size:.3g}; the largest psi, {psi(F)[i]:.3g}, is that of row "
            f"{i} and its labels {C}, and the median row has {np.median(psi(F)):.3g}"
        )
    ours, least = losses(F, y, header["loss"]), losses(best, y, header["loss"])
    if ours.sum() < least.sum():
        return (
            "The losses are below those of the optimum, so W is too long: the penalty "
            "counts"
        )
    saved = ours - least
    c, i = np.bincount(y, saved).argmax(), saved.argmax()
    return (
        f"Most of the loss above the optimum is in class {c}; the worst row is {i}, "
        f"which has {ours[i]:.3g} instead of {least[i]:.3g}. Were there too few "
        "steps, or too long ones, or was the penalty too large?"
    )


def losses(F: np.ndarray, y: np.ndarray, loss: str) -> np.ndarray:
    """Return the losses of rows with (n, k) scores."""
    rows = np.arange(len(y))
    z = F - F[rows, y][:, None]
    hinges = 1 + z
    hinges[rows, y] = 0
    return LOSSES[loss](hinges, z)
