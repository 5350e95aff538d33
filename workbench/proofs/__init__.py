"""Proofs: small files that verify a solver's result with NumPy and SciPy alone.

A proof states a convex training problem and contains points that enclose its optimum.
:func:`write` makes a proof from a solver's state, :func:`verify` returns an interval
that certainly contains the optimum, and :func:`bound_excess` bounds how far the
objective of other weights is above the optimum. ``checker.py`` shares no code with the
rest of the package and runs alone.
"""

from workbench.proofs.checker import Interval, Proof, ProofError, read
from workbench.proofs.verification import Excess, bound_excess, recalled, verify
from workbench.proofs.writers import write

__all__ = [
    "Excess",
    "Interval",
    "Proof",
    "ProofError",
    "bound_excess",
    "read",
    "recalled",
    "verify",
    "write",
]
