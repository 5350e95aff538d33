"""The Newton system of the interior point method: closed-form blocks, one Cholesky
factor.

The optimality conditions of ``interior_point.py`` are 13 equations: five products, each
of a variable and its multiplier (:data:`PAIRS`), come to a small target, and

    g = q - p                       h - s = x_i mu_y - phi
    a = lam + tau - mean            sum_y h_iy = 1
    b = lam - tau + mean            s0 = 1 + phi - tau mu
    sum p + alpha = 1               mu = m- - m+            where mean = E_p Phi + alpha tau.

``off_g`` is by how much the equation of g is off, and so on; ``product`` is what a
product lacks. Eliminating everything but (mu_J, phi) from the linearised conditions
leaves

    A' H^-1 A + diag(1/D, 0) + (alpha / s0) t t',    t = (tau, -1),

where A maps (mu, phi) to the (|I|, k) scores minus phi, D = m+/a + m-/b, and H^-1 is
block diagonal: with W1 = s/p, W2 = h/g, e = 1/(W1 + W2), each row has ``e + (e W2)(e
W2)' / den``.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as la
from scipy.sparse.linalg import LinearOperator, cg

# Each variable that may not be negative, and its multiplier.
PAIRS = {"p": "s", "g": "h", "alpha": "s0", "a": "m_plus", "b": "m_minus"}
# A label's coupling w to the others of its row is left out of the factor if w^2 is a
# smaller fraction of its own diagonal entry e.
NEGLIGIBLE = 1e-3
Direction = dict  # a change for each variable of the iterate, by its name


class NewtonSystem:
    """Factor of the normal matrix at one iterate, for predictor and corrector.

    The factor is single precision (double once ``s.double``) and preconditions
    conjugate gradients on the exact operator in double; ``iterations`` counts those of
    all solves.
    """

    def __init__(self, risk, s):
        self.s = s
        self.X = risk.X[s.I]
        self.shape = risk.tau.shape
        self.label, self.feature = np.divmod(s.J, self.shape[1])
        self.order = np.argsort(
            self.label, kind="stable"
        )  # of the factor: class by class
        self.tau, self.lam = risk.tau.ravel()[s.J], risk.lam.ravel()[s.J]
        self.W1, self.W2 = s.s / s.p, s.h / s.g
        self.e = 1.0 / (self.W1 + self.W2)
        self.ew = self.e * self.W2
        self.den = (self.ew * self.W1).sum(axis=1)
        self.D = s.m_plus / s.a + s.m_minus / s.b
        self.iterations = 0
        self.tolerance = 1e-9 if s.double else 1e-6
        self.factor, self.scale = self._factor(np.float64 if s.double else np.float32)

    def direction(
        self, target: float, affine: Direction | None = None
    ) -> Direction | None:
        """Return the step towards products of `target` (Mehrotra's with `affine`), or
        None."""
        s, W1, W2, D = self.s, self.W1, self.W2, self.D
        product = {x: target - getattr(s, x) * getattr(s, z) for x, z in PAIRS.items()}
        if affine is not None:
            product = {x: product[x] - affine[x] * affine[z] for x, z in PAIRS.items()}
        mean = self._pull(s.p) + s.alpha * self.tau
        off_g = s.q[:, None] - s.p - s.g
        off_a = self.lam + self.tau - mean - s.a
        off_b = self.lam - self.tau + mean - s.b
        off_mass = 1.0 - s.p.sum() - s.alpha
        off_scores = self._push(s.mu) - s.phi - s.h + s.s
        off_h = 1.0 - s.h.sum(axis=1)
        off_s0 = 1.0 + s.phi - self.tau @ s.mu - s.s0
        off_mu = s.m_minus - s.m_plus - s.mu

        # 1. Eliminate all but mu and phi, whose right-hand sides remain.
        row_h = product["g"] / s.g - W2 * off_g
        scores = off_scores - row_h + product["p"] / s.p
        row = row_h.sum(axis=1) - off_h
        plus = (product["a"] - s.m_plus * off_a) / s.a
        minus = (product["b"] - s.m_minus * off_b) / s.b
        coefficient = minus - plus + off_mu
        alpha = (product["alpha"] - s.alpha * off_s0) / s.s0
        p = self._inverse_H(scores) + self.ew * (row / self.den)[:, None]
        rhs_mu = coefficient / D - self._pull(p) - self.tau * alpha
        rhs_phi = p.sum() + alpha - off_mass
        found = self._solve(np.append(rhs_mu, rhs_phi))
        if found is None:
            return None
        mu, phi = found[:-1], found[-1]

        # 2. Substitute them back, primal variables first, then the multipliers.
        scores = self._push(mu) - phi + scores
        q = ((self.ew * scores).sum(axis=1) + row) / self.den
        p = self.e * (scores + W2 * q[:, None])
        g = q[:, None] - p + off_g
        s0 = phi - self.tau @ mu + off_s0
        moved = (coefficient - mu) / D
        a = off_a - moved
        b = off_b + moved
        change = {
            "p": p,
            "g": g,
            "q": q,
            "a": a,
            "b": b,
            "s0": s0,
            "mu": mu,
            "phi": phi,
        }
        return change | {
            "alpha": (product["alpha"] - s.alpha * s0) / s.s0,
            "s": product["p"] / s.p - W1 * p,
            "h": product["g"] / s.g - W2 * g,
            "m_plus": (product["a"] - s.m_plus * a) / s.a,
            "m_minus": (product["b"] - s.m_minus * b) / s.b,
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
        return np.append(
            self._pull(w) + u[:-1] / self.D + along * self.tau, -w.sum() - along
        )

    def _factor(self, dtype):
        """Return the Cholesky factor of the Jacobi-scaled normal matrix, and the scale.

        A label with next to no mass is hardly coupled to the other labels of its row.
        Without these couplings, two classes share a block of the few rows in which both
        have mass. The rank-one matrix of alpha is left out, too: conjugate gradients
        make up for both.
        """
        X, J = self.X.astype(dtype), len(self.label)
        coupled = self.ew * self.W2 > NEGLIGIBLE * self.den[:, None]
        coupling = self.ew / np.sqrt(self.den)[:, None]
        diagonal = self.e + coupling**2
        coupling[~coupled] = 0.0
        normal = np.zeros((J + 1, J + 1), dtype=dtype, order="F")
        ends = np.searchsorted(self.label[self.order], np.arange(self.shape[0] + 1))
        classes = [slice(*ends[y : y + 2]) for y in range(self.shape[0])]
        rows, weighted = [], []
        for y, at in enumerate(classes):
            F = X[:, self.feature[self.order[at]]]
            rows.append(np.flatnonzero(coupled[:, y]))
            weighted.append(F[rows[y]] * coupling[rows[y], y, None].astype(dtype))
            F *= np.sqrt(diagonal[:, y, None]).astype(dtype)
            normal[at, at] = F.T @ F
            for z in range(y):
                own = weighted[y][coupled[rows[y], z]]
                other = weighted[z][coupled[rows[z], y]]
                normal[at, classes[z]] = own.T @ other
        ones = diagonal - coupling**2 + coupling * coupling.sum(axis=1, keepdims=True)
        normal[-1, :-1] = -self._pull(ones)[self.order]
        normal[-1, -1] = ones.sum()
        normal[np.arange(J), np.arange(J)] += 1.0 / self.D[self.order]
        scale = 1.0 / np.sqrt(np.diag(normal).astype(np.float64))
        normal *= scale.astype(dtype)
        normal *= scale[:, None].astype(dtype)
        shift = 3e-7 if dtype == np.float32 else 1e-13
        for _ in range(4):
            normal[np.diag_indices(J + 1)] += shift
            try:
                return la.cho_factor(normal, lower=True, check_finite=False), scale
            except la.LinAlgError:
                shift *= 100.0
        return None, scale

    def _solve(self, rhs: np.ndarray) -> np.ndarray | None:
        """Solve the normal equations by preconditioned conjugate gradients."""
        if self.factor is None or not np.isfinite(rhs).all():
            return None

        def count(_) -> None:
            self.iterations += 1

        shape = len(rhs), len(rhs)
        matrix = LinearOperator(shape, self._apply, dtype=np.float64)
        inverse = LinearOperator(shape, self._precondition, dtype=np.float64)
        given = {"rtol": self.tolerance, "maxiter": 80, "callback": count}
        found, _ = cg(matrix, rhs, M=inverse, **given)
        return found if np.isfinite(found).all() else None

    def _precondition(self, r: np.ndarray) -> np.ndarray:
        at = np.append(self.order, len(r) - 1)
        scaled = (self.scale * r[at]).astype(self.factor[0].dtype)
        z = np.empty_like(r)
        z[at] = self.scale * la.cho_solve(self.factor, scaled, check_finite=False)
        return z


def step_lengths(s, d: Direction, fraction: float) -> tuple[float, float]:
    """Return the primal and dual steps in (0, 1], `fraction` of the way to the
    boundary."""

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
    for name in d:
        length = primal if name in PAIRS or name == "q" else dual
        setattr(s, name, getattr(s, name) + length * d[name])
