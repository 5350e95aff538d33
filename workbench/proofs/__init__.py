"""Proofs: small files from which anyone can verify a solver's result with NumPy alone."""
