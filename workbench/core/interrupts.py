"""Delay Ctrl-C until the end of a round, as solvers change their states in place."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

S = TypeVar("S")  # a solver's state
NOTICE = (
    "stopping at the end of this round; press Ctrl-C again to stop at once, without a "
    "state"
)


class Held:
    """A block that changes `state`: it delays the first Ctrl-C, but not the second.

    After an exception in the block the state is :class:`Broken`. Ctrl-C is not delayed
    if there is no state, inside another such block, outside the main thread, or if the
    process ignores it. `pressed` is true while a Ctrl-C waits for the end of the block.
    """

    def __init__(self, state: object = None) -> None:
        self.state: Any = state  # the state of any solver
        self.pressed = False
        self._previous: Callable[..., object] | None = None

    def __enter__(self) -> Held:
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            if callable(previous) and not isinstance(previous, Held):
                self._previous = previous
                signal.signal(signal.SIGINT, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        if kind is not None:
            spoil(self.state)
            self.state = None

    def __call__(self, number: int, frame: object) -> None:
        """Handle the signal."""
        if self._previous and (self.pressed or self.state is None):
            # The block may be ending: restore the handler here, too.
            signal.signal(signal.SIGINT, self._previous)
            self._previous(number, frame)
            return
        self.pressed = True
        with suppress(RuntimeError):  # stderr was just being written to
            print(NOTICE, file=sys.stderr, flush=True)

    def stop(self, row: object) -> str | None:
        """Stop a stream once Ctrl-C has been pressed; this is a stopping rule."""
        return "interrupted" if self.pressed else None


def whole_rounds(steps: Iterable[S]) -> Iterator[S]:
    """Yield the states of `steps`; raise a Ctrl-C only after the state of its round."""
    steps = iter(steps)
    state = None
    while True:
        try:
            with Held(state) as held:
                state = next(steps, None)
        except SystemError as error:
            # Compiled code reports a Ctrl-C in this way.
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            raise
        if state is not None:
            try:
                yield state
            except GeneratorExit:
                # The reader wants no more rounds. A finaliser cannot raise, so a timer
                # sends the signal again.
                if held.pressed:
                    main = threading.main_thread().ident
                    threading.Timer(
                        0.05, signal.pthread_kill, (main, signal.SIGINT)
                    ).start()
                raise
        if held.pressed:
            signal.raise_signal(signal.SIGINT)
        if state is None:
            return


class Broken:
    """A state whose round was cut short; it refuses all use.

    It may be the state of any solver, with its own methods and class attributes, and
    other code may still hold it. Only a change of its class makes every use fail.
    """

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError(
            "state: was cut within a round and is not an iterate; resume from a copy"
        )


def spoil(state: object) -> None:
    """Empty a state and make it :class:`Broken`."""
    with suppress(AttributeError, TypeError):  # None, or a state that cannot change
        vars(state).clear()
        object.__setattr__(state, "__class__", Broken)
