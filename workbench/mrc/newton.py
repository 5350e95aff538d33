"""The Newton system of the interior point method, with closed-form blocks.

The unknowns, named as in ``interior_point.py``, on the rows I and the components J:

    p_iy >= 0       the joint distribution on the rows
    q_i             the mass of the best label of row i
    g_iy >= 0       g = q - p
    alpha >= 0      the mass on the empirical distribution p_0
    mean_j          E_p Phi + alpha tau, which follows from p and alpha
    a_j, b_j >= 0   the distances of the mean from the ends of its interval
    mu_j            the classifier, the multipliers of the mean
    phi             the multiplier of sum p + alpha = 1

The multipliers of p, g, alpha, a and b are s, h, s0, m_plus and m_minus >= 0.

The optimality conditions are 13 equations. In five of them, the product of a variable
and its multiplier (:data:`PAIRS`) equals a small target. The others are

    g = q - p                       h - s = x_i mu_y - phi
    a = lam + tau - mean            sum_y h_iy = 1
    b = lam - tau + mean            s0 = 1 + phi - tau mu
    sum p + alpha = 1               mu = m_minus - m_plus

``off_g`` is the error of the equation for g, and so on; ``product[x]`` is the target
minus the product of x and its multiplier. With

    W1 = s / p                      e = 1 / (W1 + W2)
    W2 = h / g                      den_i = sum_y e W2 W1
    D = m_plus / a + m_minus / b

everything but (mu, phi) is eliminated from the linearised conditions. The matrix

    A' H^-1 A + diag(1/D, 0) + (alpha / s0) t t',       t = (tau, -1),

remains, where A maps (mu, phi) to the (|I|, k) scores minus phi, and H^-1 is block
diagonal: the block of each row is ``diag(e) + (e W2)(e W2)' / den``.
"""

from itertools import pairwise

import numpy as np
import scipy.linalg as la
from scipy.sparse.linalg import LinearOperator, cg

from workbench.core.kinds import Array

# Each variable that may not be negative, and its multiplier.
PAIRS = {"p": "s", "g": "h", "alpha": "s0", "a": "m_plus", "b": "m_minus"}
# The factor leaves out the coupling of a label to the other labels of its row if the
# square of the coupling is below this fraction of the label's diagonal entry e.
NEGLIGIBLE = 1e-3
Direction = dict  # a change of each unknown, by its name


class NewtonSystem:
    """The factored normal matrix at one iterate, for predictor and corrector.

    The factor is in single precision (in double once ``s.double``) and preconditions
    conjugate gradients on the exact operator in double precision; ``iterations`` counts
    the iterations of all solves.
    """

    def __init__(self, risk, s):
        self.s = s
        self.X = risk.X[s.I]
        self.shape = risk.tau.shape
        self.label, self.feature = np.divmod(s.J, self.shape[1])
        # The order of the components in the factor.
        self.order = np.argsort(self.label, kind="stable")
        self.tau = risk.tau.ravel()[s.J]
        self.lam = risk.lam.ravel()[s.J]
        self.W1 = s.s / s.p
        self.W2 = s.h / s.g
        self.e = 1.0 / (self.W1 + self.W2)
        self.ew = self.e * self.W2
        self.den = (self.ew * self.W1).sum(axis=1)
        self.D = s.m_plus / s.a + s.m_minus / s.b
        self.iterations = 0
        self.tolerance = 1e-9 if s.double else 1e-6
        dtype = np.float64 if s.double else np.float32
        self.factor, self.scale = self._factor(dtype)

    def direction(
        self, target: float, affine: Direction | None = None
    ) -> Direction | None:
        """Return the step towards products equal to `target`, or None if there is none.

        With `affine`, it is Mehrotra's corrected step.
        """
        s = self.s
        product = {x: target - getattr(s, x) * getattr(s, z) for x, z in PAIRS.items()}
        if affine is not None:
            product = {x: product[x] - affine[x] * affine[z] for x, z in PAIRS.items()}
        mean = self._means(s.p) + s.alpha * self.tau
        off_g = s.q[:, None] - s.p - s.g
        off_a = self.lam + self.tau - mean - s.a
        off_b = self.lam - self.tau + mean - s.b
        off_mass = 1.0 - s.p.sum() - s.alpha
        off_scores = self._scores(s.mu) - s.phi - s.h + s.s
        off_h = 1.0 - s.h.sum(axis=1)
        off_s0 = 1.0 + s.phi - self.tau @ s.mu - s.s0
        off_mu = s.m_minus - s.m_plus - s.mu

        # 1. Eliminate all but mu and phi, whose right-hand sides remain.
        rhs_h = product["g"] / s.g - self.W2 * off_g
        rhs_scores = off_scores - rhs_h + product["p"] / s.p
        rhs_row = rhs_h.sum(axis=1) - off_h
        plus = (product["a"] - s.m_plus * off_a) / s.a
        minus = (product["b"] - s.m_minus * off_b) / s.b
        coefficient = minus - plus + off_mu
        alpha = (product["alpha"] - s.alpha * off_s0) / s.s0
        p = self._inverse_H(rhs_scores) + self.ew * (rhs_row / self.den)[:, None]
        rhs_mu = coefficient / self.D - self._means(p) - self.tau * alpha
        rhs_phi = p.sum() + alpha - off_mass
        solution = self._solve(np.append(rhs_mu, rhs_phi))
        if solution is None:
            return None
        mu = solution[:-1]
        phi = solution[-1]

        # 2. Substitute them back, primal variables first, then the multipliers.
        scores = self._scores(mu) - phi + rhs_scores
        q = ((self.ew * scores).sum(axis=1) + rhs_row) / self.den
        p = self.e * (scores + self.W2 * q[:, None])
        g = q[:, None] - p + off_g
        s0 = phi - self.tau @ mu + off_s0
        mean_change = (coefficient - mu) / self.D
        a = off_a - mean_change
        b = off_b + mean_change
        return {
            "p": p,
            "q": q,
            "g": g,
            "alpha": (product["alpha"] - s.alpha * s0) / s.s0,
            "a": a,
            "b": b,
            "s": product["p"] / s.p - self.W1 * p,
            "h": product["g"] / s.g - self.W2 * g,
            "s0": s0,
            "m_plus": (product["a"] - s.m_plus * a) / s.a,
            "m_minus": (product["b"] - s.m_minus * b) / s.b,
            "mu": mu,
            "phi": phi,
        }

    def _scores(self, mu: Array) -> Array:
        """Return the (|I|, k) scores of a (|J|,) coefficient vector."""
        M = np.zeros(self.shape)
        M[self.label, self.feature] = mu
        return self.X @ M.T

    def _means(self, p: Array) -> Array:
        """Return the (|J|,) means of Phi under (|I|, k) weights p."""
        return (p.T @ self.X)[self.label, self.feature]

    def _inverse_H(self, v: Array) -> Array:
        """Return H^-1 v for (|I|, k) v."""
        along = (self.ew * v).sum(axis=1) / self.den
        return self.e * v + self.ew * along[:, None]

    def _normal_product(self, u: Array) -> Array:
        """Return the exact normal matrix times u = (mu, phi)."""
        mu = u[:-1]
        phi = u[-1]
        w = self._inverse_H(self._scores(mu) - phi)
        along_t = self.s.alpha / self.s.s0 * (self.tau @ mu - phi)
        product = self._means(w) + mu / self.D + along_t * self.tau
        return np.append(product, -w.sum() - along_t)

    def _factor(self, dtype):
        """Return the Cholesky factor of the Jacobi-scaled normal matrix, and the scale.

        A label with almost no mass is hardly coupled to the other labels of its row. If
        these couplings are left out, the block of two classes needs only the few rows
        in which both have mass. The rank-one matrix of alpha is left out, too.
        Conjugate gradients correct both.
        """
        X = self.X.astype(dtype)
        J = len(self.label)
        coupled = self.ew * self.W2 > NEGLIGIBLE * self.den[:, None]
        coupling = self.ew / np.sqrt(self.den)[:, None]
        diagonal = self.e + coupling**2
        coupling[~coupled] = 0.0

        # 1. The blocks of all pairs of classes, for the coefficients.
        normal = np.zeros((J + 1, J + 1), dtype=dtype, order="F")
        ends = np.searchsorted(self.label[self.order], np.arange(self.shape[0] + 1))
        classes = [slice(*pair) for pair in pairwise(ends)]
        rows = []
        weighted = []
        for y, block in enumerate(classes):
            F = X[:, self.feature[self.order[block]]]
            rows.append(np.flatnonzero(coupled[:, y]))
            weighted.append(F[rows[y]] * coupling[rows[y], y, None].astype(dtype))
            F *= np.sqrt(diagonal[:, y, None]).astype(dtype)
            normal[block, block] = F.T @ F
            for z in range(y):
                F_y = weighted[y][coupled[rows[y], z]]
                F_z = weighted[z][coupled[rows[z], y]]
                normal[block, classes[z]] = F_y.T @ F_z

        # 2. The last row, for phi, and the diagonal.
        ones = diagonal - coupling**2 + coupling * coupling.sum(axis=1, keepdims=True)
        normal[-1, :-1] = -self._means(ones)[self.order]
        normal[-1, -1] = ones.sum()
        normal[np.arange(J), np.arange(J)] += 1.0 / self.D[self.order]

        # 3. Scale the diagonal to 1, and factor the matrix, with a shift against
        # rounding.
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

    def _solve(self, rhs: Array) -> Array | None:
        """Solve the normal equations by preconditioned conjugate gradients."""
        if self.factor is None or not np.isfinite(rhs).all():
            return None

        def count(_) -> None:
            self.iterations += 1

        shape = len(rhs), len(rhs)
        solution, _ = cg(
            LinearOperator(shape, self._normal_product, dtype=np.float64),
            rhs,
            M=LinearOperator(shape, self._precondition, dtype=np.float64),
            rtol=self.tolerance,
            maxiter=80,
            callback=count,
        )
        return solution if np.isfinite(solution).all() else None

    def _precondition(self, r: Array) -> Array:
        """Return the solution for the factored matrix, in the order of the unknowns."""
        order = np.append(self.order, len(r) - 1)
        scaled = (self.scale * r[order]).astype(self.factor[0].dtype)
        z = np.empty_like(r)
        z[order] = self.scale * la.cho_solve(self.factor, scaled, check_finite=False)
        return z


def step_lengths(s, d: Direction, fraction: float) -> tuple[float, float]:
    """Return the primal and dual step: `fraction` of the longest, but at most 1."""

    def longest(names) -> float:
        fall = 1e-30
        for x in names:
            fall = max(fall, float(np.max(-d[x] / getattr(s, x), initial=0.0)))
        return min(1.0, fraction / fall)

    return longest(PAIRS), longest(PAIRS.values())


def complementarity_ahead(s, d: Direction, primal: float, dual: float) -> float:
    """Return the complementarity after steps of these lengths."""
    total = 0
    for x, z in PAIRS.items():
        ahead = getattr(s, x) + primal * d[x]
        total += float(np.sum(ahead * (getattr(s, z) + dual * d[z])))
    return total


def take(s, d: Direction, primal: float, dual: float) -> None:
    """Take steps of these lengths."""
    for name in d:
        length = primal if name in PAIRS or name == "q" else dual
        setattr(s, name, getattr(s, name) + length * d[name])
