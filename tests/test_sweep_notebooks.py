"""What notebooks/sweeps ships: grids that read, notebooks with the parameters that are swept."""

import json

import pytest

from workbench.cli import main
from workbench.grid import read_points
from workbench.notebooks import CHECKOUT, read

FOLDER = CHECKOUT / "notebooks" / "sweeps"
GRIDS = sorted(FOLDER.glob("*.yaml"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SMALL = {
    "mrc_ccg": "-p data=iris -p eps1=1e-1,1e-2 -p n_max=20",
    "pegasos": "-p data=iris -p batch_size=1,20 -p max_seconds=0.2",
}


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_grid_reads(path):
    points = read_points(path)
    assert len(points) > 1 and len({point.label for point in points}) == len(points)


def test_every_hyper_parameter_has_its_sweep():
    declared = {name for path in NOTEBOOKS for name in read(path, figures=False).parameters}
    assert {"eps1", "eps2", "n_max", "batch_size", "lam"} <= declared
    swept = {name for path in GRIDS for point in read_points(path) for name in point.varied}
    assert {"eps1", "eps2", "n_max", "batch_size", "lam", "lambda0", "C"} <= swept


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_fans_out(path, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    assert main(["sweep", str(path), *SMALL[path.stem].split(), "-j", "2"]) == 0
    kept = sorted((tmp_path / "sweeps").glob(f"{path.stem}-*/{path.stem}.ipynb"))
    assert len(kept) == 2
    cells = json.loads(kept[0].read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert main(["sweep", str(path), *SMALL[path.stem].split(), "-j", "2"]) == 0
    assert "2 points, 2 done before, 0 to run" in capsys.readouterr().out
