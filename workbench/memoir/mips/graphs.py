"""Neighbourhood graphs of nmslib: small-world graphs and HNSW, over sparse or dense
vectors.

nmslib 2.1.2 takes nothing in or out of a graph once it is built, and vectors that are
added without a new build are silently never found: every update is a rebuild.

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
from importlib import import_module

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_whole
from workbench.core.problem import Matrix
from workbench.memoir.mips.oracle import Oracle, parts

NEIGHBOURS = (
    16  # neighbours of a row, the first of which that is not its label is returned
)
# fraction of non-zeros below which dense weights are searched as sparse vectors
THIN = 0.1


class SmallWorld(Oracle):
    """Approximate search in a small-world graph of the classes' weights.

    Of sixteen neighbours by the negative inner product, the first that is not the row's
    label is returned, or a random other class. The graph depends on a generator of
    nmslib's own that no seed reaches: two graphs of the same weights in one process may
    differ. nmslib keeps the vectors sparse if W is sparse or nearly all zero, as it is
    after rows of text: searches are then faster.

    Parameters
    ----------
    k, d : numbers of classes and features
    seed : integer or generator, of the random classes
    ef, links, ef_build : candidates that a query keeps (nmslib's efSearch), links of
        each new vector (its NN, or M), and candidates while the graph is built
        (efConstruction). The paper prints none of them

    Raises
    ------
    ValueError
        If one of these is not a positive whole number, or `links` is 1, or the package
        nmslib is not installed.
    """

    names = "sw-graph", "NN", "efSearch"

    def __init__(self, k, d, seed=0, *, ef=50, links=10, ef_build=50):
        super().__init__(k, d, seed)
        check_counts(ef=ef, ef_build=ef_build)
        self.ef, self.ef_build = ef, ef_build
        self.links = check_whole(
            links, "links", least=2
        )  # hnsw with one ends the process
        self.nmslib = load_nmslib(self.names[0].replace("-", "_"))

    def _build(self, W: Matrix) -> None:
        self.sparse = sp.issparse(W) or np.count_nonzero(W) < THIN * W.size
        (method, links, search), kind = self.names, self.nmslib.DataType
        self.graph = self.nmslib.init(
            method=method,
            space="negdotprod_sparse_fast" if self.sparse else "negdotprod",
            data_type=kind.SPARSE_VECTOR if self.sparse else kind.DENSE_VECTOR,
        )
        self.graph.addDataPointBatch(self._vectors(W.T))
        built = {
            links: self.links,
            "efConstruction": self.ef_build,
            "indexThreadQty": 1,
        }
        self.graph.createIndex(built)
        self.graph.setQueryTimeParams({search: self.ef})

    def _find(self, X: Matrix, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        answers, many = np.full(len(rows), -1, np.int32), min(NEIGHBOURS, self.k)
        for part in parts(len(rows), 1 if self.sparse else self.d):
            found = self.graph.knnQueryBatch(
                self._vectors(X[rows[part]]), k=many, num_threads=1
            )
            for j, (classes, _) in enumerate(found, part.start):
                answers[j] = next((c for c in classes.tolist() if c != y[j]), -1)
        missing = answers < 0
        answers[missing] = self.others(y[missing])
        return answers

    def _vectors(self, A: Matrix) -> Matrix:
        """Return rows as nmslib takes them."""
        if self.sparse:
            return sp.csr_matrix(A, dtype=np.float32)
        return np.ascontiguousarray(
            A.toarray() if sp.issparse(A) else A, dtype=np.float32
        )


class Hierarchical(SmallWorld):
    """Approximate search in a hierarchy of graphs, HNSW."""

    names = "hnsw", "M", "ef"


def load_nmslib(name: str):
    """Import nmslib for the oracle `name`, without its notice on file descriptor 2."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        return import_module("nmslib")
    except ImportError:
        raise ValueError(
            f"mips: {name} needs the package nmslib, which is not installed; it has "
            "no wheel for a few platforms, and this may be one. All other oracles "
            "work without it"
        ) from None
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
