"""States that know their problem: what a solver resumes, and what is left of a cut
round."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import wraps
from hashlib import sha256

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import shown
from workbench.core.interrupts import Broken, whole_rounds
from workbench.core.kinds import Given, Matrix, Record, Steps
from workbench.core.problem import Problem


@dataclass(eq=False)
class Origin:
    """The run that a state belongs to.

    ``solver`` is the function's module and name, ``checksum`` the problem's, and
    ``parameters`` holds all of the run's values. ``layout`` describes the arrays of the
    state that was yielded last. ``turn`` is odd while a round is changing the state.
    """

    solver: str
    checksum: str
    parameters: Record
    layout: Record
    turn: int = 0


class State:
    """An iterate of a solver, on loan until the next ``next()``; each subclass is a
    dataclass.

    ``origin`` is set by :func:`resumable`. A copy shares nothing with the state.
    Copying raises a ValueError if a round, in another thread, changes the state in the
    meantime.
    """

    origin: Origin | None = None
    round: int

    def scores(self, X: Matrix) -> np.ndarray:
        """Return the (n, k) class scores of rows `X`; the prediction is their
        argmax."""
        raise NotImplementedError

    def paths(self, F: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return the (n,) labels of sequences, given the scores of their rows."""
        return np.argmax(F, axis=1)

    def info(self) -> Record:
        """Return the numbers that the solver knows of this iterate at no extra cost."""
        raise NotImplementedError

    def __deepcopy__(self, memo: dict[int, object]) -> State:
        origin = self.origin
        turn = origin.turn if origin else 0
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        vars(copied).update(deepcopy(vars(self), memo))
        if origin and (turn % 2 or origin.turn != turn):
            raise ValueError("state: must not be copied while a round changes it")
        return copied

    def __copy__(self) -> State:
        return deepcopy(self)


def resumable(*live: str, structured: bool = False) -> Callable[[Steps], Steps]:
    """Return a decorator for a solver's function, whose states can then be resumed.

    ``solver(problem, ..., state=state)`` goes on from a copy of the state, so that its
    holder keeps an iterate. Parameters that are not given have the values of the
    state's run. Those named in `live` may have other values; the solver makes all that
    it yields true of them. Any other value, problem or solver is a ValueError, and so
    is an array whose shape has changed.

    Problems with a structure (:mod:`workbench.core.structures`) are refused unless the
    solver is `structured`. A round that Ctrl-C interrupts is completed first. After an
    error in a round its state refuses all use.
    """

    def decorate(function: Steps) -> Steps:
        signature = inspect.signature(function)
        name = f"{function.__module__}.{function.__qualname__}"
        defaults = {
            parameter.name: parameter.default
            for parameter in signature.parameters.values()
            if parameter.default is not parameter.empty and parameter.name != "state"
        }

        @wraps(function)
        def solver(
            problem: Problem, *arguments: Given, state: Given = None, **given: Given
        ) -> Iterator[State]:
            bound = signature.bind(problem, *arguments, **given)
            _, *values = bound.arguments.items()
            parameters = dict(values)
            resumed = {}
            earlier = None
            if problem.structure and not structured:
                raise ValueError(
                    f"problem: has {problem.structure}, which {function.__name__} "
                    "does not use; plain() has its rows without them"
                )
            if state is not None:
                if "state" not in signature.parameters:
                    raise ValueError(
                        f"state: {name} takes no state, so it cannot be resumed"
                    )
                parameters = checked(state, name, problem, parameters, live)
                resumed["state"] = copied(state, problem)
                earlier = resumed["state"].origin
            all_values = defaults | parameters
            known = {key: comparable(value) for key, value in all_values.items()}
            origin = Origin(name, problem.checksum, known, {})
            steps = function(problem, **parameters, **resumed)
            return whole_rounds(stamped(steps, origin, earlier))

        solver.live = live  # type: ignore[attr-defined]  # of this function
        return solver

    return decorate


def checked(
    state: Given, solver: str, problem: Problem, given: Record, live: tuple[str, ...]
) -> Record:
    """Return the parameters of a run that resumes `state`, those that are not given
    included.

    A ValueError names the parameter that differs, the problem, or the solver.
    """
    if isinstance(state, Broken):
        state.refuse()
    origin = getattr(state, "origin", None)
    if not isinstance(origin, Origin):
        raise ValueError(
            f"state: must be one that a solver has yielded, got {shown(state)}"
        )
    if origin.solver != solver:
        raise ValueError(
            f"state: was made by {origin.solver}, not by {solver}; start a new run"
        )
    if origin.checksum != problem.checksum:
        raise ValueError(
            f"problem: must be the one that the state was made for, with the checksum "
            f"{origin.checksum}, got {problem.checksum}; start a new run"
        )
    for name, value in given.items():
        old = origin.parameters[name]
        if name not in live and comparable(value) != old:
            raise ValueError(
                f"{name}: must be {shown(old)}, as in the run of the state, got "
                f"{shown(value)}; start a new run"
            )
    now = layout(state)
    for name in origin.layout.keys() | now.keys():
        if now.get(name) != origin.layout.get(name):
            raise ValueError(
                f"state: its array {name} has changed since the solver yielded it"
            )
    kept = {
        name: value for name, value in origin.parameters.items() if name not in given
    }
    return given | kept


def stamped(
    steps: Iterator[State], origin: Origin, earlier: Origin | None
) -> Iterator[State]:
    """Pass the states on with their origin, whose `turn` counts both ends of every
    round.

    A state that a resumable solver within this one has made keeps the origin it got
    there.
    """
    while True:
        origin.turn += 1
        state = next(steps, None)
        if state is not None and getattr(state, "origin", None) in (
            None,
            earlier,
            origin,
        ):
            state.origin = origin
            origin.layout = layout(state)
        origin.turn += 1
        if state is None:
            return
        yield state


def copied(state: State, problem: Problem) -> State:
    """Return a copy that shares nothing with the state but the problem's own arrays."""
    shared = [getattr(problem, field.name) for field in fields(problem)]
    return deepcopy(state, {id(value): value for value in shared})


def layout(state: State) -> Record:
    """Return shape and dtype of the arrays of a state, by name."""
    return {
        name: (value.shape, value.dtype.str)
        for name, value in vars(state).items()
        if isinstance(value, np.ndarray)
    }


def comparable(value: Given) -> Given:
    """Return a parameter's value, and for an array a text that only an equal one
    has."""
    if sp.issparse(value):
        value = np.concatenate([value.indptr, value.indices, value.data])
    if isinstance(value, np.ndarray):
        digest = sha256(np.ascontiguousarray(value).data).hexdigest()
        return f"{value.dtype}{value.shape} {digest[:16]}"
    return value
