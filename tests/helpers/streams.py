"""A stream that only counts, and rows of a trace."""

import math
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


ROWS = [
    {"round": 0, "seconds": 0.1, "upper": math.inf, "lower": -math.inf},
    {"round": 1, "seconds": 0.1 + 0.2, "upper": 0.5, "gap": math.nan},
    {"round": 2, "seconds": 1.0, "upper": 0.4, "gap": 1e-300, "stopped_by": "2 rounds"},
]
