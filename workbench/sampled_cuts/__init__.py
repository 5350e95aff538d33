"""Kernel structural SVMs by cutting planes made of random samples (Yu, Joachims, KDD
2008)."""
