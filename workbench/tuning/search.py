"""The range of a certified search, and the intervals of t on which its bounds hold."""

from __future__ import annotations

import math

import numpy as np

from workbench.core.checks import as_number, check_positive, shown

STEP = 1.25  # ratio of neighbouring values of the scan
MARGIN = 1e-7  # added to either side of an undecided interval, for the rounding of its roots


def check_range(ends, eps: float, argument: str) -> np.ndarray:
    """Return the ends of a range as an array; a ValueError unless they ascend and eps fits."""
    try:
        low, high = (check_positive(end, argument) for end in ends)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise ValueError(
            f"{argument}: must be two positive numbers in ascending order, got {shown(ends)}"
        )
    if not 0.0 <= as_number(eps) < 1.0:
        raise ValueError(f"eps: must be a number of at least 0 and below 1, got {shown(eps)}")
    return np.array([low, high])


def scanned(ends: np.ndarray) -> np.ndarray:
    """Return values from one end of a range to the other, neighbours at most STEP apart."""
    low, high = ends
    values = np.geomspace(low, high, 1 + math.ceil(math.log(high / low) / math.log(STEP)))
    values[[0, -1]] = low, high
    return values


def between_roots(a, b, c, first, last) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of t in [0, 1] on which the convex a t^2 + b t + c may not be positive.

    `first` and `last` say whether it is positive at t = 0 and at t = 1. An interval with
    t_1 > t_2 is empty.
    """
    inner = b**2 - 4.0 * a * c
    half = -0.5 * (b + np.copysign(np.sqrt(np.maximum(inner, 0.0)), b))  # without cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([half / a, c / half])
    low, high = np.fmin(*roots), np.fmax(*roots)
    low = np.where(first & (a > 0.0), low - MARGIN, -np.inf)
    high = np.where(last & (a > 0.0), high + MARGIN, np.inf)
    nowhere = first & last & (inner < 0.0) & (a > 0.0)
    return np.where(nowhere, np.inf, low), np.where(nowhere, -np.inf, high)


def most_at_once(spans: np.ndarray, x: float, y: float) -> int:
    """Return the largest number of spans (s, 2) that share a single t in [x, y]."""
    low, high = spans[(spans[:, 0] <= y) & (spans[:, 1] >= x)].T
    if not len(low):
        return 0
    low, high = np.sort(np.maximum(low, x)), np.sort(high)
    inside = np.searchsorted(low, low, "right") - np.searchsorted(high, low, "left")
    return int(inside.max())
