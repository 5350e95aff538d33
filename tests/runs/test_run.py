"""run(): parameters, header, warm-up, and what an interrupt leaves."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import each, refuses, wait
from helpers.streams import Count, count

from workbench import SOLVERS, below, rounds, run, seconds
from workbench.core.interrupts import NOTICE
from workbench.core.trace import read_trace
from workbench.runs.notebooks import CHECKOUT
from workbench.runs.run import LIBRARIES, header, resolve


def halving(problem, *, limit=99):
    """Yield states whose value halves each round."""
    yield from count(values=[0.5**r for r in range(limit + 1)])


def test_a_run_is_a_trace_and_a_state_and_says_why_it_ended(blobs, tmp_path):
    judged = {"measure": lambda state: {"train_error": 0.5}}
    judged["when"] = lambda row: row["round"] % 2 == 0
    trace, state = run(halving, blobs(), below("value", 0.1), rounds(99), **judged)
    assert [row["round"] for row in trace.rows] == [0, 1, 2, 3, 4]
    assert trace.stopped_by == "value <= 0.1" and state.round == 4
    assert np.flatnonzero(np.isnan(trace.column("train_error"))).tolist() == [1, 3]
    trace, _ = run(halving, blobs(), rounds(99), parameters={"limit": 3})
    assert trace.stopped_by == "finished" and trace.last["round"] == 3
    path = tmp_path / "t.jsonl"
    trace, _ = run(
        halving,
        blobs(),
        below("value", 1e-3),
        below("valeu", 0.1),
        rounds(99),
        parameters={"limit": 3},
        path=path,
    )
    said = "finished before value <= 0.001, at value 0.125 and reports no valeu"
    assert trace.stopped_by == read_trace(path).stopped_by == said and not trace.cut


def test_the_header_says_all_that_a_repetition_needs(blobs, tmp_path):
    problem = blobs()
    path = tmp_path / "t.jsonl"
    trace, _ = run(
        "mrc_ccg",
        problem,
        below("gap", 0.5),
        rounds(3),
        seconds(60),
        parameters={"n_max": 7},
        path=path,
    )
    head = trace.header
    # The file was begun before the load at the end was known.
    assert read_trace(path).header | {"load_at_end": head["load_at_end"]} == head
    assert head["solver"] == "mrc_ccg"
    assert head["rules"] == ["gap <= 0.5", "3 rounds", "60 seconds"]
    # Complete: the defaults are part of the configuration.
    assert head["parameters"] == resolve("mrc_ccg", {"n_max": 7})[1]
    assert head["parameters"]["n_max"] == 7 and head["parameters"]["lambda0"] == 0.01
    shape = {"name": "blobs", "n": 60, "d": 4, "k": 3, "synthetic": True}
    assert head["problem"] == shape | {"checksum": problem.checksum}
    assert {"cpu", "cores", "memory_gb", "system"} <= set(head["machine"])
    assert {"python", "workbench", "commit", *LIBRARIES} <= set(head["versions"])
    if (CHECKOUT / ".git").exists():
        command = "git rev-parse --short=12 HEAD".split()
        commit = subprocess.check_output(command, cwd=CHECKOUT, text=True)
        assert head["versions"]["commit"].removesuffix("-dirty") == commit.strip()
    assert head["threads"] and all(count >= 1 for count in head["threads"].values())
    assert head["started"].endswith("+00:00") and "load" in head


def test_every_header_is_strict_json(blobs):
    """Infinities, which the trace spells out, are not among the defaults."""
    for solver in SOLVERS:
        plain = header(solver, blobs(), resolve(solver, {})[1])
        assert json.loads(json.dumps(plain)) == plain
        assert "state" not in plain["parameters"]


def test_the_warm_up_is_short_tiny_and_off_the_clock(blobs, clock):
    seen = []

    def slow_first(problem):
        for r in range(10**9):
            seen.append((problem.name, problem.n, problem.d))
            time.sleep(0.1 if len(seen) == 1 else 0)
            yield Count(r)

    trace, _ = run(slow_first, blobs(60, 20), rounds(0))
    *warmed, last = seen
    assert set(warmed) == {("blobs (tiny)", 6, 9)} and last == ("blobs", 60, 20)
    assert len(warmed) <= 3 and trace.last["seconds"] == 0
    seen.clear()
    run(slow_first, blobs(60, 20), rounds(0), warm_up=False)
    assert [name for name, _, _ in seen] == ["blobs"]


def interrupting(problem):
    """Press Ctrl-C inside the solver's third round, but not in the warm-up."""
    for s in halving(problem):
        if s.round == 3 and not problem.name.endswith("(tiny)"):
            signal.raise_signal(signal.SIGINT)
        yield s


def test_an_interrupt_ends_the_run_after_its_round(blobs, tmp_path, capsys):
    trace, state = run(interrupting, blobs(name="naïve"), path=tmp_path / "t.jsonl")
    assert [row["round"] for row in trace.rows] == [0, 1, 2, 3]
    assert trace.stopped_by == "interrupted" and state.round == 3
    assert capsys.readouterr().err == f"{NOTICE}\n"
    on_disk = read_trace(tmp_path / "t.jsonl")
    assert on_disk.rows == trace.rows and on_disk.header["problem"]["name"] == "naïve"

    def judge(state):
        if state.round == 2:
            raise KeyboardInterrupt
        return {}

    trace, state = run(halving, blobs(), measure=judge)
    assert len(trace.rows) == 2 and trace.stopped_by == "interrupted" and state is None


def test_an_interrupt_of_compiled_code_is_one(blobs):
    def compiled(problem):
        for state in halving(problem):
            yield state
            if not problem.name.endswith("(tiny)"):
                raise SystemError("returned a result with an exception set") from cause

    cause = KeyboardInterrupt()
    trace, _ = run(compiled, blobs())
    assert len(trace.rows) == 1 and trace.stopped_by == "interrupted"
    cause = ValueError("no basis")
    with refuses("returned a result", SystemError):
        run(compiled, blobs())


def test_an_error_of_the_solver_is_not_swallowed(blobs, tmp_path):
    def broken(problem):
        yield Count()
        raise RuntimeError("no basis")

    with refuses("no basis", RuntimeError):
        run(broken, blobs(), path=tmp_path / "t.jsonl", warm_up=False)
    with refuses("C: "):  # before the first row, so an older file stays
        run(
            lambda p: SOLVERS["ww_walrus"].steps(p, C=-1),
            blobs(),
            path=tmp_path / "t.jsonl",
            warm_up=False,
        )
    assert [row["round"] for row in read_trace(tmp_path / "t.jsonl").rows] == [0]


@pytest.mark.skipif(
    os.name == "nt", reason="SIGINT cannot be sent to one process on Windows"
)
@each("sent", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_run_that_is_interrupted_or_killed_keeps_its_rows(sent, tmp_path):
    path = tmp_path / "t.jsonl"
    command = "run mrc_subgradient wine --scale standard --gap 0 -p steps=1 --out"
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli", *command.split(), path],
        stdout=subprocess.DEVNULL,
    )
    wait(lambda: path.exists() and path.read_bytes().count(b"\n") > 4, 60, process)
    process.send_signal(getattr(signal, sent))
    code = process.wait(60)
    trace = read_trace(path)
    expected = (-9, None) if sent == "SIGKILL" else (130, "interrupted")
    assert (code, trace.stopped_by) == expected
    assert len(trace.rows) >= 4


def test_a_parameter_as_a_keyword_is_refused_with_its_place(blobs):
    with refuses(r"^eps1: .* as parameters=\{'eps1': 0.01\}$"):
        run("mrc_ccg", blobs(), eps1=0.01)
