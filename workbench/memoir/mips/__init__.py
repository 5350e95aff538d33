"""Maximum inner product search: find a wrong class with nearly the largest x.w.

Every search is an :class:`Oracle`: ``update(W)``, then ``query(X, rows, y)``.
:func:`inexactness` measures how inexact the answers are, which is not timed.
"""

from workbench.memoir.mips.graphs import Hierarchical, SmallWorld
from workbench.memoir.mips.hashing import (
    SimpleLSH,
    collision_probability,
    hash_exponent,
)
from workbench.memoir.mips.oracle import (
    Exact,
    Oracle,
    Random,
    best_classes,
    inexactness,
    scores,
)

__all__ = ["MIPS", "Oracle", "best_classes", "collision_probability", "hash_exponent"]
__all__ += ["inexactness", "make_oracle", "scores"]

MAKERS = {
    "exact": Exact,
    "sw_graph": SmallWorld,
    "hnsw": Hierarchical,
    "simple_lsh": SimpleLSH,
    "random": Random,
}
MIPS = tuple(MAKERS)


def make_oracle(name: str, *, k: int, d: int, seed=0, **options) -> Oracle:
    """Return a new oracle for `k` classes and `d` features.

    Parameters
    ----------
    name : one of :data:`MIPS`
    seed : int, or a random number generator that the oracle then uses, such as that of
        a solver
    options : keyword arguments of the class of this name

    Raises
    ------
    ValueError
        If there is no such oracle, or a value is not accepted, or a package is missing.
    """
    if name not in MIPS:
        raise ValueError(f"mips: must be one of {', '.join(MIPS)}, got {name!r}")
    return MAKERS[name](k, d, seed, **options)
