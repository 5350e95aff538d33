"""The five papers, and which of them a solver or a figure belongs to."""

import re
from typing import NamedTuple

from workbench.registry import SOLVERS


class Paper(NamedTuple):
    """A paper's title, its authors, where it appeared, and a short name."""

    title: str
    authors: str
    where: str
    short: str


PAPERS = {
    "mrc": Paper(
        "Efficient Large-Scale Learning of Minimax Risk Classifiers",
        "Bondugula, Mazuelas, Pérez",
        "arXiv:2511.17626",
        "Minimax risk",
    ),
    "weston_watkins": Paper(
        "An Exact Solver for the Weston-Watkins SVM Subproblem",
        "Wang, Scott",
        "ICML 2021",
        "Walrus",
    ),
    "memoir": Paper(
        "MEMOIR: Multi-class Extreme Classification with Inexact Margin",
        "Belyy, Sholokhov",
        "arXiv:1811.09863",
        "MEMOIR",
    ),
    "least_squares": Paper(
        "Least Squares Revisited: Scalable Approaches for Multi-class Prediction",
        "Agarwal, Kakade, Karampatziakis, Song, Valiant",
        "ICML 2014",
        "Least squares",
    ),
    "sampled_cuts": Paper(
        "Training Structural SVMs with Kernels Using Sampled Cuts",
        "Yu, Joachims",
        "KDD 2008",
        "Sampled cuts",
    ),
}
# A name that continues with one of these is not the whole data set of the paper.
LESS = r"synthetic|stand-in|subset|sample|first|tiny|rows|\["
ACROSS = "across"  # the key of figures on several papers, or on none
PREFIXES = {"ww": "weston_watkins", "ls": "least_squares", "cuts": "sampled_cuts"}


def title(key: str) -> str:
    """Return the title of a paper, or the key itself if it is not a paper's."""
    if key == ACROSS:
        return "Across the papers"
    return PAPERS[key].title if key in PAPERS else key


def order(key: str) -> tuple[int, str]:
    """Return the sort key of a paper: the five, others by name, then :data:`ACROSS`."""
    known = [*PAPERS]
    if key in known:
        return known.index(key), key
    return len(known) + int(key == ACROSS), key


def paper_of_name(name: str) -> str | None:
    """Return the paper whose key or prefix begins the name of a notebook or solver."""
    for prefix in (*PAPERS, *PREFIXES):
        if name == prefix or name.startswith(f"{prefix}_"):
            return PREFIXES.get(prefix, prefix)
    return None


def paper_of_solver(solver: str) -> str | None:
    """Return the paper of a solver, by its folder if registered, else by its name, or
    None.
    """
    if solver in SOLVERS:
        module = SOLVERS[solver].steps.__module__.removeprefix("workbench.")
        room, _, _ = module.partition(".")
        if room in PAPERS:
            return room
    return paper_of_name(solver)


def token(name: str) -> str:
    """Return a name as filters compare it: only letters and digits, in lower case."""
    return re.sub(r"[\W_]+", "", name.casefold())


def base(data: str) -> str:
    """Return the data set behind a problem's name: without sizes, scaling and added
    features.

    >>> base("synthetic 20000x30x2, standardised"), base("wine + 100 Fourier")
    ('synthetic', 'wine')
    """
    return re.split(r"[,:(\[]| \+ | \d+(?:x\d+)*\b", data, maxsplit=1)[0].strip()


def same_data(dataset: str, data: str, synthetic: bool = False) -> bool:
    """Return whether `data` is the paper's `dataset`: the same name, and all of it."""
    if not data or token(base(data)) != token(base(dataset)):
        return False
    less = bool(re.search(LESS, data[len(base(data)) :].casefold())) or synthetic
    return not less or "synthetic" in dataset.casefold()
