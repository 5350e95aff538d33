"""A parameter of an estimator: a dataclass field with its default and the check of its value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import Field, field, fields
from functools import partial
from numbers import Integral

import numpy as np

from workbench.core.checks import as_number, check_positive, check_whole, is_flag, is_whole, shown
from workbench.core.names import hint
from workbench.kernels.functions import check_gamma

# A check takes a value and its name, and raises a ValueError that says what is accepted.
Check = Callable[[object, str], object]


def parameter(default, check: Check | None = None) -> Field:
    """Return a dataclass field whose value `fit` checks; a default of None is always accepted."""
    return field(default=default, metadata={"check": check})


def check_parameters(estimator) -> None:
    """Raise a ValueError that names the first parameter whose value its check refuses."""
    for f in fields(estimator):
        value = getattr(estimator, f.name)
        if f.metadata["check"] is None or (value is None and f.default is None):
            continue
        try:
            f.metadata["check"](value, f.name)
        except ValueError as error:
            if f.default is not None:
                raise
            raise ValueError(str(error).replace(": must be ", ": must be None or ", 1)) from None


def accept(test: Callable[[object], bool], accepted: str) -> Check:
    """Return the check that accepts values for which `test` is true, and says what they are."""

    def check(value, name: str) -> None:
        if not test(value):
            raise ValueError(f"{name}: must be {accepted}, got {shown(value)}")

    return check


def one_of(known: Iterable[str]) -> Check:
    """Return the check that accepts these names."""

    def check(value, name: str) -> None:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{name}: unknown name {shown(value)}; {hint(shown(value), known)}")

    return check


def gamma(value, name: str) -> None:
    """Accept "scale" and positive numbers."""
    check_gamma(value)


positive: Check = check_positive
whole: Check = check_whole
whole_or_zero: Check = partial(check_whole, least=0)
whole_or_function = accept(
    lambda v: callable(v) or is_whole(v), "a whole number of at least 1 or a function"
)
not_negative = accept(lambda v: 0 <= as_number(v) < math.inf, "a number that is not negative")
fraction = accept(lambda v: 0 <= as_number(v) <= 1, "a number from 0 to 1")
flag = accept(is_flag, "True or False")
dictionary = accept(lambda v: isinstance(v, dict), "a dict")
jobs = accept(lambda v: is_whole(v, -(2**31), 2**31 - 1) and v != 0, "an integer other than 0")


def is_seed(value) -> bool:
    """Return whether this is an integer below 2^32, or a RandomState that is not damaged."""
    if isinstance(value, np.random.RandomState):
        state = value.get_state(legacy=False)["state"]
        return 0 <= state.get("pos", 0) <= 624  # which NumPy does not check
    return isinstance(value, Integral) and 0 <= value < 2**32


seed = accept(is_seed, "an integer from 0 to 2^32 - 1 or a numpy.random.RandomState")
