"""The checks of the least squares lessons tell right from wrong."""

import numpy as np
import pytest

from checks import least_squares as teach
from workbench.least_squares import simplex

# Right answers, and those that a student is likely to give.


def whiten(S):
    return np.linalg.inv(np.linalg.cholesky(S)).T


def softmax(U):
    E = np.exp(U - U.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)


def softmax_loss(W, X, Y):
    U = X @ W
    largest = U.max(axis=1)
    loss = largest + np.log(np.exp(U - largest[:, None]).sum(axis=1)) - (Y * U).sum(axis=1)
    return loss.mean(), X.T @ (softmax(U) - Y) / len(X)


def summed_loss(W, X, Y):
    loss, G = softmax_loss(W, X, Y)
    return loss * len(X), G


def rising_gradient(W, X, Y):
    loss, G = softmax_loss(W, X, Y)
    return loss, -G


def summed_gradient(W, X, Y):
    loss, G = softmax_loss(W, X, Y)
    return loss, G * len(X)


def overflowing_loss(W, X, Y):
    with np.errstate(all="ignore"):
        loss = np.log(np.exp(X @ W).sum(axis=1)) - (Y * (X @ W)).sum(axis=1)
        return loss.mean(), softmax_loss(W, X, Y)[1]


def clipped_loss(W, X, Y):
    U = np.clip(X @ W, -50, 50)
    loss = np.log(np.exp(U).sum(axis=1)) - (Y * U).sum(axis=1)
    return loss.mean(), softmax_loss(W, X, Y)[1]


def algorithm_1(X, Y, L, alpha, rounds, ridge=None, pull=None, step=None):
    ridge, pull, step = (
        theory if given is None else given
        for theory, given in ((alpha / L, ridge), (alpha, pull), (1 / L, step))
    )
    H = X.T @ X / len(X) + ridge * np.eye(X.shape[1])
    Ws = [np.zeros((X.shape[1], Y.shape[1]))]
    for _ in range(rounds):
        gradient = softmax_loss(Ws[-1], X, Y)[1] + pull * Ws[-1]
        Ws.append(Ws[-1] - step * np.linalg.solve(H, gradient))
    return Ws


def with_changes(**changes):
    return lambda X, Y, L, alpha, rounds: algorithm_1(X, Y, L, alpha, rounds, **changes)


def in_place(X, Y, L, alpha, rounds):
    W = np.zeros((X.shape[1], Y.shape[1]))
    return [W] * (rounds + 1)


def lower(P, G, alpha):
    return P - (G**2).sum() / (2 * alpha)


def project(V):
    simplex.project(V)
    return V


def one_round(X, Y, now, basis, left_over=1, last=project, added=1, refit=0):
    W = np.linalg.lstsq(X, Y - left_over * now, rcond=None)[0]
    fitted = added * now + X @ W
    V = np.linalg.lstsq(basis(fitted), Y - refit * now, rcond=None)[0]
    return W, V, fitted, basis(fitted) @ V, last(basis(fitted) @ V)


def replay(X, Ws, Vs, basis, start=0.0, last=project):
    now = np.full((len(X), Ws[0].shape[1]), start)
    for W, V in zip(Ws, Vs):
        now = last(basis(now + X @ W) @ V)
    return now


ONE, COIN = np.ones((2, 1)), np.eye(3)[[0, 1]]
FALL, FASTER = np.array([3.0, 2.0, 1.0]), np.array([3.0, 1.0, 0.5])
HAND = [0.9, 0.5, -0.2]

CHECKS = [
    # Lesson 1
    ("check_whiten", (whiten,), "right"),
    ("check_whiten", (np.linalg.inv,), "the inverse of S"),
    ("check_whiten", (lambda S: whiten(S).T,), "transpose it"),
    ("check_whiten", (lambda S: np.eye(len(S)),), "not ones"),
    ("check_whiten", (np.linalg.cholesky,), "not ones"),
    ("check_whiten", (lambda S: np.diag(np.diag(S) ** -0.5),), "not ones"),
    ("check_whiten", (lambda S: np.eye(2),), "shape"),
    ("check_whiten", (lambda S: np.nan * S,), "not finite"),
    ("check_whiten", (lambda S: ...,), "not yet"),
    ("check_loss", (softmax_loss,), "right"),
    ("check_loss", (summed_loss,), "take the mean"),
    ("check_loss", (lambda *a: (1.0, softmax_loss(*a)[1]),), "the loss is"),
    ("check_loss", (lambda *a: softmax_loss(*a)[0],), "two things"),
    ("check_loss", (rising_gradient,), "wrong sign"),
    ("check_loss", (summed_gradient,), "each row adds"),
    ("check_loss", (lambda *a: (softmax_loss(*a)[0], softmax_loss(*a)[1].T),), "shape"),
    ("check_loss", (lambda *a: (np.nan, softmax_loss(*a)[1]),), "not nan"),
    ("check_loss", (overflowing_loss,), "overflow"),
    ("check_loss", (clipped_loss,), "with large scores the loss is"),
    ("check_algorithm_1", (algorithm_1,), "right"),
    ("check_algorithm_1", (with_changes(ridge=0),), "the matrix lacks its ridge"),
    ("check_algorithm_1", (with_changes(ridge=0.3),), "is alpha/L"),
    ("check_algorithm_1", (with_changes(pull=0),), "add alpha W"),
    ("check_algorithm_1", (with_changes(step=1),), "lack their 1/L"),
    ("check_algorithm_1", (with_changes(step=3),), "W_1 is the first that is off"),
    ("check_algorithm_1", (with_changes(ridge=0.6, step=2),), "the L that is given"),
    ("check_algorithm_1", (with_changes(step=-1.25),), "W_1 is the first that is off"),
    ("check_algorithm_1", (in_place,), "all entries are one array"),
    ("check_algorithm_1", (lambda *a: algorithm_1(*a)[1:],), "rounds + 1"),
    ("check_algorithm_1", (lambda *a: [...],), "not yet"),
    ("check_too_small", ([[0.5, -0.5, -9]], ONE, COIN, 0.2), "right: the loss goes from 0.81"),
    ("check_too_small", ([[0, 0, 0]], ONE, COIN, 0.2), "Make class 2 improbable"),
    ("check_too_small", ([[0.5, -0.5, -9]], ONE, COIN, 0.5), "Make class 2 improbable"),
    ("check_too_small", ([0, 0, 0], ONE, COIN, 0.2), "shape"),
    ("check_too_small", (..., ONE, COIN, 0.2), "not yet"),
    ("check_scaled", ("the same", FALL, FALL + 1e-9), "right"),
    ("check_scaled", ("slower", FALL, FALL), "how do S"),
    ("check_scaled", ("faster", FALL, FALL), "how do S"),
    ("check_scaled", ("faster", FALL, FASTER), "right"),
    ("check_scaled", ("slower", FASTER, FALL), "right"),
    ("check_scaled", ("same", FALL, FALL), 'answer "the same"'),
    ("check_lower", (lower,), "right"),
    ("check_lower", (lambda P, G, alpha: P - (G**2).sum() / alpha,), "it is -4.00, not -9.00"),
    ("check_lower", (lambda P, G, alpha: P + (G**2).sum() / (2 * alpha),), "not 6.00"),
    ("check_lower", (lambda P, G, alpha: P - np.linalg.norm(G) / (2 * alpha),), "D = -G/alpha"),
    ("check_lower", (lambda P, G, alpha: -4.0,), "for P = 0.3"),
    ("check_lower", (lambda P, G, alpha: np.nan,), "not nan"),
    ("check_lower", (lambda P, G, alpha: None,), "not yet"),
    # Lesson 2
    ("check_by_hand", (0.2, [0.7, 0.3, 0], HAND), "right"),
    ("check_by_hand", (0.1, [0.8, 0.4, 0], HAND), "raise it"),
    ("check_by_hand", (0.3, [0.6, 0.2, 0], HAND), "lower it"),
    ("check_by_hand", (0.2, [0.7, 0.3, -0.4], HAND), "theta is right"),
    ("check_by_hand", (0.2, [0.9, 0.5, -0.2], HAND), "theta is right"),
    ("check_by_hand", (0.2, [0.7, 0.3], HAND), "shape"),
    ("check_by_hand", (..., [..., ..., ...], HAND), "not yet"),
    ("check_project", (project,), "right"),
    ("check_project", (lambda V: V,), "none may be negative"),
    ("check_project", (lambda V: np.maximum(V, 0),), "must sum to 1"),
    ("check_project", (softmax,), "is nearer"),
    ("check_project", (lambda V: project(V)[0],), "shape"),
    ("check_round", (one_round,), "right"),
    ("check_round", (lambda *a: one_round(*a, left_over=0),), "what is left over"),
    ("check_round", (lambda *a: one_round(*a, last=lambda V: V),), "projected is off"),
    ("check_round", (lambda *a: one_round(*a, added=0),), "fitted is off"),
    ("check_round", (lambda *a: one_round(*a, refit=1),), "fits Y itself"),
    ("check_round", (lambda *a: (one_round(*a)[0].T, *one_round(*a)[1:]),), "shape"),
    ("check_round", (lambda *a: one_round(*a)[:4],), "return W, V"),
    ("check_rises", ("rises", FALL[::-1]), "right: it rises in 2 of 2"),
    ("check_rises", ("never rises", FALL), "right"),
    ("check_rises", ("never rises", FALL[::-1]), "is it still a choice"),
    ("check_rises", ("yes", FALL), 'answer "rises"'),
    ("check_replay", (replay,), "right"),
    (
        "check_replay",
        (lambda X, Ws, Vs, G: replay(X, Ws[-1:], Vs[-1:], G),),
        "the last round alone",
    ),
    ("check_replay", (lambda X, Ws, Vs, G: X @ sum(Ws),), "project in every round"),
    ("check_replay", (lambda *a: replay(*a, start=1 / 3),), "begin at 0"),
    ("check_replay", (lambda *a: project(replay(*a, last=lambda V: V)),), "in every round"),
    ("check_replay", (lambda X, Ws, Vs, G: np.full((30, 3), 1 / 3),), "shape"),
    ("check_newton", (2.177,), "right"),
    ("check_newton", (1.5,), "the mirror image"),
    ("check_newton", (2.16,), "the mirror image"),
    ("check_newton", (2.19,), "the mirror image"),
    ("check_newton", (0,), "the positive one"),
    ("check_newton", (-2.177,), "the positive one"),
]


@pytest.mark.parametrize(("check", "answers", "told"), CHECKS)
def test_check(check, answers, told, capsys):
    getattr(teach, check)(*answers)
    printed = capsys.readouterr().out
    assert told in printed
    assert printed.startswith(("right: ", "try again: ", "not yet: "))
    assert "raised" not in printed
