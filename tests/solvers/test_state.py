"""A state knows its problem and its parameters; what is resumed is a copy."""

import inspect
import signal
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pandas as pd
from helpers import each, refuses
from helpers.interrupts import OURS, cut, press, seen
from helpers.oracles import optimum
from helpers.solvers import CERTIFIED, ONE_ROUND, after, short

from workbench import SOLVERS, rounds, run
from workbench.core.certificates import bounds
from workbench.core.state import State, resumable
from workbench.core.stream import until, watch
from workbench.core.trace import read_trace
from workbench.weston_watkins.tuning import certify_path

each_solver = each("name", OURS)


def begun(name, blobs, most=2):
    """Return a problem, a solver's function, its settings and a state after some
    rounds."""
    problem, steps, parameters = short(name, blobs)
    return problem, steps, parameters, after(most, name, problem, **parameters)


def moved(problem):
    return replace(problem, X=problem.X + 1.0)


def longer(problem):
    twice = {
        key: np.concatenate([getattr(problem, key)] * 2)
        for key in ("X", "y", "weights")
    }
    return replace(problem, **twice)


def heavier(problem):
    return replace(problem, weights=2.0 * problem.weights)


@each("change", [moved, longer, heavier])
@each_solver
def test_a_state_of_another_problem_is_refused(name, change, blobs):
    problem, steps, parameters, state = begun(name, blobs)
    with refuses(r"^problem: must be the one that the state was made for"):
        steps(change(problem), **parameters, state=state)
    # its rows are the same
    steps(replace(problem, name="other"), **parameters, state=state)


@each_solver
def test_only_live_parameters_may_have_another_value(name, blobs):
    problem, steps, parameters, state = begun(name, blobs)
    declared = inspect.signature(steps).parameters
    for key in declared.keys() - {"problem", "state", *steps.live}:
        with refuses(rf"^{key}: must be .*, as in the run of the state"):
            steps(problem, **parameters | {key: "another"}, state=state)


@each_solver
def test_a_run_goes_on_after_an_earlier_one(name, blobs, tmp_path):
    """All in one run, and in two, have the same rows; the earlier state is as it
    was."""
    problem, _, parameters = short(name, blobs)
    given = {"parameters": parameters, "warm_up": False}
    whole, end = run(name, problem, rounds(6), **given)
    first, state = run(name, problem, rounds(2), **given)
    before = state.round, state.scores(problem.X).tobytes(), state.info()
    path = tmp_path / "t.jsonl"
    trace, last = run(name, problem, rounds(6), after=(first, state), path=path)
    assert list(map(seen, trace.rows)) == list(map(seen, whole.rows))
    assert last.scores(problem.X).tobytes() == end.scores(problem.X).tobytes()
    assert before == (state.round, state.scores(problem.X).tobytes(), state.info())
    assert trace.header["parameters"] == whole.header["parameters"]
    assert trace.header["after"] == first.header
    assert read_trace(path).rows == trace.rows
    assert np.all(np.diff(trace.column("seconds")) >= 0)
    assert trace.last["seconds"] >= first.last["seconds"]


@each("name", CERTIFIED)
def test_a_lambda_that_resumes_certifies_truly(name, blobs):
    """Warming up with a state of the caller's, as this lambda does, leaves that state
    alone."""
    problem, steps, parameters, state = begun(name, blobs)
    trace, _ = run(lambda p: steps(p, **parameters, state=state), problem, rounds(5))
    lower, upper = optimum(name, problem, parameters, state)
    slack = 1e-6 * max(1.0, abs(upper))
    assert trace.rows[0]["round"] == state.round
    assert trace.last.get("lower", 0.0) <= upper + slack
    assert trace.last.get("upper", upper) >= lower - slack


@each_solver
def test_a_plain_loop_that_is_cut_leaves_an_iterate(name, blobs):
    """Of errors, test_interrupts.py has it."""
    problem, steps, parameters, start = begun(name, blobs, 1)
    settings = {"problem": problem, **parameters}
    whole = {
        s.round: s.scores(problem.X).tobytes() for s in islice(steps(**settings), 5)
    }
    done = set()
    cuts = 0
    while cuts < 12:
        latest = start
        try:
            with cut(done, press, name, 7) as found:
                stream = steps(**settings, state=start)
                for _ in range(3):
                    latest = next(stream, latest)
                next(stream, None)  # raises a Ctrl-C of the last round
        except KeyboardInterrupt:
            cuts += 1
            assert latest.scores(problem.X).tobytes() == whole[latest.round]
            assert next(steps(**settings, state=latest)).round == latest.round
        if not found:
            break
    assert cuts or name in ONE_ROUND
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_no_solver_has_yielded_is_refused(blobs):
    problem, steps, _, state = begun("ww_walrus", blobs)
    for given in (3, {}, replace(state), next(SOLVERS["ww_shark"].steps(problem))):
        with refuses(r"^state: (must be one|was made by .*ww_shark)"):
            steps(problem, state=given)
    for name, value in (("W", state.W[:2]), ("B", state.B.astype("f4")), ("W", None)):
        changed = deepcopy(state)
        setattr(changed, name, value)
        with refuses(rf"^state: its array {name} has changed"):
            steps(problem, state=changed)


def test_what_run_cannot_resume_is_refused(blobs):
    problem = blobs(n=30)
    trace, state = run("ww_walrus", problem, rounds(2))
    for earlier, word in (
        ((trace, None), "has no state"),
        ((run("ww_walrus", problem, rounds(1))[0], state), "round 1 and round 2"),
    ):
        with refuses(rf"^after: .*{word}"):
            run("ww_walrus", problem, rounds(3), after=earlier)
    with refuses(r"^state: was made by"):
        run("ww_shark", problem, rounds(3), after=(trace, state))


def test_ctrl_c_before_a_resumed_run_keeps_the_earlier_state(blobs):
    @resumable()
    def pressed(problem, *, state=None):
        if state is not None:
            press()
        yield from SOLVERS["ww_walrus"].steps.__wrapped__(problem, state=state)

    earlier = run(pressed, blobs(n=30), rounds(2))
    assert run(pressed, blobs(n=30), rounds(3), after=earlier, warm_up=False) is earlier


def test_a_function_without_the_decorator_is_resumed_by_run(blobs):
    """It needs a state argument; what it passes on of another solver keeps that one's
    origin."""

    def plain(problem, *, step=1.0, state=None):
        s = state or Count(0, np.zeros(3))
        while True:
            yield s
            s.values += step
            s.round += 1

    problem = blobs(n=30)
    given = {"warm_up": False}
    earlier = run(plain, problem, rounds(1), parameters={"step": 2.0}, **given)
    _, state = run(plain, problem, rounds(1), after=earlier, **given)
    assert state is not earlier[1] and state.values.tolist() == [2.0] * 3
    with refuses(r"^step: must be 2.0"):
        run(plain, problem, rounds(1), parameters={"step": 1.0}, after=earlier, **given)
    walrus = SOLVERS["ww_walrus"].steps
    earlier = run(lambda p: walrus(p, C=2.0), problem, rounds(1), **given)
    assert next(walrus(problem, state=earlier[1])).C == 2.0
    with refuses(r"^state: .* takes no state"):
        run(
            lambda p: walrus(p),
            problem,
            rounds(1),
            after=run(lambda p: counting(repr)(p), problem),
        )


def test_certify_path_refuses_the_state_of_other_rows(blobs):
    problem = blobs(n=30)
    others = blobs(n=12, seed=5)
    y = pd.Series(others.y, dtype=object)
    given = problem, pd.DataFrame(others.X), y, (0.1, 1.0)
    *_, state = islice(certify_path(*given), 3)
    again = next(certify_path(*given, state=state))
    assert [knot.C for knot in again.knots] == [knot.C for knot in state.knots]
    with refuses(r"^X_val: must be"):
        certify_path(problem, others.X + 1.0, *given[2:], state=state)
    with refuses(r"^C_range: must be"):
        certify_path(*given[:3], (0.1, 2.0), state=state)


@dataclass
class Count(State):
    round: int
    values: np.ndarray

    def scores(self, X):
        return X[:, :3]

    def info(self):
        return bounds(1.0, 1.0 if self.round < 2 else np.nextafter(1.0, 0.0))


def counting(within):
    @resumable()
    def steps(problem, *, state=None):
        s = state or Count(0, np.zeros(3))
        while True:
            yield s
            within(s)
            s.round += 1

    return steps


IN_A_ROUND = "^state: must not be copied while a round changes it"


@each("copied", [copy, deepcopy])
def test_a_copy_made_within_a_round_is_refused(copied, blobs):
    """Another thread may copy a state at any time; a copy of half a round is none."""
    stream = counting(copied)(blobs(n=30))
    assert copied(next(stream)).round == 0
    with refuses(IN_A_ROUND):
        next(stream)


def test_a_copy_during_which_a_round_ends_is_refused(blobs):
    stream = counting(lambda s: None)(blobs(n=30))
    state = next(stream)

    class Slow:
        def __deepcopy__(self, memo):
            next(stream)  # as in another thread

    state.slow = Slow()
    with refuses(IN_A_ROUND):
        deepcopy(state)


def test_bounds_that_cross_by_one_rounding_end_a_run(blobs):
    *_, (row, _) = until(watch(counting(lambda s: None)(blobs(n=30))), rounds(9))
    assert row["round"] == 2
    assert row["stopped_by"] == "bounds crossed"
    assert row["gap"] < 0
