"""Convolutional features: against SciPy's correlation, and fitted on the training
rows."""

import numpy as np
from helpers import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import correlate

import convolutions
from convolutions import convolve, filters, start
from workbench import as_problem


def images(n=30, side=12, channels=3):
    """Smooth noise, pixel by pixel, with values as those of photographs."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, side, side, channels)).cumsum(axis=1).cumsum(axis=2)
    return (128 + 10 * X).astype("f4").reshape(n, -1)


@each("channels", [1, 3])
@each("side", [11, 12])  # cells overlap where the positions are odd
def test_equals_correlation_by_brute_force(channels, side):
    X = images(3, side, channels)
    bank = filters(X, 5, "random")
    positions = side - 4 + 1
    t = convolutions.THRESHOLD
    pool = convolutions.POOL
    Z = convolve(X, bank).reshape(3, 5, pool, pool, 2)
    ends = [
        (i * positions // pool, -(-(i + 1) * positions // pool)) for i in range(pool)
    ]
    for i, image in enumerate(X.astype(float).reshape(3, side, side, channels)):
        for j, row in enumerate(bank.astype(float)):
            z = correlate(image, row[:-1].reshape(4, 4, channels), "valid")[..., 0]
            for sign, part in enumerate((z - row[-1], row[-1] - z)):
                over = np.maximum(0, part - t) / 0.286
                means = [[over[a:b, c:d].mean() for c, d in ends] for a, b in ends]
                assert_allclose(Z[i, j, :, :, sign], means, rtol=2e-4, atol=2e-4)


@each("how", ["random", "kmeans"])
def test_blocks_are_those_of_all_filters(how):
    problem = as_problem(images(), np.arange(30) % 3).split(0.3)
    generator = start(problem, 56, 24, how, 5).generator
    Z = [np.empty((len(problem.X), generator.width(b)), "f4") for b in range(3)]
    for b, part in enumerate(Z):
        generator.make(b)(problem.X, part)
    bank = filters(problem.X, 7, how, 5)
    assert_array_equal(generator.anchors, bank)
    problem.X_test[:] = 0
    assert_array_equal(start(problem, 56, 24, how, 5).generator.anchors, bank)
    assert [part.shape[1] for part in Z] == [24, 24, 8]
    assert_allclose(np.hstack(Z), convolve(problem.X, bank), rtol=1e-4, atol=1e-4)
