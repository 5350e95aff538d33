"""All solvers by name; an entry of `SOLVERS` makes a solver known to the package."""

from importlib import import_module
from typing import NamedTuple, cast

from workbench.core.kinds import Steps


class Solver(NamedTuple):
    """A solver's generator function, and its label, colour and marker in figures.

    ``function`` is the function, or its place in this package, ``module:name``. In the
    second case it is imported when ``steps`` is first used, so that a command does not
    wait for solvers that it does not run. ``live`` has the names of the parameters that
    may change during a run (:func:`workbench.core.state.resumable`).
    """

    function: Steps | str
    label: str
    colour: str
    marker: str = "o"

    @property
    def steps(self) -> Steps:
        if callable(self.function):
            return self.function
        module, _, name = self.function.partition(":")
        return cast(Steps, getattr(import_module(f"workbench.{module}"), name))

    @property
    def live(self) -> tuple[str, ...]:
        return getattr(self.steps, "live", ())


# The solvers by the names of their functions.
SOLVERS = {
    "mrc_lp": Solver("mrc.lp:mrc_lp", "MRC-LP", colour="#7A7A7A", marker="s"),
    "mrc_ccg": Solver("mrc.ccg:mrc_ccg", "MRC-CCG", colour="#0072B2"),
    "mrc_ccg_fast": Solver(
        "mrc.fast:mrc_ccg_fast", "MRC-CCG fast (ours)", colour="#8000C0", marker="D"
    ),
    "mrc_subgradient": Solver(
        "mrc.subgradient:mrc_subgradient", "MRC-SUB", colour="#E69F00", marker="^"
    ),
    "mrc_pdhg": Solver(
        "mrc.pdhg:mrc_pdhg", "MRC-PDHG (ours)", colour="#CC79A7", marker="v"
    ),
    "mrc_splitting": Solver(
        "mrc.splitting:mrc_splitting",
        "MRC splitting (ours)",
        colour="#009E73",
        marker="P",
    ),
    "mrc_interior_point": Solver(
        "mrc.interior_point:mrc_interior_point",
        "MRC interior point (ours)",
        colour="#D55E00",
        marker="X",
    ),
    "svm_lp": Solver("mrc.l1svm:svm_lp", "SVM-LP", colour="#602000", marker="<"),
    "svm_ccg": Solver("mrc.svm_ccg:svm_ccg", "SVM-CCG", colour="#0000E0", marker=">"),
    "svm_multi": Solver(
        "mrc.l1svm:svm_multi", "SVM-MULTI", colour="#56B4E9", marker="*"
    ),
    "memoir_pegasos": Solver(
        "memoir.pegasos:memoir_pegasos", "Pegasos (ours)", colour="#785EF0", marker="p"
    ),
    "memoir_l2": Solver(
        "memoir.algorithms:memoir_l2", "MEMOIR-ℓ2", colour="#B0005A", marker="h"
    ),
    "memoir_l1": Solver(
        "memoir.algorithms:memoir_l1", "MEMOIR-ℓ1", colour="#F2A6C8", marker="s"
    ),
    "memoir_lsh": Solver(
        "memoir.algorithms:memoir_lsh", "MEMOIR-LSH", colour="#A8325E", marker="^"
    ),
    "memoir_averaged": Solver(
        "memoir.averaged:memoir_averaged",
        "Averaged steps (ours)",
        colour="#8E5BD0",
        marker="P",
    ),
    "cs_working_set": Solver(
        "memoir.working_set:cs_working_set",
        "Working sets (ours)",
        colour="#1B9E4B",
        marker="D",
    ),
    "ww_walrus": Solver("weston_watkins.bcd:ww_walrus", "Walrus", colour="#009292"),
    "ww_shark": Solver(
        "weston_watkins.shark:ww_shark",
        "Shark's subproblem solver",
        colour="#924900",
        marker="^",
    ),
    "ww_walrus_fast": Solver(
        "weston_watkins.fast:ww_walrus_fast",
        "Walrus fast (ours)",
        colour="#DB2D20",
        marker="v",
    ),
    "ls_generalized": Solver(
        "least_squares.generalized:ls_generalized",
        "Generalized least squares",
        colour="#0F0096",
        marker="X",
    ),
    "ls_accelerated": Solver(
        "least_squares.generalized:ls_accelerated",
        "Generalized, accelerated",
        colour="#4B002D",
        marker="<",
    ),
    "ls_calibrated": Solver(
        "least_squares.calibrated:ls_calibrated",
        "Calibrated least squares",
        colour="#00571F",
        marker=">",
    ),
    "ls_stagewise": Solver(
        "least_squares.stagewise:ls_stagewise",
        "Stagewise least squares",
        colour="#F79646",
        marker="*",
    ),
    "ls_stagewise_passes": Solver(
        "least_squares.passes:ls_stagewise_passes",
        "Stagewise, passes (ours)",
        colour="#B35900",
        marker="d",
    ),
    "ls_columns": Solver(
        "least_squares.stagewise:ls_columns",
        "Stagewise, columns of X",
        colour="#6A3D9A",
        marker="p",
    ),
    "ls_columns_logistic": Solver(
        "least_squares.passes:ls_columns_logistic",
        "Columns, logistic (ours)",
        colour="#A98BD0",
        marker="d",
    ),
    "cuts_exact": Solver(
        "sampled_cuts.solvers:cuts_exact", "Exact cuts", colour="#101060", marker="h"
    ),
    "cuts_linear_time": Solver(
        "sampled_cuts.solvers:cuts_linear_time",
        "Sampled cuts, linear time",
        colour="#E000E0",
        marker="s",
    ),
    "cuts_exact_fast": Solver(
        "sampled_cuts.fast:cuts_exact_fast",
        "Exact cuts, fast (ours)",
        colour="#8C8CD9",
        marker="p",
    ),
    "cuts_linear_time_fast": Solver(
        "sampled_cuts.fast:cuts_linear_time_fast",
        "Sampled cuts, linear time, fast (ours)",
        colour="#8A0070",
        marker="^",
    ),
    "cuts_constant_time": Solver(
        "sampled_cuts.solvers:cuts_constant_time",
        "Sampled cuts, constant time",
        colour="#00838F",
        marker="D",
    ),
    "cuts_nystroem": Solver(
        "sampled_cuts.fast:cuts_nystroem",
        "Exact cuts, Nyström (ours)",
        colour="#7CB342",
    ),
    "libsvm": Solver(
        "peers.kernel:libsvm",
        "SVM with a kernel (LIBSVM)",
        colour="#3A3A3A",
        marker="^",
    ),
    "nystroem_svm": Solver(
        "peers.kernel:nystroem_svm",
        "Nyström and linear SVM (LIBLINEAR)",
        colour="#C49A00",
        marker="v",
    ),
    "liblinear_cs": Solver(
        "peers.linear:liblinear_cs",
        "Crammer-Singer (LIBLINEAR)",
        colour="#5B8C5A",
        marker="P",
    ),
    "liblinear_ovr": Solver(
        "peers.linear:liblinear_ovr",
        "One-vs-rest (LIBLINEAR)",
        colour="#B8A200",
        marker="X",
    ),
    "liblinear_lr": Solver(
        "peers.linear:liblinear_lr",
        "Logistic regression, one-vs-rest (LIBLINEAR)",
        colour="#C04000",
        marker="<",
    ),
    "liblinear_l2_dual": Solver(
        "peers.linear:liblinear_l2_dual",
        "L2-loss SVC, dual (LIBLINEAR)",
        colour="#3B7A57",
        marker=">",
    ),
    "liblinear_l2_primal": Solver(
        "peers.linear:liblinear_l2_primal",
        "L2-loss SVC, primal (LIBLINEAR)",
        colour="#7FB800",
        marker="*",
    ),
    "liblinear_l1": Solver(
        "peers.linear:liblinear_l1",
        "L1-regularised L2-loss SVC (LIBLINEAR)",
        colour="#A67C52",
        marker="p",
    ),
    "logistic_lbfgs": Solver(
        "peers.linear:logistic_lbfgs",
        "Logistic regression (L-BFGS)",
        colour="#4B5D8C",
        marker="h",
    ),
    "logistic_saga": Solver(
        "peers.linear:logistic_saga",
        "Logistic regression (SAGA)",
        colour="#FF7F9F",
        marker="s",
    ),
    "ridge": Solver(
        "peers.linear:ridge",
        "Ridge regression (scikit-learn)",
        colour="#A0A0D0",
        marker="D",
    ),
    "centroid": Solver("peers.centroid:centroid", "Cosine centroids", colour="#5C4033"),
    "random_forest": Solver(
        "peers.trees:random_forest",
        "Random forest (scikit-learn)",
        colour="#505000",
        marker="P",
    ),
    "boosting": Solver(
        "peers.trees:boosting",
        "Gradient boosting (scikit-learn)",
        colour="#F03CB4",
        marker="s",
    ),
    "vw": Solver(
        "peers.vowpal_wabbit:vw", "Vowpal Wabbit", colour="#400060", marker="v"
    ),
    "vw_recall_tree": Solver(
        "peers.vowpal_wabbit:vw_recall_tree",
        "Recall tree (Vowpal Wabbit)",
        colour="#9A5FB0",
        marker="P",
    ),
}
