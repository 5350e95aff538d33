"""Compiled loops that several subpackages share: rows, registers, kernel functions,
Gram rows."""
