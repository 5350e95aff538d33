"""The parts that every solver touches: problem, stream of iterates, trace and
judges."""
