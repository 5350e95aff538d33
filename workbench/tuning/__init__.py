"""Certified tuning: no value of a parameter in a range is better by more than eps, proven."""
