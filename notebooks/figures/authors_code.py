"""MEMOIR as its authors' code has it, next to the figures that show it; lesson 3 takes
it apart.

The code (`AVBelyy/sparse-multi-svm`) departs from the paper's boxes in these ways, each
of which is a parameter here: rows are drawn in equal numbers from all classes
(``balanced``), a batch reads W as it was when the batch began (``frozen``), every row
changes W (``hinge=False``), the step is divided by the batch (``divide``), the cosine
predicts (``cosine``), and where no score is positive the answer is a random class that
W has not met yet (``empty``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy.sparse as sp

from workbench.core.stream import off_the_clock
from workbench.memoir.algorithms import MAX_BATCHES
from workbench.memoir.mips import inexactness, make_oracle
from workbench.memoir.state import SAMPLED, default_batch


@dataclass
class AuthorsState:
    """W = ``scale`` U with a dense ``U`` (d, k), after ``step`` batches."""

    round: int
    step: int
    rng: np.random.Generator
    U: np.ndarray
    scale: float
    square: float  # |U|^2
    met: np.ndarray  # (k,) bool, the classes that W has met
    cosine: bool
    updates: float = 0.0
    recall: float = 1.0
    build_seconds: float = 0.0
    query_seconds: float = 0.0

    def predictor(self) -> np.ndarray:
        """Return the weights that predict: W, or its columns divided by their
        lengths."""
        W = np.float32(self.scale) * self.U
        if self.cosine:
            lengths = np.linalg.norm(W, axis=0)
            W /= np.where(lengths > 0, lengths, 1)
        return W

    def scores(self, X) -> np.ndarray:
        return np.asarray(X @ self.predictor())

    def info(self) -> dict:
        return {
            "updates": self.updates,
            "norm": self.scale * sqrt(max(self.square, 0.0)),
            "nonzeros": int(np.count_nonzero(self.U)),
            "steps": self.step,
            "recall": self.recall,
            "build_seconds": self.build_seconds,
            "query_seconds": self.query_seconds,
        }


def authors_l2(
    problem,
    *,
    lam: float = 1.0,
    l1: float = 0.0,
    eta0: float = 0.1,
    eta_step: float = 0.02,
    batch_size: int | None = None,
    balanced: bool = True,
    hinge: bool = False,
    divide: bool = True,
    cosine: bool = True,
    empty: bool = True,
    frozen: bool = True,
    mips: str = "exact",
    ef: int = 50,
    bits: int = 64,
    seed: int = 0,
    state: AuthorsState | None = None,
) -> Iterator[AuthorsState]:
    """Yield the state after each batch, or after each pass if one has more than 50
    batches."""
    X, y, n, k = problem.X, problem.y, problem.n, problem.k
    size = default_batch(problem, batch_size)
    s = state or AuthorsState(
        round=0,
        step=0,
        rng=np.random.default_rng(seed),
        U=np.zeros((problem.d, k), np.float32),
        scale=1.0,
        square=0.0,
        met=np.zeros(k, bool),
        cosine=cosine,
    )
    options = {"simple_lsh": {"bits": bits}, "exact": {}, "random": {}}
    options = options.get(mips, {"ef": ef})
    chance = [seed, 1] if mips == "simple_lsh" else s.rng
    oracle = make_oracle(mips, k=k, d=problem.d, seed=chance, **options)
    batches = 1 if size * MAX_BATCHES >= n else -(-n // size)
    order = np.argsort(y, kind="stable")
    yield s
    while True:
        drawn = draw(s.rng, y, k, order, batches * size, balanced)
        spare = s.rng.random(len(drawn)) if empty else None
        violated, s.build_seconds, s.query_seconds = 0, 0.0, 0.0
        for first in range(0, len(drawn), size):
            b = drawn[first : first + size]
            s.step += 1
            eta = eta0 / (1 + eta_step * s.step)
            s.scale *= 1 - lam * eta
            R = np.zeros(k, bool)
            for part in (
                [slice(0, len(b))]
                if frozen
                else [slice(i, i + 1) for i in range(len(b))]
            ):
                some, labels = b[part], y[b[part]]
                oracle.update(s.U)
                r = oracle.query(X, some, labels)
                s.build_seconds += oracle.build_seconds
                s.query_seconds += oracle.query_seconds
                if frozen and mips != "exact" and first + size >= len(drawn):
                    with off_the_clock():
                        few = some[:SAMPLED]
                        s.recall = inexactness(oracle, s.U, X, few, y[few])["recall"]
                own, best = scores_of(X[some], s.U, np.stack([labels, r]))
                if empty:
                    fill_empty(
                        s.met, labels, r, best, spare[first : first + size][part]
                    )
                changing = s.scale * (own - best) < 1
                violated += changing.sum()
                if not hinge:
                    changing[:] = True
                step = eta / len(b) if divide else eta
                change(s, X[some[changing]], labels[changing], r[changing], step)
                R[labels] = R[r] = True
            if l1:
                limits = np.where(R, np.float32(k / R.sum() * l1 * eta), np.float32(0))
                s.U -= np.clip(s.U, -limits, limits)
            length = s.scale * sqrt(lam * max(s.square, 0.0))
            s.scale /= max(1.0, length)
        s.updates = violated / len(drawn)
        s.square = float(np.vdot(s.U, s.U))
        s.round += 1
        yield s


def authors_l1(
    problem,
    *,
    lam: float = 1e-6,
    mips: str = "exact",
    ef: int = 50,
    seed: int = 0,
    state: AuthorsState | None = None,
) -> Iterator[AuthorsState]:
    """Do the same for the l1 norm: nothing shrinks, and (13) truncates after each
    batch."""
    own = {"lam": 0.0, "hinge": True, "l1": lam}
    yield from authors_l2(problem, **own, mips=mips, ef=ef, seed=seed, state=state)


def draw(rng, y, k: int, order, count: int, balanced: bool) -> np.ndarray:
    """Return rows drawn uniformly, or a class and then a row of it; `order` sorts them
    by class."""
    if not balanced:
        return rng.integers(len(y), size=count)
    counts = np.bincount(y, minlength=k)
    present = np.flatnonzero(counts)
    classes = present[rng.integers(len(present), size=count)]
    within = (rng.random(count) * counts[classes]).astype(np.int64)
    return order[np.cumsum(counts)[classes] - counts[classes] + within]


def scores_of(X, U, classes) -> np.ndarray:
    """Return (2, m) scores of each row for its own pair of classes (2, m)."""
    if not sp.issparse(X):
        return np.stack([np.einsum("if,fi->i", X, U[:, c]) for c in classes]).astype(
            float
        )
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.stack(
        [
            np.bincount(rows, X.data * U[X.indices, c[rows]].astype(float), X.shape[0])
            for c in classes
        ]
    )


def fill_empty(met, y, r, best, spare) -> None:
    """Where no score is positive, answer a random class that W has not met, in
    place."""
    free = np.flatnonzero(~met)
    for at in np.flatnonzero(best <= 0) if len(free) else ():
        others = free[free != y[at]]
        if len(others):
            r[at], best[at] = others[int(spare[at] * len(others))], 0.0


def change(s: AuthorsState, X, y, r, step: float) -> None:
    """Add step X to the columns of the classes y of W, and take it off those of r."""
    m = len(y)
    if not m:
        return
    s.met[y] = s.met[r] = True
    places = np.arange(m)
    D = sp.csr_array((np.ones(m), (places, y)), shape=(m, s.U.shape[1]))
    D = D - sp.csr_array((np.ones(m), (places, r)), shape=D.shape)
    G = sp.coo_array(X.T @ D)
    moves = step / s.scale * G.data
    s.square += float(2 * s.U[G.row, G.col].astype(float) @ moves + moves @ moves)
    s.U[G.row, G.col] += moves.astype(np.float32)
