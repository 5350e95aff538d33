"""Performance profiles and their marks, on tables worked by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from helpers import refuses

import arena_statistics as statistics
from workbench.core.trace import Trace


def frame(**columns):
    places = [(d, p, e) for d in ("iris", "wine") for p in (0, 1) for e in "ab"]
    return pd.DataFrame(places, columns=["data", "partition", "entry"]).assign(
        **columns
    )


def test_a_table_has_every_match_or_infinity():
    rows = frame(test_error=np.arange(8.0), status=["done"] * 7 + ["failed"])
    rows.loc[2, "test_error"] = None
    rows.loc[5, "test_error"] = math.inf
    entries, sets, costs = statistics.table(
        rows, "test_error", rows["status"] == "done"
    )
    assert (entries, sets) == (["a", "b"], ["iris", "wine"])
    never = math.inf
    assert costs.tolist() == [[[0, 1], [never, 3]], [[4, never], [6, never]]]
    costs = np.array(
        [[[1.0, 3.0, 1.0], [4.0, 1.0, never]], [[2.0, never, 9.0], [never] * 3]]
    )
    ratios = statistics.performance_ratios(costs)
    assert ratios.tolist() == [[1, 3, 1], [4, 1, never], [1, never, 4.5], [never] * 3]
    with refuses("needs a row for each"):
        statistics.table(rows.drop(index=3), "test_error")


def test_marks_stand_one_standard_error_above_the_best():
    nan = math.nan
    error = [0.2, 0.5, nan, 0.3, 0.1, 0.1, nan, nan]
    spread = [0.04, 0.05, nan, 0.02] + [0.01] * 4
    status = ["failed" if math.isnan(e) else "done" for e in error]
    cut = [nan if math.isnan(e) else False for e in error]
    rows = frame(
        test_error=error, standard_error=spread, status=status, cut=cut, fit_cpu=2.0
    )
    runs = [
        Trace({}, [{"cpu": 1.0, "test_error": 0.6}, {"cpu": 2.0, "test_error": e}])
        for e in error
        if not math.isnan(e)
    ]
    found = statistics.until_there(rows, runs)
    expected = [0.24] * 2 + [0.32] * 2 + [0.11] * 2 + [nan] * 2
    assert found["target"].tolist() == pytest.approx(expected, nan_ok=True)
    never = math.inf
    assert found["since"].tolist() == [2.0, never, never, 2.0, 2.0, 2.0, never, never]
    assert (found["there"] == np.isfinite(found["since"])).all()
    rows.loc[0, "cut"] = True  # it neither sets the target nor gets there
    found = statistics.until_there(rows, runs)
    assert found["target"].tolist()[:2] == [0.55] * 2
    assert found["since"].tolist()[:2] == [never, 2.0] and not found["whole"][0]


def test_a_run_is_there_when_it_stays():
    for errors, expected in (
        ((0.5, 0.2, 0.1, 0.1), 2.0),
        ((0.5, 0.1, 0.3, 0.1), 4.0),  # the dip at 2 was luck
        ((0.1, 0.1, 0.1, 0.3), math.inf),
        ((0.1, None, 0.1, 0.1), 1.0),
        ((0.5, None, None, 0.2), 4.0),
    ):
        rows = [{"cpu": float(i), "test_error": e} for i, e in enumerate(errors, 1)]
        rows = [{name: v for name, v in row.items() if v is not None} for row in rows]
        assert statistics.stays(Trace({}, rows), 0.2) == expected
