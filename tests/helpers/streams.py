"""A stream that only counts."""

import time
from dataclasses import dataclass, field


@dataclass
class Count:
    """A state that counts; `values` is what ``info`` says at each round."""

    round: int = 0
    values: tuple = field(default=())

    def info(self):
        return {"value": self.values[self.round]} if self.values else {}


def count(limit=10**9, values=(), pause=0.0):
    """Yield rounds 0 to `limit`, each after `pause` seconds of work."""
    s = Count(values=tuple(values))
    for s.round in range(min(limit, len(values) - 1 if values else limit) + 1):
        time.sleep(pause)
        yield s
