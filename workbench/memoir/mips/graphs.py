"""Neighbourhood graphs of nmslib: small-world graphs and HNSW, over sparse or dense vectors.

nmslib 2.1.2 takes nothing in or out of a graph once it is built, and what is added without a new
build is silently never found: every update is a rebuild.

References
----------
Malkov, Ponomarenko, Logvinov, Krylov: Approximate nearest neighbor algorithm based on navigable
small world graphs. Information Systems 45, 2014.
Malkov, Yashunin: Efficient and robust approximate nearest neighbor search using hierarchical
navigable small world graphs. IEEE TPAMI 42(4), 2020.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import scipy.sparse as sp

from workbench.core.problem import Matrix
from workbench.memoir.mips.oracle import Oracle, check_count, parts

KEPT = 50  # candidates that nmslib keeps for each vector while it builds
ASKED = (2, 16)  # neighbours; the second try is for rows whose first answers were all unfit


class Graph(Oracle):
    """Approximate search in a graph over the classes' weights, by the negative inner product.

    Two neighbours are asked for, of which the row's label is dropped; for a row left without an
    answer sixteen, and one still without gets a random other class. The graph depends on a
    generator of nmslib's own that no seed reaches: two graphs of the same weights in one process
    may differ. nmslib keeps the vectors as W is stored, sparse or dense.

    Parameters
    ----------
    k, d : numbers of classes and features
    seed : integer or generator, of the random classes
    neighbours : links of each new vector, nmslib's NN or M
    ef : candidates that a query keeps
    threads : of building and querying

    Raises
    ------
    ValueError
        If an option is not a positive whole number, or the package nmslib is not installed.
    """

    def __init__(self, k, d, seed=0, *, neighbours=10, ef=50, threads=1):
        super().__init__(k, d, seed)
        method, links, search = self.names
        self.build_options = {
            links: check_count(neighbours, "neighbours"),
            "efConstruction": KEPT,
            "indexThreadQty": check_count(threads, "threads"),
        }
        self.query_options = {search: check_count(ef, "ef")}
        self.threads = threads
        self.nmslib = load_nmslib(method.replace("-", "_"))

    def _find(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        answers = np.full(len(rows), -1, np.int32)
        for asked in ASKED:
            open_rows = np.flatnonzero(answers < 0)
            self._ask(X, rows, y, open_rows, min(asked, self.k), answers)
        missing = answers < 0
        answers[missing] = self.others(y[missing])
        return answers

    def _build(self, W: Matrix) -> None:
        self.sparse = sp.issparse(W)
        kind = self.nmslib.DataType
        self.graph = self.nmslib.init(
            method=self.names[0],
            space="negdotprod_sparse_fast" if self.sparse else "negdotprod",
            data_type=kind.SPARSE_VECTOR if self.sparse else kind.DENSE_VECTOR,
        )
        self.graph.addDataPointBatch(self._vectors(W.T))
        self.graph.createIndex(self.build_options)
        self.graph.setQueryTimeParams(self.query_options)

    def _ask(self, X, rows, y, places, asked, answers) -> None:
        """Fill `answers` here with the first of `asked` neighbours that is not the label."""
        for part in parts(len(places), 1 if self.sparse else self.d):
            chosen = places[part]
            if not len(chosen):
                continue
            vectors = self._vectors(X[rows[chosen]])
            found = self.graph.knnQueryBatch(vectors, k=asked, num_threads=self.threads)
            for j, (classes, _) in zip(chosen.tolist(), found, strict=True):
                answers[j] = next((c for c in classes.tolist() if c != y[j]), -1)

    def _vectors(self, A: Matrix) -> Matrix:
        """Return rows as nmslib takes them."""
        if self.sparse:
            return sp.csr_matrix(A, dtype=np.float32)
        A = A.toarray() if sp.issparse(A) else A
        return np.ascontiguousarray(A, dtype=np.float32)


class SmallWorld(Graph):
    """A small-world graph."""

    names = "sw-graph", "NN", "efSearch"


class Hierarchical(Graph):
    """A hierarchy of graphs."""

    names = "hnsw", "M", "ef"


def load_nmslib(name: str):
    """Import nmslib without the notice that it writes at its first import.

    Raises
    ------
    ValueError
        Naming the oracle `name`, if the package is not installed.
    """
    try:
        with _silent():
            return import_module("nmslib")
    except ImportError:
        raise ValueError(
            f"mips: {name} needs the package nmslib, which is not installed; it has no wheel for "
            "a few platforms, and this may be one. All other oracles work without it"
        ) from None


@contextmanager
def _silent():
    """Send file descriptor 2 nowhere: compiled code writes past ``sys.stderr``."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
