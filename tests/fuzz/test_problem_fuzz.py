"""Rows and labels at the door: what is accepted is exact, what is not is named."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import examples, labels, refused, rows, values
from workbench.core.problem import as_problem

sizes = st.tuples(st.integers(2, 12), st.integers(1, 5))


def plain(X):
    return X.toarray() if sp.issparse(X) else X


@examples(80)
@given(st.data())
def test_rows_and_labels_of_any_kind_are_kept_exactly(data):
    n, d = data.draw(sizes)
    made, named = data.draw(rows(n, d)), data.draw(labels(n))
    problem = as_problem(made.given, named.given)
    assert problem.X.dtype in (np.float32, np.float64) and problem.X.dtype.isnative
    np.testing.assert_array_equal(plain(problem.X), made.plain)
    if sp.issparse(problem.X):
        fresh = sp.csr_matrix((problem.X.data, problem.X.indices, problem.X.indptr), (n, d))
        assert fresh.has_canonical_format and fresh.indices.dtype == np.int32
    else:
        assert problem.X.flags.c_contiguous and problem.X.flags.aligned
    assert problem.y.tolist() == named.codes.tolist()
    if not np.issubdtype(problem.classes.dtype, np.datetime64):
        assert problem.classes.tolist() == named.classes
    again = as_problem(made.given, named.given)
    assert again.checksum == problem.checksum


def spoilt(data, X, y):
    """Return rows and labels of which one thing is wrong, and the argument to be named."""
    n, d = X.shape
    i = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, d - 1))
    kind = data.draw(st.sampled_from(sorted(WRONG)))
    return kind, *WRONG[kind](X.copy(), list(y), i, data)


def put(X, i, value):
    X = X.astype(object) if not isinstance(value, float) else X
    X[i] = value
    return X


WRONG = {
    "nan": lambda X, y, i, _: (put(X, i, np.nan), y, "X"),
    "infinite": lambda X, y, i, _: (sp.csr_matrix(put(X, i, np.inf)), y, "X"),
    "a word": lambda X, y, i, _: (put(X, i, "word"), y, "X"),
    "none": lambda X, y, i, _: (put(X, i, None), y, "X"),
    "complex": lambda X, y, i, _: (X + 1j, y, "X"),
    "too large": lambda X, y, i, _: (put(X, i, 10**400), y, "X"),
    "too long": lambda X, y, i, _: (
        X.astype(np.longdouble) * np.longdouble("1e4000") + np.longdouble("1e4000"),
        y,
        "X",
    ),
    "ragged": lambda X, y, i, _: ([*X.tolist(), [1.0] * (X.shape[1] + 1)], [*y, y[0]], "X"),
    "0-d": lambda X, y, i, _: (np.float64(3), y, "X"),
    "1-d": lambda X, y, i, _: (X[:, 0], y, "X"),
    "3-d": lambda X, y, i, _: (X[None], y, "X"),
    "none at all": lambda X, y, i, _: (None, y, "X"),
    "sparse 1-d": lambda X, y, i, _: (sp.coo_array(X[:, 0]), y, "X"),
    "no rows": lambda X, y, i, _: (X[:0], [], "X"),
    "no columns": lambda X, y, i, _: (X[:, :0], y, "X"),
    "masked": lambda X, y, i, _: (
        np.ma.masked_array(X, np.arange(X.size).reshape(X.shape) < 1),
        y,
        "X",
    ),
    "text": lambda X, y, i, _: (X.astype("U8"), y, "X"),
    "dates": lambda X, y, i, _: (X.astype("M8[D]"), y, "X"),
    "records": lambda X, y, i, _: (np.zeros(X.shape, "i4,f4"), y, "X"),
    "infinite sum": lambda X, y, i, _: (
        sp.coo_matrix(([1.5e308] * 2, ([0, 0], [0, 0])), X.shape),
        y,
        "X",
    ),
    "a label less": lambda X, y, i, _: (X, y[1:], "y"),
    "0-d labels": lambda X, y, i, _: (X, 3, "y"),
    "2-d labels": lambda X, y, i, _: (X, np.zeros((len(y), 2)), "y"),
    "ragged labels": lambda X, y, i, _: (X, [[1], *([[1, 2]] * (len(y) - 1))], "y"),
    "no labels": lambda X, y, i, _: (X, None, "y"),
    "one class": lambda X, y, i, _: (X, [y[0]] * len(y), "y"),
    "missing": lambda X, y, i, _: (X, [np.nan, *map(float, range(len(y) - 1))], "y"),
    "missing date": lambda X, y, i, _: (X, np.array(["NaT"] * len(y), "M8[D]"), "y"),
    "missing, nullable": lambda X, y, i, _: (X, pd.array([None, *range(len(y) - 1)], "Int64"), "y"),
    "masked labels": lambda X, y, i, _: (X, np.ma.masked_equal(np.arange(len(y)), 0), "y"),
    "dictionaries": lambda X, y, i, _: (X, [{"a": j} for j in range(len(y))], "y"),
    "mixed": lambda X, y, i, _: (X, np.array(["a", *range(len(y) - 1)], object), "y"),
    "records as labels": lambda X, y, i, _: (X, sp.csr_matrix(np.eye(len(y))), "y"),
}


@examples(60)
@given(st.data())
def test_what_is_wrong_is_named(data):
    n, d = data.draw(sizes)
    X, y = data.draw(values(n, d)), np.arange(n) % 2
    kind, X, y, argument = spoilt(data, X, y)
    with np.errstate(all="ignore"), pytest.raises(ValueError) as caught:
        as_problem(X, y)
    assert refused(caught.value) and str(caught.value).startswith(f"{argument}: "), kind
