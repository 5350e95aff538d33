"""Every classifier: labels of its own, however the rows are stored, or an error."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import STORED, labels, unsorted, values
from fuzz.trying import examples, trying
from workbench import estimators

NAMES = [name for name in estimators.__all__ if name not in ("load", "save")]
FEW = {"max_iter": 3, "n_features": 16, "block": 8, "block_size": 8, "landmarks": 8, "epochs": 2}


def made(name):
    kind = getattr(estimators, name)
    given = kind().get_params()
    few = {key: value for key, value in FEW.items() if key in given}
    return kind(**few, **({"random_state": 0} if "random_state" in given else {}))


@pytest.mark.parametrize("name", NAMES)
@examples(2)
@given(data=st.data())
def test_any_rows_are_fitted_and_predicted_or_refused(name, data):
    n, d = data.draw(st.integers(4, 14)), data.draw(st.integers(1, 4))
    X, y = data.draw(values(n, d)), data.draw(labels(n))
    X = X * 10.0 ** data.draw(st.sampled_from([-300, -120, -30, -3, 0, 0, 0, 3, 30, 120, 300]))
    stored = data.draw(st.sampled_from(sorted(set(STORED) - {"read-only", "memory-mapped"})))
    with trying(name), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given_as = unsorted(X) if data.draw(st.booleans()) else STORED[stored](X)
            model = made(name).fit(given_as, y.given)
            said, scores = model.predict(given_as), model.decision_function(given_as)
        except ValueError as error:
            assert str(error)
            return
        assert said.shape == (n,) and set(said.tolist()) <= set(model.classes_.tolist())
        assert np.isfinite(scores).all()
        again = X if not sp.issparse(given_as) else sp.csr_matrix(given_as)
        np.testing.assert_array_equal(model.predict(again), said)
