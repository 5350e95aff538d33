"""Saved figures with how each was made, their style and plots, and the papers' printed
numbers."""

from workbench.figures.saved import Figures as Figures
