"""What every solver touches: the problem, the stream of iterates, its trace, and the judges."""
