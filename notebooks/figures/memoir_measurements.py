"""Two statements of the MEMOIR paper as measurements on synthetic rows, for
`memoir_parameters`."""

from __future__ import annotations

from time import process_time

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import as_problem
from workbench.core.stream import rounds
from workbench.core.trace import Trace
from workbench.memoir.mips.hashing import SimpleLSH
from workbench.runs.run import header, run


def exponents(name: str, c: float, bits: int, seed: int) -> Trace:
    """Return the exponent log p1 / log p2 of bits that agree, for inner products S and
    c S of pairs of unit vectors."""
    S = np.linspace(0.1, 0.9, 9)
    cosines = np.append(S, c * S)
    lsh = SimpleLSH(len(cosines), 64, seed, bits=bits)
    rng = np.random.default_rng(seed)
    x, aside = np.linalg.qr(rng.normal(size=(64, 2)))[0].T
    W = np.outer(x, cosines) + np.outer(aside, np.sqrt(1 - cosines**2))
    differing = lsh.hash_weights(W.astype("f4")) ^ lsh.hash_rows(x[None])
    agree = 1 - np.bitwise_count(differing).sum(axis=1) / bits
    values = np.log(agree[: len(S)]) / np.log(agree[len(S) :])
    rows = [
        {"round": i, "S": s, "rho": rho} for i, (s, rho) in enumerate(zip(S, values))
    ]
    pairs = as_problem(W.T, np.arange(len(cosines)), name=name, synthetic=True)
    return Trace(header("simple_lsh", pairs, {"bits": bits, "seed": seed}), rows)


def update_times(name: str, d: int, seed: int) -> Trace:
    """Return a run on rows of 50 words, with the CPU seconds of the update of a row,
    ``lazy``, and of multiplying all weights once, ``dense``."""
    rng, n, k = np.random.default_rng(seed), 2000, 20
    places = np.sort(rng.integers(d, size=(n, 50)), axis=1)
    values, starts = np.full(n * 50, 0.14), np.arange(n + 1) * 50
    X = sp.csr_array((values, places.ravel(), starts), shape=(n, d))
    X.sum_duplicates()
    about = f"{name}, {d} features"
    problem = as_problem(X, np.arange(n) % k, name=about, synthetic=True)
    chosen = {"batch_size": n, "dense": False, "seed": seed}
    trace, _ = run("memoir_l2", problem, rounds(5), parameters=chosen)
    times = np.diff([row["cpu"] for row in trace.rows])[1:]
    W = np.ones(d * k, np.float32)
    begun = process_time()
    for _ in range(5):
        W *= np.float32(0.9)
    dense = (process_time() - begun) / 5
    trace.last.update({"lazy": np.median(times) / n, "dense": dense})
    return trace
