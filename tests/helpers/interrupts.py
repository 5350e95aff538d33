"""Ctrl-C, or an error, at a chosen statement of a solver."""

import inspect
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import workbench
from helpers.solvers import CLOCK, EXTRAS, NAMES
from workbench import SOLVERS

HOUSE = Path(workbench.__file__).parent
# Where the statements of solvers are: the folders, or files, of all of them, and shared
# loops.
FILES = [inspect.getfile(inspect.unwrap(solver.steps)) for solver in SOLVERS.values()]
METHODS = {Path(file).relative_to(HOUSE).parts[0] for file in FILES}
METHODS |= {"kernels"}
OURS = [name for name in NAMES if name not in EXTRAS]
REFUSED = "^state: was cut within a round"


def press():
    signal.raise_signal(signal.SIGINT)


def fail():
    raise MemoryError("no memory is left in mid-round")


# One of so many lines is cut, others for each solver; `make trust` cuts them all.
EVERY = int(os.environ.get("WORKBENCH_EVERY", "4"))


@contextmanager
def cut(done, act, name, every=EVERY):
    """Let `act` happen at the first new statement of a solver, and add it to `done`.

    Of each `every` lines one counts; which, depends on the solver's name.
    """
    phase = crc32(name.encode()) % every
    found = []

    def local(frame, event, argument):
        place = frame.f_code.co_filename, frame.f_lineno
        if (
            event == "line"
            and not found
            and place not in done
            and place[1] % every == phase
        ):
            sys.settrace(None)
            found.append(place)
            done.add(place)
            act()
        return local

    def entered(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        own = path.is_relative_to(HOUSE) and path.relative_to(HOUSE).parts[0] in METHODS
        return local if own else None

    sys.settrace(entered)
    try:
        yield found
    finally:
        sys.settrace(None)


def seen(row):
    return {key: row[key] for key in row.keys() - CLOCK - {"stopped_by"}}
