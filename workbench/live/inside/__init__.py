"""Pictures of the inside of a method, found by the type of its state; one file per family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.core.problem import Problem
from workbench.core.stream import State
from workbench.least_squares.calibrated import CalibratedState
from workbench.least_squares.columns import ColumnsState
from workbench.least_squares.generalized import GeneralizedState
from workbench.least_squares.stagewise import StagewiseState
from workbench.live.inside import least_squares, memoir, mrc, peers, sampled_cuts, weston_watkins
from workbench.live.pictures import Picture
from workbench.memoir.pegasos import PegasosState
from workbench.memoir.state import MemoirState
from workbench.memoir.working_set import WorkingSetState
from workbench.mrc.ccg import CutState as MinimaxCutState
from workbench.mrc.interior_point import InteriorPointState
from workbench.mrc.l1svm import SVMState
from workbench.mrc.lp import LinearProgramState
from workbench.mrc.pdhg import PrimalDualState
from workbench.mrc.splitting import SplittingState
from workbench.mrc.subgradient import SubgradientState
from workbench.mrc.svm_ccg import SVMCutState
from workbench.sampled_cuts.state import CutState
from workbench.weston_watkins.dual import WWState
from workbench.weston_watkins.kernel import KernelState

PORTRAITS = {
    LinearProgramState: mrc.linear_program,
    MinimaxCutState: mrc.cuts,
    SubgradientState: mrc.first_order,
    SplittingState: mrc.first_order,
    PrimalDualState: mrc.primal_dual,
    InteriorPointState: mrc.interior_point,
    SVMState: mrc.svm,
    SVMCutState: mrc.svm_cuts,
    WWState: weston_watkins.linear,
    KernelState: weston_watkins.with_kernel,
    PegasosState: memoir.pegasos,
    MemoirState: memoir.sampled,
    WorkingSetState: memoir.working_sets,
    GeneralizedState: least_squares.generalized,
    CalibratedState: least_squares.calibrated,
    StagewiseState: least_squares.stagewise,
    ColumnsState: least_squares.columns,
    CutState: sampled_cuts.portrait,
}


def portrait(state: State, problem: Problem, parameters: Mapping[str, Any]) -> list[Picture]:
    """Return the pictures of a state; one of another type gets those that fit any classifier."""
    return PORTRAITS.get(type(state), peers.portrait)(state, problem, parameters)
