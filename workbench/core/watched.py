"""Verdicts on two classifiers that stay valid when one looks again and again.

Of the test rows, b are wrong by the first classifier alone and c by the second alone. If both err
equally often, each of these b + c rows is a fair coin, whatever the other rows do: McNemar's exact
test. Looking at every round of a run means seeing new classifiers on *the same* rows, so that no
martingale over rows, with Ville's inequality, is valid across looks. Hence the level is spent: look
number t has 1 / (t (t + 1)) of it, which sums to one over all looks, and by the union bound the
chance of any wrong verdict is at most the level, however the looks depend on each other and
whenever one stops. At a single look the exact test is also the stronger one: of 100 such rows with
a coin of bias 0.65 it finds 45 % at level 0.002, a uniform mixture over the bias 12 %.

References
----------
McNemar: Note on the sampling error of the difference between correlated proportions. 1947.
Ville: Étude critique de la notion de collectif. 1939.
Robbins: Statistical methods related to the law of the iterated logarithm. 1970.
Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences.
Annals of Statistics 2021.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

LEVEL = 0.05  # the chance that equals are ever called unequal


def unequal(only_first, only_second, look: int, pairs: int = 1):
    """Return whether two classifiers differ at look number 1, 2, ..., whatever one saw before.

    If all pairs are equally good at every look, the chance that one is ever called unequal is at
    most :data:`LEVEL`. A look's classifiers may depend on anything but the test rows.

    Parameters
    ----------
    only_first, only_second : numbers of test rows, or arrays of them, that only one has wrong
    pairs : how many are compared at each look, among which the level is shared; where it matters
        only that the best of all is not called worse, the number of the others
    """
    b, c = np.asarray(only_first), np.asarray(only_second)
    chance = np.minimum(1.0, 2.0 * binom.cdf(np.minimum(b, c), b + c, 0.5))
    return chance <= LEVEL / (look * (look + 1) * pairs)
