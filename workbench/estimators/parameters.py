"""A parameter of an estimator: a dataclass field with its default and the check of its value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import Field, field, fields
from functools import partial
from numbers import Integral

import numpy as np

from workbench.core.checks import (
    as_number,
    check_flags,
    check_not_negative,
    check_positive,
    check_whole,
    is_whole,
    shown,
)
from workbench.kernels.gram import check_gamma, check_kernel

# A check takes a value and its name, and raises a ValueError that says what is accepted.
Check = Callable[[object, str], object]
positive: Check = check_positive
whole: Check = check_whole
whole_or_zero: Check = partial(check_whole, least=0)


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


def not_negative(value, name: str) -> None:
    """Accept numbers of at least 0."""
    check_not_negative(**{name: value})


def fraction(value, name: str) -> None:
    """Accept numbers from 0 to 1."""
    if not 0 <= as_number(value) <= 1:
        raise ValueError(f"{name}: must be a number from 0 to 1, got {shown(value)}")


def flag(value, name: str) -> None:
    """Accept True and False."""
    check_flags(**{name: value})


def one_of(known: Iterable[str]) -> Check:
    """Return the check that accepts these names."""

    def check(value, name: str) -> None:
        if not isinstance(value, str) or value not in known:
            names = ", ".join(known)
            raise ValueError(f"{name}: unknown name {shown(value)}; known are {names}")

    return check


def whole_or_function(value, name: str) -> None:
    """Accept whole numbers of at least 1, and functions."""
    if not (callable(value) or is_whole(value)):
        raise ValueError(
            f"{name}: must be a whole number of at least 1 or a function, got {shown(value)}"
        )


def dictionary(value, name: str) -> None:
    """Accept dictionaries."""
    if not isinstance(value, dict):
        raise ValueError(f"{name}: must be a dict, got {shown(value)}")


def jobs(value, name: str) -> None:
    """Accept numbers of joblib's jobs."""
    if not (is_whole(value, -(2**31), 2**31 - 1) and value):
        raise ValueError(f"{name}: must be an integer other than 0, got {shown(value)}")


def seed(value, name: str) -> None:
    """Accept the integers that NumPy takes for seeds, and its RandomState."""
    whole_seed = isinstance(value, Integral) and 0 <= value < 2**32
    if not (whole_seed or isinstance(value, np.random.RandomState)):
        raise ValueError(
            f"{name}: must be an integer from 0 to 2^32 - 1 or a numpy.random.RandomState, "
            f"got {shown(value)}"
        )


def gamma(value, name: str) -> None:
    """Accept "scale" and positive numbers."""
    check_gamma(value)


def kernel(value, name: str) -> None:
    """Accept names of kernels, and functions."""
    check_kernel(value, None, 1, 0.0)
