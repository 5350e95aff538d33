"""Every solver on any problem: finite and certified, or a clear error; storage changes nothing."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from oracles import plain
from test_solvers import CERTIFIED, DENSE_ONLY, NAMES, SHORT, SINGLE, TWO_CLASSES

from fuzz.inputs import STORED, long_indices, unsorted, values
from fuzz.trying import examples, long, refused, trying
from workbench.core.measures import predictions
from workbench.core.problem import as_problem
from workbench.core.stream import rounds
from workbench.runs.run import run

ROUNDS = 4
# Solvers of the least time to compile: the others are tried on what is stored otherwise in the
# long profile alone, since read-only rows make kernels of their own.
READ_ONLY = ["mrc_subgradient", "ridge", "centroid", "libsvm"]


def solved(name, problem, parameters=None):
    """Return the rows of the trace, the last state's scores and predictions."""
    parameters = SHORT.get(name, {}) | (parameters or {})
    with trying(name):
        trace, state = run(name, problem, rounds(ROUNDS), parameters=parameters, warm_up=False)
        scores, said = state.scores(problem.X), predictions(state, problem.X, problem.k)
    for row in trace.rows:
        row.pop("seconds"), row.pop("cpu")
    return trace, scores, said


def bounded(trace, single=False):
    """The certified interval, the last row's; single precision sums few terms to 1e-6."""
    for row in map(plain, trace.rows):
        rounding = (1e-6 if single else 1e-9) * max(1.0, abs(row["upper"]))
        assert row["lower"] <= row["upper"] + rounding
    return plain(trace.last)["lower"], plain(trace.last)["upper"]


def overlap(intervals, share):
    lower, upper = max(low for low, _ in intervals), min(high for _, high in intervals)
    return lower <= upper + share * max(1.0, abs(upper))


@st.composite
def problems(draw, name):
    """Rows, labels and a column's scale, as plain arrays; two classes where no more are taken."""
    n, d = draw(st.integers(2, 14)), draw(st.integers(1, 5))
    most = 6 if name == "mrc_lp" else n  # a row of its program for every set of classes
    k = 2 if name in TWO_CLASSES else draw(st.integers(2, min(n, most)))
    X = draw(values(n, d))
    y = np.array(
        [*range(k), *draw(st.lists(st.integers(0, k - 1), min_size=n - k, max_size=n - k))]
    )
    return X, y


SCALES = [-99, -60, -30, -15, -7, -3, 0, 0, 0, 0, 3, 7, 15, 30, 59]
ORDINARY = [-3, 0, 3]  # where every solver is to answer
COLUMN = [-9, -3, 0, 0, 0, 0, 3, 9]


@examples(2)
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_any_rows_end_in_numbers_or_a_clear_error(name, data):
    X, y = data.draw(problems(name))
    scale, column = data.draw(st.sampled_from(SCALES)), data.draw(st.sampled_from(COLUMN))
    X = X * 10.0**scale
    X[:, -1] *= 10.0**column
    sparse = data.draw(st.booleans())
    ordinary = {scale, column} <= set(ORDINARY) and not (sparse and name in DENSE_ONLY)
    single = data.draw(st.booleans())
    with np.errstate(over="ignore", under="ignore"):
        X = X.astype(np.float32) if single else X
    try:
        problem = as_problem(sp.csr_matrix(X) if sparse else X, y)
        trace, scores, said = solved(name, problem)
    except ValueError as error:
        # Out of scale, libraries have words of their own.
        assert not ordinary, repr(error)
        assert refused(error) or "rescale" in str(error), repr(error)
        return
    if trace.stopped_by == "diverged":
        assert not ordinary
        return
    assert scores.shape == (problem.n, problem.k) and np.isfinite(scores).all()
    assert said.min() >= 0 and said.max() < problem.k
    for key, value in trace.last.items():
        assert not isinstance(value, float) or np.isfinite(value), key
    if name in CERTIFIED:
        bounded(trace, single)


@examples(2)
@pytest.mark.parametrize("name", [name for name in NAMES if name in CERTIFIED])
@given(data=st.data())
def test_certified_intervals_of_the_same_rows_overlap(name, data):
    X, y = data.draw(problems(name))
    order, names = (
        data.draw(st.permutations(range(len(y)))),
        data.draw(st.permutations(range(max(y) + 1))),
    )
    same = [X, X.astype(np.float32), X[order]]
    labels = [y, y, y[order]]
    if name not in DENSE_ONLY:
        same, labels = [*same, sp.csr_matrix(X), unsorted(X).astype(np.float32)], [*labels, y, y]
    same, labels = [*same, X], [*labels, np.array(names)[y]]
    if name.startswith("mrc"):  # no unit of measurement matters
        same, labels = [*same, X * 2.0 ** data.draw(st.integers(-12, 12))], [*labels, y]
    try:
        ends = [
            bounded(solved(name, as_problem(X, y))[0], X.dtype == np.float32)
            for X, y in zip(same, labels)
        ]
    except ValueError as error:
        assert refused(error), repr(error)
        return
    assert overlap(ends, 1e-4 if name in SINGLE else 1e-5), ends


@examples(2)
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_the_same_numbers_stored_otherwise_give_the_same_run(name, data):
    X, y = data.draw(problems(name))
    plain = as_problem(X, y)
    stored = data.draw(st.sampled_from(sorted(STORED)))
    if stored in ("read-only", "memory-mapped") and name not in READ_ONLY and not long():
        stored = "strided"
    others = [(plain, as_problem(STORED[stored](X), y))]
    if name not in DENSE_ONLY:
        kind = data.draw(st.sampled_from([unsorted, long_indices]))
        entries = sp.csr_matrix(X)
        if kind is unsorted:
            entries = unsorted(X)
            entries.sort_indices()
        others.append((as_problem(entries, y), as_problem(kind(X), y)))
    for first, second in others:
        try:
            (one, V, _), (other, U, _) = solved(name, first), solved(name, second)
        except ValueError as error:
            assert refused(error), repr(error)
            return
        assert [*map(repr, one.rows)] == [*map(repr, other.rows)]
        assert V.tobytes() == U.tobytes()
