"""Importing this module lets a lesson find its ``checks``, whatever folder it runs
in."""

import sys

from workbench.runs.notebooks import CHECKOUT

# At the end: a student's copy has checks of its own next to it.
sys.path.append(str(CHECKOUT / "notebooks" / "learn"))
