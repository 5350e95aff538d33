"""Write proofs: state the problem of a solver's state, and enclose its optimum.

For smooth losses the file contains only W, whose scores give a dual point. For most
other losses it contains only the dual point, which gives W. For the L1 SVM and minimax
risk it contains both, with dual weights in double precision. All other dual weights
a_ic are in single precision. The largest are rounded up: if they are at their cap, the
checker clips them to the cap, so that they are exact.
"""

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
from workbench.proofs.checker import Array, Arrays, checksum
from workbench.sampled_cuts.state import CutState
from workbench.weston_watkins.dual import WWState

Statement = Record
Stated = tuple[Statement, Arrays]


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
    problem : the Problem that was solved
    state : a State that the solver yielded; the closer to the optimum, the tighter the
        proof
    constant : bool, whether the last column of the rows is a constant 1 that is stated
        as an intercept
    parameters : the solver's parameters; most states contain all that is needed

    Raises
    ------
    ValueError
        If this solver, or this problem, has no proof; the message says why.
    """
    save(path, *proof_of(problem, state, parameters, constant))


def proof_of(
    problem: Problem, state: State, parameters: Record, constant: bool = False
) -> Stated:
    """Return the header and the arrays of a proof.

    Parameters and errors are those of :func:`write`.
    """
    writer = next(
        (writer for kind, writer in WRITERS.items() if isinstance(state, kind)), None
    )
    if writer is None:
        raise ValueError(
            f"proof: there is none for a {type(state).__name__}, which has no dual "
            "point of a convex problem that can be stated in a proof"
        )
    if (problem.weights != 1.0).any():
        raise ValueError(
            "proof: rows with weights other than one cannot be stated in a proof"
        )
    statement, arrays = writer(problem, state, parameters)
    header: Record = {"format": 1, "outputs": problem.k} | statement
    if "values" in arrays and not len(arrays["values"]):
        # The dual point is zero, which one entry has to state.
        zero = np.zeros(1, np.uint32)
        other = (problem.y[:1] + 1) % header["outputs"]
        arrays |= {"rows": zero, "ends": zero + 1, "columns": other.astype(np.uint32)}
        arrays["values"] = zero.astype(np.float32)
    X = problem.X
    if constant:
        X = X[:, :-1]
        header["intercept"] = 1.0
        if "W" in arrays:
            arrays["b"] = arrays["W"][-1]
            arrays["W"] = arrays["W"][:-1]
    header["checksum"] = checksum(X, problem.y)
    if problem.recipe is not None:
        header["recipe"] = problem.recipe
    return header, arrays


def save(path: PathLike, header: Statement, arrays: Arrays) -> None:
    """Write header and arrays to `path`, whole or not at all."""
    text = json.dumps(header, allow_nan=False).encode()
    members: Record = {"header": np.frombuffer(text, np.uint8)} | arrays
    with whole(path) as part, open(part, "wb") as file:
        np.savez(file, **members)


def linear(
    loss: str,
    C: float | list[float] = 1.0,
    *,
    over: str = "mean",
    alpha: float = 1.0,
    l1: float = 0.0,
) -> Statement:
    """Return the fields that state a regularised risk of linear scores."""
    fields = {"family": "linear", "loss": loss, "over": over, "C": C}
    return fields | {"alpha": alpha, "l1": l1}


def weston_watkins(problem: Problem, s: WWState, parameters: Record) -> Stated:
    """State 1/2 |W|^2 + C sum_i sum_{j != y_i} hinge_ij, proved by B."""
    return linear("weston_watkins", s.C, over="sum"), sparse(s.B[:, : s.classes])


def working_sets(problem: Problem, s: WorkingSetState, parameters: Record) -> Stated:
    """State the elastic net of Crammer and Singer's loss."""
    others = s.sets.shape[1] - 1
    ends = np.arange(0, problem.n * others + 1, others)
    columns = s.sets[:, 1:].ravel().astype(int)
    parts = -s.alpha[:, 1:].ravel(), columns, ends
    B = sp.csr_matrix(parts, (problem.n, problem.k))
    return linear("crammer_singer", s.C, over="sum", l1=s.l1), sparse(B)


def pegasos(problem: Problem, s: PegasosState, parameters: Record) -> Stated:
    """State lam/2 |W|^2 and the mean hinge of Crammer and Singer.

    The last iterate proves it.
    """
    if not len(s.dual):
        raise ValueError(
            "proof: the dual point of memoir_pegasos was too large to be stored"
        )
    # Of all multiples of the point by a factor in [0, 1], the best one is written.
    square = s.lam * float(np.vdot(s.W, s.W))
    multiple = s.mass / max(s.mass, square) if square else 0.0
    arrays = sparse(s.dual)
    # In a proof, costs are per row, and the mean divides by n.
    factor = problem.n * multiple * s.unit
    arrays["values"] = single(factor * arrays["values"].astype(float))
    return linear("crammer_singer", alpha=s.lam), arrays


def least_squares(problem: Problem, s: GeneralizedState, parameters: Record) -> Stated:
    """State the mean loss of a link and alpha/2 |W|^2, proved by W."""
    loss = parameters.get("link", "softmax")
    if loss == "identity":  # all other links are named as their losses
        loss = "squared"
    return linear(loss, alpha=s.alpha), {"W": s.W}


def sampled_cuts(problem: Problem, s: CutState, parameters: Record) -> Stated:
    """State the problem of all rows.

    Exact cuts prove its optimum closely, sampled cuts roughly. With the linear kernel,
    the problem is stated as a linear one.
    """
    if problem.structure:
        raise ValueError(
            f"proof: none for {problem.structure}, as the checker has no such loss"
        )
    if s.kernel == "cubic":
        raise ValueError("proof: the checker has no cubic kernel; use rbf or linear")
    if len(s.root):
        raise ValueError(
            "proof: cuts_nystroem has none, as its cuts are not sums of training rows"
        )
    rows, A = s.expansion(s.alpha)
    if problem.k == 2:
        statement = linear("hinge", s.C, over="sum") | {"outputs": 1}
        arrays = sparse(np.abs(A), rows)
    else:
        statement = linear("crammer_singer", s.C, over="sum")
        arrays = sparse(np.maximum(-A, 0.0), rows)
    if s.kernel != "linear":
        statement["family"] = "kernel"
        statement["kernel"] = {"name": s.kernel, "gamma": s.gamma}
    return statement, arrays


def l1_svm(problem: Problem, s: SVMState, parameters: Record) -> Stated:
    """State the mean hinge and lam |w|_1 with a free intercept.

    The best w and the best alpha prove it.
    """
    W = s.W_best
    alpha = s.alpha_best
    if alpha.ndim > 1:
        raise ValueError(
            "proof: svm_multi has none, as its scores must sum to zero; svm_lp has one"
        )
    statement = linear("hinge", alpha=0.0, l1=s.lam)
    statement |= {"intercept": "free", "outputs": 1}
    alpha = balanced(np.clip(alpha, 0.0, 1.0), problem.y)
    # In single precision the two classes would not balance.
    arrays = sparse(alpha[:, None], exact=True)
    return statement, arrays | {"W": W[1:, :-1].T, "b": W[1, -1:]}


def balanced(a: Array, y: Array) -> Array:
    """Return dual weights of two classes, scaled to the same sum in both classes.

    A free intercept requires this.
    """
    mass = np.bincount(y, a, 2)
    return a * (mass.min() / np.maximum(mass, 1e-300))[y]


def minimax_risk(problem: Problem, s: RiskState, parameters: Record) -> Stated:
    """State the minimax risk, proved by M and the distribution of the best bound."""
    order = np.argsort(s.p_rows)
    p = s.p_best[order]
    rows = s.p_rows[order]
    if not len(rows):  # put all mass on one row and label, which gives the bound zero
        p = np.eye(1, problem.k)
        rows = np.zeros(1, int)
    arrays = sparse(p, rows, exact=True)
    return {"family": "mrc", "lambda0": s.lambda0}, arrays | {"M": s.M_best}


WRITERS: dict[type, Callable[..., Stated]] = {
    WWState: weston_watkins,
    WorkingSetState: working_sets,
    PegasosState: pegasos,
    GeneralizedState: least_squares,
    CutState: sampled_cuts,
    SVMState: l1_svm,
    RiskState: minimax_risk,
}


def sparse(A: Matrix, rows: Array | None = None, exact: bool = False) -> Arrays:
    """Return (m, c) weights, not negative, as the arrays of a dual point.

    Parameters
    ----------
    A : array or CSR matrix
    rows : (m,) numbers of the training rows, by default 0..m-1
    exact : bool, whether values are in double, not single precision (default: False)
    """
    A = sp.csr_array(A, copy=True)  # the matrix of a state is not changed
    A.sum_duplicates()
    A.eliminate_zeros()
    counts = np.diff(A.indptr)
    used = np.flatnonzero(counts)
    chosen = used if rows is None else rows[used]
    return {
        "rows": smallest(chosen),
        "ends": smallest(np.cumsum(counts[used])),
        "columns": smallest(A.indices),
        "values": A.data.astype(float) if exact else single(A.data),
    }


def smallest(numbers: Array) -> Array:
    """Return whole numbers of at least 0 in the smallest type that can store them."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


def single(values: Array) -> Array:
    """Return numbers of at least 0 in single precision, the largest ones rounded up."""
    nearest = values.astype(np.float32)
    is_low = (values == values.max(initial=0)) & (nearest < values)
    return np.where(is_low, np.nextafter(nearest, np.float32(np.inf)), nearest)
