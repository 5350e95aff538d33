"""Fixtures of several test files: small problems, clocks, interrupts, notebooks,
browsers."""

import io
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import redirect_stdout
from functools import wraps

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import numba
import numpy as np
import psutil
import pytest
from scipy.sparse import csr_matrix

from workbench import SOLVERS, as_problem, load
from workbench.runs import engine, results

pytest.register_assert_rewrite("helpers")


def pytest_configure(config):
    """Hear interrupts, which background jobs ignore, and let kernels run without
    compilation."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup and signal.getsignal(hangup) is signal.SIG_IGN:
        # As under nohup, a hangup ends no test. But a process that a test starts would
        # inherit SIG_IGN; a handler it does not.
        signal.signal(hangup, lambda *_: None)
    if numba.config.DISABLE_JIT:
        # as compiled
        config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")
        _write_registers_out()


def _write_registers_out():
    """Write vector registers out in NumPy where NUMBA_DISABLE_JIT=1 lets compiled code
    run as is.

    They are no Python: without compilation they cannot be called.
    """
    from workbench.kernels import gaussian, rows

    def add_rows(out, at, W, w, x, width):
        target = out if out.ndim == 1 else out[at]
        target += x @ np.atleast_2d(W)[np.array(w)]

    rows.add_rows = add_rows
    gaussian.power = lambda t: gaussian._power(numba.typeof(t))(t)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def iris():
    return load("iris", test=0.3)


@pytest.fixture(scope="session")
def blobs():
    """Return a maker of problems with one overlapping cloud of rows for each class.

    All values are multiples of 1/8: float32 holds them exactly.
    """

    def make(n=60, d=4, k=3, *, seed=0, dtype=np.float64, sparse=False, name="blobs"):
        rng = np.random.default_rng(seed)
        y = np.arange(n) % k
        X = rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(k, d))[y]
        X = (np.round(8 * X) / 8).astype(dtype)
        if sparse:
            X[abs(X) < 0.5] = 0
            X = csr_matrix(X)
        return as_problem(X, y, name=name, synthetic=True)

    return make


@pytest.fixture
def clock(monkeypatch):
    """Let time pass in ``time.sleep()`` alone, for the clock of streams: a busy machine
    adds none.

    Only wall seconds are so; processor seconds are what they are.
    """
    now = [0.0]
    for module in ("core.stream", "peers.linear"):
        monkeypatch.setattr(f"workbench.{module}.perf_counter", lambda: now[0])
    sleep = time.sleep
    here = threading.get_ident()

    def pass_time(seconds):
        if threading.get_ident() == here:
            now[0] += seconds
        else:  # a thread that an earlier test has left
            sleep(seconds)

    monkeypatch.setattr(time, "sleep", pass_time)


@pytest.fixture
def interrupt(monkeypatch):
    """Return a function that sends Ctrl-C when a solver has done a round, not as it
    compiles."""
    originals = {}

    def patch(solver, at):
        entry = originals.setdefault(solver, SOLVERS[solver])

        @wraps(entry.steps)
        def interrupted(problem, **parameters):
            for s in entry.steps(problem, **parameters):
                if s.round == at and not problem.name.endswith("(tiny)"):
                    signal.raise_signal(signal.SIGINT)
                yield s

        monkeypatch.setitem(SOLVERS, solver, entry._replace(function=interrupted))

    return patch


@pytest.fixture
def no_workers(monkeypatch):
    """Let the engine run its tasks in this process, where workers would take seconds to
    start."""

    def submit(task, run, limits):
        future = Future()
        future.set_result(run(task))
        return future

    monkeypatch.setattr(engine, "_in_processes", lambda *_: submit)


@pytest.fixture(scope="session")
def execute():
    """Return a runner of notebooks in this process: a kernel's start takes longer than
    most run.

    It returns each code cell with what it printed and the number of its figures, and
    calls ``after(cell, namespace)`` behind each.
    """

    def run(path, values=(), after=lambda cell, namespace: None):
        namespace = {"__name__": "__main__", "display": print}
        ran = []
        notebook = path if isinstance(path, dict) else nbformat.read(path, 4)
        with matplotlib.rc_context():
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    with redirect_stdout(io.StringIO()) as printed:
                        exec(compile(cell.source, f"cell {cell.id}", "exec"), namespace)
                    ran.append((cell, printed.getvalue(), len(plt.get_fignums())))
                    plt.close("all")
                    after(cell, namespace)
                if "parameters" in {cell.id, *cell.metadata.get("tags", [])}:
                    namespace |= values
        return ran

    return run


@pytest.fixture
def redraw(monkeypatch):
    """Return a function that lets all runs come from a file of results."""

    def read(path):
        results._recalled.cache_clear()
        monkeypatch.setenv("WORKBENCH_RESULTS", str(path))

    return read


@pytest.fixture
def no_kernels(execute, no_workers, monkeypatch):
    """Let notebooks be made in this process: a kernel takes seconds to start."""

    def at_once(notebook, part, values, **options):
        execute(notebook, values)
        notebook.metadata["papermill"] = {"duration": 0.0}
        nbformat.write(notebook, part)

    monkeypatch.setattr("papermill.execute_notebook", at_once)


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """Start a Dask scheduler on a free port; return its address and a starter of
    processes."""
    pytest.importorskip("distributed", reason="needs the extra `cluster`")
    folder = tmp_path_factory.mktemp("dask")
    processes = []
    contact = folder / "scheduler.json"

    def start(role, *options):
        place = f"--no-dashboard --host 127.0.0.1 --scheduler-file {contact}".split()
        program = [sys.executable, "-m", f"distributed.cli.dask_{role}"]
        command = [*program, *place, *options]
        with open(folder / f"{role}.log", "a") as log:
            processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
            )
        return processes[-1]

    start.scheduler = start("scheduler", "--port", "0")
    while not (contact.exists() and contact.stat().st_size):
        assert start.scheduler.poll() is None
        time.sleep(0.05)
    yield json.loads(contact.read_text())["address"], start
    for process in processes:
        family = []
        if process.poll() is None:
            family = psutil.Process(process.pid).children(recursive=True)
        process.kill()  # a nanny first, or it starts its worker again
        for child in family:
            child.kill()
        process.wait()


OPTIONS = """
headless=new no-sandbox disable-gpu disable-quic no-first-run disable-sync
disable-background-networking disable-component-update disable-dev-shm-usage
window-size=1280,800
"""


@pytest.fixture(scope="session")
def browser():
    """Return a Chromium without a window, driven by selenium; nothing is downloaded for
    it."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in OPTIONS.split():
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()
