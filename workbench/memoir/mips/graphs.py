"""Neighbourhood graphs of nmslib: small-world graphs and HNSW, over sparse or dense
vectors.

nmslib 2.1.2 cannot change a graph once it is built, and vectors that are added later
are silently never found. So every update builds a new graph.

References
----------
Malkov, Ponomarenko, Logvinov, Krylov: Approximate nearest neighbor algorithm based on
navigable small world graphs. Information Systems 45, 2014.
Malkov, Yashunin: Efficient and robust approximate nearest neighbor search using
hierarchical navigable small world graphs. IEEE TPAMI 42(4), 2020.
"""

import os
import sys
from importlib import import_module

import numpy as np
import scipy.sparse as sp

from workbench.core.checks import check_counts, check_whole
from workbench.core.problem import Array, Matrix
from workbench.memoir.mips.oracle import Oracle, parts

# The number of neighbours to search; the answer is the first that is not the row's
# label.
NEIGHBOURS = 16
# Dense weights are searched as sparse vectors if the fraction of nonzeros is smaller.
THIN = 0.1


class SmallWorld(Oracle):
    """Approximate search in a small-world graph of the classes' weights.

    The answer is the first of the sixteen neighbours with the largest inner products
    that is not the row's label, or else a random other class. The graph depends on
    nmslib's own random number generator, which has no seed: two graphs of the same
    weights in one process may differ. nmslib stores the vectors as sparse if W is
    sparse or nearly all zero, as for rows of text; this makes searches faster.

    Parameters
    ----------
    k, d : int, the numbers of classes and of features
    seed : int or random number generator, for the random classes
    ef, links, ef_build : int, the numbers of candidates that a query keeps (nmslib's
        efSearch), of links of each new vector (NN or M), and of candidates while the
        graph is built (efConstruction). The paper prints none of these numbers

    Raises
    ------
    ValueError
        If one of these numbers is not a positive whole number, `links` is 1, or the
        package nmslib is not installed.
    """

    names = "sw-graph", "NN", "efSearch"

    def __init__(self, k, d, seed=0, *, ef=50, links=10, ef_build=50):
        super().__init__(k, d, seed)
        check_counts(ef=ef, ef_build=ef_build)
        self.ef = ef
        self.ef_build = ef_build
        # With one link, hnsw would end the process.
        self.links = check_whole(links, "links", least=2)
        self.nmslib = load_nmslib(self.names[0].replace("-", "_"))

    def _build(self, W: Matrix) -> None:
        self.sparse = sp.issparse(W) or np.count_nonzero(W) < THIN * W.size
        method, links, ef = self.names
        space = "negdotprod"
        data_type = self.nmslib.DataType.DENSE_VECTOR
        if self.sparse:
            space = "negdotprod_sparse_fast"
            data_type = self.nmslib.DataType.SPARSE_VECTOR
        self.graph = self.nmslib.init(method=method, space=space, data_type=data_type)
        self.graph.addDataPointBatch(self._vectors(W.T))
        build = {"efConstruction": self.ef_build, "indexThreadQty": 1}
        self.graph.createIndex({links: self.links} | build)
        self.graph.setQueryTimeParams({ef: self.ef})

    def _find(self, X: Matrix, rows: Array, y: Array) -> Array:
        answers = np.full(len(rows), -1, np.int32)
        count = min(NEIGHBOURS, self.k)
        width = 1 if self.sparse else self.d
        for part in parts(len(rows), width):
            vectors = self._vectors(X[rows[part]])
            neighbours = self.graph.knnQueryBatch(vectors, k=count, num_threads=1)
            for j, (classes, _) in enumerate(neighbours, part.start):
                answers[j] = next((c for c in classes.tolist() if c != y[j]), -1)
        missing = answers < 0
        answers[missing] = self.others(y[missing])
        return answers

    def _vectors(self, A: Matrix) -> Matrix:
        """Return rows in the form that nmslib needs."""
        if self.sparse:
            return sp.csr_matrix(A, dtype=np.float32)
        if sp.issparse(A):
            A = A.toarray()
        return np.ascontiguousarray(A, dtype=np.float32)


class Hierarchical(SmallWorld):
    """Approximate search in a hierarchy of graphs, HNSW."""

    names = "hnsw", "M", "ef"


def load_nmslib(name: str):
    """Import nmslib for the oracle `name`, without its notice on stderr."""
    sys.stderr.flush()
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        return import_module("nmslib")
    except ImportError:
        raise ValueError(
            f"mips: {name} needs the package nmslib, which is not installed and has "
            "no wheel for some platforms; exact, simple_lsh and random work without "
            "nmslib"
        ) from None
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
