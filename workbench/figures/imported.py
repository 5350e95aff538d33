"""Imports and first steps of figure notebooks, for the process that their kernels fork from."""

# ruff: noqa: F401
from io import BytesIO

import ipykernel.kernelapp
import sklearn.datasets
from matplotlib.figure import Figure

import workbench.figures.plots
import workbench.figures.reference
import workbench.runs.sweep
from workbench.figures.saved import METADATA
from workbench.runs.keys import package_code

# A kernel has the code of this moment, whose hash is part of every figure's key.
package_code()
# The first formula and the first file of each kind import more of matplotlib.
for kind in METADATA:
    figure = Figure()
    figure.text(0, 0, "$10^0$")
    figure.savefig(BytesIO(), format=kind)
