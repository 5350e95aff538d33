"""L1-norm support vector machines against cvxpy, each other, and their own
certificates."""

import numpy as np
from helpers import each, module_fixture, refuses
from helpers.oracles import PRECISION, optimum
from helpers.problems import tiny as of_mrc
from pytest import approx
from scipy.sparse import csr_matrix

from workbench import SOLVERS, as_problem, run
from workbench.core.stream import watch
from workbench.mrc.l1svm import machine
from workbench.mrc.svm_ccg import svm_ccg

SMALL_STEPS = {"eps": 1e-9, "n_max": 2, "m_max": 1}


def tiny(seed, k=2):
    """The same of k classes, the odd ones sparse, every third with a row of zeros."""
    problem, lam = of_mrc(seed, k)
    X = problem.X * (np.arange(problem.n) < problem.n - (seed % 3 == 0))[:, None]
    return as_problem(
        csr_matrix(X) if seed % 2 else X, problem.y, name=problem.name
    ), lam


def exact_value(name, problem, lam):
    """Return the objective at the solution that the oracle found."""
    return optimum(name, problem, {"lam": lam})[1] / (1 + PRECISION)


@module_fixture
def answers():
    """Problems of two classes, dense and sparse, with the optimum of the binary
    machine."""
    return [(p, lam, exact_value("svm_lp", p, lam)) for p, lam in map(tiny, range(40))]


@each(
    "name, parameters",
    [
        ("svm_lp", {}),
        ("svm_multi", {}),
        ("svm_ccg", {"eps": 1e-9}),
        ("svm_ccg", SMALL_STEPS),
        ("svm_ccg", {"eps": 0.1}),
        ("svm_ccg", {"eps": 0.0, "n_max": 3}),
    ],
)
def test_machines_of_two_classes_agree_with_cvxpy(name, parameters, answers):
    seen = 0
    for problem, lam, exact in answers:
        own = lam / 2 if name == "svm_multi" else lam
        for row, _ in watch(SOLVERS[name].steps(problem, lam=own, **parameters)):
            assert 0 <= row["lower"] <= exact + 1e-8 and exact <= row["upper"] + 1e-8
            seen += 1
        if parameters.get("eps") != 0.1:
            ends = [row["lower"], row["upper"], row["objective"]]
            assert ends == approx([exact] * 3, abs=1e-6), problem.name
    assert seen > len(answers) + 10 or name != "svm_ccg"


@each("k", [2, 3, 5])
def test_the_multiclass_machine_agrees_with_cvxpy(k, rng):
    for seed in range(20):
        problem, lam = tiny(seed, k)
        exact = exact_value("svm_multi", problem, lam)
        trace, state = run("svm_multi", problem, parameters={"lam": lam})
        assert trace.last["objective"] == approx(exact, abs=1e-6), problem.name
        assert abs(state.W_best.sum(axis=0)).max() < 1e-9
        for scale in (0.0, 0.1, 1.0, 10.0):  # any alpha gives a lower bound
            alpha = scale * rng.normal(size=(problem.n, k))
            assert machine(problem, lam).lower(alpha)[1] <= exact + 1e-9


def test_what_is_left_unviolated_bounds_the_error(blobs):
    problem = blobs(n=200, d=20, k=2)
    lam = 0.05
    exact = run("svm_lp", problem, parameters={"lam": lam})[0].last["upper"]
    for eps in (1.0, 0.1, 1e-3):
        *_, s = svm_ccg(problem, lam=lam, eps=eps, n_max=10, m_max=2)
        most = exact * (1 + eps / (200 * lam))
        assert exact - eps - 1e-9 <= s.objective <= most + 1e-9
        assert np.delete(s.short, s.samples).max(initial=-np.inf) <= eps


@each(
    "name, shape, instead",
    [
        ("svm_lp", {"n": 3000, "d": 60, "k": 2}, "svm_ccg"),
        ("svm_multi", {"n": 600, "k": 8}, "Prob"),
        ("mrc_lp", {"n": 100, "d": 10, "k": 8}, "mrc_ccg"),
    ],
)
def test_a_whole_program_has_limits_of_time_and_size(
    name, shape, instead, blobs, monkeypatch
):
    problem = blobs(**shape)
    trace, _ = run(name, problem, parameters={"max_seconds": 0.01}, warm_up=False)
    assert trace.last["round"] == 0 and trace.stopped_by == "finished"
    assert 0 <= trace.last["lower"] <= trace.last["upper"] <= shape["k"] - 1
    monkeypatch.setattr("workbench.mrc.lp.NONZEROS", 500)
    with refuses(f"^problem: too large for {name}; .* use {instead}"):
        next(SOLVERS[name].steps(problem))
    if name != "mrc_lp":
        next(SOLVERS[name].steps(blobs(n=30, k=2)))
