"""Every solver by name: one line makes it known to runs, figures, command line and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from workbench.least_squares.calibrated import ls_calibrated
from workbench.least_squares.generalized import ls_accelerated, ls_generalized
from workbench.least_squares.stagewise import ls_columns, ls_stagewise
from workbench.memoir.algorithms import memoir_l1, memoir_l2
from workbench.memoir.averaged import memoir_averaged
from workbench.memoir.pegasos import memoir_pegasos
from workbench.memoir.working_set import cs_working_set
from workbench.mrc.ccg import mrc_ccg
from workbench.mrc.interior_point import mrc_interior_point
from workbench.mrc.l1svm import svm_lp, svm_multi
from workbench.mrc.lp import mrc_lp
from workbench.mrc.pdhg import mrc_pdhg
from workbench.mrc.splitting import mrc_splitting
from workbench.mrc.subgradient import mrc_subgradient
from workbench.mrc.svm_ccg import svm_ccg
from workbench.peers.centroid import centroid
from workbench.peers.kernel import libsvm, nystroem_svm
from workbench.peers.linear import (
    liblinear_cs,
    liblinear_l1,
    liblinear_l2_dual,
    liblinear_l2_primal,
    liblinear_lr,
    liblinear_ovr,
    logistic_lbfgs,
    logistic_saga,
    ridge,
)
from workbench.peers.trees import boosting, random_forest
from workbench.peers.vowpal_wabbit import vw, vw_recall_tree
from workbench.sampled_cuts.solvers import (
    cuts_constant_time,
    cuts_exact,
    cuts_linear_time,
    cuts_nystroem,
)
from workbench.weston_watkins.bcd import ww_shark, ww_walrus
from workbench.weston_watkins.fast import ww_walrus_fast


class Solver(NamedTuple):
    """A solver's generator function, its label in legends, its colour and marker in every figure.

    ``live`` names the parameters that may change in mid-run: the function goes on from a state
    under another value, and all that it yields is true of the new one.
    """

    steps: Callable
    label: str
    colour: str
    marker: str = "o"
    live: tuple[str, ...] = ()


SOLVERS = {
    "mrc_lp": Solver(mrc_lp, "MRC-LP", "#7A7A7A", "s"),
    "mrc_ccg": Solver(
        mrc_ccg, "MRC-CCG", "#0072B2", "o", ("lambda0", "eps1", "eps2", "n_max", "m_max", "k_max")
    ),
    "mrc_subgradient": Solver(mrc_subgradient, "MRC-SUB", "#E69F00", "^", ("lambda0", "steps")),
    "mrc_pdhg": Solver(mrc_pdhg, "MRC-PDHG", "#CC79A7", "v", ("lambda0", "steps")),
    "mrc_splitting": Solver(mrc_splitting, "MRC splitting", "#009E73", "P", ("lambda0", "steps")),
    "mrc_interior_point": Solver(
        mrc_interior_point, "MRC interior point", "#D55E00", "X", ("lambda0",)
    ),
    "svm_lp": Solver(svm_lp, "SVM-LP", "#602000", "<"),
    "svm_ccg": Solver(svm_ccg, "SVM-CCG", "#0000E0", ">", ("eps", "n_max", "m_max")),
    "svm_multi": Solver(svm_multi, "SVM-MULTI", "#56B4E9", "*"),
    "memoir_pegasos": Solver(
        memoir_pegasos, "Pegasos (exact search)", "#785EF0", "p", ("lam", "batch_size")
    ),
    "memoir_l2": Solver(
        memoir_l2, "MEMOIR-ℓ2", "#B0005A", "h", ("lam", "eta0", "eta_step", "batch_size", "mips")
    ),
    "memoir_l1": Solver(
        memoir_l1, "MEMOIR-ℓ1", "#F2A6C8", "s", ("gamma", "eta0", "eta_step", "batch_size", "mips")
    ),
    "memoir_averaged": Solver(memoir_averaged, "Averaged steps", "#8E5BD0", "P", ("eta0",)),
    "cs_working_set": Solver(
        cs_working_set, "Working sets (ours)", "#1B9E4B", "D", ("C", "l1", "inner", "added")
    ),
    "ww_walrus": Solver(ww_walrus, "Walrus", "#009292", "o", ("C",)),
    "ww_shark": Solver(ww_shark, "Shark's subproblem solver", "#924900", "^", ("C",)),
    "ww_walrus_fast": Solver(ww_walrus_fast, "Walrus fast (ours)", "#DB2D20", "v", ("C",)),
    "ls_generalized": Solver(
        ls_generalized, "Generalized least squares", "#0F0096", "X", ("alpha",)
    ),
    "ls_accelerated": Solver(
        ls_accelerated, "Generalized, accelerated (ours)", "#4B002D", "<", ("alpha",)
    ),
    "ls_calibrated": Solver(ls_calibrated, "Calibrated least squares", "#2CA25F", ">", ("alpha",)),
    "ls_stagewise": Solver(
        ls_stagewise,
        "Stagewise least squares",
        "#E8710A",
        "*",
        ("alpha", "passes", "inner"),
    ),
    "ls_columns": Solver(
        ls_columns,
        "Stagewise, columns of X",
        "#6A3D9A",
        "p",
        ("alpha", "passes", "inner"),
    ),
    "cuts_exact": Solver(cuts_exact, "Exact cuts", "#101060", "h", ("eps", "stabilised")),
    "cuts_linear_time": Solver(
        cuts_linear_time,
        "Sampled cuts, linear time",
        "#E000E0",
        "s",
        ("r", "eps", "stabilised", "p", "cache_mb"),
    ),
    "cuts_constant_time": Solver(
        cuts_constant_time, "Sampled cuts, constant time", "#00838F", "D", ("r", "p", "eps")
    ),
    "cuts_nystroem": Solver(cuts_nystroem, "Exact cuts, Nyström (ours)", "#7CB342", "o", ("eps",)),
    "libsvm": Solver(libsvm, "SVM with a kernel (LIBSVM)", "#3A3A3A", "^"),
    "nystroem_svm": Solver(nystroem_svm, "Nyström and linear SVM (LIBLINEAR)", "#C49A00", "v"),
    "liblinear_cs": Solver(liblinear_cs, "Crammer-Singer (LIBLINEAR)", "#5B8C5A", "P"),
    "liblinear_ovr": Solver(liblinear_ovr, "One-vs-rest (LIBLINEAR)", "#B8A200", "X"),
    "liblinear_lr": Solver(
        liblinear_lr, "Logistic regression, one-vs-rest (LIBLINEAR)", "#C04000", "<"
    ),
    "liblinear_l2_dual": Solver(liblinear_l2_dual, "L2-loss SVC, dual (LIBLINEAR)", "#3B7A57", ">"),
    "liblinear_l2_primal": Solver(
        liblinear_l2_primal, "L2-loss SVC, primal (LIBLINEAR)", "#7FB800", "*"
    ),
    "liblinear_l1": Solver(liblinear_l1, "L1-regularised L2-loss SVC (LIBLINEAR)", "#A67C52", "p"),
    "logistic_lbfgs": Solver(logistic_lbfgs, "Logistic regression (L-BFGS)", "#4B5D8C", "h"),
    "logistic_saga": Solver(logistic_saga, "Logistic regression (SAGA)", "#FF7F9F", "s"),
    "ridge": Solver(ridge, "Ridge regression (scikit-learn)", "#A0A0D0", "D"),
    "centroid": Solver(centroid, "Cosine centroids", "#5C4033", "o"),
    "random_forest": Solver(random_forest, "Random forest (scikit-learn)", "#505000", "P"),
    "boosting": Solver(boosting, "Gradient boosting (scikit-learn)", "#F03CB4", "s"),
    "vw": Solver(vw, "Vowpal Wabbit", "#400060", "v"),
    "vw_recall_tree": Solver(vw_recall_tree, "Recall tree (Vowpal Wabbit)", "#9A5FB0", "P"),
}
