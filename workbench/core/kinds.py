"""Type aliases of signatures, each ``Any`` with its reason; docstrings add shapes and
units."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Matrix: TypeAlias = Any  # an array or a CSR matrix: SciPy has no types
Given: TypeAlias = (
    Any  # from users, still to be checked: arrays, frames, lists, sparse matrices
)
Json: TypeAlias = Any  # read by json.loads, or to be written
Model: TypeAlias = Any  # of scikit-learn, which has no types
Values: TypeAlias = Mapping[str, Any]  # by name, each of its own type: parameters, JSON
Record: TypeAlias = dict[str, Any]  # values by name that may be changed
Steps: TypeAlias = Callable[
    ..., Any
]  # a solver: a problem, and keywords that no type can list
PathLike: TypeAlias = str | os.PathLike[str]
