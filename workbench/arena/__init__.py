"""The arena: all families and the peers a user would pick instead, on equal terms."""

from workbench.arena.comparison import Comparison
from workbench.arena.contest import Contest, contest
from workbench.arena.entries import ENTRIES, FAMILIES, Entry
from workbench.arena.own_data import inspected
from workbench.arena.run_comparison import compare

__all__ = [
    "ENTRIES",
    "FAMILIES",
    "Comparison",
    "Contest",
    "Entry",
    "compare",
    "contest",
    "inspected",
]
