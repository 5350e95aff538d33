"""The rows of a problem as shares: each answers for its own rows, and the answers are summed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController


def pieces(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` of n rows, in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def cut(n: int, size: int, shares: int) -> list[slice]:
    """Return at most `shares` slices of n rows, cut where :func:`pieces` of that size begin.

    The products of a piece are those of the rows as a whole, to the last bit, however many shares
    there are; only the sums over pieces have another order.
    """
    whole = -(-n // size)
    shares = min(shares, whole)
    ends = [min(i * whole // shares * size, n) for i in range(shares + 1)]
    return [slice(*ends[i : i + 2]) for i in range(shares)]


class Shares:
    """Objects that each hold some rows and what belongs to them: scores, residuals, multipliers.

    Several are asked at the same time, each by its own thread with a BLAS of one thread. A context
    manager, which ends the threads.
    """

    def __init__(self, shares: Sequence):
        self.shares = list(shares)

    def __enter__(self) -> Shares:
        self._pool = ThreadPoolExecutor(len(self.shares))  # starts no thread before it has work
        return self

    def __exit__(self, *error) -> None:
        self._pool.shutdown()

    def ask(self, method: str, *arguments):
        """Return the sum of what this method of the shares returns, in their order.

        Tuples are summed entry by entry. None if the method returns nothing.
        """
        answers = self._each(method, *arguments)
        if isinstance(answers[0], tuple):
            return tuple(map(_total, zip(*answers)))
        return _total(answers)

    def _each(self, method: str, *arguments) -> list:
        if len(self.shares) == 1:
            return [getattr(self.shares[0], method)(*arguments)]
        # The limit is the process's: of two streams at a time, one would undo the other's.
        with _limiting, _libraries().limit(limits=1):
            return list(self._pool.map(lambda s: getattr(s, method)(*arguments), self.shares))


def _total(answers: Sequence):
    total, *rest = answers
    for answer in rest:
        if answer is not None:
            total = total + answer
    return total


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks for loaded libraries, which takes milliseconds


_limiting = Lock()
