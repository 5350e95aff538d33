"""The checks of the lessons ls_3 and ls_4; they print, see :mod:`checks.exercise`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping

import numpy as np

from checks.exercise import (
    array,
    ask,
    cases,
    exercise,
    need,
    number,
    pick,
    same,
    several,
)

# Lesson 3: features block by block


@exercise
def check_variance(variance):
    """``variance(s)``: of the frequencies' entries, for the kernel exp(-r^2 / s)."""
    for s in (0.4, 3.0):
        found, truth = number(ask(variance, s)), 2 / s
        need(
            not same(found, np.sqrt(truth)),
            "that is the standard deviation; give its square",
        )
        need(
            same(found, truth),
            f"for s = {s} a variance of {found:.3g} makes exp(-{found / 2:.3g} r^2), "
            f"and the kernel is exp(-{1 / s:.3g} r^2)",
        )
    return "narrow kernels need fast waves"


@exercise
def check_waves(waves):
    """``waves(X, p, s, rng)``: p random Fourier features of each row."""
    X = cases(1).normal(size=(12, 3))
    s, p = 5.0, 40_000  # not 2, for which the variance is 1 and its own root
    Z, again, others = (
        array(ask(waves, X, p, s, np.random.default_rng(seed)), (12, p), "the result")
        for seed in (0, 0, 1)
    )
    need(
        same(Z, again),
        "a second call with the same seed gives other waves: draw only from rng",
    )
    need(
        not same(Z, others),
        "another seed gives the same waves: draw from the given rng",
    )
    found, truth = Z @ Z.T / p, _kernel(X, X, s)
    off = np.abs(found - truth).max()
    square = np.diag(found).mean()
    need(square > 0.1, "Z Z'/p already divides by p; leave the root of p out of Z")
    need(
        abs(square - 0.5) > 0.05,
        "inner products are half the kernel: what is the mean of z^2?",
    )
    hint = "must be 1 for every row: does the shift b cover the whole circle?"
    need(np.ptp(np.diag(found)) < 0.1, "a row's inner product with itself " + hint)
    need(abs(square - 1) < 0.05, f"the mean of z^2 is {square:.3g}, and should be 1")
    need(
        off < 0.05,
        f"Z Z'/p is {off:.2f} off the kernel; look at the frequencies' variance",
    )
    return f"of {p:,} waves, the inner products are within {off:.3f} of the kernel"


@exercise
def check_narrow(answer, extreme):
    """`answer`: which errors are low; ``extreme(n, p, alpha)``: predictions if ZZ' = p
    I, p > n."""
    rng = cases()
    for n, p, alpha in zip((20, 300, 1258), (50, 400, 2048), rng.uniform(0.05, 2, 3)):
        found = ask(extreme, n, p, alpha)
        several(found, 2, "return two numbers")
        own, new = map(number, found)
        case, truth = (
            f"for n = {n}, p = {p}, alpha = {alpha:.3g}: ",
            p / (p + n * alpha),
        )
        need(not same(own, 1), case + "nearly, but the penalty shrinks it")
        need(
            not same(own, p / (p + alpha)),
            case + "Z'Z and Z'Y are divided by n, alpha is not",
        )
        need(not same(own, 1 / (1 + n * alpha)), case + "ZZ' is p times the kernel")
        told = f"a training row gets {truth:.4f} of its target, not {own:.4f}"
        need(same(own, truth), case + told)
        hint = (
            "a new row's features times Z' are p times its kernel with the training "
            "rows"
        )
        need(same(new, 0), case + hint)
    hint = "what is the kernel of two different rows, and of a row with itself?"
    pick(answer, ("both", "training only", "neither"), "training only", hint)
    return "each row is memorised, and says nothing about any other"


@exercise
def check_cost(cost):
    """``cost(n, d, p)``: operations of the Gram matrices and factors of one pass."""
    for n, d, p in ((60_000, 8192, 1024), (1000, 600, 200)):
        found, truth = number(ask(cost, n, d, p)), d / p * (n * p**2 + p**3 / 3)
        need(not same(found / truth, p / d), f"that is one block; there are {d // p}")
        hint = "that is the cost of all features at once, d instead of p"
        need(not same(found / truth, (n * d**2 + d**3 / 3) / truth), hint)
        hint = "those are the Gram matrices; and the factors?"
        need(not same(found / truth, n * d * p / truth), hint)
        need(
            same(found / truth, 1),
            f"for n = {n}, d = {d}, p = {p} it is {truth:.5g}, not {found:.5g}",
        )
    return "per pass, d / p times less than for all features at once"


@exercise
def check_one_pass(one_pass):
    """``one_pass(X, Y, make, blocks, alpha)``: the weights of the blocks, and the
    predictions."""
    X, Y, make = _toy()
    found = ask(one_pass, X.copy(), Y.copy(), make, 3, 0.1)
    several(found, 2, "return two things: the list Ws, and F")
    Ws, F = found
    need(len(Ws) == 3, f"there are 3 blocks and {len(Ws)} weights")
    truth, predictions = _one_pass(X, Y, make, 3, 0.1)
    Ws = [array(W, truth[0].shape, f"Ws[{b}]") for b, W in enumerate(Ws)]
    alone = _ridge(make(X, 1), Y, 0.1)
    need(
        not same(Ws[1], alone),
        "block 1 fits Y; it should fit the residuals of block 0, Y - F",
    )
    summed = _ridge(make(X, 0), Y, 0.1 / len(X))
    need(
        not same(Ws[0], summed),
        "the ridge is added to the mean: Z'Z/n + alpha I, and Z'R/n",
    )
    need(
        not same(Ws[0], _ridge(make(X, 0), Y, 0)),
        "the ridge is missing: Z'Z/n + alpha I",
    )
    need(not same(Ws[0], -truth[0]), "the sign: a block fits Y - F, not F - Y")
    need(not same(Ws[0], _ridge(make(X, 1), Y, 0.1)), "the first block is block 0")
    last = _ridge(make(X, 2), Y - make(X, 1) @ truth[1], 0.1)
    need(
        not same(Ws[2], last),
        "block 2 uses block 1 alone: F is the sum of all earlier blocks",
    )
    for b in range(3):
        need(same(Ws[b], truth[b]), f"Ws[{b}] is the first that is off")
    need(
        same(F, predictions),
        "the weights are right; F is the sum of all make(X, b) @ Ws[b]",
    )
    return "a feature is generated, used and discarded; only W and F are kept"


@exercise
def check_predict(predict):
    """``predict(X, Ws, make)``: the predictions of other rows."""
    X, Y, make = _toy()
    Ws, F = _one_pass(X, Y, make, 3, 0.1)
    X, F, made = X[:9], F[:9], []  # fewer rows than were trained on

    def make_one(X: np.ndarray, b: int) -> np.ndarray:
        hint = (
            "the features of all blocks are in memory at once: use one block, and "
            "discard it"
        )
        # a loop still holds the last block's
        need(sum(Z() is not None for Z in made) < 2, hint)
        need(0 <= b < 3, f"there is no block {b}: the first of 3 is block 0")
        Z = make(X, b)
        made.append(weakref.ref(Z))
        return Z

    found = array(ask(predict, X, Ws, make_one), F.shape, "the result")
    need(not same(found, make(X, 2) @ Ws[2]), "that is the last block alone")
    need(not same(found, F / 3), "add the blocks' predictions, do not average them")
    need(
        not same(found, sum(make(X, 0) @ W for W in Ws)), "block b has its own features"
    )
    need(same(found, F), "the rows of training do not get the predictions of training")
    return (
        "the rows of training get the predictions of training, from seeds and weights "
        "alone"
    )


@exercise
def check_hard_pair(Z, y):
    """One pass over the two columns of `Z` leaves most of `y`; both at once leave
    nothing."""
    y = np.asarray(y, dtype=float)
    need(y.ndim == 1 and len(y) > 1, "y should be a list of at least two numbers")
    Z = array(Z, (len(y), 2), "Z").astype(float)
    need(
        np.isfinite(Z).all() and np.isfinite(y).all(),
        "Z and y should hold finite numbers",
    )
    need(
        (np.abs(Z).sum(axis=0) > 0).all() and y @ y > 0,
        "neither a column nor y may be all zero",
    )
    joint = y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
    need(
        joint @ joint < 1e-6 * (y @ y),
        "both columns at once do not fit y: put y in their plane",
    )
    r = y.copy()
    for z in Z.T:
        r -= z * (z @ r) / (z @ z)
    left = (r @ r) / (y @ y)
    told = f"one pass leaves {left:.0%} of |y|^2 over"
    need(
        left > 0.9,
        told
        + "; at which angle to y does a single column remove almost nothing of it?",
    )
    return told + ", and the two together nothing"


@exercise
def check_revisit(revisit):
    """``revisit(Z, R, W, alpha)``: the correction of a block's weights W, given R = Y -
    F."""
    X, Y, make = _toy()
    Ws, F = _one_pass(X, Y, make, 3, 0.1)
    Z, R = make(X, 0), Y - F
    H = Z.T @ Z / len(X) + 0.1 * np.eye(Z.shape[1])
    V = array(ask(revisit, Z, R, Ws[0].copy(), 0.1), Ws[0].shape, "the correction")
    plain = np.linalg.solve(H, Z.T @ R / len(X))
    need(
        not same(V, plain),
        "that is right where W = 0; now the penalty is alpha/2 |W + V|^2, and has a "
        "slope at V = 0",
    )
    truth = plain - 0.1 * np.linalg.solve(H, Ws[0])
    need(
        not same(V, truth + Ws[0]),
        "that is the new W; the correction is what is added to it",
    )
    need(
        same(V, truth),
        "set the derivative of |R - Z V|^2 / 2n + alpha/2 |W + V|^2 to zero",
    )
    return "if W = 0, it is the first visit"


# Lesson 4: the recipe


@exercise
def check_standard_error(standard_error):
    """``standard_error(error, rows)``: of the fraction of wrong rows, when rows are
    independent."""
    for error, rows in ((0.011, 10_000), (0.5, 100)):
        found, truth = (
            number(ask(standard_error, error, rows)),
            np.sqrt(error * (1 - error) / rows),
        )
        need(not same(found, truth**2), "that is the variance; take the root")
        need(
            not same(found, truth * rows),
            "that counts rows; divide the count by their number",
        )
        need(
            same(found, truth),
            f"of {error} on {rows} rows it is {truth:.4g}, not {found:.4g}",
        )
    return "0.10 points for 1.1 % on 10,000 rows"


@exercise
def check_clear(answer, rows_needed, errors: Mapping[str, float], rows: int):
    """`answer`: names clearly better than the first; ``rows_needed(e, f)``: to be sure
    of it."""
    for e, better in cases().uniform([0.01, 0.3], [0.3, 0.95], (5, 2)):
        f = e * better
        found, truth = number(ask(rows_needed, e, f)), 4 * e * (1 - e) / (e - f) ** 2
        case = f"for e = {e:.3f}, f = {f:.3f}: "
        need(
            not same(found / truth, 1 / 4),
            case + "that is one standard error; two are asked for",
        )
        need(
            not same(found / truth, 1 / 2),
            case + "two errors, squared, are four variances",
        )
        need(
            not same(found / truth, (e - f) / 2),
            case + "square both sides, including the difference",
        )
        swapped = same(found / truth, f * (1 - f) / (e * (1 - e)))
        need(not swapped, case + "the standard error is that of e")
        hint = (
            f"it takes {truth:.1f} rows, not {found:.1f}: solve e - f = 2 sqrt(e (1 - "
            "e) / m)"
        )
        need(abs(found - truth) <= 1, case + hint)
    first, *others = errors
    need(
        isinstance(answer, list | set | tuple),
        "give a list of names, [] if there is none",
    )
    strange = [name for name in answer if name not in others]
    need(not strange, f"{strange} are not among {others}")
    e = errors[first]
    margin = 2 * np.sqrt(e * (1 - e) / rows)
    truth = [name for name in others if e - errors[name] > margin]
    need(
        set(answer) == set(truth),
        f"there are {rows:,} rows: how many does each average need?",
    )
    return f"two standard errors of {e:.2%} on {rows:,} rows are {margin:.2%}"


@exercise
def check_average_variance(average_variance):
    """``average_variance(v, r, m)``: of the mean of m scores of variance v and
    correlation r."""
    for v, r, m in ((1.0, 0.0, 4), (2.0, 0.5, 3), (1.0, 1.0, 7)):
        found, truth = number(ask(average_variance, v, r, m)), v * (r + (1 - r) / m)
        hint = (
            f"for v = {v:g}, r = {r:g} and m = {m} it is {truth:.3g}, not {found:.3g}: "
        )
        need(
            same(found, truth),
            hint + "of the m^2 pairs, m pair a score with itself",
        )
    return "the common part stays, the rest is divided by m"


@exercise
def check_largest_correlation(largest_correlation):
    """``largest_correlation(v, u)``: up to which the average of two scores varies by v
    at most."""
    for v, u in ((2.0, 3.0), (1.0, 2.0), (0.5, 4.5)):
        found = number(ask(largest_correlation, v, u))
        truth, shared = (3 * v - u) / 2, np.sqrt(u * v)
        case = f"for v = {v:g} and u = {u:g} "
        need(
            not same(found, 2 * truth / shared),
            case + "the covariance counts twice in the sum",
        )
        need(
            not same(found, truth),
            case + "that is the covariance; the correlation is a ratio",
        )
        need(
            not same(found, -u / 2 / shared),
            case + "that is for the sum; an average is half",
        )
        told = (
            f"it is {truth / shared:.3g}, not {found:.3g}: what is the variance of (a "
            "+ b) / 2?"
        )
        need(same(found, truth / shared), case + told)
    return (
        "with equal variances any correlation is enough, with three times the "
        "variance none"
    )


@exercise
def check_optimism(seeds, rows, wrong: np.ndarray, optimism: Callable):
    """The best of `seeds` on `rows` rows looks better there, by a standard error, than
    elsewhere.

    That of a quarter as many does not. ``wrong`` (seeds, rows) says which seed is wrong
    on which row. ``optimism(wrong, seeds, rows)`` is the pair of the best one's error
    on the rows that chose it, and on the others.
    """
    most = len(wrong), wrong.shape[1] - 50
    seeds, rows = number(seeds), number(rows)
    need(
        seeds == int(seeds) and 1 <= seeds <= most[0],
        f"seeds: a whole number, 1 to {most[0]}",
    )
    need(
        rows == int(rows) and 20 <= rows <= most[1],
        f"rows: a whole number, 20 to {most[1]}",
    )
    few = max(1, int(seeds) // 4)
    (chosen, others), fewer = (
        optimism(wrong, many, int(rows)) for many in (int(seeds), few)
    )
    margin, less = (np.sqrt(e * (1 - e) / rows) for e in (others, fewer[1]))
    told = f"{chosen:.2%} on the rows used to choose, {others:.2%} on the others"
    hint = (
        f", and the standard error is {margin:.2%}: more seeds, or another number of "
        "rows?"
    )
    need(others - chosen > margin, told + hint)
    need(
        fewer[1] - fewer[0] <= less,
        f"{few} models are also enough: how few looks suffice?",
    )
    return told + f"; the standard error is {margin:.2%}"


# What several checks use


def _kernel(X: np.ndarray, C: np.ndarray, s: float) -> np.ndarray:
    return np.exp(-((X[:, None] - C) ** 2).sum(axis=2) / s)


def _toy() -> tuple[np.ndarray, np.ndarray, Callable]:
    X = cases().normal(size=(30, 4))

    def make(X: np.ndarray, b: int) -> np.ndarray:
        return np.cos(X @ np.random.default_rng([7, b]).normal(size=(4, 5)) + b)

    return X, np.eye(3)[np.arange(30) % 3], make


def _ridge(Z: np.ndarray, R: np.ndarray, alpha: float) -> np.ndarray:
    return np.linalg.solve(
        Z.T @ Z / len(Z) + alpha * np.eye(Z.shape[1]), Z.T @ R / len(Z)
    )


def _one_pass(
    X, Y, make: Callable, blocks: int, alpha: float
) -> tuple[list, np.ndarray]:
    Ws, F = [], np.zeros(Y.shape)
    for b in range(blocks):
        Z = make(X, b)
        Ws.append(_ridge(Z, Y - F, alpha))
        F += Z @ Ws[-1]
    return Ws, F
