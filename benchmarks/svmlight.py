"""Compare the algorithms of the paper on sampled cuts with SVMlight.

``python benchmarks/svmlight.py [CASE ...]`` builds SVMlight's two programs and makes
the runs that ``benchmarks/svmlight.csv`` does not contain yet, one after the other on
one thread. It appends a row for each run. Every method gets the same rows, C and
kernel. README.md in this folder says what is timed, and the terms of SVMlight.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd
from measuring import limit_cpu
from peers import SVMLIGHT
from sklearn.datasets import dump_svmlight_file

from workbench.core.measures import error
from workbench.core.problem import Problem
from workbench.core.stream import processor_seconds
from workbench.data.specs import with_test_rows
from workbench.runs.run import load_average, machine, resolve, run, versions
from workbench.runs.worker import one_thread

TABLE = Path(__file__).with_suffix(".csv")
QUALITY = Path(__file__).parents[1] / "results" / "cuts_quality.parquet"
CACHE_MB = 512  # of kernel values, as for LIBSVM
EPS = 5e-3  # of the sampled cuts, as in both notebooks
SCORES_MB = 4096.0  # of scores by cuts for linear time, as in cuts_scaling
TEST = 0.3  # fraction of test rows, for data without a split of its own
LONG = 300  # CPU seconds of a run that is not repeated
SAMPLES = 30  # runs of the paper's algorithms, whose errors depend on their samples
COLUMNS = (
    "data,method,r,n,C,gamma,repetition,cpu,cut,train_error,test_error,rounds,machine,"
    "load,commit"
).split(",")


class Method(NamedTuple):
    """A method's name in the table, its solver, and its rows of a cut or subspace."""

    label: str
    solver: str
    r: int = 0


PEER = Method("SVMlight", "")
LIBSVM = Method("LIBSVM", "libsvm")


def linear(r: int) -> Method:
    """Return Algorithm 3 of the paper."""
    return Method("linear time", "cuts_linear_time", r)


def constant(r: int) -> Method:
    """Return Algorithm 2 of the paper."""
    return Method("constant time", "cuts_constant_time", r)


def subspace(r: int) -> Method:
    """Return the paper's baseline, a linear SVM in the span of r rows."""
    return Method("subspace", "nystroem_svm", r)


FIGURE_1 = (linear(400), constant(1000), PEER, LIBSVM)
TABLE_1 = tuple(of(r) for of in (linear, constant, subspace) for r in (100, 1000))
TABLE_1 += (PEER, LIBSVM)


class Case(NamedTuple):
    """Rows, C, kernel and methods of a case, its limit in CPU seconds, and its runs."""

    spec: str
    C: float
    gamma: float
    methods: Collection[Method]
    limit: float
    runs: int = 10  # of the others; each has its own rows where there is no split


def board(n: int, limit: float) -> Case:
    """Return the case of the figure cuts_scaling with n rows."""
    methods = dict.fromkeys(FIGURE_1 + TABLE_1) if n == 100_000 else FIGURE_1
    return Case(f"checkers {n}", 1.0, 30.0, methods, limit)


# Rows, and CPU seconds after which a run ends.
LIMITS = {1000: 400, 3000: 400, 10_000: 400, 30_000: 400, 100_000: 400, 300_000: 7200}
SETS = {  # data of Table 1, and the names of their results in cuts_quality
    "covtype_10k @ range": "covtype_10k, scaled",
    "ijcnn1": "ijcnn1, standardised",
    "a9a @ given | 70 % rows": "a9a",
}
SET_LIMIT = 200
NAMES = [f"checkers {n}" for n in LIMITS]
NAMES[-1:] = [*SETS, NAMES[-1]]  # the slowest is last


def case(name: str) -> Case:
    """Return a checkerboard, or a data set with LIBSVM's setting in cuts_quality."""
    if name not in SETS:
        n = int(name.split()[1])
        return board(n, LIMITS[n])
    rows = pd.read_parquet(QUALITY, columns=["data", "solver", "n", "p_C", "p_gamma"])
    rows = rows[(rows["solver"] == "libsvm") & (rows["data"] == SETS[name])]
    last = rows.loc[rows["n"].idxmax()]  # runs on fewer rows chose C and gamma
    return Case(name, last["p_C"], last["p_gamma"], TABLE_1, SET_LIMIT)


def main() -> None:
    """Make the missing runs of the named cases, or of all if none is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(NAMES))
    given = parser.parse_args()
    if unknown := set(given.cases) - set(NAMES):
        parser.error(
            f"unknown case {', '.join(sorted(unknown))}; known cases: "
            f"{'; '.join(NAMES)}"
        )
    done = pd.read_csv(TABLE).to_dict("records")
    for name in given.cases or NAMES:
        try:
            for found in missing(case(name), done):
                done.append(found)
                pd.DataFrame(done, columns=COLUMNS).to_csv(TABLE, index=False)
                print(found, flush=True)
        except FileNotFoundError as absent:
            print(f"{name}: skipped, {absent}", flush=True)


def missing(of: Case, done: list[dict]) -> Iterator[dict]:
    """Make the runs of a case that are not done; each repetition has its own rows.

    A method that took more than LONG seconds is not repeated.
    """
    for repetition in range(SAMPLES):
        problem = None
        for method in of.methods:
            own = [
                row
                for row in done
                if (row["data"], row["method"], row["r"])
                == (of.spec, method.label, method.r)
            ]
            long = any(row["cut"] or row["cpu"] > LONG for row in own)
            runs = SAMPLES if method.solver.startswith("cuts") else of.runs
            if long or repetition < len(own) or repetition >= runs:
                continue
            problem = problem or with_test_rows(of.spec, TEST, repetition)
            facts = {"data": of.spec, "method": method.label, "r": method.r}
            facts |= {"n": problem.n, "C": of.C, "gamma": of.gamma}
            facts |= {"repetition": repetition, "load": load_average()}
            facts |= {"machine": machine()["cpu"], "commit": versions()["commit"]}
            fit = by_programs if method is PEER else partial(by_solver, method)
            yield facts | fit(problem, of, repetition)


def by_solver(method: Method, problem: Problem, of: Case, seed: int) -> dict:
    """Run one of our solvers; no limit ends LIBSVM and the subspace."""
    chosen = {"C": of.C, "gamma": of.gamma, "r": method.r, "landmarks": method.r}
    chosen |= {"eps": EPS, "seed": seed}
    chosen["cache_mb"] = CACHE_MB if method is LIBSVM else SCORES_MB
    known = resolve(method.solver, {})[1]
    chosen = {name: value for name, value in chosen.items() if name in known}
    trace, state = run(
        method.solver, problem, processor_seconds(of.limit), parameters=chosen
    )
    some = np.random.default_rng(0).permutation(problem.n)[:20_000]
    return {
        "cpu": trace.last["cpu"],
        "cut": int(trace.cut),
        "train_error": error(state.scores(problem.X[some]), problem.y[some]),
        "test_error": error(state.scores(problem.X_test), problem.y_test),
        "rounds": trace.last["round"],
    }


def by_programs(problem: Problem, of: Case, seed: int) -> dict:
    """Run svm_learn on a file of the rows and, if it ended, svm_classify.

    The CPU seconds are those of the whole process svm_learn, including the reading of
    the file.
    """
    programs = SVMLIGHT.make()
    with TemporaryDirectory() as name:
        folder = Path(name)
        some = np.random.default_rng(0).permutation(problem.n)[:20_000]
        parts = {
            "rows": (problem.X, problem.y),
            "train": (problem.X[some], problem.y[some]),
            "test": (problem.X_test, problem.y_test),
        }
        for part, (X, y) in parts.items():
            signs = np.where(y > 0, 1, -1)
            dump_svmlight_file(X, signs, str(folder / part), zero_based=False)
        options = f"-v 1 -t 2 -g {of.gamma:.17g} -c {of.C:.17g} -m {CACHE_MB}"
        learn = [programs / "svm_learn", *options.split(), "rows", "model"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run(
            learn,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            preexec_fn=partial(limit_cpu, of.limit),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        ended = {"cpu": spent, "cut": int(ran.returncode < 0)}
        if ran.returncode > 0:
            raise RuntimeError(f"svm_learn failed with exit code {ran.returncode}")
        if ended["cut"]:
            return ended
        for part in ("train", "test"):
            classify = [programs / "svm_classify", "-v", "0", part, "model", "scores"]
            subprocess.run(classify, cwd=folder, check=True)
            scores = np.loadtxt(folder / "scores")
            wrong = (scores > 0) != (parts[part][1] > 0)
            ended[f"{part}_error"] = float(wrong.mean())
        return ended


if __name__ == "__main__":
    with one_thread(True):
        main()
