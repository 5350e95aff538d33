"""Every solver by name: one line makes it known to runs, figures, command line and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from workbench.baselines import liblinear_cs, liblinear_ovr
from workbench.memoir.pegasos import memoir_pegasos
from workbench.mrc.ccg import mrc_ccg
from workbench.mrc.interior_point import mrc_interior_point
from workbench.mrc.l1svm import svm_lp, svm_multi
from workbench.mrc.lp import mrc_lp, mrc_lp_compact
from workbench.mrc.pdhg import mrc_pdhg
from workbench.mrc.splitting import mrc_splitting
from workbench.mrc.subgradient import mrc_subgradient
from workbench.mrc.svm_ccg import svm_ccg
from workbench.weston_watkins.bcd import ww_shark, ww_walrus
from workbench.weston_watkins.fast import ww_walrus_fast
from workbench.weston_watkins.kernel import ww_kernel


class Solver(NamedTuple):
    """A solver's generator function, its label in legends and its colour in every figure."""

    steps: Callable
    label: str
    colour: str


SOLVERS = {
    "mrc_lp": Solver(mrc_lp, "MRC-LP", "#7A7A7A"),
    "mrc_lp_compact": Solver(mrc_lp_compact, "MRC-LP compact", "#000000"),
    "mrc_ccg": Solver(mrc_ccg, "MRC-CCG", "#0072B2"),
    "mrc_subgradient": Solver(mrc_subgradient, "MRC-SUB", "#E69F00"),
    "mrc_pdhg": Solver(mrc_pdhg, "MRC-PDHG", "#CC79A7"),
    "mrc_splitting": Solver(mrc_splitting, "MRC splitting", "#009E73"),
    "mrc_interior_point": Solver(mrc_interior_point, "MRC interior point", "#D55E00"),
    "svm_lp": Solver(svm_lp, "SVM-LP", "#602000"),
    "svm_ccg": Solver(svm_ccg, "SVM-CCG", "#0000E0"),
    "svm_multi": Solver(svm_multi, "SVM-MULTI", "#56B4E9"),
    "memoir_pegasos": Solver(memoir_pegasos, "Pegasos (exact search)", "#785EF0"),
    "ww_walrus": Solver(ww_walrus, "Walrus", "#009292"),
    "ww_shark": Solver(ww_shark, "Shark's subproblem solver", "#924900"),
    "ww_walrus_fast": Solver(ww_walrus_fast, "Walrus fast (ours)", "#DB2D20"),
    "ww_kernel": Solver(ww_kernel, "Walrus with a kernel (ours)", "#8E5BD0"),
    "liblinear_cs": Solver(liblinear_cs, "Crammer-Singer (LIBLINEAR)", "#5B8C5A"),
    "liblinear_ovr": Solver(liblinear_ovr, "One-vs-rest (LIBLINEAR)", "#B8A200"),
}
