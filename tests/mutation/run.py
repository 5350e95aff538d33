"""Mutation testing of one kernel a paper, with compilation switched off.

    python tests/mutation/run.py [KERNEL ...] [-j 2]

Each mutant is tried in a process of its own, forked when the tests are collected, in
which the changed code takes the place of a function's: names that were imported
elsewhere change with it. A mutant is killed by a test that fails, or by taking ten
times the processor time of them all. What survives must stand in survivors.toml, with
the reason.
"""

import os

os.environ |= {
    "NUMBA_DISABLE_JIT": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

import argparse
import math
import resource
import sys
import tomllib
from pathlib import Path

import pytest
from kernels import KERNELS
from mutants import mutants

HERE = Path(__file__).parent
LIMIT = 10  # times the processor time of the tests without a mutant, and at least
LEAST = 2  # seconds


class Trial:
    """The pytest plugin that runs the collected tests once for every mutant of a
    kernel."""

    def __init__(self, kernel, jobs):
        self.mutants = [
            m for function in KERNELS[kernel].functions() for m in mutants(function)
        ]
        self.jobs = jobs
        self.survivors = []

    def pytest_runtestloop(self, session):
        if session.testsfailed or not session.items:
            raise session.Interrupted("no tests")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        _, status = os.waitpid(self.fork(session, None, 3600), 0)
        if status:
            raise session.Interrupted("tests fail without a mutant")
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        limit = max(LEAST, math.ceil(LIMIT * used))
        print(
            f"{len(session.items)} tests take {used:.1f} s; {len(self.mutants)} mutants"
        )
        running = {}
        for mutant in [*self.mutants, None]:
            while len(running) >= (self.jobs if mutant else 1):
                process, status = os.wait()
                done = running.pop(process)
                if not status:
                    self.survivors.append(done)
                    print(
                        f"  survives: {done.function.__name__}: {done.change}",
                        flush=True,
                    )
            if mutant:
                running[self.fork(session, mutant, limit)] = mutant
        return True

    def fork(self, session, mutant, seconds):
        """Start a process that ends with 0 when all tests pass; return its number."""
        if process := os.fork():
            return process
        try:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            if mutant:
                os.dup2(silent, 2)
                mutant.function.__code__ = mutant.code
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for item in session.items:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if session.testsfailed:
                    break
        finally:
            os._exit(session.testsfailed > 0)


def main():
    """Try the kernels asked for and say which mutants survive; fail where one is not
    listed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "kernels", nargs="*", choices=[*KERNELS, []], help="all by default"
    )
    parser.add_argument(
        "-j", dest="jobs", type=int, default=os.cpu_count(), help="processes"
    )
    args = parser.parse_args()
    reasons = tomllib.loads((HERE / "survivors.toml").read_text())
    unknown = 0
    for kernel in args.kernels or KERNELS:
        trial = Trial(kernel, args.jobs)
        tests = [str(HERE.parent / test) for test in KERNELS[kernel].tests]
        options = "-q -p no:xdist -p no:cacheprovider -p no:terminalreporter".split()
        if pytest.main([*options, *tests], plugins=[trial]):
            raise SystemExit(
                f"{kernel}: there are no tests, or they fail without a mutant"
            )
        known = reasons.get(kernel, {})
        left = {f"{m.function.__name__}: {m.change}": m for m in trial.survivors}
        killed = len(trial.mutants) - len(left)
        print(
            f"{kernel}: {killed} of {len(trial.mutants)} mutants killed, {len(left)} "
            "survive"
        )
        for name, m in left.items():
            if name not in known:
                unknown += 1
                print(f"  {m.function.__module__}:{m.line}  {name}")
        for name in known.keys() - left.keys():
            print(f"  listed, and killed: {name}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
