"""Stagewise regression on a Dask cluster: as in one process, also when a worker is lost."""

import os
import pickle
import signal
import time
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from scipy.special import softmax

from workbench.least_squares.distributed import (
    _advanced,
    _opened,
    scattered,
    stagewise_on_dask,
)
from workbench.least_squares.stagewise import ls_stagewise

distributed = pytest.importorskip("distributed", reason="needs the extra `cluster`")

FEATURES = {"n_features": 32, "block": 16}
STEPS = {"alpha": 1e-3, "passes": 2, "inner": 2}


def last(steps):
    *_, state = steps
    return state


@pytest.fixture(scope="module")
def client():
    """Two worker processes: what they are given is pickled."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def problem(blobs):
    return blobs(n=101, d=5, k=3, dtype=np.float32)


@pytest.fixture(scope="module")
def generator(problem):
    return next(ls_stagewise(problem, **FEATURES)).generator


@pytest.mark.parametrize(("link", "kept"), [("identity", np.inf), ("softmax", 3e3)])
def test_two_workers_agree_with_one_process(link, kept, client, problem, generator):
    one = last(ls_stagewise(problem, link=link, **FEATURES, **STEPS))
    parts = scattered(client, problem, 5)
    many = last(stagewise_on_dask(client, parts, generator, 3, link=link, kept=kept, **STEPS))
    assert many.round == one.round == 4 and many.F.shape == (0, 3)
    assert many.primal == pytest.approx(one.primal, rel=1e-5)
    P, Q = (softmax(state.scores(problem.X), axis=1) for state in (one, many))
    assert abs(P - Q).max() < 1e-5


def test_the_same_parts_give_the_same_digits_also_when_resumed(client, problem, generator):
    parts = scattered(client, problem, 3)

    def run(state=None):
        state = state and replace(state, W=state.W.copy())
        steps = stagewise_on_dask(client, parts, generator, 3, **STEPS, state=state)
        return [replace(s, W=s.W.copy()) for s in steps]

    whole, again = run(), run()
    assert all(np.array_equal(s.W, t.W) for s, t in zip(whole, again, strict=True))
    # In the first pass scores are the sum of the blocks' steps, as those made of the weights are,
    # to the digit; later they have been rounded more often.
    assert np.array_equal(run(whole[1])[-1].W, whole[-1].W)
    ends = [run(whole[3])[-1].W for _ in range(2)]
    assert np.array_equal(*ends)
    np.testing.assert_allclose(ends[0], whole[-1].W, atol=1e-4)


def test_tasks_may_be_done_again(problem, generator):
    part, F = (problem.X, problem.y), np.zeros((101, 3), np.float32)
    share = _opened(part, (F, 0.0), (generator, "softmax", 2**20), 0)
    V = np.random.default_rng(0).normal(size=(16, 3))
    (first, loss), (second, same) = _advanced(share, V), _advanced(share, V)
    assert np.array_equal(first, second) and loss == same and first.any()
    other, _ = _advanced(share, 2 * V)
    np.testing.assert_allclose(other, 2 * first, atol=1e-5)
    assert np.array_equal(first, second) and not F.any() and not share.F.any()
    assert not any(np.shares_memory(a, share.aside) for a in (first, second, other))


def test_bad_parts_and_settings_are_named(client, problem, generator):
    def refused(message, parts, k=3, **settings):
        with pytest.raises(ValueError, match=message):
            next(stagewise_on_dask(client, parts, generator, k, **settings))

    refused("parts: must hold at least one future", [])
    parts = scattered(client, problem, 3)
    assert problem.y.max() == 2
    refused("k: 33 rows have codes that are not of 0, ..., 1", parts, 2)
    below = client.scatter((problem.X, problem.y - 1), hash=False)
    refused("k: 34 rows have codes", [*parts, client.submit(lambda *part: part, *below)])
    refused("parts: hold no rows", [client.submit(lambda: (problem.X[:0], problem.y[:0]))])
    refused("kept: must be a number of bytes", parts, kept=-1)
    refused("kept: must be a number of bytes", parts, kept=np.nan)
    with pytest.raises(ValueError, match="parts: must be a whole number of at least 1, got 0"):
        scattered(client, problem, 0)
    few = replace(problem, X=problem.X[:3], y=problem.y[:3])
    assert [len(y) for _, y in client.gather(scattered(client, few, 10))] == [1, 1, 1]


def test_weights_and_anchors_are_in_one_task_not_in_one_a_part(client, problem, monkeypatch):
    wide = {"features": "nystroem", "n_features": 64, "block": 64}
    generator = next(ls_stagewise(problem, **wide)).generator
    parts, sizes = scattered(client, problem, 2), []
    submit = client.submit

    def measured(function, *arguments, **settings):
        sizes.append(
            len(pickle.dumps([a for a in arguments if not isinstance(a, distributed.Future)]))
        )
        return submit(function, *arguments, **settings)

    monkeypatch.setattr(client, "submit", measured)
    last(stagewise_on_dask(client, parts, generator, 3, passes=2, inner=4))
    # W and the settings, then in two visits of one block three questions and one advance.
    assert sum(size > 500 for size in sizes) == 2 + 2 * (3 + 1)


def kill(client, workers):
    """Kill as many workers, and wait until the scheduler has noticed."""
    for address, pid in list(client.run(os.getpid).items())[:workers]:
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 10
        while address in client.scheduler_info(n_workers=-1)["workers"]:
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_run_goes_on_when_a_worker_is_killed(client, problem, generator):
    def read(i):  # in the test, so that workers need not import this file
        return problem.X[i::3], problem.y[i::3]

    parts = [client.submit(read, i, pure=False) for i in range(3)]
    expected = last(stagewise_on_dask(client, parts, generator, 3, **STEPS)).W.copy()
    for state in stagewise_on_dask(client, parts, generator, 3, **STEPS):
        if state.round == 2:
            kill(client, 1)
    assert state.round == 4 and np.array_equal(state.W, expected)


def test_scattered_parts_are_lost_with_their_workers_the_state_is_not(client, problem, generator):
    parts = scattered(client, problem, 3)
    steps = stagewise_on_dask(client, parts, generator, 3, **STEPS)
    state = next(islice(steps, 1, None))
    kill(client, 2)
    with pytest.raises(distributed.client.FutureCancelledError, match="lost dependencies"):
        last(steps)
    assert state.round == 1
    one = ls_stagewise(problem, **FEATURES, **STEPS)
    W = next(islice(one, 1, None)).W.copy()
    np.testing.assert_allclose(state.W, W, atol=1e-4)
    again = replace(state, F=state.scores(problem.X))
    assert last(ls_stagewise(problem, **STEPS, state=again)).primal == pytest.approx(
        last(one).primal, rel=1e-5
    )
