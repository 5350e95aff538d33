"""States that know the run they belong to, and solvers that resume them."""

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
from workbench.core.interrupts import whole_rounds
from workbench.core.kinds import Array, Given, Matrix, Record, Steps
from workbench.core.problem import Problem

Row = Record  # the numbers of an iterate, by name


@dataclass(eq=False)
class Origin:
    """The run that a state belongs to.

    Attributes
    ----------
    solver : str
        The module and the name of the solver's function.
    checksum : str
        The checksum of the problem.
    parameters : dict
        The values of all parameters.
    layout : dict
        The shapes and types of the arrays of the latest state.
    turn : int
        A counter that is odd while a round changes the state.
    """

    solver: str
    checksum: str
    parameters: Record
    layout: Record
    turn: int = 0


class State:
    """An iterate of a solver, valid until the next ``next()``.

    Each subclass is a dataclass. :func:`resumable` sets ``origin``. A copy shares
    nothing with the state. Copying raises a ValueError if a round in another thread
    changes the state in the meantime.
    """

    origin: Origin | None = None
    round: int

    def scores(self, X: Matrix) -> Array:
        """Return the (n, k) scores of rows; a row's highest score is its prediction."""
        raise NotImplementedError

    def paths(self, F: Array, starts: Array) -> Array:
        """Return the (n,) predicted codes of rows of sequences from their scores."""
        return np.argmax(F, axis=1)

    def info(self) -> Row:
        """Return the numbers that the solver knows without further computation."""
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

    ``solver(problem, ..., state=state)`` continues from a copy of the state, so the
    caller's state does not change. Parameters that are not given have the values of the
    state's run. Only those named in `live` may have other values; everything that the
    solver yields is then valid for the new values. Another value of any other
    parameter, another problem or solver, or an array whose shape has changed raises a
    ValueError.

    Problems with a structure (:mod:`workbench.core.structures`) are refused unless the
    solver is `structured`. Ctrl-C takes effect at the end of a round. After an error in
    a round, the state refuses all use.
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
            resumed: Record = {}
            earlier = None
            if problem.structure and not structured:
                raise ValueError(
                    f"problem: has {problem.structure}, which {function.__name__} "
                    "does not use; pass problem.plain() instead"
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

        solver.live = live  # type: ignore[attr-defined]  # on a function
        return solver

    return decorate


def checked(
    state: Given, solver: str, problem: Problem, given: Record, live: tuple[str, ...]
) -> Record:
    """Return all parameters of a run that resumes `state` with the `given` ones.

    A parameter, problem or solver that differs from the state's run raises a
    ValueError.
    """
    origin = getattr(state, "origin", None)  # a broken state may have none
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
    return origin.parameters | given


def stamped(
    steps: Iterator[State], origin: Origin, earlier: Origin | None
) -> Iterator[State]:
    """Set the origin of the states, and count the start and end of every round.

    If the solver calls another resumable solver, the states of the other solver keep
    their origin.
    """
    replaced = (None, earlier, origin)
    while True:
        origin.turn += 1
        state = next(steps, None)
        if state is not None and getattr(state, "origin", None) in replaced:
            state.origin = origin
            origin.layout = layout(state)
        origin.turn += 1
        if state is None:
            return
        yield state


def copied(state: State, problem: Problem) -> State:
    """Return a copy of the state that shares only the problem's arrays with it."""
    shared = [getattr(problem, field.name) for field in fields(problem)]
    return deepcopy(state, {id(value): value for value in shared})


def layout(state: State) -> Record:
    """Return the shapes and types of a state's arrays, by name."""
    return {
        name: (value.shape, value.dtype.str)
        for name, value in vars(state).items()
        if isinstance(value, np.ndarray)
    }


def comparable(value: Given) -> Given:
    """Return a parameter's value; for an array, a text that identifies its content."""
    if sp.issparse(value):
        value = np.concatenate([value.indptr, value.indices, value.data])
    if hasattr(value, "__array__") and np.ndim(value):  # pandas objects, too
        value = np.asarray(value)
        if value.dtype == object:
            return value.tolist()
        digest = sha256(np.ascontiguousarray(value).data).hexdigest()
        return f"{value.dtype}{value.shape} {digest[:16]}"
    return value
