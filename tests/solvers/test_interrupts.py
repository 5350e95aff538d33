"""Ctrl-C, or an error, at every statement of a round: what is left is an iterate, or is
refused."""

import signal
import sys
from functools import wraps
from itertools import islice
from time import sleep
from traceback import extract_tb

import pytest
from helpers import each, refuses
from helpers.interrupts import OURS, REFUSED, cut, fail, press, seen
from helpers.solvers import ONE_ROUND, after, short

from workbench import SOLVERS, rounds, run
from workbench.core.interrupts import Broken
from workbench.core.state import resumable
from workbench.core.stream import until, watch

ROUNDS = 3  # that are cut, of a run with the settings of SHORT
each_solver = each("name", OURS)

pytestmark = pytest.mark.skipif(
    sys.gettrace() is not None, reason="they trace on their own"
)


@each_solver
def test_ctrl_c_at_any_statement_leaves_a_whole_round(name, blobs, record_property):
    """All parts of a run that is cut and resumed, over and over, are those of one that
    is not."""
    problem, steps, parameters = short(name, blobs)
    stream = until(watch(steps(problem, **parameters)), rounds(ROUNDS))
    whole = {
        row["round"]: (seen(row), s.scores(problem.X).tobytes()) for row, s in stream
    }
    done = set()
    after = None
    pressed = 0
    while True:
        with cut(done, press, name) as found:
            resumed = wraps(steps)(
                lambda *at, state=after, **own: steps(*at, **own, state=state)
            )
            trace, state = run(
                resumed,
                problem,
                rounds(ROUNDS),
                parameters=parameters,
                warm_up=False,
            )
        assert all(seen(row) == whole[row["round"]][0] for row in trace.rows)
        if not found and after is None:
            break
        fresh = after is None
        after = state if found else None
        if after is not None:
            last = trace.last["round"]
            assert state.round == last
            assert state.scores(problem.X).tobytes() == whole[last][1]
            pressed += trace.stopped_by == "interrupted"
        else:  # cut before its first state, or at its end
            assert (
                not trace.rows if found and fresh else trace.stopped_by != "interrupted"
            )
    assert pressed or SOLVERS[name].steps.__module__.startswith("workbench.peers")
    record_property("runs cut by Ctrl-C", pressed)


@each_solver
def test_a_state_that_an_error_cut_within_a_round_is_refused(name, blobs):
    """The state that is resumed stays an iterate: rounds change a copy of it."""
    problem, steps, parameters = short(name, blobs)
    start = after(1, name, problem, **parameters)
    before = start.scores(problem.X).tobytes()
    done = set()
    refused = 0
    while True:
        latest = None
        stream = watch(steps(problem, **parameters, state=start))
        try:
            with cut(done, fail, name) as found:
                for _, latest in islice(stream, ROUNDS):  # noqa: B007
                    pass
        except MemoryError as error:
            assert start.round == 1 and start.scores(problem.X).tobytes() == before
            if any(frame.name == "info" for frame in extract_tb(error.__traceback__)):
                continue  # the round had ended
            if latest is None:
                continue  # there was no state yet
            refused += 1
            assert isinstance(latest, Broken)
            with refuses(REFUSED):
                steps(problem, **parameters, state=latest)
            for ask in "round info scores W M".split():
                with refuses(REFUSED):
                    getattr(latest, ask)
        if not found:
            break
    assert refused or name in ONE_ROUND


def pressing(times):
    def steps(problem, *, state=None):
        for s in SOLVERS["ww_walrus"].steps(problem, state=state):
            for _ in range(times if s.round == 3 else 0):
                press()
            yield s

    return steps


def test_a_second_ctrl_c_ends_a_run_without_a_state(blobs):
    trace, state = run(pressing(2), blobs(), warm_up=False)
    assert state is None
    assert trace.stopped_by == "interrupted" and trace.last["round"] == 2


@each("times, last", [(1, 3), (2, 2)])
def test_the_reader_of_a_stream_has_an_iterate_when_ctrl_c_comes(times, last, blobs):
    read = []
    with pytest.raises(KeyboardInterrupt):
        for row, state in watch(pressing(times)(blobs())):  # noqa: B007
            read.append(row)
    assert read[-1]["round"] == last and isinstance(state, Broken) == (times == 2)
    if times == 1:
        assert seen(read[-1]) == {"round": 3} | state.info()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_the_last_round_of_a_plain_loop_is_raised(blobs):
    with pytest.raises(KeyboardInterrupt):
        for _ in islice(resumable()(pressing(1))(blobs()), 4):
            pass
        sleep(60)
