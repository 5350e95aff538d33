"""Write TRUST.md: what is promised, how it is attacked, what was tried and failed.

    python .site/trust.py [mutants] [coverage] [test_refused ...]

`make trust` runs all parts, in a quarter of an hour. Each part and each file of tests
keeps its numbers, with the commit, in runs/trust/. The page is made from the latest
ones, and says what has not been run.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HERE = ROOT / "tests"
KEPT = ROOT / "runs" / "trust"
PROMISES = {  # how each is attacked, and where
    "A certified interval contains the optimum, rounding included.": (
        "Optima in exact arithmetic, of cvxpy, HiGHS, scikit-learn; rows of 1e±8, "
        "offsets of 1e4, weights of 1e12, forged and oddly spelled proofs in two "
        "checkers, random problems.",
        "test_proofs_checker test_proofs test_proofs_peers test_certify test_solvers "
        "test_mrc test_memoir_bounds fuzz/test_certificates_fuzz",
    ),
    "An interrupted run resumes and ends as if never interrupted.": (
        "Ctrl-C at every statement of a round, errors within a round, workers and "
        "commands killed, copied states, damaged files.",
        "test_interrupts test_state test_midrun test_sweep test_engine "
        "test_determinism test_own_solver",
    ),
    "A wrong input ends in an error that names it; no file runs code.": (
        "Parameters outside their range, rows and labels of any kind, files of random "
        "bytes, pickles, archives that grow, texts of any words.",
        "test_refused test_data_formats test_supply_chain fuzz/test_problem_fuzz "
        "fuzz/test_solvers_fuzz fuzz/test_texts_fuzz fuzz/test_found",
    ),
}
MENDED = {  # what a promise did not hold for, and the test that holds it now
    "A run that was resumed as its docstring said warmed up with the given state and "
    "could certify falsely, and solvers took states of other problems.": (
        "solvers/test_state.py::test_a_lambda_that_resumes_certifies_truly"
    ),
    "The interval of `cuts_nystroem` holds the optimum in the span of its landmarks, "
    "but was named `lower` and `upper` as if it held the problem's; it is now "
    "`span_lower`, `span_upper`.": (
        "sampled_cuts/test_sampled_cuts.py::test_bounds_of_a_span_are_not_named_as_those_of_the_problem"
    ),
    "The two checkers of proofs did not refuse the same files: bytes behind the end "
    "record, zip64 records, integers of 4,301 digits, deep nesting, weights near "
    "1e308; now FORMAT.md decides.": (
        "proofs/test_proofs_checker.py::test_the_written_format_decides_about_odd_files"
    ),
    "Lambda of the minimax risk was a cancelled difference if a feature is constant "
    "in the heavy rows of a class and the weights of rows have a ratio such as 1e16.": (
        "mrc/test_mrc.py::test_lambda_is_by_the_definition_also_with_weights"
    ),
}


class Count:
    """The pytest plugin that counts tests and what they tried, and lists failures."""

    def __init__(self):
        self.tried = Counter()
        self.failed = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.failed:
            self.failed.append(item.nodeid)
        if report.when == "call":
            self.tried.update(
                dict(report.user_properties), tests=1, skipped=int(report.skipped)
            )
        if report.when == "teardown":
            statistics = getattr(item, "hypothesis_statistics", "") or ""
            passing = map(int, re.findall(r"(\d+) passing", statistics))
            self.tried["random inputs"] += sum(passing)
        return report


def tests(name: str) -> dict:
    """Run a file of tests; every end but passed tests is a failure."""
    options = "-p no:cacheprovider -p no:xdist --hypothesis-show-statistics".split()
    count = Count()
    path = next(HERE.rglob(f"{name}.py"))
    os.environ["WORKBENCH_EVERY"] = "1"  # Ctrl-C at every statement
    code = pytest.main([*options, str(path)], plugins=[count])
    return {"tried": count.tried, "failed": count.failed or ended(f"{name}.py", code)}


def ended(what: str, code: int) -> list[str]:
    """Return what failed, empty for the exit status 0."""
    return [f"{what} (exit status {int(code)})"] if code else []


def mutants() -> dict:
    """Try the mutants of the kernels; survivors that are not listed are failures."""
    text, code = command(HERE / "mutation" / "run.py", "-j", "1")
    heading = r"(?m)^(\w+): (\d+) of (\d+) mutants killed, (\d+) survive$"
    parts = re.split(heading, text)[1:]
    kernels = zip(*(parts[i::5] for i in range(5)), strict=True)
    said = []
    failed = []
    for name, killed, total, left, more in kernels:
        unlisted = re.findall(r"(?m)^  ([\w.]+:\d+  .+)$", more)
        failed += [f"mutant of {name}: {mutant}" for mutant in unlisted]
        said.append([name, killed, total, int(left) - len(unlisted)])
    return {"said": said, "failed": failed or ended("mutation/run.py", code)}


def coverage() -> dict:
    """Count lines and branches of the kernels and of the checker.

    Compiled lines are not counted, so the kernels' tests run without compilation. Only
    compilation itself runs the generators of machine code, so some tests run with an
    empty cache, too.
    """
    (KEPT / ".coverage").unlink(missing_ok=True)  # of an earlier run
    plain = "-m", "pytest", "--cov", "--cov-branch", "--cov-append", "--cov-report="
    kernels, proofs = HERE / "kernels", HERE / "proofs"
    compiling = [kernels / "test_rows.py", kernels / "test_kernel_functions.py"]
    with tempfile.TemporaryDirectory() as empty:
        calls = [
            command(
                *plain,
                *kernels.glob("test_kernels_*.py"),
                *compiling,
                NUMBA_DISABLE_JIT="1",
            ),
            command(*plain, *compiling, NUMBA_CACHE_DIR=empty),
            command(
                *plain, proofs / "test_proofs_checker.py", proofs / "test_proofs.py"
            ),
            command("-m", "coverage", "json", "-o", KEPT / "lines"),
        ]
    files = json.loads((KEPT / "lines").read_text())["files"]
    names = "covered_lines", "num_statements", "covered_branches", "num_branches"
    chosen = sorted(f for f in files if "/kernels/" in f or f.endswith("checker.py"))
    failed = [what for _, code in calls for what in ended("coverage", code)]
    return {
        "files": {f: [files[f]["summary"][n] for n in names] for f in chosen},
        "failed": failed,
    }


def command(*words, **more: str) -> tuple[str, int]:
    """Run Python in the checkout; return what it prints, and its exit status."""
    env = os.environ | {"COVERAGE_FILE": str(KEPT / ".coverage")} | more
    call = [sys.executable, *map(str, words)]
    done = subprocess.run(call, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    return done.stdout, done.returncode


def page() -> str:
    """Return the page of the numbers that are kept."""
    kept = {file.stem: json.loads(file.read_text()) for file in KEPT.glob("*.json")}
    commits = ", ".join(sorted({found["commit"] for found in kept.values()}))
    lines = [
        f"# How the promises are tested\n\nWritten by `make trust`, at {commits}.\n"
    ]
    lines += ["| promised | attacked with | tried | violations |\n|---|---|---|---|"]
    failed = [what for part in PARTS for what in kept.get(part, {}).get("failed", [])]
    for promise, (how, names) in PROMISES.items():
        own = {name: kept.get(Path(name).stem) for name in names.split()}
        total = sum(
            (Counter(found["tried"]) for found in own.values() if found), Counter()
        )
        tried = ", ".join(f"{n:,} {what}" for what, n in total.items())
        if left := ", ".join(name for name, found in own.items() if not found):
            tried += f" (not run yet: {left})"
        bad = [node for found in own.values() if found for node in found["failed"]]
        failed += bad
        lines.append(f"| {promise} | {how} | {tried} | {len(bad)} |")
    lines += [
        "\n**Violations**: "
        + (", ".join(f"`{node}`" for node in failed) or "0")
        + ".\n"
    ]
    lines += ["**Found and mended** before, each held by a test:\n"]
    lines += [f"- {what} `{test}`" for what, test in MENDED.items()] + [""]
    lines += [
        "| kernels of | mutants | killed | survive, with reasons |\n|---|---|---|---|"
    ]
    for name, killed, total, left in kept.get("mutants", {}).get("said", []):
        lines.append(
            f"| {name} | {total} | {killed} | [{left}](tests/mutation/survivors.toml) |"
        )
    lines += ["\n| file | lines covered by its own tests | branches |\n|---|---|---|"]
    for file, (hit, of, taken, branches) in (
        kept.get("coverage", {}).get("files", {}).items()
    ):
        lines.append(f"| `{file}` | {hit} of {of} | {taken} of {branches} |")
    lines += [f"\nNot run yet: {part}." for part in PARTS if part not in kept]
    return "\n".join(lines) + "\n"


PARTS = {"mutants": mutants, "coverage": coverage}
if __name__ == "__main__":
    KEPT.mkdir(parents=True, exist_ok=True)
    head = ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]
    commit = {"commit": subprocess.check_output(head, text=True).strip()}
    files = " ".join(names for _, names in PROMISES.values()).split()
    for name in sys.argv[1:] or [*PARTS, *files]:
        found = PARTS[name]() if name in PARTS else tests(name)
        (KEPT / f"{Path(name).stem}.json").write_text(json.dumps(found | commit))
    (ROOT / "TRUST.md").write_text(page(), encoding="utf-8")
