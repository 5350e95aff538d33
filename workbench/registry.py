"""Every solver by name: one line makes it known to runs, figures, command line and tests."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, cast

from workbench.core.kinds import Steps


class Solver(NamedTuple):
    """A solver's generator function, its label in legends, its colour and marker in every figure.

    ``function`` is the function, or its place in this package, ``module:name``, which is imported
    when ``steps`` is first used: a command does not wait for solvers that it does not run.
    ``live`` names the parameters that may change in mid-run: the function resumes from a state
    with another value, and everything that it then yields holds for the new value.
    """

    function: Steps | str
    label: str
    colour: str
    marker: str = "o"
    live: tuple[str, ...] = ()

    @property
    def steps(self) -> Steps:
        if callable(self.function):
            return self.function
        module, _, name = self.function.partition(":")
        return cast(Steps, getattr(import_module(f"workbench.{module}"), name))


# Solver and function name: module, label, and one text of colour, marker and live parameters.
TABLE = {
    "mrc_lp": ("mrc.lp", "MRC-LP", "#7A7A7A s"),
    "mrc_ccg": ("mrc.ccg", "MRC-CCG", "#0072B2 o lambda0 eps1 eps2 n_max m_max k_max"),
    "mrc_subgradient": ("mrc.subgradient", "MRC-SUB", "#E69F00 ^ lambda0 steps"),
    "mrc_pdhg": ("mrc.pdhg", "MRC-PDHG", "#CC79A7 v lambda0 steps"),
    "mrc_splitting": ("mrc.splitting", "MRC splitting", "#009E73 P lambda0 steps"),
    "mrc_interior_point": ("mrc.interior_point", "MRC interior point", "#D55E00 X lambda0"),
    "svm_lp": ("mrc.l1svm", "SVM-LP", "#602000 <"),
    "svm_ccg": ("mrc.svm_ccg", "SVM-CCG", "#0000E0 > eps n_max m_max"),
    "svm_multi": ("mrc.l1svm", "SVM-MULTI", "#56B4E9 *"),
    "memoir_pegasos": ("memoir.pegasos", "Pegasos (exact search)", "#785EF0 p lam batch_size"),
    "memoir_l2": ("memoir.algorithms", "MEMOIR-ℓ2", "#B0005A h lam eta0 eta_step batch_size mips"),
    "memoir_l1": (
        "memoir.algorithms",
        "MEMOIR-ℓ1",
        "#F2A6C8 s gamma eta0 eta_step batch_size mips",
    ),
    "memoir_averaged": ("memoir.averaged", "Averaged steps", "#8E5BD0 P eta0"),
    "cs_working_set": ("memoir.working_set", "Working sets (ours)", "#1B9E4B D C l1 inner added"),
    "ww_walrus": ("weston_watkins.bcd", "Walrus", "#009292 o C"),
    "ww_shark": ("weston_watkins.bcd", "Shark's subproblem solver", "#924900 ^ C"),
    "ww_walrus_fast": ("weston_watkins.fast", "Walrus fast (ours)", "#DB2D20 v C"),
    "ls_generalized": ("least_squares.generalized", "Generalized least squares", "#0F0096 X alpha"),
    "ls_accelerated": (
        "least_squares.generalized",
        "Generalized, accelerated (ours)",
        "#4B002D < alpha",
    ),
    "ls_calibrated": ("least_squares.calibrated", "Calibrated least squares", "#00571F > alpha"),
    "ls_stagewise": (
        "least_squares.stagewise",
        "Stagewise least squares",
        "#F79646 * alpha passes inner",
    ),
    "ls_columns": (
        "least_squares.stagewise",
        "Stagewise, columns of X",
        "#6A3D9A p alpha passes inner",
    ),
    "cuts_exact": ("sampled_cuts.solvers", "Exact cuts", "#101060 h eps stabilised"),
    "cuts_linear_time": (
        "sampled_cuts.solvers",
        "Sampled cuts, linear time",
        "#E000E0 s r eps stabilised p cache_mb",
    ),
    "cuts_constant_time": (
        "sampled_cuts.solvers",
        "Sampled cuts, constant time",
        "#00838F D r p eps",
    ),
    "cuts_nystroem": ("sampled_cuts.solvers", "Exact cuts, Nyström (ours)", "#7CB342 o eps"),
    "libsvm": ("peers.kernel", "SVM with a kernel (LIBSVM)", "#3A3A3A ^"),
    "nystroem_svm": ("peers.kernel", "Nyström and linear SVM (LIBLINEAR)", "#C49A00 v"),
    "liblinear_cs": ("peers.linear", "Crammer-Singer (LIBLINEAR)", "#5B8C5A P"),
    "liblinear_ovr": ("peers.linear", "One-vs-rest (LIBLINEAR)", "#B8A200 X"),
    "liblinear_lr": ("peers.linear", "Logistic regression, one-vs-rest (LIBLINEAR)", "#C04000 <"),
    "liblinear_l2_dual": ("peers.linear", "L2-loss SVC, dual (LIBLINEAR)", "#3B7A57 >"),
    "liblinear_l2_primal": ("peers.linear", "L2-loss SVC, primal (LIBLINEAR)", "#7FB800 *"),
    "liblinear_l1": ("peers.linear", "L1-regularised L2-loss SVC (LIBLINEAR)", "#A67C52 p"),
    "logistic_lbfgs": ("peers.linear", "Logistic regression (L-BFGS)", "#4B5D8C h"),
    "logistic_saga": ("peers.linear", "Logistic regression (SAGA)", "#FF7F9F s"),
    "ridge": ("peers.linear", "Ridge regression (scikit-learn)", "#A0A0D0 D"),
    "centroid": ("peers.centroid", "Cosine centroids", "#5C4033 o"),
    "random_forest": ("peers.trees", "Random forest (scikit-learn)", "#505000 P"),
    "boosting": ("peers.trees", "Gradient boosting (scikit-learn)", "#F03CB4 s"),
    "vw": ("peers.vowpal_wabbit", "Vowpal Wabbit", "#400060 v"),
    "vw_recall_tree": ("peers.vowpal_wabbit", "Recall tree (Vowpal Wabbit)", "#9A5FB0 P"),
}


def _solver(name: str, module: str, label: str, style: str) -> Solver:
    colour, marker, *live = style.split()
    return Solver(f"{module}:{name}", label, colour, marker, tuple(live))


SOLVERS = {name: _solver(name, *row) for name, row in TABLE.items()}
