"""Does `workbench compare` recommend the right thing? Its pick on rows that it has never seen.

Some rows of a real table are written to a file and compared. Every method that ended is fitted by
the code that `compare` hands over and judged on the other rows: the pick is good if its error there
is not significantly above the least, by two standard errors of the difference on the same rows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from workbench.arena import compare
from workbench.data import load

NAMES = "house16 covtype_10k ijcnn1 dry_bean pulsar satellite letter usps fashion_mnist mnist"
ROWS, OTHERS = 4000, 10_000  # that are compared, and at most that judge
AT_LEAST = 1600  # that judge


def main() -> None:
    """Print a line per data set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES.split(), metavar="DATA")
    parser.add_argument("--seconds", type=float, default=60.0, help="of compare (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of rows (default: 0)")
    arguments = parser.parse_args()
    for name in arguments.names:
        try:
            print(tried(name, arguments.seconds, arguments.seed), flush=True)
        except FileNotFoundError as error:
            print(f"{name}: skipped: {error}")


def tried(name: str, seconds: float, seed: int) -> str:
    """Return the method that compare picks on some rows, and how good it is on others."""
    problem = load(name)
    X, y = problem.X, problem.classes[problem.y]
    if problem.X_test is not None:
        X = np.vstack([X, problem.X_test])
        y = np.concatenate([y, problem.classes[problem.y_test]])
    order = np.random.default_rng(seed).permutation(len(y))
    kept = min(ROWS, len(y) - AT_LEAST)
    rows, others = order[:kept], order[kept : kept + OTHERS]
    frame = pd.DataFrame(X).add_prefix("column ")
    first = []
    with TemporaryDirectory() as folder:
        table = frame.iloc[rows].assign(label=y[rows])
        table.to_csv(path := Path(folder) / f"{name}.csv", index=False)
        tic = time.perf_counter()

        def say(line: str) -> None:
            if "after a first search: test error" in line:
                first.append(time.perf_counter() - tic)

        done = compare(path, "label", seconds=seconds, jobs=1, folder=folder, say=say)
        wall = time.perf_counter() - tic
        wrong, pick = {}, done.recommended
        for entry in done.ended["entry"]:
            place: dict = {}
            with contextlib.redirect_stdout(io.StringIO()):
                exec(done.code(entry), place)  # ours, made a moment ago
            new = place["data"].encode(frame.iloc[others])
            wrong[entry] = place["model"].predict(new) != y[others]
    least = min(wrong, key=lambda entry: wrong[entry].sum())
    excess = wrong[pick].astype(float) - wrong[least]
    spread = 2 * excess.std() / len(others) ** 0.5
    verdict = "good" if excess.mean() <= spread else "WORSE"
    return (
        f"{name}: recommended {pick}, {100 * wrong[pick].mean():.2f} % of "
        f"{len(others):,} other rows wrong; least {least}, {100 * wrong[least].mean():.2f} %; "
        f"difference {100 * excess.mean():.2f} +- {100 * spread:.2f}: {verdict}. First answer "
        f"after {first[0] if first else np.nan:.1f} s, all after {wall:.0f} s"
    )


if __name__ == "__main__":
    main()
