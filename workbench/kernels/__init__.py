"""Compiled loops that several rooms share: rows, registers, kernel functions, Gram rows."""
