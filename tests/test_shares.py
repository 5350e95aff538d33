"""Shares of the rows: their answers summed in one order, and the same iterates however many."""

from itertools import islice

import numpy as np
import pytest

from workbench.core.shares import Shares
from workbench.least_squares import rows
from workbench.least_squares.stagewise import ls_columns, ls_stagewise


class Part:
    def __init__(self, value):
        self.value, self.seen = value, []

    def number(self, factor):
        return factor * self.value

    def several(self):
        return self.value, np.full(2, self.value)

    def note(self, text):
        self.seen.append(text)

    def refuse(self):
        return 1 / (3 - self.value)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_answers_are_summed_in_the_order_of_the_shares(count):
    values = [1e16, 1.0, -1e16, 1.0, 3.0, 1e-3, 7.0][:count]  # another order, another sum
    with Shares([Part(value) for value in values]) as shares:
        expected = values[0]
        for value in values[1:]:
            expected += value
        for _ in range(20):
            assert shares.ask(Part.number, 1.0) == expected
        number, array = shares.ask(Part.several)
        assert number == expected and array.tolist() == [expected, expected]
        assert shares.change(Part.note, "seen") is None
        assert all(share.seen == ["seen"] for share in shares.shares)


def test_an_error_of_one_share_is_raised():
    with Shares([Part(1), Part(3)]) as shares, pytest.raises(ZeroDivisionError):
        shares.ask(Part.refuse)


@pytest.mark.parametrize("link", ["identity", "softmax"])
@pytest.mark.parametrize("solver", [ls_stagewise, ls_columns])
def test_any_number_of_shares_and_kept_features_has_the_same_iterates(
    solver, link, blobs, monkeypatch
):
    monkeypatch.setattr(rows, "GRAM_ROWS", 10)
    sizes = {"n_features": 48, "block": 16} if solver is ls_stagewise else {"block": 2}
    problem, traces = blobs(n=103, d=5, k=3), []
    for workers, kept in ((1, 2**28), (2, 3e3), (7, np.inf), (1, 0)):
        steps = solver(problem, link=link, alpha=1e-3, workers=workers, kept=kept, **sizes)
        traces.append([(state.primal, state.loss) for state in islice(steps, 7)])
    for trace in traces[1:]:
        np.testing.assert_allclose(trace, traces[0], rtol=1e-10)
