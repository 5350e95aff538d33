"""Proofs written by solvers: they verify, agree with what the solvers claim, and are
small."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from helpers import each, refuses
from helpers.attack_proofs import npz
from helpers.oracles import objective
from helpers.solvers import NEW
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from workbench import (
    SOLVERS,
    MinimaxRiskClassifier,
    SampledCutClassifier,
    as_problem,
    below,
    cli,
    grid,
    load,
    rounds,
    run,
)
from workbench.core.matrices import as_dense
from workbench.data.specs import remade
from workbench.proofs import ProofError, bound_excess, read, verify, write
from workbench.runs import sweep as room

# How far, as fractions of the optimum, the certified bounds may be outside the solver's
# own: the best of its bounds may be of an earlier iterate, and single precision takes
# digits.
SAME = 1e-6
OF_MRC = "mrc_lp mrc_subgradient mrc_pdhg mrc_splitting mrc_interior_point".split()
OF_WW = "ww_walrus", "ww_shark", "ww_walrus_fast"
CASES = {
    **{name: (name, {}, SAME) for name in ("svm_lp", "svm_ccg", *OF_MRC)},
    **{name: (name, {"n_max": 20}, SAME) for name in ("mrc_ccg", "mrc_ccg_fast")},
    **{name: (name, {"C": 0.1}, SAME) for name in OF_WW},
    "cs_working_set": ("cs_working_set", {"C": 0.1}, 1e-3),
    "cs_working_set without l1": ("cs_working_set", {"C": 0.1, "l1": 0.0}, 1e-3),
    "memoir_pegasos": ("memoir_pegasos", {"lam": 0.1}, 0.05),
    "cuts_exact": ("cuts_exact", {"C": 1.0}, 1e-4),
    "cuts_exact_fast": ("cuts_exact_fast", {"C": 1.0}, 3e-3),
    "cuts_exact linear": (
        "cuts_exact",
        {"C": 0.1, "kernel": "linear", "eps": 1e-5},
        1e-4,
    ),
}
for link in ("identity", "softmax", "squared_hinge"):
    for name in ("ls_generalized", "ls_accelerated"):
        CASES[f"{name} {link}"] = name, {"alpha": 0.1, "link": link}, SAME
CERTIFIED = {
    name for name, solver in SOLVERS.items() if ".peers." not in solver.steps.__module__
}
NONE = (
    "memoir_l2 memoir_lsh memoir_averaged memoir_l1 ls_calibrated ls_stagewise".split()
)
NONE += "ls_columns ls_stagewise_passes ls_columns_logistic centroid".split()
NONE = dict.fromkeys(NONE, "no dual point of a convex problem")
NONE |= {"svm_multi": "its scores must sum to zero"}
NONE |= {"cuts_nystroem": "its cuts are not sums of training rows"}
each_case = each("case", CASES)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "proof.npz"


def made(blobs, solver, **options):
    """Return the problem of a case, its classes merged into two where a solver has no
    more."""
    problem = blobs(n=120, d=6, **options)
    if solver in ("svm_lp", "svm_ccg"):
        problem = as_problem(problem.X, problem.y % 2)
    return problem


def test_every_solver_of_ours_has_a_proof_or_says_why_not(blobs, path):
    of_samples = {"cuts_linear_time", "cuts_constant_time", "cuts_linear_time_fast"}
    known = {solver for solver, *_ in CASES.values()} | NONE.keys() | of_samples
    assert CERTIFIED - NEW <= known
    problem = blobs()
    for solver in CERTIFIED & NEW:  # which no list here knows
        try:
            run(solver, problem, rounds(9), proof=path)
        except ValueError as error:
            assert str(error).startswith("proof: ")
        else:
            assert verify(path, problem)


@each_case
def test_a_proof_agrees_with_its_solver_on_these_rows_only(case, blobs, path):
    solver, parameters, near = CASES[case]
    problem = made(blobs, solver)
    _, state = run(
        solver,
        problem,
        below("gap", 1e-6),
        rounds(60),
        parameters=parameters,
        proof=path,
    )
    found = verify(path, problem)
    claimed = state.info()
    assert found[:3] == verify(path, problem.X, problem.classes[problem.y])[:3]
    # Both hold the optimum: each lower bound is below each upper one.
    assert found.lower <= claimed["upper"] and claimed["lower"] <= found.upper
    assert found.lower >= claimed["lower"] - near * found.upper
    assert found.upper <= claimed["upper"] + near * found.upper
    assert path.stat().st_size < 8_000
    dense_only = solver in ("mrc_splitting", "mrc_interior_point")
    for kind in [{"dtype": np.float32}, {"sparse": True}][: 2 - dense_only]:
        problem = made(blobs, solver, **kind)
        for state in islice(SOLVERS[solver].steps(problem, **parameters), 3):
            write(path, problem, state, **parameters)  # any state has one
            found = verify(path, problem)
            assert 0.0 <= found.lower <= found.upper < np.inf
        X = as_dense(problem.X).astype(float)
        with refuses("the proof is about other rows", ProofError):
            verify(path, as_problem(X, problem.y))


@each("solver", ["cuts_linear_time", "cuts_linear_time_fast", "cuts_constant_time"])
def test_sampled_cuts_prove_the_problem_of_all_rows(solver, blobs, path):
    problem = blobs(n=120, d=6, k=2)
    run(solver, problem, rounds(30), parameters={"r": 60}, proof=path)
    exact, _ = run("cuts_exact", problem, below("gap", 1e-6), rounds(300))
    found = verify(path, problem)
    assert 0.0 < found.lower <= exact.last["upper"]
    assert exact.last["lower"] <= found.upper < 2.0 * exact.last["upper"]


def test_what_has_no_proof_is_refused_before_its_first_round(blobs, path):
    seen = [0]
    for solver, reason in NONE.items():
        with refuses(reason):
            run(solver, blobs(), lambda row: seen.append(row["round"]), proof=path)
    assert max(seen) == 0 and not path.exists()
    weighed = replace(blobs(), weights=np.arange(1.0, 61.0))
    with refuses(r"^proof: rows with weights other than one"):
        write(path, weighed, next(SOLVERS["ww_walrus"].steps(weighed)))


@each("case", [c for c in CASES if c.startswith("mrc")])
def test_the_best_lower_bound_of_all_iterates_is_proved(case, blobs, path):
    solver, parameters, _ = CASES[case]
    problem = blobs(n=200, d=8, k=4)
    for state in islice(SOLVERS[solver].steps(problem, **parameters), 25):
        before = getattr(state, "lower", 0.0)
    write(path, problem, state)
    assert verify(path, problem).lower >= before * (1 - 1e-9) > 0.0


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # of one round
def test_the_excess_of_weights(blobs, path):
    problem = blobs(n=150, d=5)
    parameters = {"alpha": 1 / 150, "link": "squared_hinge"}
    run(
        "ls_accelerated", problem, below("gap", 1e-9), parameters=parameters, proof=path
    )
    header = read(path).header  # LinearSVC's C sums what the mean divides by n
    assert header["over"] == "mean" and header["C"] == 1.0
    poor = LinearSVC(C=1.0, fit_intercept=False, max_iter=1).fit(problem.X, problem.y)
    least, most = bound_excess(poor, problem.X, problem.y, path)
    W = poor.coef_.T
    value = objective("ls_accelerated", problem, np.c_[W.T, np.zeros(3)], parameters)
    found = verify(path, problem)
    assert least == pytest.approx(value / found.upper - 1, abs=1e-9)
    assert 0.0 < least <= value / found.lower - 1 + 1e-12 and least <= most
    assert bound_excess(W, problem, None, path) == (least, most)
    with refuses("must have 3 outputs, got 1"):
        bound_excess(W[:, :1], problem, None, path)
    with refuses("have an intercept, and the stated problem has none"):
        bound_excess(LinearSVC().fit(problem.X, problem.y), problem, None, path)
    # Estimators of every family.
    problem = blobs(n=150, d=5, k=2)
    X = problem.X
    y = problem.y
    run("cuts_exact", problem, parameters={"eps": 1e-6, "gamma": 0.1}, proof=path)
    ours = SampledCutClassifier(basis="exact", tol=1e-6, gamma=0.1).fit(X, y)
    assert bound_excess(ours, X, y, path).at_most < 1e-4
    run("mrc_ccg", problem, parameters={"eps1": 1e-9, "eps2": 1e-9}, proof=path)
    ours = MinimaxRiskClassifier(tol=1e-6).fit(X, y)
    assert bound_excess(ours, X, y, path).at_most < 1e-5
    run("svm_lp", problem, parameters={"lam": 0.01}, proof=path)
    poor = LogisticRegression(C=1e-3).fit(X, y)
    assert bound_excess(poor, X, y, path).at_least > 0.1


@each("name", ["ww_walrus_fast", "ls_accelerated"])
def test_a_constant_column_is_stated_as_an_intercept(name, blobs, path):
    problem = blobs()
    rows = as_problem(np.hstack([problem.X, np.ones((60, 1))]), problem.y)
    trace, state = run(name, rows, rounds(40))
    write(path, rows, state, constant=True, **trace.header["parameters"])
    found = verify(path, problem)
    assert "penalised intercept 1" in found.statement
    assert found.lower <= trace.last["primal"] and trace.last["lower"] <= found.upper


def test_recipes(monkeypatch):
    problem = load("iris", scale="standard")
    assert problem.recipe == {"panel": "iris", "seed": 0, "scale": "standard"}
    held_out = load("iris", test=0.3, seed=1)
    assert held_out.recipe == {"panel": "iris", "seed": 1, "test": 0.3}
    spec = load("iris | 2 classes", seed=2)
    for made_again in (problem, held_out, spec):
        assert remade(made_again.recipe).checksum == made_again.checksum
    assert problem.subset(0.5).recipe is None and spec.first_classes(2).recipe is None
    texts = {"panel": "/etc/passwd @ given"}, {"panel": "iris + 100000000 fourier"}
    for bad in (*texts, {"panel": "iris", "target": "x"}, {"panel": ["iris"]}, {}, 7):
        with refuses(r"^recipe: cannot be followed: "):
            remade(bad)
    monkeypatch.setattr(
        "workbench.data.fetch_into_cache", lambda *_: pytest.fail("a download")
    )
    monkeypatch.setattr("workbench.data.available_files", dict)
    again = remade({"panel": "letter or iris | 2 classes", "seed": 2})
    assert again.checksum == spec.checksum
    with refuses("letter is not available; run", FileNotFoundError):
        remade({"panel": "letter"})


def test_the_command_line_verifies(path, capsys):
    options = "--scale standard -p C=0.01 --gap 1e-6 --proof"
    assert cli.main(["run", "ww_walrus_fast", "iris", *options.split(), str(path)]) == 0
    capsys.readouterr()
    assert cli.main(["verify", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Weston-Watkins SVM, C=0.01; iris @ standard, 150 x 4,")
    assert "optimum in [" in said
    data = ["--data", "iris @ standard"]
    assert cli.main(["verify", str(path), *data]) == 0
    capsys.readouterr()
    for other in ("iris @ given", "wine"):
        assert cli.main(["verify", str(path), "--data", other]) == 1
        said = capsys.readouterr().out
        assert f"refused: {path}: checksum: the proof is about other rows" in said


def test_files_that_are_no_proofs_are_refused_in_one_sentence(path, tmp_path, capsys):
    problem = load("iris")
    bad = tmp_path / "bad.npz"
    run("mrc_ccg", problem, rounds(3), proof=path)
    proof = read(path)

    def written(**changed):
        bad.write_bytes(npz(proof.header | changed, proof.arrays))

    forgeries = {
        "": lambda: np.savez(bad, X=problem.X),
        "no recipe": lambda: written(recipe=None),
        "recipe: cannot be followed": lambda: written(recipe={"panel": "/etc/passwd"}),
    }
    for said, forge in forgeries.items():
        forge()
        assert cli.main(["verify", str(bad), str(path)]) == 1
        line, statement, interval = capsys.readouterr().out.splitlines()
        assert line.startswith(f"refused: {bad}: ") and said in line
        assert statement.startswith("minimax risk classifier")
        assert "optimum in" in interval


def test_sweeps_keep_proofs_on_request(no_workers, tmp_path):
    solvers = {"ww_walrus": {"C": [0.1]}, "ls_calibrated": {}}
    points = grid(solvers, "iris", stop={"rounds": 3}, test=0.3)
    without = room.sweep(points, folder=tmp_path)
    assert without.proofs() == list(tmp_path.rglob("*.npz")) == []
    done = room.sweep(points, folder=tmp_path, proofs=True)
    assert not done.failures and len(done.traces()) == 2
    [path] = tmp_path.rglob("*.npz")  # least squares has none
    assert done.proofs() == [path] and verify(path).lower > 0.0
