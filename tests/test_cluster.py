"""Rows that the workers of a Dask cluster read: the same iterates, and what faults do to them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import islice

import numpy as np
import pytest

from workbench.cli import main
from workbench.core import rows_in_file
from workbench.core.cluster import Cluster, on_cluster
from workbench.core.problem import as_problem
from workbench.core.trace import load_state, read_trace, save_state
from workbench.data import load
from workbench.registry import SOLVERS

distributed = pytest.importorskip("distributed", reason="needs the extra `cluster`")

N, D = 20_000, 6
STAGES = {"n_features": 24, "block": 8, "passes": 4}
SETTINGS = {
    "ls_generalized": {},
    "ls_accelerated": {},
    "ls_stagewise": STAGES,
    "mrc_ccg": {},
    "mrc_subgradient": {"steps": 3},
    "mrc_splitting": {"steps": 10},
    "mrc_pdhg": {"steps": 5},
    "cuts_nystroem": {"landmarks": 20},
}
UNCHANGED = ("cuts_nystroem", {"stabilised": False})  # Algorithm 1


@pytest.fixture(scope="module")
def memory():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=N)
    X = rng.standard_normal((3, D))[y] + rng.standard_normal((N, D))
    return as_problem(X.astype(np.float32), y)


@pytest.fixture(scope="module")
def file(memory, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    np.save(path, memory.X)
    np.save(path.with_suffix(".labels.npy"), memory.y)
    return load(path)


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            protocol="tcp://",
            dashboard_address=":0",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def processes(tmp_path):
    """Return a scheduler and two workers, each a process of its own, and a client of them."""
    contact, started = tmp_path / "scheduler.json", []

    def start(role, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{role}", "--no-dashboard"]
        command += ["--scheduler-file", contact, "--host", "127.0.0.1", *options]
        with open(tmp_path / f"{role}.log", "a") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path))

    try:
        start("scheduler", "--port", "0")
        for _ in range(2):
            start("worker", "--no-nanny", "--nthreads", "1")
        while not (contact.exists() and contact.stat().st_size):
            assert started[0].poll() is None
            time.sleep(0.05)
        address = json.loads(contact.read_text())["address"]
        with distributed.Client(address, timeout="5s", set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            yield started[0], client
    finally:
        for process in started:
            process.kill()
            process.wait()


def infos(name, problem, rounds=5, **more):
    return [
        s.info() for s in islice(SOLVERS[name].steps(problem, **SETTINGS[name], **more), rounds)
    ]


def same(found, whole, rtol=1e-10):
    assert len(found) == len(whole) > 1
    for one, other in zip(found, whole):
        assert list(one) == list(other)
        scale = other.get("upper", other.get("primal"))
        np.testing.assert_allclose([*one.values()], [*other.values()], rtol, rtol * scale)


@pytest.fixture
def here(monkeypatch):
    """Return how many rows have been read by this thread, True, and by those of the workers."""
    here, read = {True: 0, False: 0}, rows_in_file._File.read

    def counted(self, first, out):
        here[threading.current_thread() is threading.main_thread()] += len(out)
        read(self, first, out)

    monkeypatch.setattr(rows_in_file._File, "read", counted)
    return here


@pytest.mark.parametrize("name, more", [*((name, {}) for name in SETTINGS), UNCHANGED])
def test_two_workers_have_the_iterates_of_one_process(
    name, more, client, memory, file, here, monkeypatch
):
    monkeypatch.setattr(rows_in_file, "BLOCK", N // 9 * D * 4)
    # Features in memory are computed once, which `kernel_values` shows.
    whole = infos(name, file if name == "cuts_nystroem" else memory, **more)
    here[True] = 0
    same(infos(name, on_cluster(file, client), **more), whole)
    if name != "mrc_pdhg":
        assert here[False] >= 4 * N
    if name.startswith(("ls", "cuts")):
        assert here[True] < N  # to choose a bandwidth, or as landmarks


def test_a_state_is_resumed_on_a_cluster_and_without_one(client, memory, file, tmp_path):
    there = on_cluster(file, client)
    assert there.checksum == file.checksum
    *_, state = islice(SOLVERS["ls_stagewise"].steps(there, **STAGES), 4)
    assert state.F.shape == (0, 3)
    save_state(tmp_path / "state.npz", state)
    whole = infos("ls_stagewise", memory, 7)[3:]
    for problem in (there, file, memory):
        again = load_state(tmp_path / "state.npz", type(state))
        same(infos("ls_stagewise", problem, 4, state=again), whole, rtol=1e-6)


def test_what_is_not_in_a_file_or_has_changed_is_refused(client, memory, file, tmp_path):
    with pytest.raises(ValueError, match="rows must stay in a file"):
        on_cluster(memory, client)
    path = tmp_path / "rows.npy"
    np.save(path, memory.X)
    moved = on_cluster(load(path, labels=memory.y), client)
    os.replace(path, tmp_path / "moved.npy")
    with pytest.raises(ValueError, match=r"cluster: a worker finds no file .*rows\.npy"):
        next(SOLVERS["ls_accelerated"].steps(moved))
    np.save(path, memory.X)
    stream = SOLVERS["ls_accelerated"].steps(on_cluster(load(path, labels=memory.y), client))
    next(stream)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(ValueError, match=r"rows.npy: was cut or has changed"):
        next(stream)


def test_the_command_line_gives_rows_to_a_cluster(client, file, here, tmp_path, capsys):
    run = ["run", "ls_accelerated", file.X.path, "--rounds", "5", "--gap", "0", "--out"]
    there = ["--rows", "--cluster", client.scheduler.address]
    for name, more in (("here", ["--rows"]), ("there", there)):
        assert main([*run, str(tmp_path / name), *more]) == 0
        assert "train_error" in capsys.readouterr().out
    one, other = (read_trace(tmp_path / name).column("primal") for name in ("here", "there"))
    np.testing.assert_allclose(other, one, rtol=1e-10)
    assert len(one) == 6 and here[False] >= 5 * N

    with distributed.LocalCluster(
        n_workers=0, processes=False, protocol="tcp://", dashboard_address=":0"
    ) as empty:
        nobody = empty.scheduler_address
        for more, message in {
            tuple(there[1:]): "--cluster: must be used with --rows",
            ("--rows", "--cluster", "tcp://127.0.0.1:1"): "cluster: no scheduler answers at 'tcp:",
            ("--rows", "--cluster", nobody): "cluster: the scheduler at 'tcp://127",
        }.items():
            assert main([*run, str(tmp_path / "none"), *more]) == 2
            told = capsys.readouterr().err
            assert message in told and told.count("\n") == 1


def test_a_lost_worker_costs_a_moment_and_a_lost_scheduler_the_cluster(
    memory, file, processes, monkeypatch
):
    scheduler, client = processes
    whole, there = infos("ls_stagewise", memory, 9), on_cluster(file, client)
    steps = SOLVERS["ls_stagewise"].steps(there, **STAGES)
    found = [next(steps).info() for _ in range(4)]
    each, asked = Cluster._each, []

    def killing(self, *given):
        answers = each(self, *given)
        asked.append(given[0])
        if len(asked) == 2:  # in mid-round
            for holder in client.who_has(there.X.cluster.shares[:1]).popitem()[1]:
                os.kill(client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)
        return answers

    monkeypatch.setattr(Cluster, "_each", killing)
    found.append(next(steps).info())
    assert len(asked) > 3
    monkeypatch.setattr(Cluster, "_each", each)
    for state in islice(steps, 2):
        found.append(state.info())
    same(found, whole[:7])
    assert len(client.nthreads()) == 1

    scheduler.kill()
    for _ in range(2):
        with pytest.raises(ConnectionError, match="scheduler does not answer") as lost:
            next(SOLVERS["ls_accelerated"].steps(there))
        assert "\n" not in str(lost.value)
    with pytest.raises(ConnectionError):
        next(steps)
    same(infos("ls_stagewise", memory, 3, state=state), whole[6:], rtol=1e-6)
