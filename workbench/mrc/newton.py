"""The Newton system of the interior point method: closed-form blocks, one Cholesky factor.

Eliminating everything but (mu_J, phi) from the linearised optimality conditions leaves

    A' H^-1 A + diag(1/D, 0) + (alpha / s0) t t',    t = (tau, -1),

where A maps (mu, phi) to the (|I|, k) scores minus phi, D = m+/a + m-/b, and H^-1 is block
diagonal: with W1 = s/p, W2 = h/g, e = 1/(W1 + W2), each row has ``e + (e W2)(e W2)' / den``.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import scipy.linalg as la

# Each variable that may not be negative, and its multiplier.
PAIRS = {"p": "s", "g": "h", "alpha": "s0", "a": "m_plus", "b": "m_minus"}
# A label's coupling w to the others of its row is left out of the factor if w^2 is a smaller
# fraction of its own diagonal entry e.
NEGLIGIBLE = 1e-3
Direction = dict  # a change for each variable of the iterate, by its name


class NewtonSystem:
    """Factor of the normal matrix at one iterate, for predictor and corrector.

    The factor is single precision (double once ``s.double``) and preconditions conjugate
    gradients on the exact operator in double; ``iterations`` counts those of all solves.
    """

    def __init__(self, risk, s):
        self.s = s
        self.X = risk.X[s.I]
        self.shape = risk.tau.shape
        self.label, self.feature = np.divmod(s.J, self.shape[1])
        self.order = np.argsort(self.label, kind="stable")  # of the factor: class by class
        self.tau, self.lam = risk.tau.ravel()[s.J], risk.lam.ravel()[s.J]
        self.W1, self.W2 = s.s / s.p, s.h / s.g
        self.e = 1.0 / (self.W1 + self.W2)
        self.ew = self.e * self.W2
        self.den = (self.ew * self.W1).sum(axis=1)
        self.D = s.m_plus / s.a + s.m_minus / s.b
        self.iterations = 0
        self.tolerance = 1e-9 if s.double else 1e-6
        self.factor, self.scale = self._factor(np.float64 if s.double else np.float32)

    def direction(self, target: float, affine: Direction | None = None) -> Direction | None:
        """Return the step towards products of `target` (Mehrotra's with `affine`), or None."""
        s, W1, W2, D = self.s, self.W1, self.W2, self.D
        c = {x: target - getattr(s, x) * getattr(s, z) for x, z in PAIRS.items()}
        if affine is not None:
            c = {x: c[x] - affine[x] * affine[z] for x, z in PAIRS.items()}
        mean = self._pull(s.p) + s.alpha * self.tau
        r_q = s.q[:, None] - s.g - s.p
        r_a = self.lam + self.tau - s.a - mean
        r_b = self.lam - self.tau - s.b + mean
        r_mass = 1.0 - s.p.sum() - s.alpha
        r_h = 1.0 - s.h.sum(axis=1)
        r_s = -(s.h - s.s - self._push(s.mu) + s.phi)
        r_0 = 1.0 + s.phi - self.tau @ s.mu - s.s0
        r_mu = s.m_minus - s.m_plus - s.mu

        t = r_s - c["g"] / s.g + c["p"] / s.p + W2 * r_q
        rest = (c["g"] / s.g - W2 * r_q).sum(axis=1) - r_h
        c_mu = c["b"] / s.b - c["a"] / s.a - s.m_minus / s.b * r_b + s.m_plus / s.a * r_a + r_mu
        c_alpha = (c["alpha"] - s.alpha * r_0) / s.s0
        p = self._inverse_H(t) + self.ew * (rest / self.den)[:, None]
        rhs = np.append(c_mu / D - self._pull(p) - self.tau * c_alpha, -r_mass + p.sum() + c_alpha)
        u = self._solve(rhs)
        if u is None:
            return None
        mu, phi = u[:-1], u[-1]

        v = self._push(mu) - phi + t
        q = ((self.ew * v).sum(axis=1) + rest) / self.den
        p = self.e * (v + W2 * q[:, None])
        g = q[:, None] - p + r_q
        s0 = phi - self.tau @ mu + r_0
        w = (c_mu - mu) / D
        a, b = r_a - w, r_b + w
        change = {"p": p, "g": g, "q": q, "a": a, "b": b, "s0": s0, "mu": mu, "phi": phi}
        return change | {
            "alpha": (c["alpha"] - s.alpha * s0) / s.s0,
            "s": c["p"] / s.p - W1 * p,
            "h": c["g"] / s.g - W2 * g,
            "m_plus": (c["a"] - s.m_plus * a) / s.a,
            "m_minus": (c["b"] - s.m_minus * b) / s.b,
        }

    def _push(self, mu: np.ndarray) -> np.ndarray:
        """Return the (|I|, k) scores of a (|J|,) coefficient vector."""
        M = np.zeros(self.shape)
        M[self.label, self.feature] = mu
        return self.X @ M.T

    def _pull(self, p: np.ndarray) -> np.ndarray:
        """Return the (|J|,) means of Phi under (|I|, k) weights p."""
        return (p.T @ self.X)[self.label, self.feature]

    def _inverse_H(self, v: np.ndarray) -> np.ndarray:
        return self.e * v + self.ew * ((self.ew * v).sum(axis=1) / self.den)[:, None]

    def _apply(self, u: np.ndarray) -> np.ndarray:
        """Return the exact normal matrix times u = (mu, phi)."""
        w = self._inverse_H(self._push(u[:-1]) - u[-1])
        along = self.s.alpha / self.s.s0 * (self.tau @ u[:-1] - u[-1])
        return np.append(self._pull(w) + u[:-1] / self.D + along * self.tau, -w.sum() - along)

    def _factor(self, dtype):
        """Return the Cholesky factor of the Jacobi-scaled normal matrix, and the scale.

        A label with next to no mass is hardly coupled to the other labels of its row. Without these
        couplings, two classes share a block of the few rows in which both have mass. The rank-one
        matrix of alpha is left out, too: conjugate gradients make up for both.
        """
        X, J = self.X.astype(dtype), len(self.label)
        coupled = self.ew * self.W2 > NEGLIGIBLE * self.den[:, None]
        w = self.ew / np.sqrt(self.den)[:, None]
        diagonal = self.e + w**2
        w[~coupled] = 0.0
        S = np.zeros((J + 1, J + 1), dtype=dtype, order="F")
        ends = np.searchsorted(self.label[self.order], np.arange(self.shape[0] + 1))
        classes = [slice(*ends[y : y + 2]) for y in range(self.shape[0])]
        rows, B = [], []
        for y, at in enumerate(classes):
            F = X[:, self.feature[self.order[at]]]
            rows.append(np.flatnonzero(coupled[:, y]))
            B.append(F[rows[y]] * w[rows[y], y, None].astype(dtype))
            F *= np.sqrt(diagonal[:, y, None]).astype(dtype)
            S[at, at] = F.T @ F
            for z in range(y):
                S[at, classes[z]] = B[y][coupled[rows[y], z]].T @ B[z][coupled[rows[z], y]]
        ones = diagonal - w**2 + w * w.sum(axis=1, keepdims=True)
        S[-1, :-1], S[-1, -1] = -self._pull(ones)[self.order], ones.sum()
        S[np.arange(J), np.arange(J)] += 1.0 / self.D[self.order]
        scale = 1.0 / np.sqrt(np.diag(S).astype(np.float64))
        S *= scale.astype(dtype)
        S *= scale[:, None].astype(dtype)
        shift = 3e-7 if dtype == np.float32 else 1e-13
        for _ in range(4):
            S[np.diag_indices(J + 1)] += shift
            try:
                return la.cho_factor(S, lower=True, check_finite=False), scale
            except la.LinAlgError:
                shift *= 100.0
        return None, scale

    def _solve(self, rhs: np.ndarray) -> np.ndarray | None:
        """Solve the normal equations by preconditioned conjugate gradients."""
        if self.factor is None or not np.isfinite(rhs).all():
            return None
        x, r = np.zeros_like(rhs), rhs
        z = self._precondition(r)
        d, rz = z, r @ z
        enough = self.tolerance**2 * rz
        for _ in range(80):
            self.iterations += 1
            Ad = self._apply(d)
            curvature = d @ Ad
            if not curvature > 0:
                break
            x, r = x + rz / curvature * d, r - rz / curvature * Ad
            z = self._precondition(r)
            previous, rz = rz, r @ z
            if not rz > enough:
                break
            d = z + rz / previous * d
        return x if np.isfinite(x).all() else None

    def _precondition(self, r: np.ndarray) -> np.ndarray:
        at = np.append(self.order, len(r) - 1)
        scaled = (self.scale * r[at]).astype(self.factor[0].dtype)
        z = np.empty_like(r)
        z[at] = self.scale * la.cho_solve(self.factor, scaled, check_finite=False)
        return z


def step_lengths(s, d: Direction, fraction: float) -> tuple[float, float]:
    """Return the primal and dual steps in (0, 1], `fraction` of the way to the boundary."""

    def longest(names) -> float:
        falls = (float(np.max(-d[x] / getattr(s, x), initial=0.0)) for x in names)
        return min(1.0, fraction / max(1e-30, *falls))

    return longest(PAIRS), longest(PAIRS.values())


def complementarity_ahead(s, d: Direction, primal: float, dual: float) -> float:
    """Return the complementarity after steps of these lengths."""
    return sum(
        float(np.sum((getattr(s, x) + primal * d[x]) * (getattr(s, z) + dual * d[z])))
        for x, z in PAIRS.items()
    )


def take(s, d: Direction, primal: float, dual: float) -> None:
    """Take steps of these lengths."""
    lengths = dict.fromkeys(chain(PAIRS, ["q"]), primal)
    lengths |= dict.fromkeys(chain(PAIRS.values(), ["mu", "phi"]), dual)
    for name, length in lengths.items():
        setattr(s, name, getattr(s, name) + length * d[name])
