"""The costs of a round on paper."""

import math

import pytest

from workbench.arena.costs import ROUND, exponent
from workbench.registry import SOLVERS


def test_exponents_on_paper_are_of_solvers():
    assert set(ROUND) <= set(SOLVERS)
    assert exponent("ww_shark", "k") == 2 and exponent("ww_walrus", "k") == 1
    assert exponent("ridge", "d") == 3 and exponent("libsvm", "n") == 2
    assert math.isnan(exponent("mrc_lp", "k")) and exponent("mrc_lp", "n") == 1
    assert exponent("mrc_lp", "n", {"n": 10, "d": 3, "k": 2000}) == 1
    assert math.isnan(exponent("not a solver", "n"))
    wide, long = {"n": 10, "d": 1e4, "k": 3}, {"n": 1e9, "d": 1e4, "k": 3}
    assert exponent("ridge", "d", wide) == pytest.approx(3, abs=0.01)
    assert exponent("ridge", "d", long) == pytest.approx(2, abs=0.01)
