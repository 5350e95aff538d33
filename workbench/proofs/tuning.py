"""Verify a tuning: no C of a range has far fewer errors on held-out rows than weights in hand.

A file has dual points A_1, A_2, ... of a Weston-Watkins SVM at knots C_1 < C_2 < ..., of each fold
of training and held-out rows, and each fold's weights in hand. Nothing in it is believed. From a
dual point follow W_i, its X'A_i as computed here, V_i, the exact one, a bound e_i of their
distance, L_i, the sum of W_i's hinges, and G_i = |W_i|^2/2 + C_i L_i - sum A_i + |V_i|^2/2. With
C = (1 - t) C_1 + t C_2 and W(t) = (1 - t) W_1 + t W_2, the exact solution W* at C has

    |W* - W(t)| <= r(t) + max(e_1, e_2)/2,    r^2(t) = (1 - t) G_1 + t G_2 + t (1 - t) R^2,
    R^2 = (C_2 - C_1)(L_1 - L_2) - |W_1 - W_2|^2/2 - |V_1 - V_2|^2/2,

since (1 - t) A_1 + t A_2 is feasible at C, P is 1-strongly convex, and -D is so in V. W* scores
class j of a row x above y if W(t) does by more than sqrt(2) |W* - W(t)| |x|. Intervals of t are
halved until enough rows are certainly wrong in each half. W* is 0 at features that no training row
has: they do not count in |x|, and for rows without any others class 0 is predicted.

This file needs checker.py next to it and nothing else: ``python tuning.py PROOF TRAINING HELD_OUT``
with two more files of rows for each further fold.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

if __package__:
    from workbench.proofs import checker
else:
    import checker

HALVINGS = 12  # times an interval is halved

require, g, below = checker.require, checker.g, checker.below


class Tuned(NamedTuple):
    """Of `rows` held-out rows the weights in hand are wrong on at most `errors`, and the exact
    solution for any C of the range on at least `certain`."""

    errors: int
    certain: int
    rows: int
    statement: str


class Knot(NamedTuple):
    """W, made from a dual point; its gap, rounded up; bounds of its hinges; its distance to V."""

    W: np.ndarray
    gap: Fraction
    losses: tuple[Fraction, Fraction]
    radius: Fraction


class Folds:
    """Folds (X, y, held-out X, held-out y), checked, one after another."""

    def __init__(self, folds: Sequence[tuple[Any, Any, Any, Any]]) -> None:
        require(len(folds), "folds: at least one is needed")
        self.train = [checker.Rows(X, y) for X, y, _, _ in folds]
        self.k, d = self.train[0].k, self.train[0].d
        self.held = [checker.Rows(X, y, self.k) for _, _, X, y in folds]
        same = {(rows.k, rows.d) for rows in (*self.train, *self.held)} == {(self.k, d)}
        require(same, "folds: must have the same features and classes")
        self.starts = np.cumsum([0] + [rows.n for rows in self.train])
        self.y = np.concatenate([rows.y for rows in self.held])
        self.fold = np.repeat(np.arange(len(folds)), [rows.n for rows in self.held])
        used = [np.ravel((rows.X != 0).sum(axis=0)) > 0 for rows in self.train]
        self.blank = np.concatenate([without(*pair) for pair in zip(self.held, used)])
        self.lengths = np.concatenate([only(*pair).norms for pair in zip(self.held, used)])
        self.lengths *= math.sqrt(2) * (1 + g(d + 32))

    def checksum(self) -> str:
        """Return the SHA-256 of those of all rows and labels, in their order."""
        digests = [checker.digest(rows) for rows in (*self.train, *self.held)]
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    def margins(self, Ws: Sequence[np.ndarray], side: int) -> np.ndarray:
        """Return bounds (m, k) of how far each class is above the row's own, where -1 stands."""
        margins = []
        for rows, W in zip(self.held, Ws, strict=True):
            space = checker.Linear(rows, 0.0)
            for part in checker.blocks(rows.n):
                F, radius = space.scores(part, W)
                own = rows.y[part][:, None]
                error = 2 * radius + g(16) * np.abs(F) + checker.TINY
                error += np.take_along_axis(error, own, axis=1)
                margin = F - np.take_along_axis(F, own, axis=1) + side * error
                np.put_along_axis(margin, own, -1.0, axis=1)
                margins.append(margin)
        return np.concatenate(margins)

    def errors(self, Ws: Sequence[np.ndarray]) -> int:
        """Return of how many held-out rows the weights of their folds may be wrong, at most."""
        right = (self.margins(Ws, 1) < 0).all(axis=1)
        pairs = ((rows, (W != 0).any(axis=1)) for rows, W in zip(self.held, Ws, strict=True))
        zero = np.concatenate([without(*pair) for pair in pairs])  # their scores, all of them
        return len(self.y) - int(np.where(zero, self.y == 0, right).sum())

    def knot(self, f: int, C: float, dual: dict[str, np.ndarray]) -> Knot:
        """Return the bounds that follow from a dual point of a fold at C."""
        stated = {"format": 1, "family": "linear", "loss": "weston_watkins", "over": "sum", "C": C}
        stated |= {"alpha": 1.0, "outputs": self.k, "checksum": "0" * 64}
        risk, gains = checker.RegularisedRisk(checker.Proof(stated, dual), self.train[f]), []

        def points():
            for rows, A, slack, gain, _ in risk.points():
                gains.append(gain)
                yield rows, A, slack

        norm, peak, W = risk.space.dual(points(), self.k, 0.0)
        radius = peak - Fraction(float(max(W.max(), -W.min())))
        low, high = (risk.primal(W, side) for side in (-1, 1))
        small, large = (risk.space.square(W, side) / 2 for side in (-1, 1))
        gain = checker.summed(gains, 2 * self.k, -1)
        losses = (low - large) / Fraction(C), (high - small) / Fraction(C)
        return Knot(W, high - gain + norm**2 / 2, losses, radius)

    def curvature(self, C_1: float, one: Knot, C_2: float, two: Knot) -> Fraction:
        """Return R^2 between two knots, rounded up."""
        sizes = np.abs(one.W) + np.abs(two.W)
        square = checker.summed([np.square(one.W - two.W).ravel()], 8, -1)
        error = checker.root(checker.summed([np.square(g(4) * sizes).ravel()], 8, 1))
        least = max(Fraction(0), checker.root(square) * (1 - Fraction(g(16))) - error)
        less = max(Fraction(0), least - one.radius - two.radius)
        losses = (Fraction(C_2) - Fraction(C_1)) * (one.losses[1] - two.losses[0])
        return max(Fraction(0), losses - least**2 / 2 - less**2 / 2)

    def certain(self, left, right, target: int) -> int:
        """Return how many rows are certainly wrong for each C of an interval, at most `target`.

        Its ends are C, the knots of all folds, and their margins.
        """
        (C_1, ones, first), (C_2, twos, last) = left, right
        pairs = [*zip(ones, twos, strict=True)]
        upper = [np.array([-below(-knot.gap) for knot in end]) for end in (ones, twos)]
        R2 = np.array([-below(-self.curvature(C_1, one, C_2, two)) for one, two in pairs])
        shift = np.array([-below(-max(one.radius, two.radius)) for one, two in pairs])
        rows = np.flatnonzero(~self.blank)
        todo = [(0, 0.0, 1.0, rows, int((self.blank & (self.y > 0)).sum()))]
        while todo:
            depth, x, y, rows, certain = todo.pop()
            t = min(max(0.5, x), y)
            gap = np.maximum(*((1 - s) * upper[0] + s * upper[1] for s in (x, y)))
            r = (np.sqrt(gap + t * (1 - t) * R2) + shift) * (1 + g(32)) + checker.TINY
            margin = np.minimum(*((1 - s) * first[rows] + s * last[rows] for s in (x, y)))
            wrong = (margin > (self.lengths * r[self.fold])[rows, None]).any(axis=1)
            rows, certain = rows[~wrong], certain + int(wrong.sum())
            if certain >= target:
                continue
            if depth == HALVINGS or not len(rows):
                target = certain
                continue
            middle = (x + y) / 2  # exact, as x and y are multiples of 2^-HALVINGS
            todo += [(depth + 1, a, b, rows, certain) for a, b in ((middle, y), (x, middle))]
        return target


def without(rows: checker.Rows, features: np.ndarray) -> np.ndarray:
    """Return which rows are 0 at all of these features (d,)."""
    return np.ravel((rows.X != 0).astype(float) @ features.astype(float)) == 0


def only(rows: checker.Rows, features: np.ndarray) -> checker.Rows:
    """Return rows with zeros in place of all other features than these (d,)."""
    X = rows.X.multiply(features).tocsr() if sp.issparse(rows.X) else rows.X * features
    return checker.Rows(X, rows.y, rows.k)


def unpacked(proof: checker.Proof, folds: Folds) -> tuple[np.ndarray, list, list]:
    """Return the knots, W of each fold, and the arrays of each knot's dual points."""
    arrays, (n, k, d) = proof.arrays, (int(folds.starts[-1]), folds.k, folds.train[0].d)
    more = sorted(arrays.keys() ^ (checker.DUAL.keys() | {"at", "W"}))
    require(not more, f"{', '.join(more)}: missing, or no part of such a proof")
    at, W = arrays["at"].astype(np.float64), arrays["W"].astype(np.float64)
    good = at.ndim == 1 and len(at) > 1 and at[0] > 0 and (np.diff(at) > 0).all()
    require(good, "at: must be two positive numbers at least, in ascending order")
    F = len(folds.train)
    require(W.shape == (F * d, k), f"W: is not of shape {(F * d, k)}")
    rows, _, columns, values = checker.sparse(arrays, len(at) * n, k)
    ends, duals = arrays["ends"].astype(np.int64), []
    starts = np.add.outer(n * np.arange(len(at)), folds.starts)
    cuts = np.searchsorted(rows, starts)
    for i, start in enumerate(starts):
        duals.append([])
        for f, (a, b) in enumerate(pairwise(cuts[i])):
            require(a < b, f"knot {i}, C={at[i]:g}: has no dual point")
            first = ends[a - 1] if a else 0
            part = slice(first, ends[b - 1])
            found = rows[a:b] - start[f], ends[a:b] - first, columns[part], values[part]
            duals[-1].append(dict(zip(checker.DUAL, found, strict=True)))
    return at, np.split(W, F), duals


def measured(proof: checker.Proof, folds: Folds, target: int) -> tuple[int, int, np.ndarray]:
    """Return the errors of the weights in hand, at most; how many rows are certainly wrong for all
    C of the range, where more than `target` are not looked for; and the knots."""
    at, Ws, duals = unpacked(proof, folds)
    try:
        with np.errstate(all="ignore"):
            errors, before = folds.errors(Ws), None
            for C, parts in zip(at.tolist(), duals, strict=True):
                knots = [folds.knot(f, C, dual) for f, dual in enumerate(parts)]
                now = C, knots, folds.margins([knot.W for knot in knots], -1)
                if before:
                    target = folds.certain(before, now, target)
                before = now
    except checker.ProofError:
        raise
    except (ArithmeticError, ValueError) as error:  # of Fraction and fsum, for infinity and NaN
        text = f"its numbers leave the range of double precision ({error})"
        raise checker.ProofError(text) from None
    return errors, target, at


def verify(proof: checker.Proof | str | os.PathLike, folds, name: str = "the rows given") -> Tuned:
    """Return how many errors the weights in hand have, and any C of the range has at least.

    Parameters
    ----------
    proof : a Proof of the family tuning, or the path of a file
    folds : (X, y, held-out X, held-out y) each, labels 0..k-1; every class has a training row
    name : of the rows, for the statement

    Raises
    ------
    ProofError
        If the file is not such a proof, is about other rows, or does not prove what it states.
    """
    proof = proof if isinstance(proof, checker.Proof) else checker.read(proof)
    h = proof.header
    require(h["family"] == "tuning", "is not of a tuning")
    require(h["loss"] == "weston_watkins", "loss: must be weston_watkins in a tuning")
    folds = Folds(folds)
    require(
        h["outputs"] == folds.k, f"outputs: {h['outputs']}, but the rows have {folds.k} classes"
    )
    require(h["checksum"] == folds.checksum(), "checksum: the proof is about other rows")
    errors, certain, at = measured(proof, folds, h["certain"])
    m, lost = len(folds.y), max(0, errors - certain)
    text = f"errors: W may be wrong on {errors} rows, the file states {h['errors']}"
    require(errors == h["errors"], text)
    text = f"certain: {certain} errors are, for all C, the file states {h['certain']}"
    require(certain == h["certain"], text)
    statement = (
        f"{checker.LOSSES[h['loss']]}, tuned on {m} held-out rows of {name}, {folds.k} classes\n"
        f"  {errors} errors ({errors / m:.2%}); no C from {at[0]:g} to {at[-1]:g} has fewer than "
        f"{certain}: none is better by more than {lost / m:.2%}"
    )
    return Tuned(errors, certain, m, statement)


def main(argv: list[str]) -> int:
    """Print what a file proves; return 0 if it is verified, 1 if it is refused."""
    try:
        good = len(argv) >= 3 and len(argv) % 2
        require(good, "usage: python tuning.py PROOF TRAINING HELD_OUT..., rows in .npz or .csv")
        rows = [part for path in argv[1:] for part in checker.load_rows(path)]
        start = time.perf_counter()
        verdict = verify(argv[0], [rows[i : i + 4] for i in range(0, len(rows), 4)])
    except (OSError, KeyError, ValueError) as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    print(f"{verdict.statement}; verified in {time.perf_counter() - start:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
