"""Tables of two parameters as shades, and the effect of each of them in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes


def heat_map(
    ax: Axes,
    table: pd.DataFrame,
    form: str = ".3g",
    log: bool = False,
    cut: pd.DataFrame | None = None,
    floor: float = 0.0,
) -> None:
    """Draw a table as shades with its numbers, darker for larger values.

    The shades span at least a decade if they are logarithmic, else at least a fifth of
    the largest value, so that noise stays pale.

    Parameters
    ----------
    table : DataFrame
        Numbers, such as a pivot table of two parameters.
    form : str
        The format of a number.
    log : bool
        Whether the shades are those of logarithms.
    cut : DataFrame of bool, optional
        The cells in which the clock ended a run; their numbers are in brackets.
    floor : float
        Values up to this one are written as being below it.
    """
    values = table.to_numpy()
    shades = np.log10(values) if log else values
    least = 1.0 if log else 0.2 * shades.max() or 1.0
    low, span = shades.min(), max(np.ptp(shades), least)
    # The darkest third of the map is left out, so that black numbers stay legible.
    limits = {"vmin": low - 0.1 * span, "vmax": low + 1.8 * span}
    ax.imshow(shades, cmap="Blues", aspect="auto", **limits)
    for (i, j), value in np.ndenumerate(values):
        text = f"{value:{form}}" if value > floor else f"< {floor:.0e}"
        if cut is not None and cut.iloc[i, j]:
            text = f"({text})"
        ax.text(j, i, text, ha="center", va="center", size=8)
    ax.set_xticks(range(len(table.columns)), [f"{value:g}" for value in table.columns])
    ax.set_yticks(range(len(table)), [f"{value:g}" for value in table.index])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def changes(
    tables: Mapping[str, pd.DataFrame], symbol: str, fractions: Collection[str] = ()
) -> str:
    """Return in words how quantities change from the first to the last row of a table.

    >>> table = pd.DataFrame([[1.0, 2.0], [3.0, 6.0]], index=[0.1, 0.01])
    >>> changes({"time": table, "error": table / 100}, "ε", ["error"])
    'ε from 0.1 to 0.01: time × 3, error +3.0 points'

    Parameters
    ----------
    tables : dict of str to DataFrame
        The values of each quantity; the rows are values of one parameter, and the
        change is an average over the columns.
    symbol : str
        The parameter.
    fractions : names of quantities
        They change by percentage points, the others by a factor.
    """
    words = []
    for name, table in tables.items():
        first = table.iloc[0]
        last = table.iloc[-1]
        if name in fractions:
            words.append(f"{name} {100 * np.mean(last - first):+.1f} points")
        else:
            factor = np.exp(np.mean(np.log(last / first)))
            words.append(f"{name} × {factor:.2g}")
    ends = f"{symbol} from {table.index[0]:g} to {table.index[-1]:g}"
    return f"{ends}: {', '.join(words)}"
