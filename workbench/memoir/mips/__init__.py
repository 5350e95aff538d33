"""Maximum inner product search: of all wrong classes, the one with the largest x.w, or nearly.

One protocol, :class:`Oracle`: ``update(W, touched)``, then ``query(X, rows, y)``. How inexact the
answers are tells :func:`inexactness`, off the clock.
"""

from __future__ import annotations

import inspect

from workbench.memoir.mips.chance import Random
from workbench.memoir.mips.exact import Exact, scores
from workbench.memoir.mips.graphs import hnsw, sw_graph
from workbench.memoir.mips.hashing import SimpleLSH, collision_probability
from workbench.memoir.mips.protocol import Oracle
from workbench.memoir.mips.quality import inexactness

__all__ = ["MIPS", "Oracle", "collision_probability", "inexactness", "make_oracle", "scores"]

MAKERS = {
    "exact": Exact,
    "sw_graph": sw_graph,
    "hnsw": hnsw,
    "simple_lsh": SimpleLSH,
    "random": Random,
}
MIPS = tuple(MAKERS)


def make_oracle(name: str, *, k: int, d: int, seed=0, **options) -> Oracle:
    """Return a new oracle for `k` classes and `d` features.

    Parameters
    ----------
    name : one of :data:`MIPS`
    seed : integer, or a generator that the oracle then draws from: a solver's own, say, so that
        its stream resumes where it stopped
    options : of the oracle of this name, as the signatures in this package have them

    Raises
    ------
    ValueError
        If there is no such oracle or option, or a value is not accepted, or a package is missing.
    """
    if name not in MAKERS:
        raise ValueError(f"mips: must be one of {', '.join(MIPS)}, got {name!r}")
    known = list_options(name)
    for option in options:
        if option not in known:
            accepted = ", ".join(known) or "none"
            raise ValueError(f"{option}: is no option of {name}; accepted: {accepted}")
    return MAKERS[name](k, d, seed, **options)


def list_options(name: str) -> dict:
    """Return the options of an oracle, with their defaults."""
    parameters = inspect.signature(MAKERS[name]).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
