"""Single runs, grids and sweeps of runs, the workers that execute them, and notebooks
by papermill."""
