"""Peers as streams: scikit-learn's solvers, Vowpal Wabbit, MRCpy, and the classes' centroids."""
