"""Tasks that misbehave in a worker, and processes that a test waits for."""

import ctypes
import os
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import psutil

from helpers import wait
from workbench.runs.worker import Task


def job(key, does="well", lock=None):
    """Return a task that logs its process and then does as it is told."""
    return Task(key, f"job {key}", f"{key}.done", partial(work, does, lock), check)


def check(path):
    if not path.read_text():
        raise ValueError(f"{path.name}: is empty")


def work(does, lock, path, limits):
    folder = path.parent
    key = path.stem
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


def started(*arguments, **variables):
    """Start Python with these arguments and variables, as a session of its own."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | variables,
        start_new_session=True,
    )


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
