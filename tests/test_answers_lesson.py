"""The checks of the lesson on the five answers tell right from wrong."""

import numpy as np
import pytest

from checks import answers as teach


def many(n, k):
    return n * (2**k - 1), n * (k - 1), n * np.log10(k)


def most_violated(S, y, loss=1.0, own=1.0, join=np.mean, sign=1.0):
    rows = np.arange(len(y))
    gains = S + loss
    gains[rows, y] = S[rows, y]
    labels = (sign * gains).argmax(axis=1)
    return labels, join(gains[rows, labels] - own * S[rows, y])


def with_changes(**changes):
    return lambda S, y: most_violated(S, y, **changes)


LOWER, NONE = [{"lower": 1.0, "upper": 2.0}], [{"primal": 1.0}]
TRAILS = {"exact": LOWER, "smooth": LOWER, "sampled": NONE}
FAR = [-2, -1, 1, 2, 100], [0, 0, 1, 1, 1]

ANSWERS = [
    ("check_many", (many,), "right"),
    ("check_many", (lambda n, k: (n * 2**k, *many(n, k)[1:]),), "the empty subset"),
    ("check_many", (lambda n, k: (2**k - 1, *many(n, k)[1:]),), "not the number of subsets"),
    ("check_many", (lambda n, k: (many(n, k)[0], n * k, many(n, k)[2]),), "its own class"),
    ("check_many", (lambda n, k: (many(n, k)[0], k - 1, many(n, k)[2]),), "number of margins"),
    ("check_many", (lambda n, k: (*many(n, k)[:2], k * np.log10(n)),), "that is n^k"),
    ("check_many", (lambda n, k: (*many(n, k)[:2], n * np.log(k)),), "log10 of the last"),
    ("check_many", (lambda n, k: (49, 14, 7 * np.log10(3)),), "for n = 4"),
    ("check_many", (lambda n, k: many(n, k)[0],), "three numbers"),
    ("check_many", (lambda n, k: (..., ..., ...),), "not yet"),
    ("check_certified", (["exact", "smooth"], TRAILS), "right: 2 of 3"),
    ("check_certified", (["exact"], TRAILS), "not all"),
    ("check_certified", ([], TRAILS), "not all"),
    ("check_certified", (list(TRAILS), TRAILS), "not ['sampled']"),
    ("check_certified", (["Exact"], TRAILS), "are not among"),
    ("check_certified", ("exact", TRAILS), "a list of names"),
    ("check_certified", (..., TRAILS), "not yet"),
    ("check_most_violated", (most_violated,), "right"),
    ("check_most_violated", (with_changes(loss=0.0),), "has the loss 1"),
    ("check_most_violated", (with_changes(join=np.sum),), "the sum over the rows"),
    ("check_most_violated", (with_changes(own=0.0),), "the largest violation is"),
    ("check_most_violated", (with_changes(sign=-1.0),), "is violated most, not"),
    ("check_most_violated", (lambda S, y: (y, 0.0),), "is violated most, not"),
    ("check_most_violated", (lambda S, y: (most_violated(S, y)[0], np.nan),), "not nan"),
    ("check_most_violated", (lambda S, y: most_violated(S, y)[0],), "two things"),
    ("check_most_violated", (lambda S, y: (np.eye(len(y)), 0.0),), "shape"),
    ("check_most_violated", (lambda S, y: ...,), "not yet"),
    ("check_repaired", (lambda P, C, n, eps: P + C * n * eps,), "right"),
    ("check_repaired", (lambda P, C, n, eps: P,), "too small"),
    ("check_repaired", (lambda P, C, n, eps: P - C * n * eps,), "must be added"),
    ("check_repaired", (lambda P, C, n, eps: P + C * eps,), "any row"),
    ("check_repaired", (lambda P, C, n, eps: P + n * eps,), "counts C times"),
    ("check_repaired", (lambda P, C, n, eps: P + C * n * eps / 2,), "is not safe"),
    ("check_repaired", (lambda P, C, n, eps: P + 2 * C * n * eps,), "is enough"),
    ("check_repaired", (lambda P, C, n, eps: 95.0,), "for P = 3"),
    ("check_repaired", (lambda P, C, n, eps: np.nan,), "is not safe"),
    ("check_too_right", FAR, "right: margins could all be kept, and least squares gets 1 of 5"),
    ("check_too_right", ([-1.1, -0.9, 0.1, 0.2, 1, 1.2], [0, 0, 1, 1, 2, 2]), "right"),
    ("check_too_right", ([-2, -1, 1, 2], [0, 0, 1, 1]), "gets all of them right"),
    ("check_too_right", ([-2, -1, 1, 2], [0, 1, 0, 1]), "keep each class to itself"),
    ("check_too_right", ([0, 0, 1], [0, 1, 1]), "keep each class to itself"),
    ("check_too_right", ([-2, -1, 1, np.nan], [0, 0, 1, 1]), "finite"),
    ("check_too_right", ([-2, -1, 1], [0, 0, 1, 1]), "shape"),
    ("check_too_right", ([-2, -1, 1], [0, 0, 0]), "two classes"),
    ("check_too_right", ([-2, -1, 1], [1, 1, 2]), "0, 1, 2"),
    ("check_too_right", (..., ...), "not yet"),
]


@pytest.mark.parametrize(("check", "answers", "told"), ANSWERS)
def test_check(check, answers, told, capsys):
    getattr(teach, check)(*answers)
    printed = capsys.readouterr().out
    assert told in printed
    assert printed.startswith(("right: ", "try again: ", "not yet: "))
    assert "raised" not in printed
