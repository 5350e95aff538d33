"""The engine: every task ends exactly once, whatever it does to its worker."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from helpers import wait

from workbench.runs.engine import execute
from workbench.runs.worker import DIED, TOO_LONG, Limits, Task, one_thread, timed_alone


def job(key, does="well", lock=None):
    """Return a task that logs its process and then does as it is told."""
    return Task(key, f"job {key}", f"{key}.done", partial(work, does, lock), check)


def check(path):
    if not path.read_text():
        raise ValueError(f"{path.name}: is empty")


def work(does, lock, path, limits):
    folder, key = path.parent, path.stem
    with open(folder / f"{key}.log", "a") as log:
        log.write(f"{os.getpid()}\n")
    first = begun(folder, key) == 1
    if does == "fails":
        raise ValueError("two\nlines")
    elif does == "leaves":
        sys.exit(3)
    elif does == "dies" or (does == "dies once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    elif does == "hangs":
        ctypes.PyDLL(None).sleep(100)  # holds Python's lock, as compiled code may
    elif does == "is greedy":
        np.ones(2**29)
    elif does == "cannot read":
        Path("/no/such/file").read_text()
    elif does == "writes elsewhere":
        return "elsewhere"
    elif does == "tells its core":
        core = psutil.Process().cpu_affinity() if psutil.LINUX else ["any"]
        (folder / "cores").open("a").write(f"{os.getpid()} {core}\n")
    path.write_text(os.environ.get("OMP_NUM_THREADS", ""))
    return "well done"


def begun(folder, key):
    """Return how often a task began."""
    path = folder / f"{key}.log"
    return len(path.read_text().splitlines()) if path.exists() else 0


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pids, seconds):
    """Wait for processes to go; return whether they did."""
    end = time.monotonic() + seconds
    while (there := any(map(alive, pids))) and time.monotonic() < end:
        time.sleep(0.1)
    return not there


ENDS = {
    "fails": "ValueError: two lines",
    "leaves": "SystemExit: 3",
    "dies": DIED,
    "hangs": TOO_LONG,
    "is greedy": "out of memory: it needs more than 1 GB",
    "cannot read": "FileNotFoundError",
    "writes elsewhere": "it has written no file in ",
    "cannot be sent": "TypeError: cannot pickle",
}


@pytest.mark.slow
def test_a_failing_task_has_its_reason_and_does_not_stop_the_others(tmp_path):
    good = [job(f"good{i}") for i in range(6)]
    lock = {"cannot be sent": threading.Lock()}
    bad = {
        job(does.replace(" ", "_"), does, lock.get(does)): end
        for does, end in ENDS.items()
    }
    tasks = [*good[:4], *bad, job("once", "dies once"), *good[4:]]
    said = []
    limits = Limits(seconds=1, memory=1)  # tasks with one key are run once
    failures = execute(
        [*tasks, good[0]], tmp_path, jobs=3, limits=limits, say=said.append
    )
    if not psutil.LINUX:
        failures.setdefault("is_greedy", ENDS["is greedy"])
    assert set(failures) == {task.key for task in bad}
    for task, end in bad.items():
        assert end in failures[task.key], failures[task.key]
    for task in [*good, job("once")]:
        assert task.path(tmp_path).read_text() == "1"  # one thread
    counts = {task.key: begun(tmp_path, task.key) for task in tasks}
    assert {key for key, n in counts.items() if n > 1} == {
        "dies",
        "once",
    }  # and no other
    assert counts["dies"] == counts["once"] == 2 and counts["cannot_be_sent"] == 0
    assert not [*tmp_path.glob("*.part")]
    assert sum("FAILED" in line for line in said) == len(
        bad
    )  # each is told, in a line of its own
    assert said[-1].startswith(f"[{len(tasks)}/{len(tasks)}]")

    # What failed is tried again, what is done is not.
    again = execute(good, tmp_path, say=said.append)
    assert again == {} and said[-1] == "6 points, 6 done before, 0 to run"
    assert execute([job("fails")], tmp_path, say=said.append) == {}
    assert begun(tmp_path, "fails") == 2 and begun(tmp_path, "good0") == 1


def test_timing_has_one_worker_on_one_core(tmp_path):
    tasks = [job(f"job{i}", "tells its core") for i in range(4)]
    assert execute(tasks, tmp_path, jobs=3, timing=True) == {}
    lines = (tmp_path / "cores").read_text().splitlines()
    assert len(lines) == 4 and len(set(lines)) == 1 and "," not in lines[0]


@pytest.mark.skipif(
    not hasattr(psutil.Process(), "cpu_affinity"), reason="cannot be pinned"
)
def test_a_notebook_that_times_is_alone_on_one_core_for_as_long_as_it_does(monkeypatch):
    cores = psutil.Process().cpu_affinity()
    with one_thread(timed_alone(True)):
        assert len(psutil.Process().cpu_affinity()) == 1
    assert psutil.Process().cpu_affinity() == cores
    monkeypatch.setenv("WORKBENCH_JOBS", "2")
    assert not timed_alone(True)
    with one_thread(timed_alone(True)):
        assert psutil.Process().cpu_affinity() == cores


SCRIPT = """
from pathlib import Path
from test_engine import job
from workbench.runs.engine import execute
execute([job("one"), job("two", "hangs")], Path({folder!r}), jobs=2)
"""


def family(name, value):
    """Return the living processes that have an environment variable of this value."""
    seen = [
        p
        for p in psutil.process_iter(["environ"])
        if (p.info["environ"] or {}).get(name) == value
    ]
    return [process for process in seen if alive(process.pid)]


def ended_from_outside(process, number, name, value):
    """Send a signal to a command; return whether all that it has started is gone.

    A busy machine may take minutes to end a process, and takes seconds as a rule.
    """
    wait(lambda: len(family(name, value)) > 1, 300, process)  # the command and a worker
    process.send_signal(number)
    try:
        wait(lambda: process.poll() is not None and not family(name, value), 300)
    finally:
        for each in family(name, value):
            each.kill()
    return True


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("number", ["SIGKILL", "SIGHUP"])
def test_a_worker_in_compiled_code_ends_with_its_command(number, tmp_path):
    """A script of two tasks, without a guard of main, of which the second hangs."""
    (script := tmp_path / "script.py").write_text(SCRIPT.format(folder=str(tmp_path)))
    own = {"PYTHONPATH": str(Path(__file__).parent), "TASKS_OF": str(tmp_path)}
    command = [sys.executable, script]
    process = subprocess.Popen(command, env=os.environ | own, start_new_session=True)
    wait(lambda: begun(tmp_path, "two"), 300, process)
    assert ended_from_outside(
        process, getattr(signal, number), "TASKS_OF", str(tmp_path)
    )
