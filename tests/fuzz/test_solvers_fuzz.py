"""Every solver and classifier on any rows: finite and certified, or a clear error."""

import warnings

import numpy as np
from helpers import each
from helpers.oracles import plain
from helpers.solvers import CERTIFIED, DENSE_ONLY, NAMES, SHORT, TWO_CLASSES
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from fuzz.inputs import STORED, examples, labels, refused, unsorted, values
from workbench import as_problem, estimators, rounds, run

SCALES = [-99, -60, -30, -15, -7, -3, 0, 0, 0, 0, 3, 7, 15, 30, 59]
ORDINARY = [-3, 0, 3]  # scales on which every solver must answer
COLUMN = [-9, -3, 0, 0, 0, 0, 3, 9]


@examples(3)
@each("name", NAMES)
@given(data=st.data())
def test_any_rows_end_in_numbers_or_a_clear_error(name, data):
    draw = data.draw
    n = draw(st.integers(2, 14))
    d = draw(st.integers(1, 5))
    # its program has a row for every set of classes
    most = 2 if name in TWO_CLASSES else 6 if name == "mrc_lp" else 8
    X = draw(values(n, d))
    y = draw(labels(n, most)).codes
    scale = draw(st.sampled_from(SCALES))
    column = draw(st.sampled_from(COLUMN))
    X *= 10.0**scale
    X[:, -1] *= 10.0**column
    sparse = draw(st.booleans())
    ordinary = {scale, column} <= set(ORDINARY) and not (sparse and name in DENSE_ONLY)
    single = draw(st.booleans())
    with np.errstate(all="ignore"):
        X = X.astype("f4") if single else X
        try:
            problem = as_problem(csr_matrix(X) if sparse else X, y)
            trace, state = run(
                name,
                problem,
                rounds(4),
                parameters=SHORT.get(name, {}),
                warm_up=False,
            )
        except ValueError as error:
            # Out of scale, libraries have words of their own.
            assert not ordinary, repr(error)
            assert refused(error) or "rescale" in str(error), repr(error)
            return
        if trace.stopped_by == "diverged":
            assert not ordinary
            return
        scores = state.scores(problem.X)
    assert scores.shape == (problem.n, problem.k) and np.isfinite(scores).all()
    assert all(np.isfinite(v) for v in trace.last.values() if isinstance(v, float)), (
        trace.last
    )
    for row in map(plain, trace.rows if name in CERTIFIED else ()):
        rounding = (1e-6 if single else 1e-9) * max(1.0, abs(row["upper"]))
        assert row["lower"] <= row["upper"] + rounding


@each("name", estimators.__all__)
@examples(2)
@given(data=st.data())
def test_any_rows_are_fitted_and_predicted_or_refused(name, data):
    draw = data.draw
    n = draw(st.integers(4, 14))
    X = draw(values(n, draw(st.integers(1, 4))))
    y = draw(labels(n))
    X *= 10.0 ** draw(st.sampled_from([-300, -120, -30, -3, 0, 0, 0, 3, 30, 120, 300]))
    stored = draw(st.sampled_from(sorted(set(STORED) - {"read-only", "memory-mapped"})))
    model = getattr(estimators, name)(max_iter=3, random_state=0)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            X = unsorted(X) if draw(st.booleans()) else STORED[stored](X)
            model.fit(X, y.given)
            said = model.predict(X)
            scores = model.decision_function(X)
        except ValueError as error:
            assert str(error)
            return
    assert said.shape == (n,) and set(said.tolist()) <= set(model.classes_.tolist())
    assert np.isfinite(scores).all()
