"""Saved figures with records of their making, their style and plots, and the papers'
printed numbers."""

from workbench.figures.saved import Figures as Figures
