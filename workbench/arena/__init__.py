"""The arena compares all families with the peers that users know, on equal terms."""

from workbench.arena.contest import Contest, contest
from workbench.arena.entries import ENTRIES, FAMILIES, Entry

__all__ = ["ENTRIES", "FAMILIES", "Contest", "Entry", "contest"]
