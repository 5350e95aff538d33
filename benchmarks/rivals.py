"""Compare ours with other popular classifiers: equal rows, equal search, one thread.

Each system is tuned with a fifth of the training rows held out, first at its defaults
and then at random settings, until a budget of CPU seconds is spent. The best setting is
fitted to all training rows and evaluated on the test rows. ``benchmarks/rivals.csv``
has the results, and what it has is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from measuring import save_rows
from peers import RIVALS
from rivals_fit import AUTHORS, SYSTEMS

from workbench.data.specs import with_test_rows
from workbench.runs.run import load_average, machine, versions

TABLE = Path(__file__).with_suffix(".csv")
DENSE = ("covtype_10k", "satimage", "letter", "usps", "house16")
SPARSE = ("sector @ unit", "news20 @ tfidf", "onet_titles @ tfidf", "icd10 @ tfidf")
OURS = ("workbench", "scikit-learn")  # packages of our own environment
SEED = 0  # seeds the split, if none is published, and the choice of validation rows
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)


def main() -> None:
    """Measure what is missing, and print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", default=[*DENSE, *SPARSE], metavar="DATA")
    parser.add_argument(
        "--budget", type=float, default=10.0, help="CPU seconds of each search"
    )
    arguments = parser.parse_args()
    done = pd.read_csv(TABLE).to_dict("records") if TABLE.exists() else []
    for name in arguments.names:
        for system, fitted in measured(name, arguments.budget, done):
            print(
                f"{name}: {system}: {fitted.get('test error', fitted['note'])}",
                flush=True,
            )
            done.append(fitted)
            pd.DataFrame(done).convert_dtypes().to_csv(TABLE, index=False)
    for name, rows in pd.DataFrame(done).groupby("data", sort=False):
        shown = rows.sort_values("test error")[
            ["system", "test error", "cpu", "peak_mb", "note"]
        ]
        print(f"\n{name}\n{shown.to_string(index=False)}")


def measured(name: str, budget: float, done: list[dict]) -> Iterator[tuple[str, dict]]:
    """Yield each system that is missing for a data set, and its outcome."""
    try:
        problem = with_test_rows(name, 0.3, SEED)
    except FileNotFoundError as error:
        return print(f"{name}: skipped: {error}")
    X, y = problem.X, problem.y
    rng = np.random.default_rng(SEED)
    held = rng.random(problem.n) < 0.2
    kind = "sparse" if problem.is_sparse else "dense"
    facts = {"data": name, "n": problem.n, "d": problem.d, "k": problem.k}
    with TemporaryDirectory() as folder:
        files = {
            "search": (X[~held], y[~held]),
            "held": (X[held], y[held]),
            "train": (X, y),
        }
        files["test"] = (problem.X_test, problem.y_test)
        for file, rows in files.items():
            save_rows(Path(folder, f"{file}.npz"), *rows)
        order = np.argsort(y[~held], kind="stable")
        ranks = np.arange(len(order)) - np.searchsorted(
            y[~held][order], y[~held][order]
        )
        np.savez(Path(folder, "few.npz"), rows=np.sort(order[ranks < 3]))
        for name_of, system in SYSTEMS.items():
            known = any((row["data"], row["system"]) == (name, name_of) for row in done)
            if kind in system.rows and not known:
                yield (
                    name_of,
                    facts | {"system": name_of} | fit(name_of, folder, budget),
                )


def fit(name: str, folder: str, budget: float) -> dict:
    """Return the outcome of a system's search and, if there is one, of its last fit."""
    package = SYSTEMS[name].package
    ours = package in OURS
    try:
        python = sys.executable if ours else RIVALS.python()
        if package == AUTHORS and not os.environ.get("PDSPARSE"):
            raise FileNotFoundError("PDSPARSE does not name the folder of its programs")
    except FileNotFoundError as error:
        return {"package": package, "note": str(error)}
    about = {"package": package, "load": load_average(), "budget": budget}
    about |= {"cpu model": machine()["cpu"], "commit": versions()["commit"]}
    about["version"] = (
        version("workbench-mc" if package == "workbench" else package)
        if ours
        else pin(package)
    )
    Path(folder, "arm.json").write_text(json.dumps({"system": name, "budget": budget}))
    script = [python, Path(__file__).with_name("rivals_fit.py"), folder]
    limit = 60 + 6 * budget
    try:
        ran = subprocess.run(
            script,
            env=os.environ | ONE_THREAD,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        said = ran.stdout
        note = ran.stderr.strip().splitlines()[-1:] if ran.returncode else []
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode()
        note = [f"not done in {limit:g} s"]
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    trials = [line["trial"] for line in lines if "trial" in line]
    about |= {"trials": len(trials), "note": "".join(note)[:100]}
    if trials:
        about["validation error"] = min(trial["error"] for trial in trials)
    for last in (line["last"] for line in lines if "last" in line):
        about |= {"test error": last["error"], "setting": json.dumps(last["setting"])}
        about |= {what: round(last[what], 3) for what in ("cpu", "seconds", "peak_mb")}
    return about


def pin(package: str) -> str:
    """Return the version of a package in the rivals' environment, or an empty text."""
    pins = dict(line.split("==") for line in RIVALS.packages)
    return pins.get(package, pins.get(f"{package}-cpu", ""))


if __name__ == "__main__":
    main()
