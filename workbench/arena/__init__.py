"""The arena: all families and the peers a user would pick instead, on equal terms."""

from workbench.arena.contest import Contest, contest
from workbench.arena.entries import ENTRIES, FAMILIES, Entry

__all__ = ["ENTRIES", "FAMILIES", "Contest", "Entry", "contest"]
