"""Minimax risk classifiers (Bondugula, Mazuelas, Pérez): one file per method, one per
purpose."""
