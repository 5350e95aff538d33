"""Peers as streams: scikit-learn's solvers, LIBLINEAR among them, and Vowpal Wabbit."""
