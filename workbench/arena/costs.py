"""What a round of each solver costs on paper: its dominating terms, and the exponents they give.

A product of letters stands for its value: n rows, d features, k classes, z non-zeros of a row
(d of dense ones), K = 2^k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

ROUND = {
    # The non-zeros of the program: HiGHS states no bound of its own.
    "mrc_lp": "n d k K",
    "mrc_lp_compact": "n d k",
    "svm_lp": "n d",
    "svm_multi": "n d k",
    # Bondugula et al., section III: a scan of all rows, with a subset of classes in k log k.
    "mrc_ccg": "n d k",
    "mrc_subgradient": "n d k",
    "mrc_pdhg": "n z k",  # two passes
    "mrc_splitting": "n d k + n d d + d d d",  # scores, and one factor of d x d
    "mrc_interior_point": "n d k + n d d k k + d d d k k k",  # a normal matrix of d k components
    "svm_ccg": "n d",  # Dedieu et al.: a scan of all rows
    # Belyy & Sholokhov, Algorithms 1 and 2 with an exact argmax; a round in full is a pass.
    "memoir_pegasos": "n z k",
    "memoir_l2": "n z k",
    "memoir_l1": "n z k",
    "cs_working_set": "n z k",  # one pass over all classes, inner ones over 16
    # Wang & Scott, section 3: scores and update O(z k), subproblem k log k; Shark's: k^2.
    "ww_walrus": "n z k",
    "ww_walrus_fast": "n z k",
    "ww_shark": "n z k + n k k",
    "ww_kernel": "n n z + n n k",  # kernel rows, scores of all rows
    # Agarwal et al., Algorithm 1: one d x d factor, then gradients.
    "ls_generalized": "n d k + n d d + d d d + d d k",
    "ls_accelerated": "n d k + n d d + d d d + d d k",
    "ls_calibrated": "n d k + n d d + d d d + n k k + k k k",  # Algorithm 2: then 3 k functions
    "ls_stagewise": "n d + n k",  # Algorithm 3: blocks of a fixed number of features
    "ls_columns": "n z + n k",  # A.2.2: blocks of a fixed number of columns
    "cuts_exact": "n n z + n n k",  # Yu & Joachims, section 3: n^2 kernel values
    "cuts_linear_time": "n z + n k",  # Algorithm 3: n r kernel values
    "cuts_constant_time": "z + k",  # Algorithm 2: r^2 values a cut
    "cuts_nystroem": "n z + n k",  # a fixed number of landmarks
    "nystroem_svm": "n z + n k",
    "libsvm": "n n z",  # Chang & Lin 2011: n^2 to n^3, all pairs
    "liblinear_cs": "n z k",  # Keerthi et al. 2008: a pass is O(n z k)
    # Fan et al. 2008: a pass is O(n z) for each class.
    "liblinear_ovr": "n z k",
    "liblinear_lr": "n z k",
    "liblinear_l2_dual": "n z k",
    "liblinear_l2_primal": "n z k",
    "liblinear_l1": "n z k",
    "logistic_lbfgs": "n z k",  # Zhu et al. 1997
    "logistic_saga": "n z k",  # Defazio et al. 2014: a gradient per row
    "ridge": "n d d + d d d + n d k + d d k",  # Cholesky of d x d
    "centroid": "n z",  # Han & Karypis 2000: one pass
    "vw": "n z k",  # one against all, online
    "vw_recall_tree": "n z",  # Daumé et al. 2017: log k candidates
}


def exponent(solver: str, symbol: str, size: Mapping[str, float] | None = None) -> float:
    """Return the power of a symbol in the time of a round; NaN if none is known.

    The largest of the terms' powers, or at some sizes n, d and k the slope of their sum there,
    each term with the factor one, on logarithmic axes. Rows are dense: z is d.
    """
    terms = [term.split() for term in ROUND.get(solver, "").split(" + ") if term]
    if not terms or (symbol == "k" and any("K" in term for term in terms)):
        return math.nan
    symbols = ("d", "z") if symbol == "d" else (symbol,)
    powers = [sum(letter in symbols for letter in term) for term in terms]
    if size is None or len(terms) == 1:
        return float(max(powers))
    values = {"z": size["d"], **size}
    return float(np.average(powers, weights=[math.prod(map(values.get, t)) for t in terms]))
