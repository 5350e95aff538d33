"""Measure proofs: the time of verification relative to the solve, and the file sizes.

    WORKBENCH_DATA=... python benchmarks/proofs.py [SOLVER or DATA ...] [--seconds 60]
    [--gap 1e-6]

Every case is solved until the solver's bounds have a relative gap of 1e-6 or the time
is up. Its proof is written, read and verified twice, and the shorter verification
counts. All times are CPU seconds of this process on one thread; verification includes
reading the file and the checksum of the rows. The targets are a tenth of the solve, if
that takes a second or more, and 300 KiB in the median; the cases that miss the first
are named at the end.
"""

import os

os.environ |= dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)

import argparse
import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import scipy.sparse as sp
from measuring import Clock

from workbench.core.stream import seconds
from workbench.data import load
from workbench.proofs import verify, write
from workbench.runs.run import load_average, run

# Targets: fraction of a solve of at least SOLVE seconds, and median KiB.
SHARE = 0.1
SOLVE = 1.0
KIB = 300.0
DENSE = (
    "digits, satimage, letter, usps, dna, covtype_10k, dry_bean, house16, pulsar, "
    "optdigits"
)
TEXT = "sector @ unit, news20 @ tfidf"
CASES = [  # solver, parameters, data
    ("ww_walrus_fast", {"C": 0.01}, f"{DENSE}, {TEXT}"),
    (
        "cs_working_set",
        {"C": 0.1, "l1": 0.0},
        f"digits, satimage, usps, letter, {TEXT}",
    ),
    ("cs_working_set", {"C": 1.0}, "sector @ unit, onet_titles @ tfidf"),
    ("memoir_pegasos", {"lam": 1e-3}, "digits, letter, usps, sector @ unit"),
    ("ls_accelerated", {"alpha": 1e-3, "link": "softmax"}, DENSE),
    (
        "ls_accelerated",
        {"alpha": 1e-3, "link": "squared_hinge"},
        "digits, letter, usps, ijcnn1",
    ),
    ("cuts_exact", {"C": 1.0}, "digits, satimage, pulsar"),
    ("svm_ccg", {}, "pulsar, ijcnn1, a9a @ given"),
    (
        "mrc_ccg",
        {"eps1": 1e-4},
        "iris, wine, pulsar, house16, satellite, dry_bean, letter",
    ),
    ("mrc_interior_point", {}, "digits, usps, satellite, optdigits, house16, dry_bean"),
    ("mrc_pdhg", {}, "usps, sector @ unit"),
]


def measured(
    solver: str, parameters: dict, spec: str, gap: float, limit: float, path: Path
) -> dict:
    """Solve one case, write its proof and verify it; return its row of the table."""
    problem = replace(load(spec), X_test=None, y_test=None)

    def close(row) -> str | None:
        return "gap" if row["upper"] - row["lower"] <= gap * row["lower"] else None

    trace, state = run(solver, problem, close, seconds(limit), parameters=parameters)
    with Clock() as writing:
        write(path, problem, state, **parameters)
    checks = []
    for _ in range(2):
        with Clock() as clock:
            found = verify(path, problem)
        checks.append(clock.cpu)
    last = trace.last
    X = problem.X
    rows = (
        X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        if sp.issparse(X)
        else X.nbytes
    )
    return {
        "solver": solver,
        "parameters": parameters,
        "data": spec,
        "n": problem.n,
        "d": problem.d,
        "k": problem.k,
        "solve": last["cpu"],
        "write": writing.cpu,
        "verify": min(checks),
        "share": min(checks) / last["cpu"],
        "kib": path.stat().st_size / 1024,
        "rows_kib": rows / 1024,
        "lower": found.lower,
        "upper": found.upper,
        "gap": found.gap,
        "solver_gap": (last["upper"] - last["lower"]) / last["lower"]
        if last["lower"]
        else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", help="solvers or data sets (default: all)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of a solve (default: 60)"
    )
    parser.add_argument(
        "--gap", type=float, default=1e-6, help="of a solve (default: 1e-6)"
    )
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    given = parser.parse_args()
    rows = []
    print(f"load {load_average()}; CPU seconds, one thread")
    print(f"{'':46} solve   write  verify   share      KiB (rows)      gap  solver's")
    with tempfile.TemporaryDirectory() as folder:
        for solver, parameters, data in CASES:
            for spec in data.split(", "):
                if given.names and not {solver, spec.split()[0]} & set(given.names):
                    continue
                try:
                    limits = given.gap, given.seconds
                    row = measured(
                        solver, parameters, spec, *limits, Path(folder) / "proof.npz"
                    )
                except FileNotFoundError as error:
                    print(f"{solver:20} {spec:22} skipped: {error}")
                    continue
                rows.append(row)
                own = row["solver_gap"]
                print(
                    f"{solver:20} {spec:22} {row['solve']:8.2f} {row['write']:7.3f} "
                    f"{row['verify']:7.3f} {row['share']:7.1%} {row['kib']:8.1f} "
                    f"({row['rows_kib']:.0f}) {row['gap']:8.1e}  {own or 0.0:.1e}",
                    flush=True,
                )
    if rows:
        print(summary(rows))
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def summary(rows: list[dict]) -> str:
    """Return how the targets were met, and which cases missed that of the time."""
    long = [row for row in rows if row["solve"] >= SOLVE]
    missed = [f"{r['solver']} on {r['data']}" for r in long if r["share"] > SHARE]
    size = statistics.median(row["kib"] for row in rows)
    lines = [
        f"{len(rows)} cases on {len({row['data'] for row in rows})} data sets",
        f"share: {len(long) - len(missed)} of {len(long)} solves of {SOLVE:g} s or "
        "more verified "
        f"in {SHARE:.0%} of it" + f"; not {', '.join(missed)}" * bool(missed),
        f"size: {size:.0f} KiB in the median, at most {KIB:.0f} wanted",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
