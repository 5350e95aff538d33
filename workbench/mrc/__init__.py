"""Minimax risk classifiers (Bondugula, Mazuelas, Pérez), with one file per method."""
