"""Arrays of other libraries, on a GPU where there is one, for the solvers that are mostly products.

A solver names the library by a string, so that traces and sweeps can; its states stay NumPy's.
What runs there keeps to the array API standard (https://data-apis.org/array-api).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np


class Library(NamedTuple):
    """An array namespace, where its arrays are put, and how they come back as NumPy's."""

    xp: Any
    put: Callable[[np.ndarray], Any]
    get: Callable[[Any], np.ndarray]


# Each library is imported by its own name too, which the content keys of runs go by.
NAMESPACES: dict[str, Callable[[], Any]] = {
    "torch": lambda: import_module("torch") and import_module("array_api_compat.torch"),
    "cupy": lambda: import_module("cupy") and import_module("array_api_compat.cupy"),
    "array_api_strict": lambda: import_module("array_api_strict"),  # a stand-in, without a GPU
}
GET: dict[str, Callable[[Any], np.ndarray]] = {
    "torch": lambda a: a.cpu().numpy(),
    "cupy": lambda a: a.get(),
    "array_api_strict": np.from_dlpack,
}


def library(arrays: str) -> Library | None:
    """Return the library that `arrays` names, None for NumPy and our compiled kernels.

    Parameters
    ----------
    arrays : "numpy", "torch", "torch:DEVICE" (as in "torch:cuda:0"), "cupy" or "array_api_strict"

    Raises
    ------
    ValueError
        For another name, a library that is not installed, or a device that is not there.
    """
    if arrays == "numpy":
        return None
    name, _, device = str(arrays).partition(":")
    if name not in NAMESPACES or (device and name != "torch"):
        known = ", ".join(["numpy", *NAMESPACES])
        raise ValueError(f"arrays: unknown {arrays!r}; known are {known} and torch:DEVICE")
    try:
        xp = NAMESPACES[name]()
    except ImportError as error:
        raise ValueError(f"arrays: {name} is not installed ({error})") from None
    where = {"device": device} if device else {}

    def put(a: np.ndarray):
        return xp.asarray(np.array(a), **where)  # a copy: rows may be read-only

    try:
        put(np.zeros(1, np.float32))
    except Exception as error:  # each library has its own kind
        line = str(error).strip().splitlines()[0]
        raise ValueError(f"arrays: {arrays!r} cannot be used here: {line}") from None
    return Library(xp, put, GET[name])
