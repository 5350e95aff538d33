"""One run, grids and sweeps of them, the workers that do them, and notebooks by
papermill."""
