"""What tests of several files ask for: cases, an error that names the argument, a
condition."""

import ast
import time

import numpy as np
import pytest
from scipy.sparse import csr_matrix

each = pytest.mark.parametrize
slow = pytest.mark.slow
module_fixture = pytest.fixture(scope="module")
dense_or_sparse = each("kind", [np.asarray, csr_matrix])
single_or_double = each("dtype", [np.float32, np.float64])
sparse_or_not = each("sparse", [False, True])


def each_path(paths):
    """Run a test for each of these paths, which are named by their stems."""
    return each("path", paths, ids=lambda path: path.stem)


def refuses(message, kind=ValueError):
    """Expect an error of this kind whose text matches `message`."""
    return pytest.raises(kind, match=message)


def imported(path):
    """Yield what a file imports, inside its functions too; what is relative begins
    with a dot."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            place = "." * node.level + (node.module or "")
            yield from (f"{place}.{alias.name}" for alias in node.names)


def wait(condition, limit=60.0, process=None):
    """Wait until something is there, and while a process lives; return it."""
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        assert process is None or process.poll() is None, "the process has ended"
        time.sleep(0.002)
    return found
