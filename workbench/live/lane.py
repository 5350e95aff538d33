"""A run that advances round by round, goes back and branches, without any thread.

>>> lane = Lane("ww_walrus", problem, {"C": 0.25})   # doctest: +SKIP
>>> lane.advance(), lane.advance(), lane.back()      # doctest: +SKIP
>>> other = lane.branch({"C": 1.0})                  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from math import inf
from time import perf_counter

import numpy as np

from workbench.core.kinds import Values
from workbench.core.problem import Problem
from workbench.core.state import copied
from workbench.core.stream import (
    Measure,
    Row,
    State,
    Stream,
    crossed,
    diverged,
    geometric,
    nothing,
    watch,
)
from workbench.core.trace import Trace
from workbench.runs.run import header, resolve, warm

# Certified gap at which a run ends, relative to the larger of 1 and |upper bound|.
TOLERANCE = 1e-9
RECENT = 1000  # latest rows, all of them kept; older rows are thinned
# Fraction of the wall time for evaluation, and again for copies of states.
TIME_FRACTION = 0.005
MIN_PAUSE_S = 0.05  # seconds between two evaluations, or two states
# Seconds of evaluation that no pause follows: errors fall fastest at the beginning.
FREE_S = 0.3
# Rounds that are always evaluated, since errors fall on a logarithmic scale.
doubled = geometric(2)
MEMORY = 2**28  # bytes of states kept on the way


class Spare:
    """Limit work between rounds to a `fraction` of the wall time.

    After a piece of work, none is due for at least `pause` seconds. This does not apply
    to the first `free` seconds of work, as a new run changes fast.
    """

    def __init__(self, fraction: float, pause: float, free: float = 0.0):
        self.fraction = fraction
        self.pause = pause
        self.free = free
        self._next = 0.0

    def due(self) -> bool:
        """Return whether the work is due again."""
        return perf_counter() >= self._next

    def now(self) -> None:
        """Make the work due, as no solver is waiting."""
        self._next = 0.0

    def run_and_rest(self, work: Callable[..., Row | None], *arguments) -> Row | None:
        """Return ``work(*arguments)``, and set the time when work is due again."""
        start = perf_counter()
        result = work(*arguments)
        end = perf_counter()
        self.free -= end - start
        self._next = end
        if self.free <= 0:
            self._next += max((end - start) / self.fraction, self.pause)
        return result


class Lane:
    """A solver's run on one problem, from its first round or from a state of another
    lane.

    States are kept on the way, as often as a small fraction of the time allows, so that
    `back` can resume from the latest one and repeat the rounds since then.

    Parameters
    ----------
    solver : a name of the registry
    problem : Problem
    parameters : the solver's keyword parameters; the others keep their defaults
    measure : function that evaluates a state; it is called as often as a small fraction
        of the time allows, and always at rounds 0, 1, 2, 4, 8, ... Its time does not
        count

    Attributes
    ----------
    parameters : the values of all parameters of the solver
    state : the present iterate, which the solver changes in place; None before the
        first round
    rows : the rows of all recent rounds and of some of the earlier ones
    ended : why the run ended, empty if it has not
    error : the exception that ended the run, or None
    since : the round in which this lane branched off another one, or None

    Raises
    ------
    ValueError
        If the solver is unknown, or does not declare a parameter.
    """

    def __init__(
        self,
        solver: str,
        problem: Problem,
        parameters: Values,
        measure: Measure = nothing,
    ):
        self.solver = solver
        self.problem = problem
        self.measure = measure
        self.steps, self.parameters = resolve(solver, parameters)
        self.state: State | None = None
        self.rows: list[Row] = []
        self.ended = ""
        self.error: Exception | None = None
        self.since: int | None = None
        self._origin = f"Lane({solver!r}, problem, {self.parameters})"
        self._header = header(solver, problem, self.parameters)
        self._stream: Stream | None = None
        self._thin = geometric(1 + 1 / RECENT)
        self._thinned = 0  # rows before this one are thinned already
        self._states: list[State] = []
        self._evaluated = -1  # the round that was evaluated last
        self._evaluating = Spare(TIME_FRACTION, MIN_PAUSE_S, FREE_S)
        self._keeping = Spare(TIME_FRACTION, MIN_PAUSE_S)

    @property
    def trace(self) -> Trace:
        """The trace so far; ``stopped_by`` is why the run ended, or "paused"."""
        rows = [dict(row) for row in self.rows]
        if rows:
            rows[-1]["stopped_by"] = self.ended or "paused"
        return Trace(dict(self._header), rows)

    @property
    def code(self) -> str:
        """An expression that repeats all rounds of this lane, from the first one before
        any branch; ``until(lane, round)`` plays a lane on until that round."""
        return f"until({self._origin}, {self.last['round']})"

    @property
    def last(self) -> Row:
        """The latest row, empty before the first."""
        return self.rows[-1] if self.rows else {}

    @property
    def seconds(self) -> float:
        """Wall seconds of the solver so far."""
        return self.last.get("seconds", 0.0)

    def advance(self, wait: bool = False) -> Row | None:
        """Go on by one round and return its row; None if the run has come to its end.

        With `wait` the row is evaluated and the state kept, however long that takes.
        """
        if wait:
            self._evaluating.now()
            self._keeping.now()
        rows = self.play(0.0)
        return rows[-1] if rows else None

    def play(
        self, seconds: float, go: Callable[[], bool] = lambda: True, budget: float = inf
    ) -> list[Row]:
        """Go on for `seconds` of wall time, at least one round; return the rows.

        Playing ends early if `go` returns False, or with the first row that reaches a
        `budget` of wall seconds of the solver. An exception of the solver ends the run
        and is kept as ``error``.
        """
        rows: list[Row] = []
        end = perf_counter() + seconds
        try:
            if self._stream is None and not self.ended:
                warm(self.steps, self.problem, self.parameters)
                steps = self.steps(self.problem, **self.parameters)
                self._stream = self._watch(steps, {})
            while not self.ended:
                latest = next(self._stream, None)
                if latest is None:
                    self.ended = "finished"
                    break
                row, self.state = latest
                if not self._states:
                    self._keep()
                rows.append(row)
                self.ended = diverged(row) or crossed(row) or closed(row) or ""
                if perf_counter() >= end or row["seconds"] >= budget or not go():
                    break
        except Exception as error:
            self._fail(error)
        self.rows += rows
        if len(self.rows) > self._thinned + 2 * RECENT:
            old = slice(self._thinned, -RECENT)
            self.rows[old] = filter(self._thin, self.rows[old])
            self._thinned = len(self.rows) - RECENT
        if rows and not self.error and self._keeping.due():
            self._keeping.run_and_rest(self._keep)
        return rows

    def evaluate_now(self) -> Row:
        """Evaluate the present iterate unless that was done, and return its row.

        An exception of the measure ends the run, as an exception of the solver does.
        """
        if self.last and not self.error and self._evaluated != self.state.round:
            try:
                self.last.update(self._evaluate(self.state))
            except Exception as error:
                self._fail(error)
        return self.last

    def back(self) -> bool:
        """Go back by one row; return whether there was one to go back to.

        The solver resumes from the latest kept state up to that row, and its time does
        not count. Solvers repeat themselves bit for bit, unless their docstrings say
        otherwise.
        """
        if len(self.rows) < 2:
            return False
        self.rows.pop()
        self._thinned = min(self._thinned, len(self.rows))
        goal = self.last["round"]
        while self._states[-1].round > goal:
            self._states.pop()
        self.ended = ""
        self.error = None
        self._evaluated = -1
        try:
            steps = self._resumed(self._states[-1])
            self.state = next(steps)
            while self.state.round < goal:
                self.state = next(steps)
            self._stream = self._watch(steps, self.last)
        except Exception as error:
            self._fail(error)
        return True

    def branch(self, parameters: Values) -> Lane:
        """Return a lane at the same iterate, with other values of ``live`` parameters.

        Parameters that are not given get the solver's defaults, so include all values
        of this lane that differ from them. If the solver refuses a value, its error is
        raised.
        """
        lane = Lane(self.solver, self.problem, parameters, self.measure)
        lane.since = self.state.round
        lane._origin = f"{self.code}.branch({lane.parameters})"
        lane._stream = lane._watch(lane._resumed(self.state), self.last)
        lane.advance()
        if lane.error:
            raise lane.error
        return lane

    def _watch(self, steps: Iterator[State], since: Row) -> Stream:
        clock = {name: since.get(name, 0.0) for name in ("seconds", "cpu")}
        return watch(steps, self._evaluate, self._due, **clock)

    def _due(self, row: Row) -> bool:
        return self._evaluating.due() or doubled(row)

    def _resumed(self, state: State) -> Iterator[State]:
        return self.steps(self.problem, **self.parameters, state=state)

    def _evaluate(self, state: State) -> Row:
        self._evaluated = state.round
        return self._evaluating.run_and_rest(self.measure, state)

    def _fail(self, error: Exception) -> None:
        self.ended = f"failed: {error}"
        self.error = error
        self._stream = None

    def _keep(self) -> None:
        """Keep a copy of the state; beyond :data:`MEMORY`, drop every other earlier
        one."""
        self._states.append(copied(self.state, self.problem))
        if len(self._states) > max(4, MEMORY // size(self.state)):
            del self._states[-2:0:-2]


def closed(row: Row) -> str | None:
    """Stop if a solver has bounds and they are equal up to rounding."""
    if "gap" in row and row["gap"] <= TOLERANCE * max(1.0, abs(row["upper"])):
        return "the bounds agree"
    return None


def size(state: State) -> int:
    """Return roughly the bytes of a state: its arrays, a generator and some numbers."""
    values = [getattr(state, f.name) for f in fields(state)]  # type: ignore[arg-type]
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    return 4096 + sum(array.nbytes for array in arrays)
