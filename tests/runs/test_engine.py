"""The engine: every task ends exactly once, whatever it does to its worker."""

import os
import signal
import threading
from pathlib import Path

import psutil
import pytest
from helpers import each, slow, wait
from helpers.processes import begun, ended_from_outside, job, started

from workbench.runs.engine import execute
from workbench.runs.worker import DIED, TOO_LONG, Limits, one_thread, timed_alone

ENDS = {
    "fails": "ValueError: two lines",
    "leaves": "SystemExit: 3",
    "dies": DIED,
    "hangs": TOO_LONG,
    "is greedy": "out of memory: it needs more than 1 GB",
    "writes elsewhere": "it has written no file in ",
    "cannot be sent": "TypeError: cannot pickle",
}


@slow
def test_a_failing_task_has_its_reason_and_stops_no_other(tmp_path):
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
    # and no other
    assert {key for key, n in counts.items() if n > 1} == {"dies", "once"}
    assert counts["dies"] == counts["once"] == 2 and counts["cannot_be_sent"] == 0
    assert not [*tmp_path.glob("*.part")]
    # each is told, in a line of its own
    assert sum("FAILED" in line for line in said) == len(bad)
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
def test_a_notebook_that_times_is_alone_on_one_core(monkeypatch):
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
from helpers.processes import job
from workbench.runs.engine import execute
execute([job("one"), job("two", "hangs")], Path({folder!r}), jobs=2)
"""


@slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@each("number", ["SIGKILL", "SIGHUP"])
def test_a_worker_in_compiled_code_ends_with_its_command(number, tmp_path):
    """A script of two tasks, without a guard of main, of which the second hangs."""
    (script := tmp_path / "script.py").write_text(SCRIPT.format(folder=str(tmp_path)))
    process = started(
        script, PYTHONPATH=str(Path(__file__).parents[1]), TASKS_OF=str(tmp_path)
    )
    wait(lambda: begun(tmp_path, "two"), 300, process)
    assert ended_from_outside(
        process, getattr(signal, number), "TASKS_OF", str(tmp_path)
    )
