"""Kernel structural SVMs by sampled cutting planes (Yu, Joachims, KDD 2008)."""
