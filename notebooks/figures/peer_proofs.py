"""Proofs of the problems that scikit-learn's classifiers minimise, for
proof_peers.ipynb.

The problems are those of :mod:`workbench.certification.problems`, all classes of one in
one proof. Class weights have no proof here, as LIBLINEAR's depend on the class.

The proofs come from second-order methods: Newton's for smooth losses, a primal-dual
interior point method (Mehrotra's) for the hinge and Crammer-Singer's loss; kernel SVMs
are left to LIBSVM. An iteration costs O(n d^2 K^2), so rows have to be narrow. Nothing
here is trusted, as the checker evaluates the points.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.special import expit, softmax

from workbench.certification.problems import JOINT, STATED, check_model
from workbench.proofs.checker import Arrays, Proof, checksum
from workbench.proofs.writers import Statement, sparse

SOLVED = "hinge", "crammer_singer", "squared_hinge", "logistic", "softmax", "squared"
MAX_NEWTON = 60
ROUNDING = 1e-14  # of an objective's value, in its own size
MAX_INTERIOR = 200


def statement(model: Any, y: np.ndarray) -> Statement:
    """Return the header of a proof of the problem that a classifier of scikit-learn
    minimises.

    Parameters
    ----------
    model : LinearSVC, SVC of two classes, LogisticRegression, SGDClassifier or
        RidgeClassifier, fitted
    y : (n,) labels 0..k-1

    Raises
    ------
    ValueError
        If the class or a setting of it has no statement.
    """
    check_model(model)
    if model.class_weight is not None:
        raise ValueError(f"class_weight: must be None, got {model.class_weight!r}")
    stated = {
        "family": "linear",
        "over": "sum",
        "alpha": 1.0,
        "l1": 0.0,
        "intercept": "free",
    }
    stated |= {"C": float(getattr(model, "C", 1.0))} | STATED[type(model)](model)
    if not getattr(model, "fit_intercept", True):
        stated["intercept"] = None
    k = int(y.max()) + 1
    return stated | {"outputs": k if k > 2 or stated["loss"] in JOINT else 1}


def weights(model: Any) -> Any:
    """Return the arguments of :func:`workbench.proofs.bound_excess` for a fitted
    classifier.

    That is the classifier itself; of RidgeClassifier its weights for labels 0 and 1, of
    a linear SVC those of the features.
    """
    if getattr(model, "kernel", None) == "linear":
        return SimpleNamespace(coef_=model.coef_, intercept_=model.intercept_)
    if type(model).__name__ != "RidgeClassifier":
        return model
    W, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if len(W) == 1:
        W, b = np.vstack([-W, W]), np.append(-b, b)
    return SimpleNamespace(coef_=W / 2, intercept_=(b + 1) / 2)


def solved(header: Statement, X, y: np.ndarray) -> Proof:
    """Return a proof of a problem without l1 and with one cost for all classes.

    A kernel SVM has two classes and a free intercept.

    Parameters
    ----------
    header : of the proof, without ``format`` and ``checksum``
    X : (n, d) array or SciPy sparse matrix of finite numbers
    y : (n,) labels 0..k-1

    Raises
    ------
    ValueError
        For l1 > 0, a cost per class, the loss of Weston and Watkins, or the minimax
        risk.
    """
    if (
        header.get("l1")
        or header.get("loss") not in SOLVED
        or isinstance(header["C"], list)
    ):
        raise ValueError(
            "header: must have l1 = 0, one C for all classes and a loss of "
            f"{', '.join(SOLVED)}"
        )
    header = (
        {"format": 1, "family": "linear", "l1": 0.0}
        | header
        | {"checksum": checksum(X, y)}
    )
    if header["family"] == "kernel":
        return Proof(header, by_libsvm(header, X, y))
    s, alpha, d = header["intercept"], header["alpha"], X.shape[1]
    C = header["C"] / (len(y) if header["over"] == "mean" else 1)
    Z = (X.toarray() if sp.issparse(X) else X).astype(float)
    ridge = np.full(d + (s is not None), alpha)
    if s is not None:
        Z = np.column_stack([Z, np.full(len(y), 1.0 if s == "free" else s)])
        ridge[d] = 0.0 if s == "free" else alpha
    own = y[:, None] == (np.arange(header["outputs"]) if header["outputs"] > 1 else [1])
    if header["loss"] in ("hinge", "crammer_singer"):
        W, B = largest_margins(header["loss"], Z, own, ridge, C)
        B = np.minimum(B * header["C"] / C, header["C"])
        if s == "free":  # each column's two sides weigh the same
            B *= np.where(own, *balance(B, own))
        arrays = sparse(B, exact=True)
    else:
        W, arrays = smooth_optimum(header["loss"], Z, own, ridge, C), {}
    arrays |= {"W": W[:d]} | ({} if s is None else {"b": W[d]})
    return Proof(header, arrays)


def by_libsvm(header: Statement, X, y: np.ndarray) -> Arrays:
    """Return the arrays of a kernel SVM's proof, by LIBSVM with the tolerance 1e-9."""
    from sklearn.svm import SVC

    kernel = {name: value for name, value in header["kernel"].items() if name != "name"}
    model = SVC(C=header["C"], kernel=header["kernel"]["name"], tol=1e-9, **kernel).fit(
        X, y
    )
    rows = np.sort(model.support_)
    V = (
        model.dual_coef_.toarray()
        if sp.issparse(model.dual_coef_)
        else model.dual_coef_
    )
    V = V[0, np.argsort(model.support_)]
    sides = y[rows] == 1
    weights = np.abs(V) * np.where(sides, *balance(np.abs(V), sides))
    return sparse(weights[:, None], rows, exact=True) | {
        "basis": rows,
        "W": V[:, None],
        "b": model.intercept_,
    }


def smooth_optimum(
    loss: str, Z: np.ndarray, own: np.ndarray, ridge: np.ndarray, C: float
) -> np.ndarray:
    """Return W, (d, K), that minimises a smooth loss, by Newton's method with halved
    steps."""
    W = np.zeros((Z.shape[1], own.shape[1]))
    outputs = (
        [slice(None)]
        if loss == "softmax"
        else [slice(c, c + 1) for c in range(W.shape[1])]
    )
    for part in outputs:
        V, mine = W[:, part], own[:, part]  # a view
        value, gradient, hessian = smooth(loss, Z, mine, ridge, C, V)
        for _ in range(MAX_NEWTON):
            step = factored(hessian())(gradient.T.ravel()).reshape(V.T.shape).T
            size, found = 1.0, None
            # near the optimum a full step may seem to rise
            most = (1.0 + ROUNDING) * value
            while size > 1e-4 and not (found and found[0] <= most):
                found = smooth(loss, Z, mine, ridge, C, V - size * step)
                size /= 2
            if found[0] > most or abs((step * gradient).sum()) <= 1e-20 * value:
                break
            V -= 2 * size * step
            value, gradient, hessian = found
    return W


def smooth(loss: str, Z, own, ridge, C, W):
    """Return objective, gradient and the Hessian's maker, at W."""
    F, sign = Z @ W, np.where(own, 1.0, -1.0)
    norm = 0.5 * float((ridge[:, None] * W**2).sum())
    if loss == "softmax":
        P = softmax(F, axis=1)
        total = (np.logaddexp.reduce(F, axis=1) - F[own]).sum()
        slope, curve = P - own, (lambda: coupled(Z, P, ridge / C, 1e-13) * C)
    else:
        if loss == "squared":
            total, slope, curvature = (
                ((F - own) ** 2).sum() / 2,
                F - own,
                np.ones_like(F),
            )
        elif loss == "squared_hinge":
            h = np.maximum(1 - sign * F, 0.0)
            total, slope, curvature = (h**2).sum(), -2 * sign * h, 2.0 * (h > 0)
        else:
            p = expit(-sign * F)
            total, slope, curvature = (
                np.logaddexp(0, -sign * F).sum(),
                -sign * p,
                p * (1 - p),
            )

        def curve():
            return C * (Z.T * curvature[:, 0]) @ Z + np.diag(ridge)

    return norm + C * total, C * Z.T @ slope + ridge[:, None] * W, curve


def coupled(
    Z: np.ndarray, Q: np.ndarray, ridge: np.ndarray, least: float = 0.0, first: int = 0
) -> np.ndarray:
    """Return sum_i (diag(q) - q q' / sum q) (x) z z', (K d, K d), with the ridge on its
    diagonal.

    The ridge is at least `least` of the diagonal, as classes may share a free
    intercept. Classes before `first` are left out.
    """
    K, d, total = Q.shape[1], Z.shape[1], Q.sum(axis=1)
    H = np.zeros((K, d, K, d))
    for c in range(K):
        for e in range(c):
            part = (Z.T * (Q[:, c] * (Q[:, e] / total))) @ Z
            H[c, :, e] = H[e, :, c] = -part
            H[c, :, c] += part
            H[e, :, e] += part
    H = H[first:, :, first:].reshape((K - first) * d, -1)
    H[np.diag_indices(len(H))] += np.maximum(
        np.tile(ridge, K - first), least * H.diagonal()
    )
    return H


def factored(H: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return v -> H^-1 v for a positive matrix, scaled to a diagonal of ones; refined
    once."""
    scale = 1 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
    H = H * scale[:, None] * scale
    # rounding may have left it indefinite
    for shift in (0.0, 1e-15, 1e-13, 1e-11, 1e-8):
        try:
            factor = scipy.linalg.cho_factor(H + shift * np.eye(len(H)))
            break
        except scipy.linalg.LinAlgError:
            continue

    def solve(right: np.ndarray) -> np.ndarray:
        found = scipy.linalg.cho_solve(factor, scale * right)
        return scale * (
            found + scipy.linalg.cho_solve(factor, scale * right - H @ found)
        )

    return solve


def largest_margins(
    loss: str, Z: np.ndarray, own: np.ndarray, ridge: np.ndarray, C: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return W, (d, K), and dual weights, (n, K), of the hinge or of Crammer-Singer's
    loss."""
    if loss == "crammer_singer":
        W, B = interior(Z, own, ridge, C)
        return W, np.where(own, 0.0, B)
    W, B = np.zeros((Z.shape[1], own.shape[1])), np.zeros(own.shape)
    # the second of two classes, where the first has scores of 0
    for c, mine in enumerate(own.T):
        V, A = interior(Z, np.column_stack([~mine, mine]), ridge, C, first=1)
        W[:, c], B[:, c] = V[:, 0], np.where(mine, A[:, 0], A[:, 1])
    return W, B


def interior(
    Z: np.ndarray, own: np.ndarray, ridge: np.ndarray, C: float, first: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise sum_d ridge_d |W_d|^2 / 2 + C sum_i max_c (F_ic + [c != y_i]) - F_iy, F
    = Z W.

    With z_i for the maximum: t = z - F - [c != y] >= 0, B >= 0 its multiplier, sum_c
    B_ic = C and ridge W = Z'(C Y - B). Columns of W before `first` are zero, and are
    not returned.
    """
    (n, K), E = own.shape, ~own
    W, B, z = np.zeros((Z.shape[1], K - first)), np.full((n, K), C / K), np.full(n, 2.0)
    F, t, dF = np.zeros((n, K)), np.full((n, K), 2.0) - E, np.zeros((n, K))
    for _ in range(MAX_INTERIOR):
        mu = (B * t).sum() / t.size
        value = (
            0.5 * (ridge[:, None] * W**2).sum()
            + C * (np.max(F + E, axis=1) - F[own]).sum()
        )
        if mu * t.size <= 1e-13 * value:
            break
        Q = B / t
        q, off_t, off_z = Q.sum(axis=1), z[:, None] - F - E - t, C - B.sum(axis=1)
        off_W = Z.T @ (C * own - B)[:, first:] - ridge[:, None] * W
        solve, aim = factored(coupled(Z, Q, ridge, first=first)), -B * t
        for _ in range(2):  # Mehrotra's predictor, then the step with its aim
            G = aim / t - Q * off_t
            spare = G.sum(axis=1) - off_z
            right = off_W - Z.T @ (G - Q * (spare / q)[:, None])[:, first:]
            dW = solve(right.T.ravel()).reshape(W.T.shape).T
            dF[:, first:] = Z @ dW
            dz = (spare + (Q * dF).sum(axis=1)) / q
            dt = dz[:, None] - dF + off_t
            dB = aim / t - Q * dt
            size = min(longest(t, dt), longest(B, dB))
            left = ((t + size * dt) * (B + size * dB)).sum() / (t.size * mu)
            aim = left**3 * mu - B * t - np.clip(dt * dB, -9 * mu, 9 * mu)
        size *= 0.995
        W, F, z, t, B = (
            W + size * dW,
            F + size * dF,
            z + size * dz,
            t + size * dt,
            B + size * dB,
        )
    return W, B


def balance(B: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return factors in [0, 1] of own and other rows that make them weigh the same, (2,
    ...)."""
    sides = np.array([(B * own).sum(axis=0), (B * ~own).sum(axis=0)])
    return sides.min(axis=0) / np.maximum(sides, 1e-300)


def longest(x: np.ndarray, step: np.ndarray) -> float:
    """Return the longest step in (0, 1] that keeps x >= 0."""
    down = step < 0
    return min(1.0, float((-x[down] / step[down]).min(initial=np.inf)))
