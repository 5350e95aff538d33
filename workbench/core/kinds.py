"""Type aliases for signatures.

Those that stand for ``Any`` say why. Docstrings add shapes and units.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray
# An array or a CSR matrix; SciPy has no types.
Matrix: TypeAlias = Any
# What a user passes, before it is checked: an array, a frame, a list, a sparse matrix.
Given: TypeAlias = Any
# What json.loads returns, or what is written as JSON.
Json: TypeAlias = Any
# A model of scikit-learn, which has no types.
Model: TypeAlias = Any
# Parameters or JSON: values by name, each of its own type.
Values: TypeAlias = Mapping[str, Any]
# Values by name that may be changed.
Record: TypeAlias = dict[str, Any]
# A solver: it takes a problem, and keywords that no type can list.
Steps: TypeAlias = Callable[..., Any]
PathLike: TypeAlias = str | os.PathLike[str]
