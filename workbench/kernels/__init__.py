"""The code that several solvers share: compiled loops over rows, and Mercer kernels.

Compiled loops are in compiled.py and rows.py, Mercer kernels in mercer.py, gaussian.py
and gram.py.
"""
