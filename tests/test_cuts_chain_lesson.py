"""The checks of the lesson cuts_3 tell right from wrong."""

import re

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest

from checks import chains as teach
from checks import conll2000
from workbench.runs.notebooks import CHECKOUT

# Right answers, and those that a student is likely to give.


def moves(y, k):
    counts = np.zeros((k, k))
    np.add.at(counts, (y[:-1], y[1:]), 1)
    return counts


def inner(K, y, z, k, emissions=1, pairs=1):
    return emissions * K[y[:, None] == z].sum() + pairs * (moves(y, k) * moves(z, k)).sum()


def regardless(K, y, z, k):
    return K.sum() + inner(K, y, z, k, emissions=0)


def aligned(K, y, z, k):
    return sum(K[t, t] for t in range(4) if y[t] == z[t]) + inner(K, y, z, k, emissions=0)


def step(best, F_t, moves, score=1):
    through = best[:, None] + moves
    return through.max(axis=0) + score * F_t, through.argmax(axis=0)


def greedy(best, F_t, moves):
    return best.max() + moves[best.argmax()] + F_t, np.full(len(F_t), best.argmax())


def without_source(best, F_t, moves):
    return step(best, F_t, moves)[0], np.arange(4)


def in_place(best, F_t, moves):
    found = step(best, F_t, moves)
    best[:] = found[0]
    return found


def augmented(F, y, wrong=1.0, right=0.0, share=None):
    bonus = np.full(F.shape, wrong)
    bonus[np.arange(len(y)), y] = right
    return F + bonus / (share or len(y))


def augmented_in_place(F, y):
    F += augmented(0 * F, y)
    return F


WRONG = [[0, 1], [1, 0], [0, 1], [1, 0]]  # scores for the path 1, 0, 1, 0
PATH = [0, 1, 0, 1]
Y, Z = [0, 1, 2, 0], [0, 1, 1, 0]
B = [[0, -1, 1]]
N = np.array([[0, 0, 0], [-1, -1, 1], [1, 0, 0]])
SCALES = np.array([0.0, 1.0, 2.0])
ERRORS = 0.4, 0.2, 0.1

ANSWERS = [
    ("check_product", (inner,), "right"),
    ("check_product", (lambda *a: inner(*a, pairs=0),), "add that of the moves"),
    ("check_product", (regardless,), "different labels do not meet"),
    ("check_product", (aligned,), "not only its twin"),
    ("check_product", (lambda *a: 0.0,), "for two chains it is"),
    ("check_product", (lambda *a: np.nan,), "for two chains it is"),
    ("check_product", (lambda *a: ...,), "not yet"),
    ("check_step", (step,), "right"),
    ("check_step", (lambda b, F, m: step(b, F, m.T),), "turned around"),
    ("check_step", (lambda *a: step(*a, score=0),), "F_t, is missing"),
    ("check_step", (greedy,), "from the best label alone"),
    ("check_step", (lambda *a: step(*a, score=2),), "max over a of"),
    ("check_step", (without_source,), "sources[b] is that a"),
    ("check_step", (in_place,), "leave `best` as it is"),
    ("check_step", (lambda *a: step(*a)[0],), "two things"),
    ("check_step", (lambda *a: (..., ...),), "not yet"),
    ("check_augmented", (augmented,), "right"),
    ("check_augmented", (lambda *a: augmented(*a, wrong=-1),), "not a fine"),
    ("check_augmented", (lambda *a: augmented(*a, wrong=0, right=1),), "help the others"),
    ("check_augmented", (lambda *a: augmented(*a, share=1),), "divide by T"),
    ("check_augmented", (lambda *a: augmented(*a, right=1),), "changes no path"),
    ("check_augmented", (lambda F, y: F.copy(),), "changes no path"),
    ("check_augmented", (lambda *a: augmented(*a, share=7),), "gets 1/T more"),
    ("check_augmented", (augmented_in_place,), "leave F as it is"),
    ("check_augmented", (lambda F, y: augmented(F, y)[0],), "shape"),
    ("check_alone", (WRONG, [[0, 20], [10, 0]], PATH), "right: a hinge of 0, and 4 of 4"),
    ("check_alone", (WRONG, [[0, 10], [10, 0]], PATH), "the path [1, 0, 1, 0] comes too close"),
    ("check_alone", (WRONG, [[0, 0], [0, 0]], PATH), "the hinge is 5"),
    ("check_alone", (np.zeros((4, 2)), [[0, 20], [10, 0]], PATH), "position [0] on its own"),
    ("check_alone", (WRONG[:3], [[0, 20], [10, 0]], PATH), "shape"),
    ("check_alone", (..., ..., PATH), "not yet"),
    ("check_by_hand", ([2], B, N, Y, Z), "right"),
    ("check_by_hand", (2, B, N, Y, Z), "right"),
    ("check_by_hand", ([0, 1, 2, 3], B, N, Y, Z), "where the two paths differ"),
    ("check_by_hand", ([1], B, N, Y, Z), "where the two paths differ"),
    ("check_by_hand", ([2], [[0, 1, -1]], N, Y, Z), "B: the sign"),
    ("check_by_hand", ([2], [[0, 0, 1]], N, Y, Z), "B: a row"),
    ("check_by_hand", ([2], B[0], N, Y, Z), "shape"),
    ("check_by_hand", ([2], B, -N, Y, Z), "those of y less those of z"),
    ("check_by_hand", ([2], B, N.T, Y, Z), "turned around"),
    ("check_by_hand", ([2], B, moves(Y, 3), Y, Z), "take off those of z"),
    ("check_by_hand", ([2], B, 2 * N, Y, Z), "cross out equal ones"),
    ("check_by_hand", ([2], B, ..., Y, Z), "not yet"),
    ("check_by_hand", ([2], B, np.diag([0, -1, 1]), [0, 1, 2, 2], [0, 1, 1, 2]), "right"),
    ("check_same_C", (lambda C, L: C * L,), "right"),
    ("check_same_C", (lambda C, L: C,), "shrink differently"),
    ("check_same_C", (lambda C, L: C / L,), "1/L of C"),
    ("check_same_C", (lambda C, L: C * L**2,), "with a loss of 1"),
    ("check_same_C", (lambda C, L: 2 * C * L,), "it is 6, not 12"),
    ("check_same_C", (lambda C, L: 6.0,), "it is 14, not 6"),
    ("check_pieces", ("more", *ERRORS), "right: 40.0% alone"),
    ("check_pieces", ("less", *ERRORS), "how many moves"),
    ("check_pieces", ("less", 0.4, 0.3, 0.1), "right"),
    ("check_pieces", ("half", *ERRORS), 'answer "less" or "more"'),
    ("check_zero_one", ("at 0", SCALES, SCALES + 1), "right: 1.00 at a scale of 0"),
    ("check_zero_one", ("above 0", SCALES, SCALES + 1), "from end to end"),
    ("check_zero_one", ("at 0", SCALES, 1 - SCALES / 4), "from end to end"),
    ("check_zero_one", ("above 0", SCALES, 1 - SCALES / 4), "right: 0.50 at a scale of 2"),
    ("check_zero_one", (0, SCALES, SCALES), 'answer "at 0"'),
    ("check_strange", ("seldom", 0.002), "right: 0.20%"),
    ("check_strange", ("never", 0.002), "low, and finite"),
    ("check_strange", ("often", 0.002), "low, and finite"),
    ("check_strange", ("never", 0.0), "right"),
    ("check_strange", ("often", 0.2), "right"),
    ("check_strange", ("no", 0.2), 'answer "never"'),
]


@pytest.mark.parametrize(("check", "answers", "told"), ANSWERS)
def test_check(check, answers, told, capsys):
    getattr(teach, check)(*answers)
    assert told in capsys.readouterr().out


# The lesson where the sentences are not at hand. (Where they are, test_lessons.py runs all of it.)

CELLS = (
    "imports",
    "data",
    "draw-data",
    "same-solution",
    "train-function",
    "train-both",
    "sentences-load",
    "sentences-run",
    "sentences-moves",
    "strange-solution",
    "draw-sentences",
)


def test_the_lesson_falls_back_on_a_synthetic_chain(monkeypatch, capsys):
    def missing(*sizes):
        raise FileNotFoundError

    monkeypatch.setattr(conll2000, "conll2000", missing)
    lesson = nbformat.read(CHECKOUT / "notebooks" / "learn" / "cuts_3_chains.ipynb", as_version=4)
    source, space = {cell.id: cell.source for cell in lesson.cells}, {}
    with plt.rc_context():
        for name in CELLS:
            exec(source[name], space)
    plt.close("all")
    told = capsys.readouterr().out
    assert "shown here: chain 100x20x12" in told and "right: 0." in told
    pairs = re.findall(r"^(chain|positions alone): ([\d.]+)%.* wrong", told, re.M)
    assert len(pairs) == 4
    for found in (dict(pairs[:2]), dict(pairs[2:])):
        assert float(found["chain"]) < 0.5 * float(found["positions alone"])
