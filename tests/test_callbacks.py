"""Callbacks of scikit-learn hear of every round, may end a fit, and change nothing otherwise."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_estimators import CASES, IRIS, SCALED, SPECIES, each, made

from workbench.estimators import (
    MemoirClassifier,
    SampledCutClassifier,
    WestonWatkinsClassifier,
)
from workbench.estimators import callbacks as ours
from workbench.estimators.callbacks import ASKED, GapMonitor

theirs = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
BOUNDED = ["generalized", "minimax risk", "Weston-Watkins", "working set"]


@each
def test_scores_after_every_round_the_last_of_which_is_the_model_s(name):
    monitor = theirs.ScoringMonitor(scoring="accuracy")
    plain = made(name).fit(IRIS, SPECIES)
    model = made(name).set_callbacks(monitor).fit(IRIS, SPECIES)
    assert np.array_equal(model.decision_function(IRIS), plain.decision_function(IRIS))
    assert pickle.loads(pickle.dumps(model)).score(IRIS, SPECIES) == model.score(IRIS, SPECIES)
    assert "_told" not in vars(model)
    if name == "centroid":  # has no rounds
        return
    scored = [row["accuracy"] for row in monitor.get_logs().data]
    runs = len(getattr(model, "traces_", [model.trace_]))
    assert runs > 1 or len(scored) == len(model.trace_.rows) - 1
    if name != "working set":  # which truncates its weights
        assert scored[-1] == model.score(IRIS, SPECIES)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_gap_ends_a_fit_whose_bounds_are_those_of_the_model(name):
    monitor = GapMonitor(stop_at=0.2, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it ends as it was asked to
        model = made(name).set_callbacks(monitor).fit(SCALED, SPECIES)
    rows, last = monitor.rows, monitor.rows[-1]
    shares = [(row["upper"] - row["lower"]) / abs(row["upper"]) for row in rows]
    assert [row["round"] for row in rows] == list(range(1, len(rows) + 1))
    assert last["lower"] == pytest.approx(model.lower_)
    assert model.lower_ <= model.upper_ <= last["upper"] * (1 + 1e-9)
    assert min([1.0, *shares[:-1]]) > 0.2
    if model.trace_.stopped_by == ASKED:
        assert shares[-1] <= 0.2
    longer = made(name).fit(SCALED, SPECIES)
    assert len(rows) < len(longer.trace_.rows)


def test_a_limit_is_warned_of_where_fit_is_called():
    model = WestonWatkinsClassifier(max_iter=1).set_callbacks(GapMonitor(verbose=False))
    with pytest.warns(ConvergenceWarning, match="after 1 rounds") as caught:
        model.fit(SCALED, SPECIES)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("screen", [True, False])
def test_a_screen_shows_the_bounds_while_it_runs_and_a_file_the_last(screen, capsys, monkeypatch):
    monkeypatch.setattr(ours, "_on_a_screen", lambda: screen)
    WestonWatkinsClassifier(gap_ratio=0.1).set_callbacks(GapMonitor()).fit(SCALED, SPECIES)
    said = capsys.readouterr().err
    assert "<= optimum <=" in said and said.endswith("\n")
    assert (
        said.startswith("\rround 1: ") if screen else said.count("round") == said.count("\n") == 1
    )


@pytest.mark.parametrize(
    "model", [MemoirClassifier(n_batches=20), SampledCutClassifier()], ids=lambda m: str(m)[:7]
)
def test_without_bounds_the_gap_is_refused(model):
    with pytest.raises(ValueError, match=r"GapMonitor: this .* has no certified bounds"):
        model.set_callbacks(GapMonitor()).fit(SCALED, SPECIES)
    assert "_told" not in vars(model)


@pytest.mark.parametrize("stop_at", [0, -1.0, float("nan")])
def test_a_gap_that_is_not_positive_is_refused(stop_at):
    with pytest.raises(ValueError, match="stop_at: must be a positive number"):
        GapMonitor(stop_at)


def test_in_a_pipeline_and_in_a_search():
    scores, gap = theirs.ScoringMonitor(scoring="accuracy"), GapMonitor(0.05, verbose=False)
    step = WestonWatkinsClassifier(0.1, random_state=0).set_callbacks(scores, gap)
    pipe = make_pipeline(StandardScaler(), step).fit(IRIS, SPECIES)
    assert pipe[-1].trace_.stopped_by == ASKED and gap.rows
    assert scores.get_logs().data[-1]["accuracy"] == pipe.score(IRIS, SPECIES)
    search = GridSearchCV(clone(step), {"C": [0.01, 0.1]}, cv=2).fit(SCALED, SPECIES)
    assert search.best_estimator_.trace_.stopped_by == ASKED


def test_weights_are_passed_on():
    weights = np.linspace(0.1, 2, len(SPECIES))
    monitor = theirs.ScoringMonitor(scoring="accuracy")
    model = WestonWatkinsClassifier(0.01, max_iter=3, random_state=0).set_callbacks(monitor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(SCALED, SPECIES, sample_weight=weights)
    weighted = model.score(SCALED, SPECIES, weights)
    assert monitor.get_logs().data[-1]["accuracy"] == pytest.approx(weighted)


def test_every_hook_is_called_in_order():
    calls = []

    class Recorder:
        def setup(self, estimator, context):
            calls.append(("setup", context.task_name))

        def on_fit_task_begin(self, estimator, context):
            calls.append(("begin", context.task_name))

        def on_fit_task_end(self, estimator, context):
            calls.append(("end", context.task_name))
            return len(calls) > 5  # in the second round

        def teardown(self, estimator, context):
            calls.append(("teardown", context.task_name))

    model, _ = CASES["Weston-Watkins"]
    model = clone(model).set_callbacks(Recorder()).fit(SCALED, SPECIES)
    rounds = [("begin", "round"), ("end", "round")]
    fit = [("setup", "fit"), ("begin", "fit"), *rounds, *rounds, ("end", "fit")]
    assert calls == [*fit, ("teardown", "fit")]
    assert model.n_iter_ == 2 and model.trace_.stopped_by == ASKED


def test_an_older_scikit_learn_is_named():
    class Older(ours.Unheard):
        pass

    with pytest.raises(RuntimeError, match=r"needs scikit-learn 1\.9 or later, this is"):
        Older().set_callbacks(GapMonitor())
