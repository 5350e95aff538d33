"""What each solver costs on paper: time of a round and arrays held, as products of sizes.

A product of letters stands for its value: n rows, d features, k classes, z non-zeros of a row
(d of dense ones), K = 2^k. Only the terms that can dominate are there. The bytes are counted from
the arrays in the code, but for eleven solvers whose factors were adjusted until their sum came near
the peak that was measured of one problem of 20,000 x 32 rows in 64 classes: which product such
bytes belong to is a guess. Their ``source`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

INDEX = 2**31  # entries that a 32-bit index tells apart
STEPS = 500  # of the way from one size to another


class OnPaper(NamedTuple):
    """The costs of one solver.

    Attributes
    ----------
    seconds : the dominating terms of the time of a round, "n d k" for O(n d k)
    held : bytes beside the rows that are given, by the product that they multiply
    source : where the time is from; the bytes are those of the state and of its largest
        temporaries, counted or, where it says so, :data:`ADJUSTED`
    index : the product that a 32-bit index must count, where a library has no wider one
    """

    seconds: tuple[str, ...]
    held: Mapping[str, float]
    source: str
    index: str = ""


class Break(NamedTuple):
    """What goes over its limit first, and the sizes where it does."""

    what: str
    size: dict[str, float]


MRC = "Bondugula et al., section III: a scan of all rows; a subset in k log k"
HIGHS = "HiGHS knows no bound of its own: the non-zeros of the program"
LIBLINEAR = "Fan et al. 2008: a pass is O(n z) for each class"
WW = "Wang & Scott, section 3: scores and update O(z k), subproblem k log k"
ADJUSTED = "bytes adjusted to one measured peak"
LP_BYTES = 25.0  # of a non-zero, as measured of HiGHS, see workbench.mrc.lp.NONZEROS
ONE_OF_k = {"n z": 24.0, "d k": 8.0}  # LIBLINEAR's nodes and scikit-learn's copy

ON_PAPER = {
    "mrc_lp": OnPaper(("n d k K",), {"n d k K": LP_BYTES / 2}, HIGHS, "n d k K"),
    "mrc_lp_compact": OnPaper(("n d k",), {"n d k": LP_BYTES}, HIGHS, "n d k"),
    "mrc_ccg": OnPaper(("n d k",), {"n z": 8, "n k": 8, "d k": 40}, MRC),
    "mrc_subgradient": OnPaper(("n d k",), {"n z": 8, "n k": 24, "d k": 40}, MRC),
    "mrc_pdhg": OnPaper(
        ("n z k",), {"n z": 12, "n k": 48, "d k": 48}, f"docstring: two passes; {ADJUSTED}"
    ),
    "mrc_splitting": OnPaper(
        ("n d k", "n d d", "d d d"),
        {"n d": 12, "n k": 28, "d d": 8, "d k": 40},
        "its file: scores, and one factor of d x d",
    ),
    "mrc_interior_point": OnPaper(
        ("n d k", "n d d k k", "d d d k k k"),
        {"n d": 12, "n k": 64, "d d k k": 8, "d k": 80},
        "its file: a normal matrix, in the worst case of all d k components",
    ),
    "svm_lp": OnPaper(("n d",), {"n d": LP_BYTES}, HIGHS, "n d"),
    "svm_ccg": OnPaper(("n d",), {"n z": 8, "n": 16, "d": 32}, "Dedieu et al.: a scan of all rows"),
    "svm_multi": OnPaper(("n d k",), {"n d k": LP_BYTES}, HIGHS, "n d k"),
    "memoir_pegasos": OnPaper(
        ("n z k",),
        {"d k": 8, "n k": 8},
        f"Belyy & Sholokhov, Algorithm 1: exact argmax of every row; {ADJUSTED}",
    ),
    "memoir_l2": OnPaper(
        ("n z k",),
        {"d k": 8, "n z": 4},
        f"Algorithm 1 with an exact argmax; a round in full is a pass; {ADJUSTED}",
    ),
    "memoir_l1": OnPaper(
        ("n z k",), {"d k": 12, "n z": 4}, f"Algorithm 2, as Algorithm 1; {ADJUSTED}"
    ),
    "cs_working_set": OnPaper(
        ("n z k",),
        {"d k": 8, "n z": 8, "n": 192},
        "docstring: one pass over all classes, inner ones over 16",
    ),
    "ww_walrus": OnPaper(("n z k",), {"d k": 8, "n k": 8}, WW),
    "ww_shark": OnPaper(("n z k", "n k k"), {"d k": 8, "n k": 8}, f"{WW}; Shark's: k^2"),
    "ww_walrus_fast": OnPaper(("n z k",), {"d k": 8, "n k": 8}, WW),
    "ww_kernel": OnPaper(
        ("n n z", "n n k"), {"n k": 16, "n z": 8}, "docstring: kernel rows, scores of all rows"
    ),
    "ls_generalized": OnPaper(
        ("n d k", "n d d", "d d d", "d d k"),
        {"d d": 16, "d k": 32},
        f"Agarwal et al., Algorithm 1: one d x d factor, then gradients; {ADJUSTED}",
    ),
    "ls_accelerated": OnPaper(
        ("n d k", "n d d", "d d d", "d d k"),
        {"d d": 16, "d k": 40},
        f"as Algorithm 1, with momentum; {ADJUSTED}",
    ),
    "ls_calibrated": OnPaper(
        ("n d k", "n d d", "d d d", "n k k", "k k k"),
        {"d d": 16, "d k": 16, "n k": 28, "k k": 72},
        f"Agarwal et al., Algorithm 2: a fit by d features and one by 3 k functions; {ADJUSTED}",
    ),
    "ls_stagewise": OnPaper(
        ("n d", "n k"), {"n k": 16, "k": 65536, "n": 4096}, "Algorithm 3: blocks of 1,024 features"
    ),
    "ls_columns": OnPaper(("n z", "n k"), {"n k": 16, "d k": 8}, f"A.2.2: 500 columns; {ADJUSTED}"),
    "cuts_exact": OnPaper(
        ("n n z", "n n k"), {"n k": 16, "n z": 8}, "Yu & Joachims, section 3: n^2 kernel values"
    ),
    "cuts_linear_time": OnPaper(
        ("n z", "n k"), {"n k": 16, "n z": 4}, "Yu & Joachims, Algorithm 3: n r kernel values"
    ),
    "cuts_constant_time": OnPaper(
        ("z", "k"), {"n z": 4, "k": 3200}, "Yu & Joachims, Algorithm 2: r^2 values a cut"
    ),
    "cuts_nystroem": OnPaper(
        ("n z", "n k"), {"n": 3200, "n k": 32, "k": 1600}, f"docstring: 200 landmarks; {ADJUSTED}"
    ),
    "libsvm": OnPaper(
        ("n n z",), {"n z": 24, "n k": 16}, "Chang & Lin 2011: n^2 to n^3, all pairs", "n z"
    ),
    "nystroem_svm": OnPaper(
        ("n z", "n k"), {"n": 4800, "n k": 8, "k": 1600}, "docstring: 24 bytes a feature", "n"
    ),
    "liblinear_cs": OnPaper(
        ("n z k",), ONE_OF_k | {"n k": 16}, "Keerthi et al. 2008: a pass is O(n z k)", "n z"
    ),
    "liblinear_ovr": OnPaper(("n z k",), ONE_OF_k | {"n k": 16}, LIBLINEAR, "n z"),
    "liblinear_lr": OnPaper(("n z k",), ONE_OF_k, LIBLINEAR, "n z"),
    "liblinear_l2_dual": OnPaper(("n z k",), ONE_OF_k, LIBLINEAR, "n z"),
    "liblinear_l2_primal": OnPaper(("n z k",), ONE_OF_k, LIBLINEAR, "n z"),
    "liblinear_l1": OnPaper(("n z k",), ONE_OF_k, LIBLINEAR, "n z"),
    "logistic_lbfgs": OnPaper(
        ("n z k",), {"n k": 24, "d k": 200}, "Zhu et al. 1997: ten pairs of vectors"
    ),
    "logistic_saga": OnPaper(
        ("n z k",),
        {"n k": 16, "d k": 24},
        f"Defazio et al. 2014: a gradient a row; {ADJUSTED}",
        "n z",
    ),
    "ridge": OnPaper(
        ("n d d", "d d d", "n d k", "d d k"),
        {"d d": 8, "n k": 16, "d k": 8},
        f"Cholesky of d x d; one-hot targets; {ADJUSTED}",
    ),
    "centroid": OnPaper(("n z",), {"d k": 12, "n z": 8}, "Han & Karypis 2000: one pass"),
    "vw": OnPaper(("n z k",), {"n z": 12, "d k": 16}, "one against all, online"),
    "vw_recall_tree": OnPaper(("n z",), {"n z": 12}, "Daumé et al. 2017: log k candidates"),
}


def exponent(solver: str, symbol: str, size: Mapping[str, float] | None = None) -> float:
    """Return the power of a symbol in the time of a round; NaN where none is known.

    The largest of the terms' powers, or at some sizes n, d and k the slope of their sum there,
    each term having the factor one, on logarithmic axes. Rows are dense: z is d.
    """
    terms = ON_PAPER[solver].seconds if solver in ON_PAPER else ()
    if not terms or (symbol == "k" and any("K" in term for term in terms)):
        return math.nan
    symbols = ("d", "z") if symbol == "d" else (symbol,)
    powers = [sum(letter in symbols for letter in term.split()) for term in terms]
    if size is None:
        return float(max(powers))
    return float(np.average(powers, weights=[value(t, {"z": size["d"]} | size) for t in terms]))


def held(solver: str, **size: float) -> dict[str, float]:
    """Return the bytes that a solver holds beside its rows, by product, at sizes n, d, k and z."""
    return {term: bytes_ * value(term, size) for term, bytes_ in ON_PAPER[solver].held.items()}


def value(term: str, size: Mapping[str, float]) -> float:
    """Return the value of a product of sizes; K is infinite where it overflows."""
    with np.errstate(over="ignore"):
        letters = {**size, "K": float(np.exp2(float(size["k"])))}
    return math.prod(letters[letter] for letter in term.split())


def first_break(
    solver: str,
    base: Mapping[str, float],
    target: Mapping[str, float],
    *,
    memory: float,
    seconds: Callable[[Mapping[str, float]], float] | None = None,
    most: float = math.inf,
    sparse: bool = False,
) -> Break | None:
    """Return what goes over its limit first on the geometric way from `base` to `target`.

    Parameters
    ----------
    base, target : sizes n, d, k, and z where the rows are sparse; else z is d
    memory : bytes of the machine; the rows take 8 an entry, or 12 if they are `sparse`
    seconds, most : time at some sizes, and its limit

    Returns
    -------
    The largest array's product ("rows" for the rows themselves), "32-bit index" or "time"; None
    where nothing breaks
    """
    for share in np.linspace(0, 1, STEPS + 1):
        size = {s: base[s] * (target[s] / base[s]) ** share for s in target}
        size = {"z": size["d"]} | size
        parts = {"rows": (12 if sparse else 8) * size["n"] * size["z"]} | held(solver, **size)
        if sum(parts.values()) > memory:
            return Break(max(parts, key=parts.get), size)
        index = ON_PAPER[solver].index
        if index and (sparse or "n z" != index) and value(index, size) >= INDEX:
            return Break("32-bit index", size)
        if seconds is not None and seconds(size) > most:
            return Break("time", size)
    return None
