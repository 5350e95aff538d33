"""Verdicts on two classifiers that stay valid when one looks again and again.

Of the test rows, b are wrong by the first classifier alone and c by the second alone. If both err
equally often, each of these b + c rows is a fair coin, whatever the other rows do: McNemar's exact
test. Who looks at every round of a run sees other classifiers on *the same* rows, so that neither
fresh coins nor a fixed order of rows is there for a martingale to bet on. Hence the level is spent:
look number t has 1 / (t (t + 1)) of it, which sums to one over all looks, and by the union bound
the chance of any wrong verdict is at most the level, however the looks depend on each other and
whenever one stops. For one look at all rows this also finds more than a mixture over the coin's
bias, the likelihood ratio that Ville's inequality keeps below 1 / level at every row.

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
    pairs : how many are compared at each look, among which the level is shared
    """
    b, c = np.asarray(only_first), np.asarray(only_second)
    chance = np.minimum(1.0, 2.0 * binom.cdf(np.minimum(b, c), b + c, 0.5))
    return chance <= LEVEL / (look * (look + 1) * pairs)
