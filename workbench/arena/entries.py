"""Who stands in the arena: solvers, what is searched of them, and whom they must refuse.

Every range is six decades wide, of the numbers that mean the same: for n rows, C of a row's loss is
1 / (n alpha). Four cannot be: MRC's lambda0 is a number of standard deviations, and beyond 1
nothing is left to learn; the centroid's power is one between nothing and a multiple of the cosine;
MEMOIR's first step is no longer than one; and beyond three decades of bandwidths random features
are all equal or all different.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import NamedTuple

from workbench.core.names import hint
from workbench.core.problem import Problem
from workbench.figures.papers import paper_of_solver
from workbench.kernels.functions import scale
from workbench.mrc.splitting import WIDEST
from workbench.registry import SOLVERS

FAMILY = {  # of the solvers of a paper
    "mrc": "minimax risk",
    "weston_watkins": "Weston-Watkins",
    "memoir": "MEMOIR",
    "least_squares": "least squares",
    "sampled_cuts": "sampled cuts",
}
FAMILIES = (*FAMILY.values(), "peer")
PAIRS_ROWS = 30_000  # training rows beyond which LIBSVM takes hours
COMPONENTS = 20_000  # of weights: a matrix of their pairs holds 3.2 GB

LOSS = {"C": (1e-4, 1e2)}  # weight of a row's loss
PENALTY = {"alpha": (1e-7, 1e-1)}  # weight of the squared weights beside the mean loss
KERNEL = {"C": (1e-2, 1e4), "gamma": (1e-3, 1e3)}
RISK = {"lambda0": (1e-4, 1.0)}
KNOWN = LOSS | PENALTY | RISK  # what is searched of a solver that has no entry


def takes_all(problem: Problem) -> str | None:
    """Refuse nothing."""
    return None


def dense_and_narrow(problem: Problem) -> str | None:
    """Refuse what the splitting refuses."""
    if problem.is_sparse:
        return "takes dense rows only"
    if problem.d > WIDEST:
        return f"takes up to {WIDEST:,} features, these are {problem.d:,}"
    return None


def few_components(problem: Problem) -> str | None:
    """Refuse what the splitting does, and weights whose normal matrix may not fit."""
    if reason := dense_and_narrow(problem):
        return reason
    if (components := problem.d * problem.k) > COMPONENTS:
        return (
            f"its normal matrix has a row for each of up to d k = {components:,} weights, "
            f"{COMPONENTS:,} are taken"
        )
    return None


def dense(problem: Problem) -> str | None:
    """Refuse sparse rows."""
    return "takes dense rows only" if problem.is_sparse else None


def few_rows(problem: Problem) -> str | None:
    """Refuse rows whose kernel matrix LIBSVM would go through for hours."""
    if problem.n > PAIRS_ROWS:
        return (
            f"its time grows with the square of the rows or faster: up to {PAIRS_ROWS:,} training "
            f"rows are taken, these are {problem.n:,}"
        )
    return None


def with_mrcpy(problem: Problem) -> str | None:
    """Refuse everything where MRCpy is not installed."""
    if "mrcpy" not in installed():
        return "not installed: pip install 'workbench-mc[mrcpy]'"
    return dense(problem)


class Entry(NamedTuple):
    """A solver as it enters: its family, what is searched, what is fixed, what it refuses.

    Attributes
    ----------
    solver : name of :data:`workbench.registry.SOLVERS`
    family : one of :data:`FAMILIES`
    ranges : {parameter: (low, high)}, searched on a log scale; none for nothing to search
    fixed : the parameters that are not searched, where they are not the solver's defaults
    units : {parameter: function of a problem}, the unit in which its range is meant
    refuses : ``refuses(problem)`` returns why these rows are not taken, or None
    name : for legends, where it is not the registry's
    """

    solver: str
    family: str
    ranges: Mapping[str, tuple[float, float]] = {}
    fixed: Mapping[str, object] = {}
    units: Mapping[str, Callable[[Problem], float]] = {}
    refuses: Callable[[Problem], str | None] = takes_all
    name: str = ""

    @property
    def label(self) -> str:
        return self.name or SOLVERS[self.solver].label


RBF = {"gamma": scale}  # in units of 1 / (d times the variance of all entries)
# The paper's 400 takes three times as long on satellite: benchmarks/mrc_cases.py compares them.
FEWER_CUTS = {"n_max": 100}
SLACK = {"tol": 1e-4}  # scikit-learn's default, with which a peer's largest budget ends

ENTRIES = {
    "mrc_ccg": Entry("mrc_ccg", "minimax risk", RISK, FEWER_CUTS),
    "mrc_splitting": Entry("mrc_splitting", "minimax risk", RISK, refuses=dense_and_narrow),
    "mrc_interior_point": Entry("mrc_interior_point", "minimax risk", RISK, refuses=few_components),
    "ww_walrus": Entry("ww_walrus", "Weston-Watkins", LOSS),
    "ww_walrus_fast": Entry("ww_walrus_fast", "Weston-Watkins", LOSS),
    "ww_kernel": Entry("ww_kernel", "Weston-Watkins", KERNEL, units=RBF, refuses=few_rows),
    "memoir_l2": Entry("memoir_l2", "MEMOIR", {"lam": (1e-7, 1e-1), "eta0": (1e-3, 1.0)}),
    "cs_working_set": Entry("cs_working_set", "MEMOIR", LOSS, {"l1": 0.0}),
    "ls_accelerated": Entry("ls_accelerated", "least squares", PENALTY),
    "ls_stagewise": Entry(
        "ls_stagewise",
        "least squares",
        PENALTY | {"bandwidth": (0.03, 30.0)},
        {"n_features": 2048, "block": 256},
        name="Stagewise LS, 2,048 features",
    ),
    "cuts_linear_time": Entry("cuts_linear_time", "sampled cuts", KERNEL, units=RBF),
    "cuts_nystroem": Entry("cuts_nystroem", "sampled cuts", KERNEL, units=RBF),
    "libsvm": Entry("libsvm", "peer", KERNEL, units=RBF, refuses=few_rows),
    "liblinear_cs": Entry("liblinear_cs", "peer", LOSS, SLACK),
    "liblinear_l2_dual": Entry("liblinear_l2_dual", "peer", LOSS, SLACK),
    "logistic_lbfgs": Entry("logistic_lbfgs", "peer", LOSS, SLACK),
    "ridge": Entry("ridge", "peer", PENALTY),
    "centroid": Entry("centroid", "peer", {"power": (0.1, 10.0)}),
    "mrcpy": Entry("mrcpy", "peer", RISK, refuses=with_mrcpy),
}


def installed() -> list[str]:
    """Return the names of the entries whose packages are installed."""
    return [name for name in ENTRIES if name != "mrcpy" or find_spec("MRCpy")]


def entry(name: str) -> Entry:
    """Return the entry of this name, or one made of a solver that has none.

    Of such a solver the parameter that :data:`KNOWN` has a range of is searched, if there is one;
    all else keeps its default. Its family is that of its paper, or "peer".

    Raises
    ------
    ValueError
        For a name that is neither an entry nor a solver.
    """
    if name in ENTRIES:
        return ENTRIES[name]
    if name not in SOLVERS:
        raise ValueError(f"entries: unknown name {name!r}; {hint(name, SOLVERS)}")
    takes = inspect.signature(SOLVERS[name].steps).parameters
    family = FAMILY.get(paper_of_solver(name), "peer")
    return Entry(name, family, {p: ends for p, ends in KNOWN.items() if p in takes})
