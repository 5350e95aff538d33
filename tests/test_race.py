"""A race that one watches at every step: equals are rarely called unequal, others are."""

from types import SimpleNamespace

import numpy as np
import pytest

from workbench.core.problem import as_problem
from workbench.core.watched import LEVEL, unequal
from workbench.live.race import Race

RACES, LOOKS, ROWS = 10_000, 40, 300


def watched(first, second, seed=0):
    """Return numbers of rows that only one has wrong, (looks, races) each.

    Both are wrong on a row at these rates. Each look changes a tenth of the rows, as rounds do.
    """
    rng = np.random.default_rng(seed)
    draw = lambda rate, size: rng.random(size) < rate  # noqa: E731
    one, two = draw(first, (RACES, ROWS)), draw(second, (RACES, ROWS))
    for _ in range(LOOKS):
        changed = slice(start := rng.integers(ROWS - ROWS // 10), start + ROWS // 10)
        one[:, changed] = draw(first, (RACES, ROWS // 10))
        two[:, changed] = draw(second, (RACES, ROWS // 10))
        yield (one & ~two).sum(axis=1), (two & ~one).sum(axis=1)


def test_of_races_of_equals_watched_at_every_step_few_have_a_winner():
    ever, naive = np.zeros(RACES, bool), np.zeros(RACES, bool)
    for look, (b, c) in enumerate(watched(0.2, 0.2), 1):
        ever |= unequal(b, c, look)
        naive |= unequal(b, c, 1, pairs=0.5)  # the level of one look, at each
    assert 0 < ever.mean() <= LEVEL
    assert naive.mean() > 3 * LEVEL, "a test that forgets how often it looked is often wrong"


def test_of_many_equals_the_best_is_rarely_put_out():
    """As `compare` does it: at each look those surely worse than the one ahead are out."""
    rng, out = np.random.default_rng(0), np.zeros(RACES, bool)
    for look in (1, 2, 3):
        wrong = rng.random((6, RACES, ROWS)) < 0.2  # the first is the best, as all are
        ahead = wrong[wrong.sum(axis=2).argmin(axis=0), np.arange(RACES)]
        b, c = (wrong[0] & ~ahead).sum(axis=1), (ahead & ~wrong[0]).sum(axis=1)
        out |= unequal(b, c, look, 5)
    assert 0 < out.mean() <= LEVEL


def test_a_better_one_is_found():
    ever = np.zeros(RACES, bool)
    for look, (b, c) in enumerate(watched(0.1, 0.25), 1):
        ever |= unequal(b, c, look)
    assert ever.mean() > 0.95


def test_the_verdict_names_who_is_ahead_of_whom():
    m = 400
    problem = as_problem(np.eye(2), [0, 1])
    problem = problem.__class__(
        **vars(problem) | {"X_test": np.zeros((m, 2)), "y_test": np.zeros(m, int)}
    )
    race = Race(problem)

    def state(wrong):  # of that many rows
        scores = np.tile([1.0, 0.0], (m, 1))
        scores[:wrong] = [0.0, 1.0]
        return SimpleNamespace(scores=lambda X: scores)

    labels = {"a": "A", "b": "B", "c": "C"}
    assert race.look(labels) == ""
    assert race.judge("a")(state(20)) == {"test_error": 0.05}
    assert race.look(labels) == "", "one alone is not ahead"
    race.judge("b")(state(22))
    assert race.look(labels) == "No run is ahead yet: 400 test rows do not tell these apart."
    race.judge("c")(state(90))
    said = race.look(labels)
    assert said.startswith("A is ahead of C; not yet of B (wrong in at most 5 % of races")
    assert race.look({"a": "A", "b": "B"}) == said, "no look is due: nothing new is said"
    race.judge("b")(state(22))
    assert race.look({"a": "A", "b": "B"}).startswith("No run is ahead")


@pytest.mark.parametrize(("b", "c", "look", "said"), [(0, 5, 1, False), (0, 7, 1, True)])
def test_the_level_of_a_look_is_exact(b, c, look, said):
    """2^-5 * 2 = 0.0625 and 2^-7 * 2 = 0.0156, against 0.05 / 2."""
    assert unequal(b, c, look) == said
