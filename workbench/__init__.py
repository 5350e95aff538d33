"""Workbench: large-scale multiclass classification, every solver a stream of certified iterates."""

__version__ = "0.1.0"
