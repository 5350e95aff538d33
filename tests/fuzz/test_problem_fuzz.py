"""Rows and labels of any kind that is accepted are kept exactly."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fuzz.inputs import examples, labels, rows
from workbench import as_problem
from workbench.core.matrices import as_dense

sizes = st.tuples(st.integers(2, 12), st.integers(1, 5))


@examples(80)
@given(st.data())
def test_rows_and_labels_of_any_kind_are_kept_exactly(data):
    n, d = data.draw(sizes)
    made = data.draw(rows(n, d))
    named = data.draw(labels(n))
    problem = as_problem(made.given, named.given)
    assert problem.X.dtype in (np.float32, np.float64) and problem.X.dtype.isnative
    assert_array_equal(as_dense(problem.X), made.plain)
    if sp.issparse(problem.X):
        fresh = sp.csr_matrix(
            (problem.X.data, problem.X.indices, problem.X.indptr), (n, d)
        )
        assert fresh.has_canonical_format and fresh.indices.dtype == np.int32
    else:
        assert problem.X.flags.c_contiguous and problem.X.flags.aligned
    assert problem.y.tolist() == named.codes.tolist()
    if not np.issubdtype(problem.classes.dtype, np.datetime64):
        assert problem.classes.tolist() == named.classes
    assert as_problem(made.given, named.given).checksum == problem.checksum
