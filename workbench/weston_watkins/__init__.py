"""Weston-Watkins SVMs by exact block coordinate descent (Wang, Scott)."""
