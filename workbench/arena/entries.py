"""Entries of the arena: solvers, the ranges to search, and the rows they refuse.

Most ranges are six decades wide and cover equivalent values: with n rows, the weight C
of a row's loss equals 1 / (n alpha). Some are narrower: MRC's lambda0 is a number of
standard deviations, and beyond 1 the data determine nothing; the centroid's power is an
exponent; MEMOIR's first step is at most 1; beyond three decades of bandwidths, all rows
have equal random features or unrelated ones; and trees depend little on their
parameters. A range of gamma is in units of 1 / (d times the variance of all entries).
"""

import inspect
from collections.abc import Mapping
from typing import NamedTuple

from workbench.core.checks import check_known
from workbench.core.problem import Problem
from workbench.mrc.splitting import WIDEST
from workbench.papers import paper_of_solver
from workbench.registry import SOLVERS

FAMILY = {  # family of the solvers of each paper
    "mrc": "minimax risk",
    "weston_watkins": "Weston-Watkins",
    "memoir": "MEMOIR",
    "least_squares": "least squares",
    "sampled_cuts": "sampled cuts",
}
TREES = "random_forest", "boosting"
FAMILIES = (*FAMILY.values(), "peer", "trees")


class Entry(NamedTuple):
    """A solver that competes, with its parameters and the rows that it refuses.

    Attributes
    ----------
    solver : str, a name of :data:`workbench.registry.SOLVERS`
    ranges : {parameter: (low, high)}, the ranges to search on a log scale; may be empty
    fixed : {parameter: value}, the parameters that differ from the solver's defaults
        and are not searched
    dense : bool, whether sparse rows are refused
    most : {quantity: limit}, the limits on "training rows", "features", "classes" or
        "weights" (features times classes)
    name : str, the name in legends (default: the registry's)
    fourier : int >= 0, the number of random Fourier features that are appended to the
        rows
    """

    solver: str
    ranges: Mapping[str, tuple[float, float]] = {}
    fixed: Mapping[str, object] = {}
    dense: bool = False
    most: Mapping[str, int] = {}
    name: str = ""
    fourier: int = 0

    @property
    def label(self) -> str:
        return self.name or SOLVERS[self.solver].label

    @property
    def family(self) -> str:
        """One of :data:`FAMILIES`, by the solver's paper."""
        other = "trees" if self.solver in TREES else "peer"
        return FAMILY.get(paper_of_solver(self.solver), other)

    def refuses(self, problem: Problem) -> str | None:
        """Return why these training rows are refused, or None if they are accepted."""
        if self.dense and problem.is_sparse:
            return "takes dense rows only"
        sizes = {"training rows": problem.n, "features": problem.d + self.fourier}
        sizes |= {"weights": sizes["features"] * problem.k, "classes": problem.k}
        for what, limit in self.most.items():
            if sizes[what] > limit:
                return f"takes at most {limit:,} {what}, got {sizes[what]:,}"
        return None


LOSS = {"C": (1e-4, 1e2)}  # weight of a row's loss
PENALTY = {"alpha": (1e-7, 1e-1)}  # weight of |W|^2 next to the mean loss
KERNEL = {"C": (1e-2, 1e4), "gamma": (1e-3, 1e3)}
RISK = {"lambda0": (1e-4, 1.0)}
KNOWN = LOSS | PENALTY | RISK  # parameters searched for a solver without an entry
# With more rows, methods that need all pairs take hours.
PAIRS = {"training rows": 30_000}
# All pairs of 20,000 weights take 3.2 GB.
NORMAL = {"features": WIDEST, "weights": 20_000}
# With the paper's n_max, 400, satellite takes three times as long
# (benchmarks/mrc_cases.py). The start is ours, too: mrc_ccg_fast equals mrc_ccg on all
# but large dense rows.
FEWER_CUTS = {"n_max": 100}
# scikit-learn's default. The stream of a peer ends with the fit that reaches it.
SLACK = {"tol": 1e-4}
RANDOM = {"n_features": 2048, "block": 256}
# scikit-learn's defaults of the trees' `mtry` and `learning_rate` lie in the middle.
SPLITS = {"mtry": (0.25, 4.0)}
BOOSTS = {"learning_rate": (0.02, 0.5), "l2": (1e-3, 1e3)}

ENTRIES = {
    entry.solver: entry
    for entry in (
        Entry("mrc_ccg_fast", RISK, FEWER_CUTS),
        Entry("mrc_splitting", RISK, dense=True, most={"features": WIDEST}),
        Entry("mrc_interior_point", RISK, dense=True, most=NORMAL),
        Entry("ww_walrus", LOSS),
        Entry("ww_walrus_fast", LOSS),
        Entry("memoir_l2", {"lam": (1e-7, 1e-1), "eta0": (1e-3, 1.0)}),
        Entry("cs_working_set", LOSS, {"l1": 0.0}),
        Entry("ls_accelerated", PENALTY),
        Entry(
            "ls_stagewise_passes",
            PENALTY | {"bandwidth": (0.03, 30.0)},
            RANDOM,
            name="Stagewise LS (ours), 2,048 features",
        ),
        Entry("cuts_linear_time_fast", KERNEL),
        Entry("cuts_nystroem", KERNEL),
        Entry("libsvm", KERNEL, most=PAIRS),
        Entry("liblinear_cs", LOSS, SLACK),
        Entry("liblinear_l2_dual", LOSS, SLACK),
        Entry("logistic_lbfgs", LOSS, SLACK),
        Entry("ridge", PENALTY),
        Entry("centroid", {"power": (0.1, 10.0)}),
        Entry("random_forest", SPLITS),
        # Boosting makes a tree for each class in every iteration.
        Entry("boosting", BOOSTS, dense=True, most={"classes": 30}),
    )
}
# The paper's experiments have standardised rows with 400 random Fourier features.
ENTRIES["mrc_fourier"] = ENTRIES["mrc_splitting"]._replace(
    name="MRC splitting (ours), 400 Fourier features", fourier=400
)


def entry(name: str) -> Entry:
    """Return the entry of this name, or a new one for a solver that has none.

    A new entry searches the parameters that have a range in :data:`KNOWN`, if any; all
    others keep their defaults.

    Raises
    ------
    ValueError
        If the name is neither that of an entry nor that of a solver.
    """
    if name in ENTRIES:
        return ENTRIES[name]
    check_known(name, ENTRIES | SOLVERS, "entries")
    takes = inspect.signature(SOLVERS[name].steps).parameters
    return Entry(name, {p: ends for p, ends in KNOWN.items() if p in takes})
