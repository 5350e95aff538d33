"""Let a lesson that imports this module find its ``checks``, whatever its folder."""

import sys

from workbench.runs.notebooks import CHECKOUT

# At the end: a student's copy has checks of its own next to it.
sys.path.append(str(CHECKOUT / "notebooks" / "learn"))
