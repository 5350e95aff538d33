"""The checks of the exercises: one file per series of lessons; all of them use
`exercise`."""

import os
import sys

_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
if os.environ.get("MPLBACKEND", "").lower() == "agg" and hasattr(_shell, "kernel"):
    # Servers often set this backend. With it a notebook would silently show no plots.
    _shell.run_line_magic("matplotlib", "inline")
