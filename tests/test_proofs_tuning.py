"""Proofs of tunings: what they prove, what is refused, and the checker as a script."""

import copy
import shutil
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_tuning import tiny

from workbench import cli
from workbench.core.problem import as_problem
from workbench.data import load
from workbench.data.panels import panel
from workbench.proofs import ProofError, checker, read, tuning, verify, write_tuning
from workbench.tuning.least_squares import certify_alpha
from workbench.tuning.weston_watkins import certify_path
from workbench.weston_watkins.path import ww_path


@pytest.fixture(scope="module")
def iris():
    return panel("iris", 0, 0.4)


@pytest.fixture(scope="module")
def proof(iris, tmp_path_factory):
    """A proof, its folds as the checker takes them, and the state that it is of."""
    path = tmp_path_factory.mktemp("tuning") / "iris.npz"
    fold = iris, iris.X_test, iris.classes[iris.y_test]
    *_, state = certify_path([fold], (1e-2, 1.0), 0.02)
    write_tuning(path, [fold], state)
    return path, [(iris.X, iris.y, iris.X_test, iris.y_test)], state


def test_the_checker_proves_what_the_search_did(proof):
    path, folds, state = proof
    found = tuning.verify(path, folds)
    assert (found.errors, found.rows) == (state.fewest, 60)
    assert state.fewest - found.certain <= 0.02 * 60
    assert "no C from 0.01 to 1 has fewer than" in found.statement


@pytest.mark.parametrize("kind", ["plain", "duplicates", "separable", "zero rows"])
def test_folds_of_any_rows_have_proofs(kind, tmp_path):
    (problem, *held), (other, *more) = tiny(3, kind), tiny(3, "plain")
    folds = [(problem, *held), (other, *more)]
    *_, state = certify_path(folds, (1e-2, 1e1), 0.1)
    write_tuning(tmp_path / "p", folds, state)
    found = verify(tmp_path / "p", folds)
    # A score that is a tie, except for rounding, counts as an error of the weights in hand.
    assert state.fewest <= found.errors <= state.fewest + 1
    assert state.fewest - found.certain <= 0.1 * 30 and found.rows == 30


@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_no_training_row_has_take_nothing_from_a_proof(sparse, tmp_path):
    problem, X_val, y_val = tiny(3, "plain")
    X_val[0] = 0.0
    unseen = np.where(np.arange(len(X_val)) % 2, 1e3, -1e3)[:, None]
    found = []
    for more in (np.zeros((len(X_val), 1)), unseen):
        X = np.hstack([problem.X, np.zeros((problem.n, 1))])
        rows = [csr_matrix(part) if sparse else part for part in (X, np.hstack([X_val, more]))]
        folds = [(as_problem(rows[0], problem.y), rows[1], y_val)]
        *_, state = certify_path(folds, (1e-2, 1e1), 0.1)
        write_tuning(tmp_path / "p", folds, state)
        found.append(verify(tmp_path / "p", folds)[:3])
    assert found[0] == found[1] and found[0][0] - found[0][1] <= 0.1 * len(y_val)


def test_a_search_that_was_stopped_proves_what_it_has_scanned(iris, tmp_path):
    fold = iris, iris.X_test, iris.classes[iris.y_test]
    states = certify_path([fold], (1e-2, 1.0), 0.0)
    for _ in range(6):
        state = next(states)
    before = copy.deepcopy(state)
    write_tuning(tmp_path / "p", [fold], state)
    assert np.array_equal(before.at, state.at) and before.fewest == state.fewest
    assert f"to {state.at.max():g} has fewer" in verify(tmp_path / "p", [fold]).statement
    with pytest.raises(ValueError, match="none before two values of C"):
        write_tuning(tmp_path / "p", [fold], next(certify_path([fold], (1e-2, 1.0))))
    with pytest.raises(ValueError, match="only those of the Weston-Watkins SVM"):
        write_tuning(tmp_path / "p", [fold], next(certify_alpha([fold], (1e-2, 1.0))))
    weighted, *held = tiny(1, "weights")
    with pytest.raises(ValueError, match="rows with weights other than one"):
        write_tuning(tmp_path / "p", [(weighted, *held)], state)


def without(arrays, knot, n):
    """The arrays without a knot, whose dual point lies in n rows."""
    inside = arrays["rows"] // n == knot
    counts = np.diff(arrays["ends"], prepend=0)
    entries = np.repeat(inside, counts)
    rows = np.where(arrays["rows"] // n > knot, arrays["rows"] - n, arrays["rows"])[~inside]
    cut = {"rows": rows, "ends": np.cumsum(counts[~inside]), "at": np.delete(arrays["at"], knot)}
    return cut | {name: arrays[name][~entries] for name in ("columns", "values")}


def scaled(name, factor, part=slice(None)):
    """A change of an array: a part of it is multiplied."""

    def change(arrays, n):
        array = arrays[name].copy()
        array[part] *= factor
        return {name: array}

    return change


@pytest.mark.parametrize(
    "change, message",
    [
        (scaled("W", 0.0), r"errors: W may be wrong on \d+ rows, the file states"),
        (scaled("W", np.nan), "W: is not finite"),
        (scaled("values", np.nan, slice(1)), "values: is not finite"),
        (scaled("values", -1.0, slice(1)), "values: must not be negative"),
        # The dual points are worse, so that their gaps, which no file can state, are larger.
        (scaled("values", 0.9), r"certain: \d+ errors are, for all C, the file states"),
        (scaled("values", 1e300), r"certain: \d+ errors are"),
        (scaled("at", 1.01), r"certain: \d+ errors are"),
        (scaled("at", -1.0), "at: must be two positive numbers"),
        (lambda arrays, n: {"at": arrays["at"][::-1]}, "at: must be .* in ascending order"),
        (lambda arrays, n: {"at": arrays["at"][:-1]}, "rows: must be indices below"),
        (lambda arrays, n: {"W": arrays["W"][1:]}, "W: is not of shape"),
        (lambda arrays, n: {"M": arrays["W"]}, "M: missing, or no part of such a proof"),
        (lambda arrays, n: {"rows": arrays["rows"][::-1]}, "rows: must be strictly increasing"),
    ],
)
def test_forged_arrays_are_refused(change, message, proof):
    path, folds, _ = proof
    good = read(path)
    forged = good.arrays | change(good.arrays, len(folds[0][1]))
    with pytest.raises(ProofError, match=message):
        tuning.verify(checker.Proof(good.header, forged), folds)


def test_no_interval_can_be_left_out(proof):
    path, folds, _ = proof
    good, n = read(path), len(folds[0][1])
    arrays, certain = good.arrays, []
    for _ in range(len(good.arrays["at"]) - 2):  # all inside knots, one after another
        arrays = arrays | without(arrays, 1, n)
        try:
            certain.append(tuning.verify(checker.Proof(good.header, arrays), folds).certain)
        except ProofError as error:
            assert "errors are, for all C, the file states" in str(error)
            break
    else:
        pytest.fail("an interval from end to end proves as much")
    arrays = good.arrays | without(good.arrays, len(good.arrays["at"]) - 1, n)
    statement = tuning.verify(checker.Proof(good.header, arrays), folds).statement
    assert "to 1 has" not in statement  # it is true of a shorter range, and says so


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"errors": 59}, r"errors: W may be wrong on \d+ rows, the file states 59"),
        ({"errors": 0}, r"errors: W may be wrong on \d+ rows, the file states 0"),
        ({"certain": 60}, r"certain: \d+ errors are, for all C, the file states 60"),
        ({"certain": -1}, "certain: must be a number of rows, got -1"),
        ({"loss": "crammer_singer"}, "loss: must be weston_watkins"),
        ({"outputs": 4}, "outputs: 4, but the rows have 3 classes"),
        ({"checksum": "0" * 64}, "checksum: the proof is about other rows"),
        ({"C": 1.0}, "tuning has no field C"),
        ({"errors": None}, "header: errors missing"),
    ],
)
def test_forged_headers_are_refused(fields, message, proof):
    path, folds, _ = proof
    good = read(path)
    with pytest.raises(ProofError, match=message):
        tuning.verify(checker.Proof(good.header | fields, good.arrays), folds)


def test_other_rows_are_refused(proof, iris):
    path, [(X, y, X_held, y_held)], _ = proof
    other = np.where(np.arange(len(y_held)) == 3, (y_held + 1) % 3, y_held)
    for fold in [(X, y, X_held, other), (X, y, X_held + 1e-9, y_held), (X_held, y_held, X, y)]:
        with pytest.raises(ProofError, match="checksum: the proof is about other rows"):
            tuning.verify(path, [fold])
    with pytest.raises(ProofError, match="folds: must have the same features"):
        tuning.verify(path, [(X, y, X_held[:, 1:], y_held)])
    with pytest.raises(ProofError, match="y: must have a label"):
        tuning.verify(path, [(X, y, X_held, y_held + 1)])
    with pytest.raises(ProofError, match=r"is of a tuning, which tuning\.py verifies"):
        checker.verify(path, X, y)
    with pytest.raises(ProofError, match="no held-out rows"):
        verify(path, load("iris"))


def test_no_solution_of_a_dense_grid_has_fewer_errors(proof):
    path, [(X, y, X_held, y_held)], _ = proof
    found = tuning.verify(path, [(X, y, X_held, y_held)])
    problem = panel("iris", 0, 0.4)
    for s in ww_path(problem, np.geomspace(1e-2, 1.0, 40), gap_ratio=1e-8, max_rounds=5000):
        assert (s.scores(X_held).argmax(axis=1) != y_held).sum() >= found.certain


def test_as_a_script_and_on_the_command_line(proof, tmp_path, capsys):
    path, [(X, y, X_held, y_held)], _ = proof
    for module in (checker, tuning):
        shutil.copy(module.__file__, tmp_path)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    np.savetxt(tmp_path / "held.csv", np.column_stack([X_held, y_held]), "%.17g", ",")
    shutil.copy(path, tmp_path / "p.npz")

    def run(*files):
        script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import tuning"
        command = [sys.executable, "-I", "-c", f"{script}; sys.exit(tuning.main(sys.argv[1:]))"]
        return subprocess.run([*command, *files], cwd=tmp_path, capture_output=True, text=True)

    done = run("p.npz", "train.npz", "held.csv")
    assert done.returncode == 0 and "; verified in " in done.stdout, done.stderr
    done = run("p.npz", "held.csv", "train.npz")
    assert done.returncode == 1 and "other rows" in done.stderr
    assert "usage" in run("p.npz", "train.npz").stderr
    assert cli.main(["verify", str(path), "--expect", "loss=weston_watkins"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Weston-Watkins SVM, tuned on 60 held-out rows of iris, 3 classes\n")
    assert "no C from 0.01 to 1 has fewer than" in out and "; verified in " in out
    assert cli.main(["verify", str(path), "--data", "iris"]) == 1
    assert "refused" in capsys.readouterr().out
