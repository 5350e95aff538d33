"""Run one method on a mapped file in a process of limited memory: a child of
scale_rows.ipynb.

``python rows_child.py METHOD ROWS.npy GB ROUNDS TRACE.jsonl`` writes the trace, whose
header has the peak of memory in MB, without pages of the file. It ends with the code 3
if the memory does not suffice. The method "dask" is ls_accelerated with the rows on two
workers, which are two threads.
"""

import resource
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve
from sklearn.linear_model import SGDClassifier

from benchmarks.measuring import PeakMemory
from workbench.core.blocks import blocks
from workbench.core.stream import rounds
from workbench.core.trace import write_trace
from workbench.data import load
from workbench.least_squares.cluster import on_cluster
from workbench.registry import SOLVERS
from workbench.runs.run import run

OUT_OF_MEMORY = 3


@dataclass
class Fitted:
    """A classifier of scikit-learn after some passes over the rows."""

    round: int
    model: SGDClassifier

    def scores(self, X) -> np.ndarray:
        return self.model.decision_function(X)

    def info(self) -> dict[str, float]:
        return {}


def partial_fit(problem, *, alpha: float = 1e-4, seed: int = 0, state=None):
    """Pass the blocks of the rows to SGDClassifier.partial_fit; a round reads all of
    them."""
    s = state or Fitted(0, SGDClassifier(alpha=alpha, random_state=seed))
    yield s
    while True:
        first = 0
        for X in blocks(problem.X):
            y = problem.y[first : first + len(X)]
            s.model.partial_fit(X, y, classes=np.arange(problem.k))
            first += len(X)
        s.round += 1
        yield s


@contextmanager
def on_two_workers(problem):
    """Yield the problem with its rows mapped by two workers of a Dask cluster in this
    process."""
    from distributed import Client, LocalCluster

    threads = {"n_workers": 2, "threads_per_worker": 1, "processes": False}
    with (
        LocalCluster(**threads, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield on_cluster(problem, client)


def main(method: str, path: str, gigabytes: str, count: str, out: str) -> int:
    """Run the method; return the code that the process ends with."""
    limit, A = int(float(gigabytes) * 1e9), np.eye(100)
    # OpenBLAS takes its buffers; later it would wait for them
    solve(A, A @ A, assume_a="pos")
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    memory = PeakMemory()
    try:
        problem = load(path)
        if method == "ridge":
            problem = replace(problem, X=np.load(path))
        n, d, k = problem.n, problem.d, problem.k
        problem = replace(problem, name=f"synthetic rows {n}x{d}x{k}", synthetic=True)
        solver = {"partial_fit": partial_fit, "dask": "ls_accelerated"}.get(
            method, method
        )
        warm_up = method in SOLVERS and method != "ridge"
        with (
            on_two_workers(problem)
            if method == "dask"
            else nullcontext(problem) as problem
        ):
            trace, _ = run(solver, problem, rounds(int(count)), warm_up=warm_up)
    except MemoryError:
        return OUT_OF_MEMORY
    trace.header["peak"] = memory.stop()
    write_trace(out, trace)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
