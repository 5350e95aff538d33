"""Fit MRCpy once, in a process with the interpreter of ``benchmarks/.peers``.

``mrcpy_fit.py FOLDER`` reads the folder's ``arm.json`` and the rows that it names; it
writes ``result.json`` and the coefficients ``M.npy``, (k, d + 1) with the intercept
last as in the workbench.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from measuring import Clock, limit_cpu, load_rows, peak_memory
from MRCpy import MRC


def fit(X: np.ndarray, y: np.ndarray, lambda0: float, **options) -> MRC:
    """Return MRCpy fitted to the paper's problem, with 0-1 loss and ``lambda0 * std``.

    MRCpy divides `s` by sqrt(n), and optimises over at most 5000 rows unless `X_` is
    given. `deterministic` affects predictions only.
    """
    model = MRC(loss="0-1", s=lambda0 * np.sqrt(len(X)), deterministic=False, **options)
    return model.fit(X, y, X_=X)


def main(folder: Path) -> None:
    """Fit MRCpy, timed from loaded arrays to coefficients."""
    # Gurobi uses all cores and obeys no environment variable, but reads this file in
    # the working directory.
    Path("gurobi.env").write_text("Threads 1\n", encoding="ascii")
    arm = json.loads((folder / "arm.json").read_text(encoding="utf-8"))
    options = {"solver": "ccg", "lambda0": 0.01} | arm["parameters"]
    X, y = load_rows(Path(arm["rows"]))
    few = np.concatenate([np.flatnonzero(y == c)[:5] for c in range(y.max() + 1)])
    # a warm-up: lazy imports, the licence, Gurobi's start
    fit(X[few], y[few], **options)
    limit_cpu(arm["limit"])
    with Clock() as spent:
        model = fit(X, y, **options)
    result = {
        "cpu": spent.cpu,
        "seconds": spent.seconds,
        "peak_mb": peak_memory(),
        "R": float(model.upper_),
        "rounds": len(getattr(model, "R_k", ())),
        "stopped_by": "finished",
    }
    np.save(folder / "M.npy", np.roll(model.mu_, -1, axis=1))
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
