"""Portraits of the solvers of minimax risk: constraints, features and the worst distribution."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.core.problem import Problem
from workbench.live.inside.classes import counted, per_class, ranked, weights
from workbench.live.inside.common import ROWS, evenly, histogram, margins
from workbench.live.pictures import Bars, Picture
from workbench.mrc.ccg import TIGHT, CutState, subset_sizes
from workbench.mrc.interior_point import InteriorPointState
from workbench.mrc.l1svm import SVMState
from workbench.mrc.lp import LinearProgramState
from workbench.mrc.pdhg import PrimalDualState
from workbench.mrc.risk import linear_scores, psi
from workbench.mrc.splitting import SplittingState
from workbench.mrc.subgradient import SubgradientState
from workbench.mrc.svm_ccg import SVMCutState

TINY = 1e-300  # stands for a product that has no logarithm
LEAST = 1e-9  # mass of a row; relaxation leaves traces of less


def cuts(state: CutState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the program of :func:`~workbench.mrc.ccg.mrc_ccg`: its constraints and its features.

    A constraint is active if it has a multiplier or is tight. The most violated constraint of
    each row has the slack ``nu - 1 - psi``: below 0, it may join.
    """
    active = (state.alpha > 0) | (state.slack <= TIGHT)
    k, J = problem.k, state.features
    inside = np.bincount(J // state.M.shape[1], minlength=k).astype(np.float64)
    used = f"{np.count_nonzero(state.M):,} of {len(J):,} used"
    slack = histogram("Slack ν − 1 − ψ by row (violated: marked)", state.nu - 1.0 - state.psi)
    return [
        weights(state.M[:, :-1].T, "Coefficients M"),
        _multipliers(state.alpha, active),
        counted("Constraints by size of label subset", subset_sizes(state), k, "constraints"),
        slack._replace(logarithmic=True),
        per_class(f"Features in J by class, {used}", inside, problem, "features"),
    ]


def linear_program(
    state: LinearProgramState, problem: Problem, parameters: Mapping
) -> list[Picture]:
    """Return the portrait of `mrc_lp` and `mrc_lp_compact`: the classifier and its margins."""
    return _classifier(state.M, problem) + margins(state, problem)


def first_order(
    state: SubgradientState | SplittingState, problem: Problem, parameters: Mapping
) -> list[Picture]:
    """Return the portrait of `mrc_subgradient` and `mrc_splitting`: classifier and distribution.

    The joint distribution ``p`` is to be the worst that the constraints allow.
    """
    return _classifier(state.M, problem) + _distribution(state.p, problem)


def primal_dual(state: PrimalDualState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the same of :func:`~workbench.mrc.pdhg.mrc_pdhg`, where M lies feature by feature."""
    return _classifier(state.M.T, problem) + _distribution(state.p, problem)


def interior_point(
    state: SplittingState | InteriorPointState, problem: Problem, parameters: Mapping
) -> list[Picture]:
    """Return the same and how central the iterate is, once the splitting at its start is over.

    A pair is a variable and its multiplier; on the central path all their products are equal.
    """
    if isinstance(state, SplittingState):
        return first_order(state, problem, parameters)
    M = np.zeros_like(state.M_best)
    M.ravel()[state.J] = state.mu
    pairs = [(state.p, state.s), (state.g, state.h), (state.a, state.m_plus)]
    products = np.concatenate([(x * z).ravel() for x, z in [*pairs, (state.b, state.m_minus)]])
    central = np.log10(np.maximum(products, TINY) / max(products.mean(), TINY))
    return [
        *_classifier(M, problem),
        *_distribution(state.p, problem),
        _unmarked("log₁₀ of the pairs' products over their mean", central, "pairs"),
    ]


def svm_cuts(state: SVMCutState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the program of :func:`~workbench.mrc.svm_ccg.svm_ccg`: its samples and features."""
    used = f"{np.count_nonzero(state.w):,} of {len(state.features):,} in J used"
    return [
        weights(state.w[:, None], f"Coefficients w, {used}"),
        _multipliers(state.alpha, state.alpha > 0),
        histogram("Margins less 1 by row (short: marked)", -state.short),
    ]


def svm(state: SVMState, problem: Problem, parameters: Mapping) -> list[Picture]:
    """Return the portrait of `svm_lp` and `svm_multi`: the rule of one program and its margins."""
    W = state.W[:, :-1]
    return [weights(W.T, "Coefficients"), _used(W, problem), *margins(state, problem)]


def _classifier(M: np.ndarray, problem: Problem) -> list[Picture]:
    """Return the (k, d') coefficients, and psi by row: its largest value is all that counts."""
    rows = evenly(problem.n, ROWS)
    values = psi(np.asarray(linear_scores(M, problem.X[rows]), dtype=np.float64, order="C"))
    title = f"ψ below its largest, {len(rows):,} of {problem.n:,} rows"
    return [
        weights(M[:, :-1].T, "Coefficients M"),
        _used(M, problem),
        _unmarked(title, values.max() - values, "rows"),
    ]


def _used(M: np.ndarray, problem: Problem) -> Bars:
    counts = np.count_nonzero(M, axis=1).astype(np.float64)
    return per_class(f"Features used, of {M.shape[1]:,} a class", counts, problem, "features")


def _multipliers(alpha: np.ndarray, active: np.ndarray) -> Bars:
    """Return the (c,) multipliers of the constraints in the program, marked where active."""
    what = f"constraints, {np.count_nonzero(active):,} active"
    return ranked("Multipliers α", alpha, what, marked=active)


def _distribution(p: np.ndarray, problem: Problem) -> list[Picture]:
    """Return where (r, k) `p`, of any sum, has its mass; nothing where it has none yet."""
    p = np.maximum(p, 0.0)  # extrapolated, it may leave its set
    if not p.sum():
        return []
    p = p / p.sum()
    mass = p.sum(axis=1)
    return [
        per_class("Worst distribution by class", p.sum(axis=0), problem, "share"),
        ranked("Worst distribution", mass[mass > LEAST], "rows in it", "share", logarithmic=True),
    ]


def _unmarked(title: str, values: np.ndarray, unit: str) -> Bars:
    return histogram(title, values, unit)._replace(marked=np.empty(0))
