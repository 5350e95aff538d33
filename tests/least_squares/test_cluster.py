"""Least squares with its rows on a Dask cluster: the same iterates, and the effect of
faults."""

import os
import signal
from copy import deepcopy
from itertools import islice

import numpy as np
import pytest
from helpers import each, module_fixture, refuses
from numpy.testing import assert_allclose

from workbench import SOLVERS, as_problem, load
from workbench.least_squares.cluster import CLUSTERS, Cluster, on_cluster

distributed = pytest.importorskip("distributed", reason="needs the extra `cluster`")

N = 20_000
D = 6


@module_fixture
def memory():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=N)
    X = rng.standard_normal((3, D))[y] + rng.standard_normal((N, D))
    return as_problem(X.astype("f4"), y)


@module_fixture
def file(memory, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    np.save(path, memory.X)
    np.save(path.with_suffix(".labels.npy"), memory.y)
    return load(path)


@module_fixture
def processes(dask):
    """Return the scheduler of two workers, each a process of its own, and a client of
    them."""
    address, start = dask
    for _ in range(2):
        start("worker", "--no-nanny", "--nthreads", "1")
    with distributed.Client(address, timeout="5s", set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield start.scheduler, client


def infos(name, problem, rounds=5, **more):
    return [s.info() for s in islice(SOLVERS[name].steps(problem, **more), rounds)]


def same(found, whole, rtol=1e-10):
    assert len(found) == len(whole) > 1
    for one, other in zip(found, whole):
        assert list(one) == list(other)
        scale = other.get("upper", other.get("primal"))
        assert_allclose([*one.values()], [*other.values()], rtol, rtol * scale)


@each("name", ["ls_generalized", "ls_accelerated"])
def test_two_workers_have_the_iterates_of_one_process(name, processes, memory, file):
    there = on_cluster(file, processes[1])
    parts = CLUSTERS[there].ask(
        lambda part: [(len(part.X), isinstance(part.X.base, np.memmap))]
    )
    assert sum(n for n, _ in parts) == N and len(parts) == 2
    assert all(mapped for _, mapped in parts)
    same(infos(name, there), infos(name, memory))


def test_rows_in_memory_and_a_file_that_has_moved_are_refused(
    processes, memory, file, tmp_path
):
    client = processes[1]
    for problem in (memory, file.subset(0.5), file.split(0.5)):
        with refuses("problem: must have the rows of a memory-mapped"):
            on_cluster(problem, client)
    np.save(tmp_path / "rows.npy", memory.X)
    moved = load(tmp_path / "rows.npy", labels=memory.y)
    os.replace(tmp_path / "rows.npy", tmp_path / "moved.npy")  # before a worker maps it
    with refuses(r"cluster: a worker cannot find the file .*rows\.npy"):
        next(SOLVERS["ls_accelerated"].steps(on_cluster(moved, client)))


def test_a_lost_worker_costs_a_moment(memory, file, processes, monkeypatch):
    scheduler, client = processes
    whole = infos("ls_accelerated", memory, 9)
    there = on_cluster(file, client)
    steps = SOLVERS["ls_accelerated"].steps(there)
    found = [next(steps).info() for _ in range(4)]
    ask = Cluster.ask
    asked = []

    def killing(self, function):
        # a busy cluster may copy parts
        holder, *_ = client.who_has(self.parts[:1]).popitem()[1]
        os.kill(client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)
        asked.append(function)
        return ask(self, function)

    monkeypatch.setattr(Cluster, "ask", killing)
    found.append(next(steps).info())
    assert len(asked) == 1
    monkeypatch.setattr(Cluster, "ask", ask)
    for state in islice(steps, 2):
        found.append(state.info())
    same(found, whole[:7])
    assert len(client.nthreads()) == 1

    state = deepcopy(state)
    scheduler.kill()
    for _ in range(2):
        with refuses("scheduler no longer answers", ConnectionError) as lost:
            next(SOLVERS["ls_accelerated"].steps(there))
        assert "\n" not in str(lost.value)
    with pytest.raises(ConnectionError):
        next(steps)
    same(infos("ls_accelerated", memory, 3, state=state), whole[6:], rtol=1e-6)
