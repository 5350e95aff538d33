"""The numbers behind the plots: many runs of one setting as one curve."""

from collections.abc import Sequence

import numpy as np

from workbench.core.kinds import Array

POINTS = 400  # geometric points of a long curve; more would not be visible


def on_grid(
    curves: Sequence[tuple[Array, Array]],
) -> tuple[Array, Array]:
    """Evaluate step functions on one grid, which begins once all curves have begun.

    Parameters
    ----------
    curves : pairs (x, y) of equally long arrays
        x is ascending. Empty curves are left out.

    Returns
    -------
    grid : array
        All steps of the curves from there on, each with a point just before it. If
        these are more than :data:`POINTS`, that many geometric points, and both ends.
    values : (curves, len(grid)) array
        A row for each curve that is not empty. After its end, a curve keeps its last
        value.
    """
    curves = [(x, y) for x, y in curves if len(x)]
    if not curves:
        return np.zeros(0), np.zeros((0, 0))
    start = max(x[0] for x, _ in curves)
    grid = np.unique(np.concatenate([x for x, _ in curves]))
    grid = grid[grid >= start]
    # A step is drawn from its two ends.
    grid = np.unique(np.concatenate([grid, np.nextafter(grid[1:], -np.inf)]))
    if len(grid) > POINTS:
        positive = grid[grid > 0]
        grid = np.unique(
            np.append(np.geomspace(positive[0], positive[-1], POINTS), grid[[0, -1]])
        )
    values = []
    for x, y in curves:
        last = np.searchsorted(x, grid, side="right") - 1
        values.append(y[np.clip(last, 0, None)])
    return grid, np.array(values)


def quartiles(values) -> Array:
    """Return the quartiles of (runs, points) values over runs, as (3, points).

    Infinite values (never reached) count as the largest values and are never averaged.
    """
    values = np.asarray(values, dtype=float)
    finite = np.isfinite(values).all()
    return np.quantile(
        values, [0.25, 0.5, 0.75], axis=0, method="linear" if finite else "higher"
    )
