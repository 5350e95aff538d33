"""Neighbourhood graphs of nmslib: small-world graphs and HNSW, over sparse or dense vectors.

nmslib 2.1.2 takes nothing in or out of a graph once it is built, and what is added without a new
build is silently never found. An update is therefore a rebuild, or two tiers: the old graph, and
an exact search among the classes that have changed since.

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
from workbench.memoir.mips.exact import best_others, index
from workbench.memoir.mips.protocol import (
    blocks,
    check_count,
    check_query,
    check_sizes,
    check_weights,
    draw_others,
    timed,
)

ASKED = (2, 16)  # neighbours; the second try is for rows whose first answers were all unfit


def sw_graph(
    k, d, seed=0, *, NN=10, efConstruction=50, ef=50, threads=1, two_tier=None, space=None
) -> Graph:
    """Return an oracle that searches a small-world graph; see :class:`Graph`.

    `NN` neighbours are linked to each new vector, the best of `efConstruction` that a search
    keeps while building; `ef` is what it keeps while querying. All are nmslib's own names.
    """
    return Graph(k, d, seed, "sw-graph", ("NN", NN), efConstruction, ef, threads, two_tier, space)


def hnsw(
    k, d, seed=0, *, M=10, efConstruction=50, ef=50, threads=1, two_tier=None, space=None
) -> Graph:
    """Return an oracle that searches a hierarchy of graphs; see :class:`Graph`.

    `M` neighbours are linked to each new vector in a layer; the rest as in :func:`sw_graph`.
    """
    return Graph(k, d, seed, "hnsw", ("M", M), efConstruction, ef, threads, two_tier, space)


class Graph:
    """Approximate search in a graph over the classes' weights, by the negative inner product.

    Two neighbours are asked for, of which the row's label is dropped; for a row left without an
    answer sixteen, and one still without gets a random other class. The graph depends on a
    generator of nmslib's own that no seed reaches: two graphs of the same weights in one process
    may differ.

    Parameters
    ----------
    k, d : numbers of classes and features
    seed : integer or generator, of the random classes
    method, links, efConstruction, ef : see :func:`sw_graph` and :func:`hnsw`
    threads : of building and querying
    two_tier : None rebuilds at each update. A share in (0, 1] keeps the graph until more than
        this share of the classes has been touched since it was built; these are then searched
        exactly, and the graph's answers among them are dropped
    space : "sparse" or "dense", how nmslib keeps the vectors; None follows the storage of W

    Raises
    ------
    ValueError
        If an option is not as above, or the package nmslib is not installed.
    """

    def __init__(self, k, d, seed, method, links, efConstruction, ef, threads, two_tier, space):
        self.k, self.d = check_sizes(k, d)
        self.method = method
        self.build_options = {
            links[0]: check_count(links[1], links[0]),
            "efConstruction": check_count(efConstruction, "efConstruction"),
            "indexThreadQty": check_count(threads, "threads"),
        }
        self.query_options = {"efSearch" if method == "sw-graph" else "ef": check_count(ef, "ef")}
        self.threads = threads
        if two_tier is not None and not 0 < two_tier <= 1:
            raise ValueError(f"two_tier: must be None or a share in (0, 1], got {two_tier!r}")
        self.two_tier = two_tier
        if space not in (None, "sparse", "dense"):
            raise ValueError(f"space: must be None, 'sparse' or 'dense', got {space!r}")
        self.space = space
        self.nmslib = load_nmslib(method.replace("-", "_"))
        self.rng = np.random.default_rng(seed)
        self.graph = None
        self.build_seconds = self.query_seconds = 0.0

    @timed("build_seconds")
    def update(self, W: Matrix, touched: np.ndarray | None = None) -> None:
        check_weights(W, self.k, self.d)
        if self.graph is not None and self.two_tier is not None and touched is not None:
            fresh = np.union1d(self.fresh, touched).astype(np.int32)
            if len(fresh) <= self.two_tier * self.k:
                self._set_fresh(fresh, W)
                return
        self._build(W)
        self._set_fresh(np.empty(0, np.int32), W)

    @timed("query_seconds")
    def query(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        rows, y = check_query(self.graph is not None, X, rows, y, self.k, self.d)
        answers = np.full(len(rows), -1, np.int32)
        values = np.full(len(rows), -np.inf)
        for asked in ASKED:
            open_rows = np.flatnonzero(answers < 0)
            self._ask(X, rows, y, open_rows, min(asked, self.k), answers, values)
        if len(self.fresh):
            local, found = best_others(X, self.fresh_index, rows, self.place[y])
            better = found > values
            answers[better] = self.fresh[local[better]]
        missing = answers < 0
        answers[missing] = draw_others(self.rng, y[missing], self.k)
        return answers

    def _build(self, W: Matrix) -> None:
        self.sparse = sp.issparse(W) if self.space is None else self.space == "sparse"
        kind = self.nmslib.DataType
        self.graph = self.nmslib.init(
            method=self.method,
            space="negdotprod_sparse_fast" if self.sparse else "negdotprod",
            data_type=kind.SPARSE_VECTOR if self.sparse else kind.DENSE_VECTOR,
        )
        self.graph.addDataPointBatch(self._vectors(_class_major(W)))
        self.graph.createIndex(self.build_options)
        self.graph.setQueryTimeParams(self.query_options)

    def _set_fresh(self, fresh: np.ndarray, W: Matrix) -> None:
        """Gather the weights of the touched classes, which the graph has not got."""
        self.fresh = fresh
        self.place = np.full(self.k, -1, np.int32)
        self.place[fresh] = np.arange(len(fresh))
        part = W[:, fresh] if sp.issparse(W) else np.ascontiguousarray(W[:, fresh])
        self.fresh_index = index(part)

    def _ask(self, X, rows, y, places, asked, answers, values) -> None:
        """Fill `answers` and `values` at these places from the first fit of `asked` neighbours."""
        for part in blocks(len(places), 1 if self.sparse else self.d):
            chosen = places[part]
            if not len(chosen):
                continue
            vectors = self._vectors(X[rows[chosen]])
            found = self.graph.knnQueryBatch(vectors, k=asked, num_threads=self.threads)
            for j, (classes, distances) in zip(chosen.tolist(), found, strict=True):
                for c, distance in zip(classes.tolist(), distances.tolist()):
                    if c != y[j] and self.place[c] < 0:
                        answers[j], values[j] = c, -distance
                        break

    def _vectors(self, A: Matrix) -> Matrix:
        """Return rows as nmslib takes them."""
        if self.sparse:
            return sp.csr_matrix(A, dtype=np.float32)
        A = A.toarray() if sp.issparse(A) else A
        return np.ascontiguousarray(A, dtype=np.float32)


def _class_major(W: Matrix) -> Matrix:
    """Return the transpose of W, in rows."""
    return W.T.tocsr() if sp.issparse(W) else W.T


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
