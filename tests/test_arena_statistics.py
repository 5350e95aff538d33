"""Performance profiles and their marks, on tables worked by hand."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import arena_statistics as statistics
from workbench.core.trace import Trace
from workbench.figures.style import Look


def frame(**columns) -> pd.DataFrame:
    places = [(d, p, e) for d in ("iris", "wine") for p in (0, 1) for e in "ab"]
    return pd.DataFrame(places, columns=["data", "partition", "entry"]).assign(**columns)


def test_a_table_has_a_place_for_every_match_and_infinity_where_nothing_counts():
    rows = frame(test_error=np.arange(8.0), status=["done"] * 7 + ["failed"])
    rows.loc[2, "test_error"] = None
    rows.loc[5, "test_error"] = math.inf
    entries, sets, costs = statistics.table(rows, "test_error", rows["status"] == "done")
    assert (entries, sets) == (["a", "b"], ["iris", "wine"])
    assert costs.tolist() == [[[0, 1], [math.inf, 3]], [[4, math.inf], [6, math.inf]]]
    with pytest.raises(ValueError, match="needs a row for each"):
        statistics.table(rows.drop(index=3), "test_error")
    with pytest.raises(ValueError, match="two rows have the same"):
        statistics.table(pd.concat([rows, rows[:1]]), "test_error")


def test_there_is_one_standard_error_above_the_best_of_the_same_partition():
    nan = math.nan
    error, spread = [0.2, 0.5, nan, 0.3, 0.1, 0.1, nan, nan], [0.04, 0.05, nan, 0.02] + [0.01] * 4
    status = ["failed" if math.isnan(e) else "done" for e in error]
    cut = [nan if math.isnan(e) else False for e in error]
    rows = frame(test_error=error, standard_error=spread, status=status, cut=cut, fit_cpu=2.0)
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
    assert found["there"].tolist() == [True, False, False, True, True, True, False, False]
    rows.loc[0, "cut"] = True  # it neither sets the target nor gets there
    found = statistics.until_there(rows, runs)
    assert found["target"].tolist()[:2] == [0.55] * 2
    assert found["since"].tolist()[:2] == [never, 2.0] and not found["whole"][0]


@pytest.mark.parametrize(
    "errors, expected",
    [
        ((0.5, 0.2, 0.1, 0.1), 2.0),
        ((0.5, 0.1, 0.3, 0.1), 4.0),  # the dip at 2 was luck
        ((0.1, 0.1, 0.1, 0.3), math.inf),
        ((0.1, None, 0.1, 0.1), 1.0),
        ((0.5, None, None, 0.2), 4.0),
    ],
)
def test_a_run_is_there_when_it_stays(errors, expected):
    rows = [{"cpu": float(i), "test_error": e} for i, e in enumerate(errors, 1)]
    rows = [{name: v for name, v in row.items() if v is not None} for row in rows]
    assert statistics.stays(Trace({}, rows), 0.2) == expected


def test_a_profile_counts_what_was_never_solved():
    never = math.inf
    costs = np.array([[[1.0, 3.0, 1.0], [4.0, 1.0, never]], [[2.0, never, 9.0], [never] * 3]])
    ratios = statistics.performance_ratios(costs)
    assert ratios.tolist() == [[1, 3, 1], [4, 1, never], [1, never, 4.5], [never] * 3]


def test_runs_end_in_a_mark_with_whiskers_and_cut_runs_are_apart():
    figure, ax = plt.subplots()
    look = Look("a", "#112233", "o")
    x, y, cut = (2.0, 3.0, 4.0, 8.0), (0.1, 0.2, 0.4, 0.45), (False, False, False, True)
    statistics.draw_spread(ax, look, x, y, cut)
    full, hollow = (bars.lines[0] for bars in ax.containers)
    assert full.get_xydata().tolist() == [[3.0, 0.2]]
    assert full.get_markerfacecolor() == look.colour
    assert hollow.get_xydata().tolist() == [[8.0, 0.45]]
    assert hollow.get_markerfacecolor() == "white"
    bars = [bar.get_segments()[0].tolist() for bar in ax.containers[0].lines[2]]
    assert bars == [[[2.0, 0.2], [4.0, 0.2]], [[3.0, 0.1], [3.0, 0.4]]]
    plt.close(figure)
