"""The checks of the lesson mrc_5, on missing features; they print, see
:mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from checks.exercise import (
    CLOSE,
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
from workbench.core.problem import Problem, as_problem
from workbench.data import load
from workbench.mrc.risk import MinimaxRisk, minimax_risk

WORDS = ("never", "sometimes")


def synthetic_text(n: int, d: int, k: int, seed: int = 0) -> Problem:
    """Return sparse counts of `d` words in `n` documents of `k` classes, 60 words per
    document.

    The r-th word of the language has a probability proportional to 1/r; each class
    multiplies it by log-normal factors of its own, whose logarithms have a standard
    deviation of 0.7.
    """
    rng = np.random.default_rng(seed)
    language = 1 / rng.permutation(np.arange(1, d + 1))
    y = rng.permutation(np.arange(n) % k)
    lengths = 1 + rng.poisson(59, size=n)
    rows, columns = [], []
    for c in range(k):
        members = np.flatnonzero(y == c)
        speech = language * np.exp(0.7 * rng.standard_normal(d))
        rows.append(np.repeat(members, lengths[members]))
        columns.append(
            rng.choice(d, size=lengths[members].sum(), p=speech / speech.sum())
        )
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    X = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(n, d))
    about = "synthetic word counts, 60 words per document"
    return as_problem(
        X, y, name=f"synthetic text {n}x{d}x{k}", synthetic=True, about=about
    )


@exercise
def check_costs(reduced_costs):
    """``reduced_costs(mean, tau, lam)``: of a coefficient that rises, and of one that
    falls."""
    rng = cases()
    tau = rng.normal(size=8)
    mean = tau + np.resize([1, -1], 8) * rng.uniform(0.1, 2, 8)  # too high, too low
    lam = rng.uniform(0.2, 1, 8)
    found = ask(reduced_costs, mean.copy(), tau.copy(), lam.copy())
    several(found, 2, "return two arrays, for rising and for falling")
    rising, falling = (
        array(a, lam.shape, name) for a, name in zip(found, ("rising", "falling"))
    )
    up, down = lam + mean - tau, lam - mean + tau
    hint = "these are swapped: insert mu_j = 1 into the sum, then mu_j = -1"
    need(not (same(rising, down) and same(falling, up)), hint)
    hint = "insert mu_j = -1: |mu_j| is 1, and the cost is per unit of |mu_j|"
    need(not same(falling, -down), hint)
    need(not same(rising, mean - tau), "lam_j |mu_j| is part of the cost")
    size = np.abs(mean - tau)
    hint = "each cost is for one direction: the sign of the difference counts"
    need(not (same(rising, lam + size) or same(falling, lam - size)), hint)
    told = f"for E_p Phi = {mean[0]:.2f}, tau = {tau[0]:.2f}, lam = {lam[0]:.2f} "
    need(
        same(rising, up),
        f"{told}rising costs {up[0]:.2f}, not {rising[0]:.2f}: see (1)",
    )
    need(
        same(falling, down),
        f"{told}falling costs {down[0]:.2f}, not {falling[0]:.2f}: see (1)",
    )
    return "one of them is negative exactly if E_p Phi_j is off by more than lam_j"


@exercise
def check_made(ten_times, total, off_1, off_2, correlation):
    """May components made of two in J be violated? With an example for their sum."""
    off_1, off_2, correlation = map(number, (off_1, off_2, correlation))
    need(-1 <= correlation <= 1, f"no correlation is {correlation:g}")
    hint = "both are in J with lam = 1, so nature is off by at most 1 in each"
    need(max(abs(off_1), abs(off_2)) <= 1, hint)
    of_sum, lam = abs(off_1 + off_2), np.sqrt(2 + 2 * correlation)
    hint = (
        "the sum is constant, lam = 0, and not in Phi: find an example that is in Phi"
    )
    need(lam > CLOSE, hint)
    hint = (
        "there is an example: when is the standard deviation of a sum smaller than "
        "the sum of both?"
    )
    need(total != "never" or of_sum > 0, hint)
    told = (
        f"the sum is off by {of_sum:.4g}, and its standard deviation is {lam:.4g}: "
        "not violated"
    )
    need(of_sum > lam + CLOSE, told)
    hint = "you have an example in which it is violated"
    pick(total, WORDS, "sometimes", hint)
    hint = (
        "by which factors do its average and its lam differ from those of component 1?"
    )
    pick(ten_times, WORDS, "never", hint)
    return f"the sum is off by {of_sum:.3g}, more than its lam, {lam:.4g}"


@exercise
def check_feat(feat):
    """``feat(mean, tau, lam, J, eps2, m_max)``: the most violated components outside
    J."""
    rng = cases()
    tau, lam = rng.normal(size=12), rng.uniform(0.2, 0.5, 12)
    lam[3] = 0.0
    mean = tau + np.array([1, -2, 0.1, 3, 0.6, -0.9, 1.5, 0, 0.8, -0.7, 2.5, 0.1])
    violation = np.abs(mean - tau) - lam
    for J, eps2, m_max in (
        ([], 0.0, 20),
        ([10, 6], 0.0, 3),
        ([1], 0.5, 20),
        ([], 9.0, 5),
    ):
        found = ask(feat, mean.copy(), tau.copy(), lam.copy(), J, eps2, m_max)
        found = [int(j) for j in np.ravel(found)]
        case = f"for J = {J}, eps2 = {eps2:g}, m_max = {m_max}: "
        need(3 not in found, case + "component 3 has lam = 0, and is not in Phi")
        need(
            not set(J) & set(found),
            case + f"{sorted(set(J) & set(found))} is in J already",
        )
        need(len(found) <= m_max, case + f"{len(found)} components, more than m_max")
        free = [j for j in range(12) if j not in (3, *J)]
        order = sorted(free, key=lambda j: -violation[j])
        truth = [j for j in order if violation[j] > eps2][:m_max]
        signed = [j for j in sorted(free, key=lambda j: lam[j] - mean[j] + tau[j])]
        signed = [j for j in signed if mean[j] - tau[j] - lam[j] > eps2][:m_max]
        hint = (
            "nature may be too low as well as too high: the size of the difference "
            "counts"
        )
        need(found == truth or found != signed, case + hint)
        loose = [j for j in found if violation[j] <= eps2]
        hint = f"{loose} is not violated by more than eps2"
        need(not loose, case + hint)
        need(set(found) == set(truth), case + f"{truth} was expected, not {found}")
        need(found == truth, case + f"the most violated first: {truth}, not {found}")
    return "a sort of one array"


@exercise
def check_generate(generate, restricted):
    """``generate(master, tau, lam, eps2, m_max)``: J at the end, and (number, R_J) on
    the way."""
    risk = minimax_risk(synthetic_text(40, 60, 2, seed=0), 0.2)
    tau, lam, solve = risk.tau.ravel(), risk.lam.ravel(), restricted(risk)
    every = np.flatnonzero(lam > 0)
    best, _, _ = solve(every)
    for m_max in (1, 3):
        asked, values = [], []

        def master(J, asked=asked, values=values):
            asked.append(sorted(int(j) for j in J))
            need(len(set(asked[-1])) == len(asked[-1]), "a component is in J twice")
            need(len(asked) <= 60, "it does not end: does J grow by what FEAT returns?")
            solved = solve(J)
            values.append(solved[0])
            return solved

        found = ask(generate, master, tau.copy(), lam.copy(), 1e-7, m_max)
        several(
            found, 2, "return two things, J and the list of (number of components, R_J)"
        )
        J, path = sorted(int(j) for j in found[0]), found[1]
        case = f"for m_max = {m_max}: "
        need(len(asked) > 0, case + "master was never asked")
        need(asked[0] == [], case + "begin without features")
        hint = "it ended at once, although components are violated"
        need(len(asked) > 1, case + hint)
        need(
            len(asked[1]) <= m_max,
            case + f"the first round added {len(asked[1])} components",
        )
        _, _, mean = solve(J)
        open_ = set(every[np.abs(mean - tau)[every] > lam[every] + 1e-6]) - set(J)
        hint = f"it ended while {len(open_)} components were violated"
        need(not open_, case + hint)
        need(asked[-1] == J, case + "the last J is not the one that was solved last")
        need(
            len(J) < len(every), case + "all components were added: no need for a loop"
        )
        hint = (
            f"{len(path)} entries for {len(asked)} programs: keep every value, also "
            "the first"
        )
        need(len(path) == len(asked), case + hint)
        need(
            [int(size) for size, _ in path] == [len(J) for J in asked],
            case + "numbers are off",
        )
        hint = "keep the R_J that master returns, of every round"
        need(same([R for _, R in path], values), case + hint)
        need(
            same(path[-1][1], best),
            case + f"{path[-1][1]:.4f} is not the optimum, {best:.4f}",
        )
    return f"{len(J)} of {len(every)} components, and the optimum of all"


@exercise
def check_units(units, restricted):
    """``units(violations, drops)``: scales by which FEAT takes the feature that helps
    least."""
    risk = minimax_risk(load("wine", scale="standard"), 0.1)
    d = risk.X.shape[1]
    base = [y * d + j for y in range(3) for j in (0, 6)]
    for J in (base, base + [y * d + 9 for y in range(3)]):
        violations, drops = _alone(risk, restricted(risk), J)
        need(len(drops) > 3, "no feature is violated here")
        found = array(
            ask(units, violations.copy(), drops.copy()), drops.shape, "the result"
        )
        need(
            np.isfinite(found).all() and (found > 0).all(), "units are positive numbers"
        )
        first, worst = int(np.argmax(found * violations)), int(np.argmin(drops))
        need(
            not same(found * violations, violations),
            "with these units nothing has changed",
        )
        told = (
            f"FEAT takes the feature with the drop {drops[first]:.4f}, not "
            f"{drops[worst]:.4f}"
        )
        need(same(drops[first], drops[worst]), told)
    best = drops.max()
    return (
        f"with these units FEAT prefers a drop of {drops[worst]:.4f} to one of "
        f"{best:.4f}"
    )


@exercise
def check_bound(lower):
    """``lower(R, eps)``: a bound of R* if no component is off by more than (1 + eps)
    lam."""
    for R, eps in ((0.4, 0.0), (0.4, 0.5), (0.3, 2.0), (0.5, 0.01)):
        found, truth = number(ask(lower, R, eps)), R / (1 + eps)
        case = f"for R_J = {R:g}, eps = {eps:g}: "
        hint = "lam'|mu*| is at most R*, not R_J: solve for R*"
        need(
            eps == 0 or not same(found, R * (1 - eps)), case + "true, but weak. " + hint
        )
        hint = "that uses lam'|mu*| <= 1; a better bound of it is R* itself"
        need(eps == 0 or not same(found, R - eps), case + "true, but weak: " + hint)
        need(
            found <= truth + CLOSE,
            case + f"{found:.4f} is too large, {truth:.4f} is proven",
        )
        need(
            found > truth - CLOSE,
            case + f"{found:.4f} is true, but {truth:.4f} can be proven",
        )
    return "BR(p) / rho once more, with rho = 1 + eps"


def _alone(risk: MinimaxRisk, master, J: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return violations, and how far R_J falls if each violated component enters
    alone."""
    tau, lam = risk.tau.ravel(), risk.lam.ravel()
    R, _, mean = master(J)
    violation = np.abs(mean - tau) - lam
    candidates = np.setdiff1d(np.flatnonzero((violation > 1e-6) & (lam > 0)), J)
    drops = np.array([R - master([*J, j])[0] for j in candidates])
    return violation[candidates], drops
