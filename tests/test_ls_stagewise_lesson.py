"""The checks of the lessons ls_3 and ls_4 tell right from wrong."""

import numpy as np
import pytest

from checks import stagewise as teach
from workbench.core.trace import Trace

# Right answers, and those that a student is likely to give.


def waves(X, p, s, rng, spread=lambda s: np.sqrt(2 / s), height=2**0.5, turn=2 * np.pi):
    W = rng.standard_normal((X.shape[1], p)) * spread(s)
    return height * np.cos(X @ W + turn * rng.random(p))


def ridge(Z, R, alpha):
    return np.linalg.solve(Z.T @ Z / len(Z) + alpha * np.eye(Z.shape[1]), Z.T @ R / len(Z))


def one_pass(X, Y, make, blocks, alpha, residual=True, fitted=ridge, advance=True):
    F, Ws = np.zeros(Y.shape), []
    for b in range(blocks):
        Z = make(X, b)
        Ws.append(fitted(Z, Y - residual * F, alpha))
        F += Z @ Ws[-1]
    return Ws, F if advance else 0 * F


def predict(X, Ws, make):
    return sum(make(X, b) @ W for b, W in enumerate(Ws))


def revisit(Z, R, W, alpha, pull=1.0, whole=False):
    H = Z.T @ Z / len(Z) + alpha * np.eye(Z.shape[1])
    return np.linalg.solve(H, Z.T @ R / len(Z) - pull * alpha * W) + whole * W


def joint_cost(n, d, p):
    return n * d**2 + d**3 / 3


def block_cost(n, d, p):
    return n * p**2 + p**3 / 3


def spread(error, rows):
    return np.sqrt(error * (1 - error) / rows)


def scores(states, rows):
    return np.array([state.scores(X) for state, X in zip(states, rows)])


def votes(states, rows):
    return np.eye(4)[scores(states, rows).argmax(axis=2)].mean(axis=0)


def ends(primal):
    return Trace({}, [{"primal": 1.0}, {"primal": primal}])


TRIALS = {"one": 0.02, "two": 0.019, "three": 0.01}
PAIR = [[1, 1], [0.1, -0.1]]
WRONG = np.random.default_rng(0).random((100, 400)) < 0.05


def optimism(wrong, seeds, rows):
    best = np.argmin(wrong[:seeds, :rows].mean(axis=1))
    return wrong[best, :rows].mean(), wrong[best, rows:].mean()


ANSWERS = [
    # Lesson 3
    ("check_variance", (lambda s: 2 / s,), "right"),
    ("check_variance", (lambda s: 1 / s,), "makes exp(-1.25 r^2)"),
    ("check_variance", (lambda s: np.sqrt(2 / s),), "standard deviation"),
    ("check_variance", (lambda s: s / 2,), "and the kernel is"),
    ("check_variance", (lambda s: 5.0,), "for s = 3"),
    ("check_variance", (lambda s: np.nan,), "for s = 0.4"),
    ("check_variance", (lambda s: ...,), "not yet"),
    ("check_waves", (waves,), "right"),
    ("check_waves", (lambda *a: waves(*a, height=1.0),), "half the kernel"),
    ("check_waves", (lambda *a: waves(*a, turn=0.0),), "where is the shift"),
    (
        "check_waves",
        (lambda *a: waves(*a, spread=lambda s: np.sqrt(1 / s)),),
        "frequencies' variance",
    ),
    ("check_waves", (lambda *a: waves(*a, spread=lambda s: 2 / s),), "frequencies' variance"),
    ("check_waves", (lambda *a: waves(*a, spread=lambda s: 1.0),), "frequencies' variance"),
    ("check_waves", (lambda X, p, s, rng: waves(X, p, s, rng, height=p**-0.5),), "leave the root"),
    ("check_waves", (lambda *a: waves(*a[:3], np.random.default_rng()),), "other waves"),
    ("check_waves", (lambda *a: waves(*a[:3], np.random.default_rng(0)),), "the same waves"),
    ("check_waves", (lambda *a: waves(*a).T,), "shape"),
    ("check_narrow", ("training only", 0.0, 0.4), "right"),
    ("check_narrow", ("both", 0.0, 0.4), "two different rows"),
    ("check_narrow", ("neither", 0.5, 0.5), "right"),
    ("check_narrow", ("neither", 0.0, 0.4), "two different rows"),
    ("check_narrow", ("test", 0.0, 0.4), 'answer "both"'),
    ("check_cost", (lambda n, d, p: d / p * block_cost(n, d, p),), "right"),
    ("check_cost", (block_cost,), "that is one block"),
    ("check_cost", (joint_cost,), "all features at once"),
    ("check_cost", (lambda n, d, p: n * d * p,), "it is 5.06e+11"),
    ("check_one_pass", (one_pass,), "right"),
    ("check_one_pass", (lambda *a: one_pass(*a, residual=False),), "block 1 fits Y"),
    ("check_one_pass", (lambda *a: one_pass(*a, advance=False),), "F is the sum"),
    ("check_one_pass", (lambda *a: one_pass(*a)[0],), "two things"),
    ("check_one_pass", (lambda *a: one_pass(*a[:3], 2, a[4]),), "3 blocks and 2 weights"),
    (
        "check_one_pass",
        (lambda *a: one_pass(*a, fitted=lambda Z, R, c: ridge(Z, R, c / 30)),),
        "beside the mean",
    ),
    (
        "check_one_pass",
        (lambda *a: one_pass(*a, fitted=lambda Z, R, c: ridge(Z, R, 0)),),
        "the ridge is missing",
    ),
    (
        "check_one_pass",
        (lambda *a: one_pass(*a, fitted=lambda Z, R, c: ridge(Z, R, 2 * c)),),
        "Ws[0] is the first",
    ),
    ("check_predict", (predict,), "right"),
    ("check_predict", (lambda X, Ws, make: make(X, 2) @ Ws[2],), "last block alone"),
    ("check_predict", (lambda X, Ws, make: predict(X, Ws[:2], make),), "do not get"),
    ("check_predict", (lambda X, Ws, make: predict(X, Ws[::-1], make),), "do not get"),
    ("check_predict", (lambda X, Ws, make: np.zeros((30, 3)),), "shape"),
    ("check_hard_pair", (PAIR, [0, 1]), "right: one pass leaves 95%"),
    ("check_hard_pair", (np.eye(2), [0, 1]), "one pass leaves 0%"),
    ("check_hard_pair", (np.ones((2, 2)), [0, 1]), "do not fit y"),
    ("check_hard_pair", (np.zeros((2, 2)), [0, 1]), "all zero"),
    ("check_hard_pair", ([[1, 1]], [0, 1]), "shape"),
    ("check_hard_pair", (..., ...), "not yet"),
    ("check_revisit", (revisit,), "right"),
    ("check_revisit", (lambda *a: revisit(*a, pull=0.0),), "right where W = 0"),
    ("check_revisit", (lambda *a: revisit(*a, whole=True),), "that is the new W"),
    ("check_revisit", (lambda *a: revisit(*a, pull=2.0),), "to zero"),
    ("check_revisit", (lambda *a: revisit(*a, pull=-1.0),), "to zero"),
    ("check_revisit", (lambda *a: -revisit(*a),), "to zero"),
    ("check_revisit", (lambda *a: revisit(*a).T,), "shape"),
    ("check_inner", ("often", ends(0.4), ends(0.2)), "right: 0.4000 after one pass"),
    ("check_inner", ("once", ends(0.4), ends(0.2)), "who has seen"),
    ("check_inner", ("never", ends(0.4), ends(0.2)), 'answer "once"'),
    # Lesson 4
    ("check_standard_error", (spread,), "right"),
    ("check_standard_error", (lambda e, m: spread(e, m) ** 2,), "take the root"),
    ("check_standard_error", (lambda e, m: m * spread(e, m),), "counts rows"),
    ("check_standard_error", (lambda e, m: np.sqrt(e / m),), "it is 0.001"),
    ("check_clear", (["three"], TRIALS, 1000), "right"),
    ("check_clear", ([], TRIALS, 1000), "two standard errors of 2.00%"),
    ("check_clear", ([], TRIALS, 100), "right"),
    ("check_clear", (["four"], TRIALS, 100), "are not among"),
    ("check_clear", ("three", TRIALS, 100), "a list of names"),
    ("check_clear", (["two", "three"], TRIALS, 1000), "two standard errors of 2.00%"),
    ("check_clear", (..., TRIALS, 100), "not yet"),
    ("check_average_variance", (lambda v, r, m: v * (r + (1 - r) / m),), "right"),
    ("check_average_variance", (lambda v, r, m: v / m,), "of the m^2 pairs"),
    ("check_average_variance", (lambda v, r, m: v * r,), "of the m^2 pairs"),
    ("check_average_variance", (lambda v, r, m: v * (r + (1 - r) / m**2),), "of the m^2 pairs"),
    ("check_averaged", (lambda *a: scores(*a).mean(axis=0),), "right"),
    ("check_averaged", (lambda *a: scores(*a).sum(axis=0),), "that is the sum"),
    ("check_averaged", (votes,), "those are votes"),
    ("check_averaged", (lambda *a: scores(*a)[0],), "not the mean"),
    ("check_optimism", (100, 100, WRONG, optimism), "right"),
    ("check_optimism", (1, 300, WRONG, optimism), "more seeds"),
    ("check_optimism", (101, 100, WRONG, optimism), "1 to 100"),
    ("check_optimism", (100, 399, WRONG, optimism), "20 to 350"),
    ("check_optimism", (..., ..., WRONG, optimism), "not yet"),
]


@pytest.mark.parametrize(("check", "answers", "told"), ANSWERS)
def test_check(check, answers, told, capsys):
    getattr(teach, check)(*answers)
    assert told in capsys.readouterr().out
