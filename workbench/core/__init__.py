"""The parts that every solver uses: the problem, the stream of iterates, its trace and
its measures."""
