"""Proofs: small files from which anyone can verify a solver's result with NumPy and SciPy alone.

A proof states a convex problem of training, and has points that enclose its optimum:
:func:`write` makes it of a solver's state, :func:`verify` says which interval certainly holds the
optimum, and :func:`judge` how far anyone's weights are from it. ``checker.py`` stands alone. The
proof of a tuning (:func:`write_tuning`) says how many errors any C of a range has at least;
``tuning.py`` checks it, and needs ``checker.py`` only.
"""

from workbench.proofs.checker import Proof, ProofError, Verdict, read
from workbench.proofs.judge import Judgement, expected, judge, verify
from workbench.proofs.tuning_writer import write_tuning
from workbench.proofs.writers import write

__all__ = [
    "Judgement",
    "Proof",
    "ProofError",
    "Verdict",
    "expected",
    "judge",
    "read",
    "verify",
    "write",
    "write_tuning",
]
