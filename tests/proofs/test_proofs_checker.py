"""The checker of proofs: exact cases, attacks, what it may import, and its use as a
script."""

import json
import math
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.inputs import doubled
from helpers import attack_proofs, each, imported, odd_proofs, refuses
from helpers.exact import solve

from workbench import load, rounds, run
from workbench.cli import main
from workbench.data.specs import remade
from workbench.proofs import checker
from workbench.runs.notebooks import CHECKOUT

SOURCE = Path(checker.__file__)


def svm(n=40):
    """Return rows, labels and a proof without W of a Weston-Watkins SVM of three
    classes."""
    y = np.arange(n) % 3
    X = np.random.default_rng(0).normal(2 * np.eye(3, 4)[y])
    header = {"format": 1, "family": "linear", "loss": "weston_watkins", "over": "sum"}
    header |= {"C": 0.5, "alpha": 1, "outputs": 3, "checksum": checker.checksum(X, y)}
    _, _, _, B = solve(header, X, y)
    return X, y, header, attack_proofs.sparse_arrays(B)


def test_the_written_format_has_every_name_and_constant():
    text = " ".join(SOURCE.with_name("FORMAT.md").read_text("utf-8").split())
    for name in (*checker.ACCEPTED, *checker.ARRAYS, *checker.LOSSES):
        assert f"`{name}`" in text or f"| {name} |" in text or f'"{name}"' in text, name
    bits = (
        f"TINY = 2^{np.log2(checker.TINY):.0f}",
        f"2^{np.log2(checker.NORM_FLOOR):.0f}",
    )
    assert all(part in text for part in (*bits, f"B = {checker.BLOCK}", "256 MiB"))


def run_node(*command):
    """Return the lines that Node.js prints."""
    node = shutil.which("node") or pytest.skip("the second checker needs Node.js")
    return subprocess.run(
        [node, *command], capture_output=True, text=True, check=True
    ).stdout


def assert_second_checker_agrees(judged, folder, within=2e-12, options=()):
    """Give (file, X, y, verdict or None) to the JavaScript checker, made from FORMAT.md
    alone."""
    files = []
    for number, (blob, X, y, _) in enumerate(judged):
        files += [folder / str(number), folder / f"{checker.checksum(X, y)}.npz"]
        files[-2].write_bytes(blob)
        names = ("data", "indices", "indptr", "shape") if sp.issparse(X) else ()
        np.savez(
            files[-1], y=y, **({name: getattr(X, name) for name in names} or {"X": X})
        )
    answers = run_node(*options, SOURCE.with_suffix(".js"), *files).strip().split("\n")
    for (blob, _, _, first), answer in zip(judged, answers, strict=True):
        second = json.loads(answer)
        assert (first is None) == ("refused" in second), (blob, first, second)
        if first:
            assert [second["lower"], second["upper"]] == pytest.approx(
                first[:2], within, 1e-270
            )


def test_bounds_against_exact_arithmetic(tmp_path, monkeypatch, record_property, rng):
    judged = []
    verify = checker.verify

    def recorded(proof, X, y):
        verdict = verify(proof, X, y)
        judged.append((attack_proofs.npz(proof.header, proof.arrays), X, y, verdict))
        return verdict

    monkeypatch.setattr(checker, "verify", recorded)
    counts = Counter(attack_proofs.check_case(rng) for _ in range(300))
    record_property("optima in exact arithmetic", counts.total())
    assert counts["close"] > 250  # an interval of any width would hold the optimum
    # its losses are far smaller than a unit of the scores
    X, y = 50 * np.eye(3), np.arange(3)
    header = svm()[2] | {
        "loss": "softmax",
        "alpha": 1e-30,
        "checksum": checker.checksum(X, y),
    }
    recorded(checker.Proof(header, {"W": np.eye(3)}), X, y)
    assert_second_checker_agrees(judged, tmp_path)


def test_damaged_and_forged_proofs(tmp_path, record_property):
    attack = attack_proofs.Attack(0, tmp_path)
    counts = Counter(attack.one() for _ in range(2000))
    record_property("damaged or forged proofs", counts.total())
    assert counts["refused"] > 1000
    assert counts["true interval"] > 300
    assert counts["another problem"] > 20
    assert_second_checker_agrees(attack.judged, tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_written_format_decides_about_odd_files(tmp_path, record_property):
    X, y, header, arrays = svm()
    arrays = {"W": solve(header, X, y)[1]} | arrays
    judged = []
    for what, blob, accepted in odd_proofs.odd_files(header, arrays):
        (tmp_path / "odd").write_bytes(blob)
        try:
            verdict = checker.verify(tmp_path / "odd", X, y)
        except checker.ProofError:
            verdict = None
        assert accepted == (verdict is not None), what
        judged.append((blob, X, y, verdict))
    record_property("odd spellings of a proof", len(judged))
    assert_second_checker_agrees(judged, tmp_path)


def test_a_lower_bound_above_the_upper_one_is_refused(tmp_path, monkeypatch):
    X, y, header, _ = svm()
    header["loss"] = "softmax"
    arrays = {"W": solve(header, X, y)[1]}
    proof = checker.Proof(header, arrays)
    upper = checker.verify(proof, X, y).upper
    found = [Fraction(upper), Fraction(math.nextafter(upper, math.inf))]
    dual = lambda self: (found.pop(0), self.W)  # noqa: E731
    monkeypatch.setattr(checker.RegularisedRisk, "dual", dual)
    assert checker.verify(proof, X, y).gap == 0
    with refuses("its bounds contradict each other", checker.ProofError):
        checker.verify(proof, X, y)
    # On a machine with a wrong logarithm, the second checker says so, too.
    wrong = tmp_path / "wrong.js"
    wrong.write_text("Math.log1p = () => 0;")
    judged = [(attack_proofs.npz(header, arrays), X, y, None)]
    assert_second_checker_agrees(judged, tmp_path, options=("--require", wrong))


SMALLEST = {}  # the smallest proof of each kind that figures carry
for path in sorted(
    CHECKOUT.glob("figures/**/*.npz"), key=lambda path: -path.stat().st_size
):
    header = checker.read(path).header
    SMALLEST[f"{header.get('loss', 'mrc')}, {header['outputs']} outputs"] = path


@each("path", SMALLEST.values(), ids=SMALLEST)
def test_both_checkers_verify_the_proofs_of_figures(path, tmp_path):
    proof = checker.read(path)
    try:
        problem = remade(proof.header["recipe"])
    except FileNotFoundError as error:
        pytest.skip(f"{path.parent.name}/{path.name}: {error}")
    if checker.checksum(problem.X, problem.y) != proof.header["checksum"]:
        pytest.skip("the last digits of these features depend on the processor")
    verdict = checker.verify(proof, problem.X, problem.y)
    assert 0 < verdict.lower <= verdict.upper
    # Each bounds the rounding of 14,000 rows in its own way.
    judged = [(path.read_bytes(), problem.X, problem.y, verdict)]
    assert_second_checker_agrees(judged, tmp_path, within=1e-8)


@each("language", ["Python", "JavaScript"])
def test_functions_are_right_to_32_units(language):
    points = {
        "exp": -np.geomspace(1e-12, 700, 400),
        "log": np.r_[
            np.geomspace(1e-300, 1e10, 400), 1 + np.linspace(-1e-3, 1e-3, 101)
        ],
        "log1p": np.r_[
            np.geomspace(1e-300, 1e4, 400), -np.linspace(1e-9, 1 - 1e-9, 101)
        ],
    }
    digits = Context(prec=400)
    for name, at in points.items():
        found = getattr(np, name)(at)
        if language == "JavaScript":
            found = json.loads(
                run_node("-p", f"JSON.stringify({at.tolist()}.map(Math.{name}))")
            )
        for x, value in zip(at.tolist(), found):
            x = Decimal(x) if name != "log1p" else digits.add(Decimal(x), 1)
            true = Fraction(digits.exp(x) if name == "exp" else digits.ln(x))
            assert abs(Fraction(value) - true) <= 32 * Fraction(np.spacing(abs(value)))


def test_imports_are_numpy_scipy_and_the_standard_library():
    names = {name.split(".")[0] for name in imported(SOURCE)}
    assert names - set(sys.stdlib_module_names) == {"numpy", "scipy"}


def test_as_a_script_without_the_package(tmp_path):
    X, y, header, arrays = svm()
    shutil.copy(SOURCE, tmp_path / "alone.py")
    (tmp_path / "good.npz").write_bytes(attack_proofs.npz(header, arrays))
    (tmp_path / "bad.npz").write_bytes(
        attack_proofs.npz(header | {"format": 2}, arrays)
    )
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y]), "%.17g", ",")

    def run(proof, rows):
        command = [sys.executable, "-I", "alone.py", proof, rows]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    for rows in ("rows.npz", "rows.csv"):
        done = run("good.npz", rows)
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        assert first == f"Weston-Watkins SVM, C=0.5; {rows}, 40 x 4, 3 classes"
        assert second.startswith("  optimum in [") and "; verified in 0." in second
    done = run("bad.npz", "rows.npz")
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == "refused: bad.npz: format: must be 1, got 2\n"
    assert run("good.npz", "missing.npz").returncode == 1


def test_the_command_writes_the_rows_that_the_page_asks_for(tmp_path, capsys):
    proof, rows = tmp_path / "a.npz", tmp_path / "rows.npz"
    run("ww_walrus", load("iris | 30 % test"), rounds(30), proof=proof)
    assert main(["verify", str(proof), "--rows", str(rows)]) == 0
    said = capsys.readouterr().out
    answer = run_node(SOURCE.with_suffix(".js"), proof, rows)
    bounds = re.search(r"optimum in \[(.+), (.+)\]", said).groups()
    assert json.loads(answer)["lower"] == pytest.approx(float(bounds[0]), rel=1e-3)
    assert main(["verify", str(proof), str(proof), "--rows", str(rows)]) == 2
    assert "--rows: must come with one proof" in capsys.readouterr().err


def test_huge_files_and_claims_are_refused_at_once(tmp_path):
    X, y, header, arrays = svm()
    path = tmp_path / "p"
    with open(path, "wb") as file:
        file.truncate(2**33)
    with refuses("8589934592 bytes, more than any proof", checker.ProofError):
        checker.read(path)
    np.savez_compressed(tmp_path / "small.npz", header=np.zeros(9, np.uint8), **arrays)
    with refuses("is compressed", checker.ProofError):
        checker.read(tmp_path / "small.npz")
    blob = attack_proofs.npz(header, arrays)
    for claim in (b"9" * 19, b"9" * 18, b"4294967296"):
        found = blob.find(b"'shape': (", blob.find(b"values.npy"))
        path.write_bytes(blob[: found + 10] + claim + blob[found + 10 + len(claim) :])
        tracemalloc.start()
        with pytest.raises(checker.ProofError):
            checker.verify(path, X, y)
        assert tracemalloc.get_traced_memory()[1] < 2**22
        tracemalloc.stop()


def test_memory_is_that_of_blocks(rng):
    n = 5000
    X = rng.normal(size=(n, 3))
    y = np.arange(n) % 2
    header = svm()[2] | {
        "family": "kernel",
        "loss": "hinge",
        "over": "mean",
        "outputs": 1,
    }
    header |= {
        "kernel": {"name": "rbf", "gamma": 0.1},
        "checksum": checker.checksum(X, y),
    }
    proof = checker.Proof(header, attack_proofs.sparse_arrays(np.full((n, 1), 0.5)))
    tracemalloc.start()
    checker.verify(proof, X, y)
    assert tracemalloc.get_traced_memory()[1] < 8 * n * n / 4
    tracemalloc.stop()


def test_bounds_of_many_blocks():
    """Rows in several blocks, the last of them not full, give the bounds of a solve."""
    X, y, header, arrays = svm(n=2500)
    optimum = solve(header, X, y)[0]
    verdict = checker.verify(checker.Proof(header, arrays), X, y)
    assert verdict.lower <= optimum * (1 + 1e-8)
    assert optimum * (1 - 1e-8) <= verdict.upper
    assert 0 < verdict.gap < 1e-6


def test_checksum_is_of_the_rows_whatever_their_layout():
    X = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, 5.0]])
    y = np.array([0, 1, 1])
    digest = checker.checksum
    assert digest(X, y) == digest(np.asfortranarray(X), y.astype(np.int8))
    swapped = sp.csr_matrix(X)
    swapped.data[1:3] = swapped.data[2:0:-1].copy()
    swapped.indices[1:3] = 1, 0
    assert digest(swapped, y) == digest(doubled(X), y)
    rows = X, X + 1, X.astype(np.float32), swapped, X[:, ::-1]
    assert len({digest(X, y[::-1]), *(digest(other, y) for other in rows)}) == 6
    swapped.indices[1] = 10**6  # which leads out of memory
    with pytest.raises(ValueError):
        digest(swapped, y)


@each(
    "lower, upper, text",
    [
        (391.0470054, 391.0470286, "[391.047005, 391.047029]"),
        (0.0, 12.3, "[0, 13]"),
        (0.1, 0.1, "[0.10000000000000000, 0.10000000000000001]"),
        (1.25e-9, 1.26e-9, "[1.2500E-9, 1.2600E-9]"),
        (3e20, 4e20, "[3.0000000000000000E+20, 4.0000000000000000E+20]"),
    ],
)
def test_printed_interval_is_rounded_outwards(lower, upper, text):
    assert checker.digits(lower, upper) == text
    low, high = text.strip("[]").split(", ")
    assert Fraction(low) <= Fraction(lower) and Fraction(upper) <= Fraction(high)


@each(
    "changes, message",
    [
        ({"loss": "huber"}, "loss: must be hinge, .*, got 'huber'"),
        ({"C": [1, 2]}, "C: 2 costs, but the rows have 3 classes"),
        ({"alpha": 0.0}, "alpha, l1: one of them must be positive"),
        ({"colour": "red"}, "there is no field 'colour'"),
        (
            {"loss": "softmax"},
            "columns, ends, rows, values: not accepted in a proof of this problem",
        ),
    ],
)
def test_messages(changes, message):
    X, y, header, arrays = svm()
    with refuses(message, checker.ProofError):
        checker.verify(checker.Proof(header | changes, arrays), X, y)
