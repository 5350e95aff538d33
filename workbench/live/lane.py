"""One run that goes on round by round, turns back and branches: no threads, no widgets.

>>> lane = Lane("ww_walrus", problem, {"C": 0.25})   # doctest: +SKIP
>>> lane.advance(), lane.advance(), lane.back()      # doctest: +SKIP
>>> other = lane.branch({"C": 1.0})                  # doctest: +SKIP
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import fields
from time import perf_counter
from typing import Any

import numpy as np

from workbench.core.problem import Problem
from workbench.core.stream import Row, State, diverged, geometric, nothing, watch
from workbench.core.trace import Trace
from workbench.registry import SOLVERS
from workbench.runs.run import header, resolve, warm

TOLERANCE = 1e-9  # certified gap at which a run ends, against an upper bound above 1
RECENT = 1000  # rows that are all kept; of the older ones, later and later, one in many
SHARE = 0.005  # of the time, for each of: judging, keeping states
REST = 0.05  # seconds between them at least
CREDIT = 0.3  # seconds of judging at the beginning of a run, when errors fall fastest
MEMORY = 2**28  # bytes of states kept on the way


class Spare:
    """Says when work beside the solver is due, so that it takes `share` of the time at most.

    After each time it rests for `rest` seconds at least. The first `credit` seconds are free: what
    is young changes fast.
    """

    def __init__(self, share: float, rest: float = 0.0, credit: float = 0.0):
        self.share, self.rest, self.credit = share, rest, credit
        self._next = 0.0

    def due(self, row: Row | None = None) -> bool:
        """Whether there is time again."""
        return perf_counter() >= self._next

    def now(self) -> None:
        """Make it due: nobody waits for the solver."""
        self._next = 0.0

    def spend(self, work: Callable, *arguments) -> Any:
        """Return ``work(*arguments)`` and put off the next time accordingly."""
        tic = perf_counter()
        done = work(*arguments)
        toc = perf_counter()
        self.credit -= toc - tic
        self._next = toc if self.credit > 0 else toc + max((toc - tic) / self.share, self.rest)
        return done


class Lane:
    """A solver's run on one problem, from its first round or from a state of another lane.

    States are kept on the way, as often as a small share of the time allows, so that `back` can go
    on from the latest one and do the rounds since then once more.

    Parameters
    ----------
    solver : a name of the registry
    problem : Problem
    parameters : the solver's keyword parameters; the others keep their defaults
    measure : the judge, off the clock, asked as often as that share allows

    Attributes
    ----------
    parameters : all of them
    state : the present iterate, on loan; None before the first
    ended : why it cannot go on, or ""
    error : the exception that ended it, or None
    past : what was run before this lane branched off, as (parameters, last round) each

    Raises
    ------
    ValueError
        For a name that is no solver, or a parameter that the solver does not declare.
    """

    def __init__(
        self,
        solver: str,
        problem: Problem,
        parameters: Mapping[str, Any],
        measure: Callable[[State], Row] = nothing,
    ):
        self.solver, self.problem, self.measure = solver, problem, measure
        self.steps, self.parameters = resolve(solver, parameters)
        self.state: State | None = None
        self.ended = ""
        self.error: Exception | None = None
        self.past: list[tuple[dict[str, Any], int]] = []
        self._header = header(solver, problem, self.parameters)
        self._stream: Iterator[tuple[Row, State]] | None = None
        self._old: list[Row] = []
        self._recent: deque[Row] = deque()
        self._thin = geometric(1 + 1 / RECENT)
        self._states: list[State] = []
        self._dropped = 0  # rows that were old enough to be thinned
        self._judged = -1  # the round that was judged last
        self._judging, self._keeping = Spare(SHARE, REST, CREDIT), Spare(SHARE, REST)

    @property
    def trace(self) -> Trace:
        """What was seen so far; ``stopped_by`` is the reason, or "kept" while it could go on."""
        rows = [dict(row) for row in (*self._old, *self._recent)]
        if rows:
            rows[-1]["stopped_by"] = self.ended or "kept"
        return Trace(dict(self._header), rows)

    @property
    def last(self) -> Row:
        """The latest row, empty before the first."""
        rows = self._recent or self._old
        return rows[-1] if rows else {}

    @property
    def rows(self) -> list[Row]:
        """The rows, later and later ones more sparsely, but for the most recent."""
        return [*self._old, *self._recent]

    @property
    def seconds(self) -> float:
        """Solver seconds so far."""
        return self.last.get("seconds", 0.0)

    def advance(self, wait: bool = False) -> Row | None:
        """Go on by one round and return its row; None where the run has come to its end.

        With `wait` nobody waits for the next round: the row is judged and the state kept,
        whatever that costs.
        """
        if wait:
            self._judging.now()
            self._keeping.now()
        rows = self.play(0.0)
        return rows[-1] if rows else None

    def play(self, seconds: float, go: Callable[[], bool] = lambda: True) -> list[Row]:
        """Go on for so many seconds of wall time, one round at least, while `go()`.

        Returns
        -------
        rows : those of the rounds played. An exception of the solver ends the run, and is
            ``error`` from then on
        """
        rows: list[Row] = []
        end = perf_counter() + seconds
        try:
            if self._stream is None and not self.ended:
                warm(self.steps, self.problem, self.parameters)
                self._stream = self._watch(self.steps(self.problem, **self.parameters), {})
            while not self.ended:
                row, state = next(self._stream, (None, None))
                if row is None:
                    self.ended = "finished"
                    break
                self.state = state
                if not self._states:
                    self._keep()
                rows.append(row)
                self.ended = diverged(row) or closed(row) or ""
                if perf_counter() >= end or not go():
                    break
        except Exception as error:
            self.ended, self.error = f"failed: {error}", error
        for row in rows:
            self._recent.append(row)
            if len(self._recent) > RECENT:
                oldest = self._recent.popleft()
                if self._thin({"round": self._dropped}):
                    self._old.append(oldest)
                self._dropped += 1
        if rows and not self.error and self._keeping.due():
            self._keeping.spend(self._keep)
        return rows

    def settle(self) -> Row:
        """Judge the present iterate if that was not done yet, and return its row.

        An exception of the judge ends the run, as one of the solver does.
        """
        if self.last and not self.error and self._judged != self.state.round:
            try:
                self.last.update(self._judge(self.state))
            except Exception as error:
                self.ended, self.error = f"failed: {error}", error
        return self.last

    def back(self) -> bool:
        """Turn back by one row; False at the first.

        The latest kept state before that row goes on to it, off the clock. Solvers repeat
        themselves bit for bit, but for those that say so.
        """
        rows = self._recent if len(self._recent) else self._old
        if len(self._old) + len(self._recent) < 2:
            return False
        rows.pop()
        goal = self.last["round"]
        while self._states[-1].round > goal:
            self._states.pop()
        self.ended, self.error, self._judged = "", None, -1
        try:
            self._go_on(self._states[-1], goal)
        except Exception as error:
            self.ended, self.error, self._stream = f"failed: {error}", error, None
        return True

    def branch(self, parameters: Mapping[str, Any]) -> Lane:
        """Return a lane that stands at the same iterate under other values of ``live`` parameters.

        Raises
        ------
        ValueError
            If the solver cannot change one of them in mid-run, or has done nothing yet; and what
            the solver raises where it does not accept a value.
        """
        lane = Lane(self.solver, self.problem, parameters, self.measure)
        fixed = [name for name in changed(self, lane.parameters) if not can_change(self, name)]
        if fixed or self.state is None:
            which = ", ".join(fixed) or "anything before its first round"
            raise ValueError(f"parameters: {self.solver} cannot change {which} in mid-run")
        lane.past = [*self.past, (self.parameters, self.state.round)]
        lane._header["past"] = [{"parameters": p, "round": r} for p, r in lane.past]
        state = self._copy(self.state)
        stream = lane.steps(lane.problem, **lane.parameters, state=state)
        lane._stream = lane._watch(stream, self.last)
        lane.advance()
        if lane.error:
            raise lane.error
        return lane

    def _watch(self, steps: Iterator[State], since: Row) -> Iterator[tuple[Row, State]]:
        clock = {name: since.get(name, 0.0) for name in ("seconds", "cpu")}
        return watch(steps, self._judge, self._judging.due, **clock)

    def _judge(self, state: State) -> Row:
        self._judged = state.round
        return self._judging.spend(self.measure, state)

    def _go_on(self, kept: State, goal: int) -> None:
        """Go on from a kept state to the iterate of round `goal`, and stand there."""
        steps = self.steps(self.problem, **self.parameters, state=self._copy(kept))
        for self.state in steps:
            if self.state.round >= goal:
                break
        self._stream = self._watch(steps, self.last)

    def _keep(self) -> None:
        """Keep a copy of the state; where memory runs short, drop every other one in between."""
        self._states.append(self._copy(self.state))
        if len(self._states) > max(4, MEMORY // size(self.state)):
            del self._states[-2:0:-2]

    def _copy(self, state: State) -> State:
        """Return a copy that shares nothing with the state but the problem's own arrays."""
        ours = (getattr(self.problem, f.name) for f in fields(self.problem))
        return deepcopy(state, {id(value): value for value in ours})


def closed(row: Row) -> str | None:
    """Stop when the bounds, of a solver that has them, have met as far as numbers can."""
    met = "gap" in row and row["gap"] <= TOLERANCE * max(1.0, abs(row["upper"]))
    return "the bounds have met" if met else None


def changed(lane: Lane, parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of the parameters that differ from the lane's."""
    return [name for name, value in parameters.items() if lane.parameters[name] != value]


def can_change(lane: Lane, name: str) -> bool:
    """Whether this parameter may change in mid-run."""
    return name in SOLVERS[lane.solver].live


def size(state: State) -> int:
    """Return the bytes of a state, about: its arrays, and a generator and numbers beside them."""
    values = (getattr(state, f.name) for f in fields(state))
    return 4096 + sum(value.nbytes for value in values if isinstance(value, np.ndarray))
