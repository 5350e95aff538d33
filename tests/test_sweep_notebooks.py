"""The contents of notebooks/sweeps: grids that read, notebooks with the swept parameters."""

import pytest

from workbench.runs.grid import read_points
from workbench.runs.mill import fan_out
from workbench.runs.notebooks import CHECKOUT, read

FOLDER = CHECKOUT / "notebooks" / "sweeps"
GRIDS = sorted(FOLDER.glob("*.yaml"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SMALL = {
    "mrc_ccg": {"data": "iris", "eps1": "1e-1,1e-2", "n_max": "20"},
    "pegasos": {"data": "iris", "batch_size": "1,20", "max_cpu": "0.2"},
}


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_grid_reads(path):
    points = read_points(path)
    assert len(points) > 1 and len({point.label for point in points}) == len(points)


def test_every_hyper_parameter_has_its_sweep():
    declared = {name for path in NOTEBOOKS for name in read(path).parameters}
    assert {"eps1", "eps2", "n_max", "batch_size", "lam"} <= declared
    swept = {name for path in GRIDS for point in read_points(path) for name in point.varied}
    assert {"eps1", "eps2", "n_max", "batch_size", "lam", "lambda0", "C"} <= swept


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs_over_a_grid_of_its_parameters(path, execute):
    """As tests/test_fanout.py holds of any notebook, each run is then kept as executed."""
    runs = fan_out(read(path), SMALL[path.stem])
    assert len(runs) == 2 and len({run.key for run in runs}) == 2
    ran = execute(path, runs[0].work.args[1])
    assert sum(figures for _, _, figures, _ in ran)
