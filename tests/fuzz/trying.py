"""The length of a try, the errors that may end it, and the count of tries."""

from __future__ import annotations

import faulthandler
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import HealthCheck, settings

MORE = 100  # times as many examples in the long profile
HANG = 300.0  # seconds for one input; then the process tells where it is and ends

settings.register_profile("long", deadline=None)

TRIED: Counter[str] = Counter()


def long() -> bool:
    """Whether the long profile was asked for."""
    return settings.get_current_profile_name() == "long"


def examples(count: int) -> settings:
    """Return the settings for that many inputs, always the same; more in the long profile."""
    return settings(
        max_examples=count * MORE if long() else count,
        derandomize=not long(),
        database=None,
        deadline=None,
        print_blob=long(),
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def trying(entry: str) -> Iterator[None]:
    """Count an input, and end the process where it takes forever; overflow is no news."""
    TRIED[entry] += 1
    faulthandler.dump_traceback_later(HANG, exit=True, file=sys.__stderr__)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def refused(error: Exception) -> bool:
    """Whether an error is a clear one: a ValueError that begins with the name of what is wrong."""
    text = str(error)
    return type(error) is ValueError and text.partition(":")[2].strip() != ""
