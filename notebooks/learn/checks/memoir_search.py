"""The checks of the lesson memoir_2, on search; they print, see
:mod:`checks.exercise`."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from checks.exercise import (
    CLOSE,
    Hint,
    array,
    ask,
    cases,
    exercise,
    need,
    number,
    pick,
    same,
)


@exercise
def check_three_winners(x, W):
    """A query and three vectors: the nearest, that of smallest angle, that of largest
    x.w."""
    x, W = array(x, (2,), "x"), array(W, (3, 2), "W").astype(float)
    need(np.isfinite(W).all(), "W should hold finite numbers")
    lengths = np.linalg.norm(W, axis=1)
    need(
        lengths.min() > 0 and np.linalg.norm(x) > 0, "a vector of length 0 has no angle"
    )
    product = W @ x
    closeness = {
        "the nearest": -np.linalg.norm(W - x, axis=1),
        "the smallest angle": product / lengths,
        "the largest product": product,
    }
    for name, values in closeness.items():
        need(
            np.ptp(np.sort(values)[-2:]) > CLOSE, f"{name} is not unique: two are equal"
        )
    winners = {name: np.argmax(values) for name, values in closeness.items()}
    told = ", ".join(f"{name} is w_{place}" for name, place in winners.items())
    need(
        len(set(winners.values())) == 3,
        told + ". How does the length of a vector affect each of the three?",
    )
    need(
        list(winners.values()) == [0, 1, 2],
        told + ". Put the rows in this order",
    )
    return told


class _Lists(dict):
    def items(self):
        raise Hint("go through the words of x, and use no other list")

    keys = values = __iter__ = items

    def __missing__(self, f):
        raise Hint(f"no class uses the word {f}, which has no list")


@exercise
def check_scan(scan):
    """``scan(lists, x, C)``: the C scores from an inverted index and a dictionary x."""
    lists = _Lists(
        {0: ([1, 3], [2.0, -1.0]), 4: ([0, 1, 2], [1.0, 0.5, 3.0]), 7: ([3], [4.0])}
    )
    for x, truth, last in (
        (
            {0: 2.0, 4: 10.0, 9: 5.0},
            [10.0, 9.0, 30.0, -2.0, 0.0],
            [10.0, 5.0, 30.0, -2.0, 0.0],
        ),
        ({7: 0.5, 0: -1.0}, [0.0, -2.0, 0.0, 3.0, 0.0], [0.0, -2.0, 0.0, 1.0, 0.0]),
    ):
        found = array(ask(scan, lists, dict(x), 5), (5,), "the result")
        need(
            not same(found, last),
            "a class is in two lists: add to its score, do not replace it",
        )
        need(
            not same(found, [1, 2.5, 3, -1, 0]),
            "multiply each weight by the row's value",
        )
        told = f"for x = {x} the scores are {truth}, not {found.tolist()}"
        need(same(found, truth), told)
    return "the feature 9 has no list: no class uses it"


@exercise
def check_walk(walk):
    """``walk(links, scores, start)``: the nodes of a greedy walk upwards, `start`
    first."""
    net = [[1, 2], [0, 3], [0, 3, 4], [1, 2, 5], [2], [3]]
    for links, scores, start, truth in (
        (net, [0.0, 1.0, 2.0, 4.0, 3.0, 5.0], 0, [0, 2, 3, 5]),
        (net, [0.0, 1.0, 2.0, 4.0, 3.0, 5.0], 4, [4]),
        (net, [9.0, 1.0, 2.0, 4.0, 3.0, 5.0], 4, [4]),
        ([[1], [2], [1]], [1.0, 1.0, 0.0], 0, [0]),
    ):
        found, case = (
            ask(walk, links, np.array(scores), start),
            f"scores {scores}, from {start}: ",
        )
        need(
            isinstance(found, list | tuple | np.ndarray),
            "return the list of all nodes on the way",
        )
        found = list(found)
        need(found[:1] == [start], case + "the first node is the start")
        hint = "stop where no neighbour scores more"
        need(len(found) <= len(truth), case + hint)
        told = (
            f"the walk is {truth}, not {found}: go to the best neighbour while it is "
            "better"
        )
        need(found == truth, case + told)
    return "from 4 it ends at once: 2, its only neighbour, is lower"


@exercise
def check_recall(answer, ahead):
    """`answer`: the recall of 64 bits; ``ahead(p, b)``: how many others have more of b
    bits."""
    rng = cases()
    for C, b in ((2, 64), (5, 16), (30, 100), (500, 64)):
        p = rng.uniform(0.45, 0.6, C)
        found, order = number(ask(ahead, p.copy(), b)), np.sort(p)
        p1, others = order[-1], order[:-1]
        spread = p1 * (1 - p1) + others * (1 - others)
        leads = b * (p1 - others) / np.sqrt(b * spread)
        truth, case = norm.cdf(-leads).sum(), f"for {C} classes and {b} bits: "
        need(
            not same(found, C - 1 - truth),
            case + "that many are behind; how many are ahead?",
        )
        need(
            not same(found, truth + 0.5),
            case + "the best class itself is not among the others",
        )
        need(
            not same(found, truth / (C - 1)) or C == 2,
            case + "that is their fraction; count them",
        )
        hint = "the lead is b (p1 - p2), and its deviation sqrt(b s): sqrt(b) remains"
        need(not same(found, norm.cdf(-leads / np.sqrt(b)).sum()), case + hint)
        need(
            same(found, truth),
            case + f"it is {truth:.4g}, not {found:.4g}: what is a mean lead "
            "divided by its standard deviation?",
        )
    hint = "how many classes are ahead of the best one by chance?"
    pick(answer, ("most", "half", "few"), "few", hint)
    return (
        "one class that is ahead by chance is enough, and there are hundreds of others"
    )


@exercise
def check_collision(collision):
    """``collision(x, w, M)``: the probability that a bit of x and one of w agree."""
    rng = cases()
    for _ in range(3):
        x, w = rng.normal(size=4), rng.normal(size=4)
        M = 2.5 * np.linalg.norm(w)
        cosine = x @ w / (M * np.linalg.norm(x))
        found, truth = number(ask(collision, x, w, M)), 1 - np.arccos(cosine) / np.pi
        need(
            not same(found, 1 - np.cos(cosine) / np.pi),
            "that is (9) as printed; use the angle",
        )
        plain = x @ w / (np.linalg.norm(x) * np.linalg.norm(w))
        hint = (
            "that is the angle of x and w; the transform divides w by M, not by its "
            "length"
        )
        need(not same(found, 1 - np.arccos(plain) / np.pi), hint)
        need(not same(found, 1 - truth), "that is how often they differ")
        short = np.arccos(np.clip(x @ w / M, -1, 1))
        hint = "x has become x / |x|: which cosine do the two vectors have?"
        need(not same(found, 1 - short / np.pi), hint)
        told = (
            f"it is {truth:.4f}, not {found:.4f}: which angle do the two have, and "
            "what part "
        )
        need(same(found, truth), told + "of all hyperplanes passes between them?")
    return "larger products collide more often: a hash needs no more than this"


@exercise
def check_bits(bits):
    """``bits(p1, p2, z)``: length at which the mean lead is z standard deviations."""
    for p1, p2, z in ((0.6, 0.5, 2.0), (0.53, 0.52, 1.0)):
        found = number(ask(bits, p1, p2, z))
        spread = p1 * (1 - p1) + p2 * (1 - p2)
        truth = z**2 * spread / (p1 - p2) ** 2
        case = f"for p1 = {p1}, p2 = {p2}, z = {z:g} "
        need(
            not same(found, np.sqrt(truth)),
            case + "you have the square root: square both sides",
        )
        need(not same(found, truth / z**2 * z) or z == 1, case + "z is squared as well")
        hint = (
            f"it takes {truth:.0f} bits, not {found:.0f}: solve b (p1 - p2) = z "
            "sqrt(b s)"
        )
        need(abs(found - truth) <= 1 + 1e-6 * truth, case + hint)
    return "a lead ten times smaller needs a hundred times as many bits"
