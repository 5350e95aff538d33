"""Write proofs: a solver's state becomes a stated problem and points that enclose its
optimum.

For smooth losses the file has W alone, whose scores give a dual point; for all others
it has the dual point alone, which gives W. Dual weights a_ic are in single precision.
Those at their cap are rounded up, and the checker clips them to the cap, so that they
are exact. Each function here returns the fields of the header that state the problem,
and the arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from workbench.core.files import whole
from workbench.core.kinds import Matrix, PathLike, Record
from workbench.core.problem import Problem
from workbench.core.stream import State
from workbench.least_squares.generalized import GeneralizedState
from workbench.memoir.pegasos import PegasosState
from workbench.memoir.working_set import WorkingSetState
from workbench.mrc.l1svm import SVMState
from workbench.mrc.risk import RiskState
from workbench.proofs.checker import checksum
from workbench.sampled_cuts.state import CutState
from workbench.weston_watkins.dual import WWState

Statement = Record
Arrays = dict[str, np.ndarray]


def write(
    path: PathLike,
    problem: Problem,
    state: State,
    *,
    constant: bool = False,
    **parameters: object,
) -> None:
    """Write the proof of a solver's state to `path`, an npz file, whole or not at all.

    Parameters
    ----------
    problem : Problem that was solved
    state : State, any that the solver yielded; the closer to the optimum, the tighter
        the proof
    constant : whether the last column of the rows is a constant 1, stated as an
        intercept
    parameters : the solver's parameters; for most solvers the state has all that is
        needed

    Raises
    ------
    ValueError
        If this solver, or this problem, has no proof: the message says why.
    """
    save(path, *proof_of(problem, state, parameters, constant))


def proof_of(
    problem: Problem, state: State, parameters: Record, constant: bool = False
) -> tuple[Statement, Arrays]:
    """Return the header and the arrays of a proof; parameters and errors as in
    :func:`write`."""
    found = [writer for kind, writer in WRITERS.items() if isinstance(state, kind)]
    if not found:
        raise ValueError(
            f"proof: there is none for a {type(state).__name__}, which has no dual "
            "point of a convex problem that can be stated in a proof"
        )
    if (problem.weights != 1.0).any():
        raise ValueError(
            "proof: rows with weights other than one cannot be stated in a proof"
        )
    stated, arrays = found[0](problem, state, parameters)
    header: Record = {"format": 1, "outputs": problem.k} | stated
    if "values" in arrays and not len(
        arrays["values"]
    ):  # the dual point is zero: one such entry
        other = (problem.y[:1] + 1) % header["outputs"]
        none = {"rows": [0], "ends": [1], "columns": other}
        arrays |= {name: np.array(value, np.uint32) for name, value in none.items()}
        arrays["values"] = np.zeros(1, np.float32)
    if header["family"] != "mrc":
        header = {"l1": 0.0} | header
    X = problem.X
    if constant:
        X, header["intercept"] = X[:, :-1], 1.0
        if "W" in arrays:
            arrays["W"], arrays["b"] = arrays["W"][:-1], arrays["W"][-1]
    header["checksum"] = checksum(X, problem.y)
    if problem.recipe is not None:
        header["recipe"] = problem.recipe
    return header, arrays


def save(path: PathLike, header: Statement, arrays: Arrays) -> None:
    """Write header and arrays to `path`, whole or not at all."""
    text = json.dumps(header, allow_nan=False).encode()
    with whole(path) as part, open(part, "wb") as sink:
        np.savez(sink, header=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]


def weston_watkins(
    problem: Problem, s: WWState, parameters: Record
) -> tuple[Statement, Arrays]:
    """State 1/2 |W|^2 + C sum_i sum_{j != y_i} hinge_ij, proved by B."""
    stated = {
        "family": "linear",
        "loss": "weston_watkins",
        "over": "sum",
        "C": s.C,
        "alpha": 1.0,
    }
    return stated, sparse(s.B[:, : s.classes])


def working_sets(
    problem: Problem, s: WorkingSetState, parameters: Record
) -> tuple[Statement, Arrays]:
    """State the elastic net of Crammer and Singer's loss."""
    stated = {"family": "linear", "loss": "crammer_singer", "over": "sum", "C": s.C}
    stated |= {"alpha": 1.0, "l1": s.l1}
    n, others = problem.n, s.sets.shape[1] - 1
    ends = np.arange(0, n * others + 1, others)
    columns = s.sets[:, 1:].ravel().astype(int)
    return stated, sparse(
        sp.csr_matrix((-s.alpha[:, 1:].ravel(), columns, ends), (n, problem.k))
    )


def pegasos(
    problem: Problem, s: PegasosState, parameters: Record
) -> tuple[Statement, Arrays]:
    """State lam/2 |W|^2 and the mean hinge of Crammer and Singer, proved by the last
    iterate."""
    if not len(s.dual):
        raise ValueError(
            "proof: the dual point of memoir_pegasos was too large to be kept"
        )
    stated = {"family": "linear", "loss": "crammer_singer", "over": "mean", "C": 1.0}
    square = s.lam * float(np.vdot(s.W, s.W))
    best = s.mass / max(s.mass, square) if square else 0.0  # of all multiples in [0, 1]
    weights = sparse(s.dual)
    # Costs count rows here, and the mean divides by n.
    weights["values"] = single(
        problem.n * best * s.unit * weights["values"].astype(float)
    )
    return stated | {"alpha": s.lam}, weights


def least_squares(
    problem: Problem, s: GeneralizedState, parameters: Record
) -> tuple[Statement, Arrays]:
    """State the mean loss of a link and alpha/2 |W|^2, proved by W."""
    link = parameters.get("link", "softmax")
    loss = (
        "squared" if link == "identity" else link
    )  # the others bear their losses' names
    stated = {
        "family": "linear",
        "loss": loss,
        "over": "mean",
        "C": 1.0,
        "alpha": s.alpha,
    }
    return stated, {"W": s.W}


def sampled_cuts(
    problem: Problem, s: CutState, parameters: Record
) -> tuple[Statement, Arrays]:
    """State the problem of all rows; exact cuts prove its optimum closely, sampled cuts
    roughly."""
    if problem.structure:
        raise ValueError(
            f"proof: {problem.structure} have none, as the checker has no such loss"
        )
    if s.kernel == "cubic":
        raise ValueError("proof: the checker has no cubic kernel; use rbf or linear")
    if len(s.root):
        raise ValueError(
            "proof: cuts_nystroem has none, as its cuts are not sums of training rows"
        )
    two = problem.k == 2
    stated: Record = {"loss": "hinge" if two else "crammer_singer"}
    stated |= {
        "outputs": 1 if two else problem.k,
        "over": "sum",
        "C": s.C,
        "alpha": 1.0,
    }
    rows, A = s.expansion(s.alpha)
    return with_kernel(s) | stated, sparse(
        np.abs(A) if two else np.maximum(-A, 0.0), rows
    )


def l1_svm(
    problem: Problem, s: SVMState, parameters: Record
) -> tuple[Statement, Arrays]:
    """State the mean hinge and lam |w|_1 with a free intercept; w and alpha are
    needed."""
    W, alpha = s.W_best, s.alpha_best
    if alpha.ndim > 1:
        raise ValueError(
            "proof: svm_multi has none, as its scores must sum to zero; svm_lp has one"
        )
    stated = {
        "family": "linear",
        "loss": "hinge",
        "over": "mean",
        "C": 1.0,
        "alpha": 0.0,
    }
    stated |= {"l1": s.lam, "intercept": "free", "outputs": 1}
    alpha = balanced(np.clip(alpha, 0.0, 1.0), problem.y)
    # In double precision, or the two classes would not balance.
    return stated, sparse(alpha[:, None], exact=True) | {
        "W": W[1:, :-1].T,
        "b": W[1, -1:],
    }


def balanced(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return dual weights whose two classes weigh the same, as a free intercept
    demands."""
    mass = np.bincount(y, a, 2)
    return a * (mass.min() / np.maximum(mass, 1e-300))[y]


def minimax_risk(
    problem: Problem, s: RiskState, parameters: Record
) -> tuple[Statement, Arrays]:
    """State the minimax risk; M and the distribution of the best lower bound are
    needed."""
    order = np.argsort(s.p_rows)
    p, rows = s.p_best[order], s.p_rows[order]
    if not len(rows):  # all mass on one row and label, whose bound is zero
        p, rows = np.eye(1, problem.k), np.zeros(1, int)
    stated = {"family": "mrc", "lambda0": s.lambda0}
    return stated, sparse(p, rows, exact=True) | {"M": s.M_best}


WRITERS: dict[type, Callable[..., tuple[Statement, Arrays]]] = {
    WWState: weston_watkins,
    WorkingSetState: working_sets,
    PegasosState: pegasos,
    GeneralizedState: least_squares,
    CutState: sampled_cuts,
    SVMState: l1_svm,
    RiskState: minimax_risk,
}


def with_kernel(s: CutState) -> Statement:
    """Return family and kernel of a state; rows with the linear kernel are a linear
    problem."""
    if s.kernel == "linear":
        return {"family": "linear"}
    return {"family": "kernel", "kernel": {"name": s.kernel, "gamma": s.gamma}}


def sparse(A: Matrix, rows: np.ndarray | None = None, exact: bool = False) -> Arrays:
    """Return weights (m, c), not negative, as the arrays of a dual point.

    Parameters
    ----------
    A : array or CSR matrix
    rows : (m,) the training rows, by default all in their order
    exact : in double precision
    """
    A = sp.csr_array(A, copy=True)  # a state stays as it is
    A.sum_duplicates()
    A.eliminate_zeros()
    counts, values = np.diff(A.indptr), A.data
    used = np.flatnonzero(counts)
    return {
        "rows": smallest(used if rows is None else rows[used]),
        "ends": smallest(np.cumsum(counts[used])),
        "columns": smallest(A.indices),
        "values": values.astype(float) if exact else single(values),
    }


def smallest(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers of at least 0 in the smallest type that can represent
    them."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


def single(values: np.ndarray) -> np.ndarray:
    """Return numbers of at least 0 in single precision, the largest ones rounded up."""
    near = values.astype(np.float32)
    low = (values == values.max(initial=0)) & (near < values)
    return np.where(low, np.nextafter(near, np.float32(np.inf)), near)
