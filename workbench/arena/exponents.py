"""Power laws fitted to costs over sizes, their intervals, and how far they say one may go.

A cost c(s) = a s^b is a straight line of log c over log s. The intervals are Student's, from the
distances of the points to the line: they know of noise and of curvature as far as the points show
it, and of nothing that happens beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import linregress, t


class PowerLaw(NamedTuple):
    """A fitted power law.

    Attributes
    ----------
    exponent, error : b and its standard error
    size, cost : geometric means of the sizes and of the costs, a point of the line
    residual : standard deviation of log costs about the line
    points : how many were fitted
    """

    exponent: float
    error: float
    size: float
    cost: float
    residual: float
    points: int

    def at(self, size: float) -> float:
        """Return the cost on the line at a `size`."""
        return self.cost * (size / self.size) ** self.exponent

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the t interval of the exponent."""
        half = self._quantile(level) * self.error
        return self.exponent - half, self.exponent + half

    def _quantile(self, level: float) -> float:
        return float(t.ppf((1 + level) / 2, self.points - 2))


def fit(sizes: Sequence[float], costs: Sequence[float]) -> PowerLaw:
    """Fit a power law by least squares of the logarithms.

    Parameters
    ----------
    sizes, costs : equally many positive numbers, of at least three different sizes

    Raises
    ------
    ValueError
        If they are not.
    """
    sizes, costs = np.asarray(sizes, dtype=float), np.asarray(costs, dtype=float)
    if sizes.ndim != 1 or sizes.shape != costs.shape:
        raise ValueError(f"costs: one for each size, got {costs.shape} for {sizes.shape}")
    for name, values in (("sizes", sizes), ("costs", costs)):
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{name}: must be positive and finite, got {values.tolist()}")
    if len(set(sizes)) < 3:
        raise ValueError(f"sizes: needs three different ones at least, got {sizes.tolist()}")
    x, y = np.log(sizes), np.log(costs)
    line = linregress(x, y)
    distances = y - line.intercept - line.slope * x
    residual = math.sqrt(float(distances @ distances) / (len(x) - 2))
    size, cost = math.exp(x.mean()), math.exp(y.mean())
    return PowerLaw(float(line.slope), float(line.stderr), size, cost, residual, len(x))


def extrapolate(
    laws: Mapping[str, PowerLaw],
    base: Mapping[str, float],
    target: Mapping[str, float],
    level: float = 0.95,
) -> tuple[float, float, float]:
    """Return the cost at a `target`, between the ends of an interval: (low, middle, high).

    Each law was fitted over one symbol, the others being at the `base`; the cost is taken to be
    the product of their powers. Errors of the laws are independent, so that the squares of their
    half widths add up. It is an interval of the line, on the belief that it goes on as it began.

    Parameters
    ----------
    laws : by symbol; the first has the level, from its own costs
    base, target : the size of each symbol there

    Raises
    ------
    ValueError
        If there is no law, or a symbol is missing in `base` or `target`.
    """
    if not laws:
        raise ValueError("laws: needs one at least")
    if missing := [s for s in laws if s not in base or s not in target]:
        raise ValueError(f"base, target: no size of {', '.join(missing)}")
    first, *others = laws
    law = laws[first]
    middle = math.log(law.at(target[first]))
    distance = math.log(target[first] / law.size)
    error = math.sqrt(law.residual**2 / law.points + (law.error * distance) ** 2)
    squares = (law._quantile(level) * error) ** 2
    for symbol in others:
        law = laws[symbol]
        distance = math.log(target[symbol] / base[symbol])
        middle += law.exponent * distance
        squares += (law._quantile(level) * law.error * distance) ** 2
    half = math.sqrt(squares)
    return math.exp(middle - half), math.exp(middle), math.exp(middle + half)
