"""Generated data sets, which are marked as synthetic."""

import numpy as np

from workbench.core.checks import check_memory, check_whole
from workbench.core.problem import Problem, as_problem


def synthetic(n: int = 1_000, d: int = 20, k: int = 5, seed: int = 0) -> Problem:
    """Return n rows with d features of k overlapping Gaussian classes of equal size.

    The sizes must satisfy n >= k >= 2. The typical distance between two class centres
    is three standard deviations of the noise. Two classes at this distance are confused
    at the rate Phi(-1.5), 7 %.
    """
    check_sizes(n, d, k, 16 * d)
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, d)) * (3 / np.sqrt(2 * d))
    y = rng.permutation(np.arange(n) % k)
    X = rng.standard_normal((n, d))
    X += centres[y]
    about = "synthetic Gaussian classes, centres 3 standard deviations apart"
    return as_problem(X, y, name=f"synthetic {n}x{d}x{k}", synthetic=True, about=about)


def checkers(
    n: int = 10_000, seed: int | list[int] = 0, *, squares: int = 4
) -> Problem:
    """Return n float32 rows on a checkerboard, labelled by the colour of their square.

    The rows are uniform in the unit square. Their coordinates have noise with a
    standard deviation of 0.08 sides of a square, so the best possible error is about 9
    %. `n` and `squares`, the number of squares per side, are at least 2.
    """
    check_sizes(n, 2, 2, 50)
    if squares < 2:
        raise ValueError(f"squares: must be at least 2, got {squares!r}")
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    y = np.floor(squares * X).astype(int).sum(axis=1) % 2
    y[:2] = 0, 1  # both classes, even of two rows
    noise = 0.08 / squares
    X += noise * rng.standard_normal((n, 2))
    about = f"synthetic: {squares} x {squares} squares, noise of 8 % of a side"
    name = f"checkers {n}"
    if squares != 4:
        name += f" of {squares}x{squares}"
    return as_problem(X.astype(np.float32), y, name=name, synthetic=True, about=about)


def check_sizes(n: int, d: int, k: int, row_bytes: int) -> None:
    """Refuse sizes unless n >= k >= 2, d >= 1, and n rows fit into memory."""
    check_whole(k, "k", 2)
    check_whole(n, "n", k)
    check_whole(d, "d")
    check_memory(f"{n} generated rows, which", n * row_bytes)
