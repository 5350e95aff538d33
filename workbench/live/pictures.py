"""Pictures as plain data: what a solver's portrait is made of, for the page to draw.

A portrait, as in :mod:`workbench.live.inside`, shows a method's own
state: its active constraints, its breakpoints, its cuts. It holds no colours and no pixels;
``live/inside.js`` draws it on a dark page as on a light one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np


class Bars(NamedTuple):
    """One bar a value, upwards or downwards from 0.

    ``values`` (m,), ``labels`` of the bars (m of them, or none), ``unit`` of the axis; ``marked``
    (m,), not 0 where a bar stands out.
    """

    title: str
    values: np.ndarray
    labels: tuple[str, ...] = ()
    unit: str = ""
    logarithmic: bool = False
    marked: np.ndarray = np.empty(0)


class Image(NamedTuple):
    """A matrix in shades, ``values`` (h, w), from ``low`` to ``high``.

    Where ``low`` is negative the shades have two hues that meet at 0. ``rows`` and ``columns``
    name the axes. ``written`` prints each number into its cell: for small matrices.
    """

    title: str
    values: np.ndarray
    low: float
    high: float
    rows: str = ""
    columns: str = ""
    written: bool = False


class Lines(NamedTuple):
    """Lines ``ys`` (c, m) over ``x`` (m,), named by ``labels``, and single ``points`` (p, 2)."""

    title: str
    x: np.ndarray
    ys: np.ndarray
    labels: tuple[str, ...] = ()
    across: str = ""
    up: str = ""
    logarithmic: bool = False
    points: np.ndarray = np.empty((0, 2))


class Plane(NamedTuple):
    """Rows in two dimensions over the regions that a classifier gives to each class.

    ``regions`` (h, w) are classes on a grid over ``extent`` (left, right, bottom, top), the first
    row at the bottom; ``points`` (p, 2) are rows of the data, ``classes`` (p,) theirs; ``marked``
    (p,) is not 0 where a point stands out.
    """

    title: str
    regions: np.ndarray
    extent: tuple[float, float, float, float]
    points: np.ndarray
    classes: np.ndarray
    marked: np.ndarray = np.empty(0)


Picture = Bars | Image | Lines | Plane


def pack(pictures: Iterable[Picture]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return the pictures' words, which name and shape their arrays, and the arrays as float32."""
    words, buffers = [], []
    for picture in pictures:
        said, arrays = {"kind": type(picture).__name__.lower()}, []
        for name, value in picture._asdict().items():
            if isinstance(value, np.ndarray):
                arrays.append([name, list(value.shape)])
                buffers.append(np.ascontiguousarray(value, dtype="<f4").tobytes())
            else:
                said[name] = value
        words.append(said | {"arrays": arrays})
    return words, buffers
