"""Peers as streams: scikit-learn's solvers, Vowpal Wabbit, and the classes'
centroids."""
