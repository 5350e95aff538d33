"""The checks of the lesson mrc_4, on lambda0; they print, see
:mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom, norm

from checks.exercise import CLOSE, array, ask, cases, exercise, need, number, pick, same


@exercise
def check_tolerance(tolerance):
    """``tolerance(m, n, delta)``: lambda0 that covers m averages of n rows, except for
    delta."""
    for m, n, delta in ((1, 400, 0.05), (9, 142, 0.05), (650, 20_000, 0.1)):
        found, truth = (
            number(ask(tolerance, m, n, delta)),
            _quantile(m, delta) / np.sqrt(n),
        )
        case = f"for m = {m}, n = {n}, delta = {delta}: "
        hint = "that covers one average; all m have to be covered at once"
        need(m == 1 or not same(found, _quantile(1, delta) / np.sqrt(n)), case + hint)
        hint = "an average may be too high or too low: each side has half of delta / m"
        need(not same(found, norm.isf(delta / m) / np.sqrt(n)), case + hint)
        hint = "that is for one row; the average of n rows varies less"
        need(not same(found, _quantile(m, delta)), case + hint)
        told = (
            f"{found:.4g} should be {truth:.4g}. With which probability may one "
            "average fail?"
        )
        sidak = same(found, _sidak(m, delta) / np.sqrt(n))
        need(same(found, truth) or sidak, case + told)
    return "2.8 / sqrt(n) for 9 averages, 4.0 / sqrt(n) for 650"


@exercise
def check_rows(answer, rows):
    """`answer`: how n grows with m; ``rows(m, lambda0, delta)``: the rows that lambda0
    needs."""
    for m, lambda0, delta in ((9, 0.01, 0.05), (650, 0.1, 0.05), (20, 0.03, 0.01)):
        found, truth = (
            number(ask(rows, m, lambda0, delta)),
            (_quantile(m, delta) / lambda0) ** 2,
        )
        case = f"for m = {m}, lambda0 = {lambda0}, delta = {delta}: "
        hint = (
            "half the tolerance takes more than twice the rows: solve for n, not for "
            "its root"
        )
        need(not same(found, np.sqrt(truth)), case + hint)
        reached = _quantile(m, delta) / np.sqrt(max(found, 1))
        hint = f"{found:.5g} rows make the tolerance {reached:.3g}"
        sidak = (_sidak(m, delta) / lambda0) ** 2
        near = min(abs(found - truth), abs(found - sidak))
        whole = near < 1 + 1e-6 * truth  # whole rows are right, too
        need(whole or same(found, truth), case + hint)
    factor = (_quantile(7850, 0.05) / _quantile(9, 0.05)) ** 2
    hint = "compare rows(9, 0.01, 0.05) with rows(7850, 0.01, 0.05)"
    pick(
        answer,
        ("872 times", "30 times", "less than 3 times"),
        "less than 3 times",
        hint,
    )
    return f"{factor:.2f} times the rows for 872 times the averages"


@exercise
def check_rare(rare):
    """``rare(n)``: the probability of the value n, by which most samples miss the
    average."""
    for n in (150, 1000, 20_000):
        q = number(ask(rare, n))
        need(0 <= q <= 1, f"for n = {n}: a probability is asked for, got {q:.3g}")
        unseen, ones = (1 - q) ** n, np.arange(n + 1)
        means = 2 * ones / n - 1  # of a sample without the value n, with that many ones
        missed = abs(n * q - means) > 2.8 * np.sqrt(np.maximum(1 - means**2, 0) / n)
        outside = unseen * binom.pmf(ones, n, 0.5)[missed].sum()
        told = f"for n = {n} a sample has no value n with probability {unseen:.3f}"
        need(unseen >= 0.5 - CLOSE, told + ": make this the usual case")
        hint = f"{told}, and the true average is {n * q:.3g}: too near 0 to be missed"
        need(outside >= 0.5 - 1e-3, hint)
    return "unseen values add no spread, and may be most of the average"


@exercise
def check_bernstein(bernstein):
    """``bernstein(phi, delta)``: a tolerance for each column of `phi`, of values in [0,
    1]."""
    rng = cases()
    for n, m, delta in ((40, 3, 0.05), (300, 5, 0.01)):
        phi = rng.random((n, m)) ** 3
        found = array(ask(bernstein, phi.copy(), delta), (m,), "the result")
        log, case = np.log(4 * m / delta), f"for {m} columns of {n} values: "
        V = phi.var(axis=0, ddof=1)
        truth = _bernstein(V, n, log)
        hint = "that is one average and one side; share delta among all of them"
        need(not same(found, _bernstein(V, n, np.log(2 / delta))), case + hint)
        hint = "an average may be too high or too low: share delta among 2 m events"
        need(not same(found, _bernstein(V, n, np.log(2 * m / delta))), case + hint)
        need(
            not same(found, _bernstein(phi.var(axis=0), n, log)),
            case + "V divides by n - 1",
        )
        hint = "that is the first term; the second guards against unseen values"
        need(not same(found, np.sqrt(2 * V * log / n)), case + hint)
        hint = (
            "that is for one average, above and below; all m have to be within at once"
        )
        need(not same(found, _bernstein(V, n, np.log(4 / delta))), case + hint)
        hint = (
            "that bounds the true average; the tolerance is how far above the mean it "
            "may be"
        )
        need(not same(found - phi.mean(axis=0), truth), case + hint)
        told = f"{np.round(found, 4).tolist()} should be {np.round(truth, 4).tolist()}"
        need(same(found, truth), case + told)
    return "true for every n, with no normal approximation"


@exercise
def check_leak(leak):
    """``leak(V, phi)``: for each row, the most by which ``h(y | x)`` is below ``v_y -
    phi``."""
    for phi in (-0.3, 0.4):
        V = cases().normal(0, 1.2, (30, 3))
        A = np.maximum(V - phi, 0)
        s = A.sum(axis=1)
        found = array(ask(leak, V.copy(), phi), s.shape, "the result")
        big = np.maximum(s, 1)
        truth = A.max(axis=1) * (1 - 1 / big)
        i = int(np.argmax(np.abs(np.nan_to_num(found, nan=9) - truth)))
        case = f"for v - phi = {np.round(V[i] - phi, 2).tolist()} "
        need(
            np.isfinite(found).all(),
            case + "it is not finite: without a positive part there is no leak",
        )
        hint = (
            "is safe, but no label is so far off: by how much is the largest positive "
            "part cut?"
        )
        need(not same(found, big - 1), case + f"{found[i]:.3f} {hint}")
        least = int(np.argmin(found))
        below = f"for v - phi = {np.round(V[least] - phi, 2).tolist()} "
        hint = (
            "it is negative: where the parts sum to 1 or less, h only gives them more"
        )
        need(found.min() > -CLOSE, below + hint)
        told = (
            f"it is {truth[i]:.3f}, not {found[i]:.3f}: h divides the positive parts "
            "by their sum"
        )
        need(same(found, truth), case + told)
    return "0 on the training rows, and on every row whose parts sum to at most 1"


def _quantile(m: int, delta: float) -> float:
    return float(norm.isf(delta / (2 * m)))


def _sidak(m: int, delta: float) -> float:
    """Return the quantile that is enough if the averages are jointly normal."""
    return float(norm.isf(-np.expm1(np.log1p(-delta) / m) / 2))


def _bernstein(V: np.ndarray, n: int, log: float) -> np.ndarray:
    return np.sqrt(2 * V * log / n) + 7 * log / (3 * (n - 1))
