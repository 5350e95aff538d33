"""Sampled cuts: the optimum, its certificates, what sampling costs, and what is
refused."""

from dataclasses import replace
from itertools import islice, pairwise, product
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import psutil
import pytest
from helpers import each, oracles, refuses
from helpers.oracles import TIGHT, rows_of
from numpy.testing import assert_allclose
from pytest import approx
from scipy.sparse import csr_matrix
from scipy.stats import binom
from sklearn.metrics.pairwise import rbf_kernel

from workbench import as_problem, load, run
from workbench.core.structures import TreeProblem, as_sequences, as_tree
from workbench.data.synthetic import checkers
from workbench.kernels.mercer import Kernel, scale
from workbench.sampled_cuts import bounds, cutting_plane, solvers
from workbench.sampled_cuts.cutting_plane import exact, some_violators
from workbench.sampled_cuts.fast import (
    cuts_exact_fast,
    cuts_linear_time_fast,
    cuts_nystroem,
)
from workbench.sampled_cuts.model import mean_violation
from workbench.sampled_cuts.solvers import cuts_exact, cuts_linear_time
from workbench.sampled_cuts.spaces import KernelSpace
from workbench.sampled_cuts.state import start
from workbench.sampled_cuts.tasks import task_of

NOTHING = np.zeros(0)
LEAVES = ["a.b", "a.c", "d"]
COSTS = np.array([[0, 0.5, 1], [0.5, 0, 1], [1, 1, 0]])


def last(steps):
    """The last state of a stream, or one far beyond what these small problems take."""
    *_, s = islice(steps, 400)
    return s


def kernel_matrix(problem, kernel, gamma):
    if kernel == "rbf":
        return rbf_kernel(problem.X, gamma=gamma)
    return problem.X @ problem.X.T


def all_outputs(problem, phi):
    """dPsi, loss and unit of every output, each by its definition."""
    # of a tree, as sequences of one row
    starts, costs = np.arange(problem.n + 1), COSTS
    if not isinstance(problem, TreeProblem):
        starts = problem.starts
        costs = 1 - np.eye(problem.k)
    mean_length = problem.n / (len(starts) - 1)

    def psi(rows, labels):
        moves = np.zeros((problem.k, problem.k))
        np.add.at(moves, (labels[:-1], labels[1:]), 1.0)
        return np.concatenate(
            [(np.eye(problem.k)[labels].T @ phi[rows]).ravel(), moves.ravel()]
        )

    outputs = []
    for i, (a, b) in enumerate(pairwise(starts)):
        y = problem.y[a:b]
        for labels in map(np.array, product(range(problem.k), repeat=b - a)):
            dpsi = psi(slice(a, b), y) - psi(slice(a, b), labels)
            outputs.append((dpsi, costs[y, labels].sum() / mean_length, i))
    return map(np.array, zip(*outputs))


def optimum(problem, kernel, gamma, C):
    """The value of the whole dual, a multiplier for every output of every unit."""
    if not problem.structure:
        given = {"kernel": kernel, "C": C}
        return oracles.optimum(
            "cuts_exact", problem, given, SimpleNamespace(gamma=gamma)
        )[1]
    D, losses, units = all_outputs(
        problem, rows_of(kernel_matrix(problem, kernel, gamma))
    )
    weights = cp.Variable(len(losses), nonneg=True)
    of_unit = (units == np.arange(units.max() + 1)[:, None]).astype(float)
    dual = cp.Maximize(losses @ weights - cp.sum_squares(D.T @ weights) / 2)
    return cp.Problem(dual, [of_unit @ weights <= C]).solve(cp.CLARABEL, **TIGHT)


def few_sequences():
    rng = np.random.default_rng(0)
    y = [rng.integers(3, size=length) for length in (1, 3, 2, 4, 3)]
    y[3][:3] = 0, 1, 2
    X = [rng.normal(size=(len(p), 2)) + p[:, None] for p in y]
    return as_sequences(
        as_problem(np.vstack(X), np.concatenate(y)), [0, 1, 4, 6, 10, 13]
    )


PROBLEMS = {
    "binary": lambda blobs: blobs(n=40, d=3, k=2),
    "multiclass": lambda blobs: blobs(n=30, d=3),
    "chain": lambda blobs: few_sequences(),
    "tree": lambda blobs: as_tree(replace(blobs(n=30, d=3), classes=np.array(LEAVES))),
}


@pytest.fixture(params=PROBLEMS)
def problem(request, blobs):
    return PROBLEMS[request.param](blobs)


@each("kernel, C", [("rbf", 2.0), ("linear", 0.1)])
@each("solver", [cuts_exact, cuts_exact_fast])
def test_exact_cuts_find_the_optimum_of_the_whole_problem(problem, kernel, solver, C):
    best = optimum(problem, kernel, 0.25, C)
    eps = 5e-6 * best / (C * task_of(problem).n)
    for s in islice(solver(problem, kernel=kernel, gamma=0.25, C=C, eps=eps), 400):
        assert s.lower <= best * (1 + 1e-7) and best * (1 - 1e-7) <= s.upper
    assert s.primal == approx(best, rel=1e-5)
    assert s.upper - s.lower <= C * task_of(problem).n * eps * (1 + 1e-6)


def test_all_rows_as_landmarks_give_the_optimum(problem):
    best = optimum(problem, "rbf", 0.25, 1.0)
    for s in islice(cuts_nystroem(problem, gamma=0.25, landmarks=100, eps=1e-5), 500):
        assert s.lower <= best * (1 + 1e-6) and best * (1 - 1e-6) <= s.upper
    assert s.upper - s.lower <= task_of(problem).n * 1e-5 * (1 + 1e-6)


def test_bounds_of_a_span_are_not_named_as_those_of_the_problem(blobs):
    """Rows of lengths 1e6 : 1 made [6.98, 8.0] of an optimum in [3.09, 5.82]."""
    problem = blobs(n=40, d=3, k=2)
    exact = last(cuts_exact(problem, gamma=2.0)).info()
    few = last(cuts_nystroem(problem, gamma=2.0, landmarks=2)).info()
    assert not few.keys() & {"lower", "upper", "gap"}
    assert few["span_lower"] > exact["upper"] and few["span_upper"] >= exact["lower"]
    assert few["span_gap"] == few["span_upper"] - few["span_lower"]


def objective(problem, s, K, C):
    """The objective of a state by its definition, in the kernel's space."""
    rows, A = s.expansion()
    F = K[:, rows] @ A
    v = s.transitions
    answers = task_of(problem).answers(F, v)
    return (np.vdot(A, F[rows]) + v @ v) / 2 + C * (
        answers.losses - answers.gains
    ).sum(), F


@each("landmarks", [3, 8])
def test_few_landmarks_give_an_upper_bound_of_the_whole_problem(problem, landmarks):
    K = kernel_matrix(problem, "rbf", 0.25)
    s = last(cuts_nystroem(problem, gamma=0.25, C=1.5, landmarks=landmarks, eps=1e-4))
    primal, F = objective(problem, s, K, 1.5)
    assert s.primal == approx(primal, rel=1e-8)
    assert len(s.landmarks) == landmarks and set(s.expansion()[0]) <= set(s.landmarks)
    assert optimum(problem, "rbf", 0.25, 1.5) <= s.primal
    scores = s.scores(problem.X)
    assert_allclose(scores[:, -1] * (2 if problem.k == 2 else 1), F[:, -1], atol=1e-8)


@each("fast", [False, True])
def test_linear_time_is_exact_where_all_violators_are_taken(problem, fast):
    given = {"gamma": 0.25, "eps": 1e-4}
    if fast:
        exact = cuts_exact_fast(problem, **given)
        linear = cuts_linear_time_fast(problem, **given, r=40, p=1000)
    else:
        exact = cuts_exact(problem, **given)
        linear = cuts_linear_time(problem, **given, r=40)
    # Single precision against double: the first rounds agree, and the last in what they
    # reach.
    near = 2e-4 if fast else 2e-5  # a line search ends within 0.05 C n eps
    for s, other in islice(zip(exact, linear), 1, 8):
        assert [s.primal, s.model] == approx([other.primal, other.model], rel=near)
    s = last(exact)
    other = last(linear)
    assert other.primal == approx(s.primal, abs=2e-4 * task_of(problem).n)
    assert other.violation <= 1e-4


def a_fixed_point():
    """A task, a state of a few rounds and its answers."""
    problem = checkers(2000, 1)
    s = last(islice(cuts_linear_time_fast(problem, gamma=30.0, r=100), 6))
    F = 2 * s.scores(problem.X)[:, 1:]
    task = task_of(problem)
    return task, s, F, task.answers(F, NOTHING)


@each("kind", ["violators", "all"])
def test_a_sampled_cut_is_unbiased_with_error_1_over_root_r(kind):
    task, s, F, answers = a_fixed_point()
    exact_risk = mean_violation(answers)
    gains = answers.gains[answers.losses > 0]
    deviation = (answers.losses - answers.gains).std()
    if kind == "violators":
        deviation = len(gains) / task.n * gains.std()

    def sampled(r):
        if kind == "all":
            units = s.rng.integers(task.n, size=r)
            return mean_violation(task.of(units).answers(F[units], NOTHING))
        units, weight = some_violators(answers, s.rng, r)
        assert len(units) == r < len(gains)
        return answers.losses.mean() - weight * answers.gains[units].sum()

    for r in (25, 400):
        values = [sampled(r) for _ in range(500)]
        theory = deviation / np.sqrt(r)
        assert np.mean(values) == approx(exact_risk, abs=4 * theory / 500**0.5)
        assert np.std(values) == approx(theory, rel=0.15)  # five deviations


def test_a_cut_takes_kernel_values_of_every_row_and_its_own():
    problem = checkers(400, 2)
    before = 0
    least = np.inf
    for s in islice(cuts_linear_time_fast(problem, gamma=30.0, r=40, eps=1e-3), 30):
        if 0 < s.round < 12:
            basis = s.ends[-1] - s.ends[-2]
            assert s.kernel_values - before == 400 * basis
            assert 20 < basis <= 40  # rows that are drawn twice are one
        assert s.primal <= least + 0.05 * 1e-3 * 400  # the best point never gets worse
        before = s.kernel_values
        least = s.primal


@each("n", [300, 3000])
def test_the_constant_time_method_looks_at_no_more_rows(n):
    s = last(islice(solvers.cuts_constant_time(checkers(n, 0), gamma=30.0, r=30), 8))
    # The scores of a sample by t cuts, their products with its own cut, and that with
    # itself.
    assert s.round == 7 and s.kernel_values <= sum(
        (2 * t + 1) * 30 * 30 for t in range(7)
    )


@each("megabytes", [0.0, 0.02, 64.0])
def test_dropped_cuts_leave_the_solution_alone(megabytes):
    problem = checkers(120, 0)
    task = task_of(problem)
    K = rbf_kernel(problem.X.astype(float), gamma=30.0)
    kernel = Kernel("rbf", 30.0, np.float64, NOTHING)
    first = start(problem, task, kernel, 50.0, 1e-4, True, None)
    space = KernelSpace(first, kernel, kernel.points(problem.X), 1, megabytes)
    cuts = 0
    drops = 0
    for s in islice(exact(task, space, first, 1e-4), 500):
        if len(s.h) < cuts:
            drops += 1
            assert s.primal == approx(objective(problem, s, K, 50.0)[0], rel=1e-9)
            assert s.w.any() and len(s.h) == len(s.G) == len(s.alpha) == len(s.ends) - 1
        cuts = len(s.h)
    assert drops >= 2 and s.violation <= 1e-4


# of norms, then refused
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_what_does_not_fit_or_cannot_be_computed_is_refused(blobs, monkeypatch):
    problem = blobs()
    far = problem.X + 1e6
    with refuses("values of the kernel may be off by"):
        next(cuts_nystroem(as_problem(csr_matrix(far), problem.y), gamma=1.0))
    with refuses("kernel: "):
        next(cuts_nystroem(problem, kernel="cubic", gamma=1e300))
    next(cuts_nystroem(as_problem(far, problem.y), gamma=1.0))  # dense ones are centred
    huge = as_problem(1e25 * problem.X, problem.y % 2)
    for solver in (cuts_linear_time, solvers.cuts_constant_time):  # of single precision
        with refuses(r"kernel: .*finite"):
            last(islice(solver(huge, kernel="linear"), 4))
    free = psutil.virtual_memory()._replace(available=10_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    with refuses("problem: too large for cuts_exact with 60 rows of 3 labels"):
        next(cuts_exact(problem))
    next(cuts_linear_time(problem))


def test_a_plateau_is_no_end():
    problem = as_problem(np.linspace(0, 1, 100)[:, None], np.arange(100) % 2)
    assert len([*islice(cuts_exact(problem, C=1e10, eps=0.3, gamma=1e3), 102)]) == 102
    assert len([*cuts_exact(problem, eps=2.0)]) == 1


def test_sampled_cuts_of_many_classes_do_not_end_too_soon():
    problem = load("text 600x20")  # at C = 100 the first forty cuts show no way down
    settings = {"C": 100.0, "gamma": 0.1 * scale(problem)}
    trace, state = run("cuts_linear_time_fast", problem, parameters=settings)
    primal = trace.column("primal")
    assert primal[10] == primal[0] > 10 * primal[-1]
    assert state.w.any() and trace.last["violation"] < 0.01


def radius(problem):
    """Return the R of rows, or of sequences with moves."""
    return np.sqrt(2.0) if task_of(problem).n == problem.n else 4.0 * problem.n


@each("C, eps", [(1.0, 0.05), (1e-4, 0.5)])
def test_every_violated_cut_raises_the_dual_as_theorem_1_says(problem, C, eps):
    """With the small C the printed bound is below one round."""
    n = task_of(problem).n
    R = radius(problem)
    before = None
    for s in islice(cuts_exact(problem, C=C, gamma=0.25, eps=eps), 400):
        if before is not None and before[1] < np.inf:
            least = min(before[1] ** 2 / (8 * R**2), C * n * before[1] / 2)
            assert s.model >= before[0] + least - 1e-3 * eps * C * n
        before = s.model, s.violation
    assert 1 <= s.round <= bounds.rounds(C * n, eps, R, 4.0)
    if C < 0.01 and problem.k == 2:
        assert 8 * C * n / eps**2 < 1


@each("r", [1, 3])
def test_any_oracle_ends_in_time_if_its_cuts_are_violated(r, problem, monkeypatch):
    """Algorithm 4, with the r worst violators, which samples would seldom be."""

    def worst(answers, rng, r):
        I, weight = cutting_plane.violators(answers)
        units = I[np.argsort(answers.gains[I])[:r]]
        return units, weight * len(I) / len(units)

    monkeypatch.setattr(cutting_plane, "some_violators", worst)
    C = 4.0 / task_of(problem).n
    s = last(cuts_linear_time(problem, C=C, eps=0.1, gamma=0.25, r=r))
    most = bounds.rounds(4.0, 0.1, radius(problem), 4.0)
    assert s.violation <= 0.1 and r < s.round <= most


@each("r, failure", [(20, 0.1), (400, 1e-3)])
def test_a_cut_deviates_as_seldom_as_lemma_3_says(r, failure):
    """Of inner products that are as far apart as can be; with a third of C it is not
    so."""
    for C, holds in ((3.0, True), (1.0, False)):
        # of a mean of r signs
        above = bounds.deviation(C, r, failure) / np.sqrt(2 * 3.0)
        assert (binom.sf(np.ceil(r * (1 + above) / 2) - 1, r, 0.5) <= failure) == holds


@each("solver", [cuts_linear_time, solvers.cuts_constant_time])
def test_runs_are_within_the_bounds_of_theorems_2_and_3(solver):
    """Not by eps alone: samples of ten rows leave more."""
    problem = checkers(400, 1)
    eps = 2e-3
    r = 10
    C = 4.0
    given = {"gamma": 30.0, "C": C / problem.n}
    best = last(cuts_exact_fast(problem, eps=1e-4, **given)).upper
    K = rbf_kernel(problem.X.astype(float), gamma=30.0)
    excesses = []
    for seed in range(4):
        s = last(solver(problem, eps=eps, r=r, seed=seed, **given))
        assert s.round <= 10 * bounds.rounds(C, eps)
        excesses.append((objective(problem, s, K, C / problem.n)[0] - best) / C)
    most = bounds.linear_time_excess(C, eps, r, 0.1)
    if solver is not cuts_linear_time:
        most = bounds.constant_time_excess(C, eps, r, 10, 0.1)
    assert eps < min(excesses) and max(excesses) <= most
