"""Packaging: one list of dependencies, its exports in step with it, and an install that
works."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from helpers import imported, module_fixture, slow
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import workbench

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())

RUNTIME = [Requirement(line) for line in PROJECT["dependencies"]]
OPTIONAL = PROJECT["optional-dependencies"]
PEERS = [*map(Requirement, OPTIONAL["vw"])]  # not locked: no wheels for every Python
EXTRAS = [
    Requirement(x) for extra, lines in OPTIONAL.items() if extra != "vw" for x in lines
]
BUILD = [Requirement(line) for line in PYPROJECT["build-system"]["requires"]]


def pins(path):
    """The `name==version ; marker` lines of an exported file, without hashes and
    comments."""
    lines = (ROOT / path).read_text().splitlines()
    return [line.removesuffix(" \\") for line in lines if re.match(r"[a-z0-9]", line)]


def versions(lines):
    """Name -> the one version it is pinned to."""
    found = {}
    for requirement in map(Requirement, lines):
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{requirement} is not a pin"
        name = canonicalize_name(requirement.name)
        assert name not in found, f"{name} is pinned twice"
        found[name] = specifier.version
    return found


LOCK = versions(pins("requirements.lock"))


def pip_part():
    return ENVIRONMENT["dependencies"][-1]["pip"]


def test_the_lock_satisfies_pyproject_and_has_hashes():
    for requirement in RUNTIME + EXTRAS + BUILD:
        locked = LOCK.get(canonicalize_name(requirement.name), "0")
        assert locked in requirement.specifier, f"{requirement.name}: run `make lock`"
    blocks = re.split(r"\n(?=[a-z0-9])", (ROOT / "requirements.lock").read_text())
    unhashed = [b.split()[0] for b in blocks if "==" in b and "--hash=sha256:" not in b]
    assert len(blocks) > len(RUNTIME) and not unhashed
    # pip takes no extras in constraints, but in a lock with hashes it needs them.
    locked = [re.sub(r"\[[a-z-]+\]", "", pin) for pin in pins("requirements.lock")]
    assert pins("constraints.txt") == locked


def test_the_environment_pins_the_dependencies_as_the_lock():
    conda = [line for line in ENVIRONMENT["dependencies"] if isinstance(line, str)]
    (python,) = [Requirement(line) for line in conda if line.startswith("python")]
    given = {"pip", "python"}  # conda's own, not the package's
    conda = [line for line in conda if re.match(r"[\w-]+", line)[0] not in given]
    *packages, editable = pip_part()
    assert editable == "-e ."
    assert versions(conda + packages) == {r.name: LOCK[r.name] for r in RUNTIME}
    classifiers = " ".join(PROJECT["classifiers"])
    supported = {*re.findall(r"Python :: (3\.\d+)", classifiers)}
    allowed = {f"3.{minor}" for minor in range(30) if f"3.{minor}" in python.specifier}
    assert allowed == supported == {"3.11", "3.12", "3.13"}
    assert "3.11" in Requirement(f"python{PROJECT['requires-python']}").specifier
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert workbench.__version__ == PROJECT["version"] == citation["version"]


def test_the_package_imports_only_what_it_declares():
    declared = {canonicalize_name(r.name) for r in RUNTIME + EXTRAS + PEERS}
    declared -= {r.name for r in map(Requirement, OPTIONAL["dev"])}
    owners = importlib.metadata.packages_distributions()
    known = sys.stdlib_module_names | {"workbench", "checker"}
    undeclared = set()
    for path in (ROOT / "workbench").rglob("*.py"):
        for top in {name.partition(".")[0] for name in imported(path)} - known:
            if declared.isdisjoint(map(canonicalize_name, owners.get(top, [top]))):
                undeclared.add(f"{path.relative_to(ROOT)}: {top}")
    assert not undeclared


def test_no_machine_path_and_no_registry_host_is_committed():
    if not (shutil.which("git") and (ROOT / ".git").exists()):
        pytest.skip("this is no git checkout")
    listing = "git ls-files -z --cached --others --exclude-standard".split()
    names = subprocess.check_output(listing, cwd=ROOT, text=True)
    unwanted = re.compile(
        r"(?<![\w.~-])/(work|farm|root|home|Users)/|pypi\.org|pythonhosted\.org|anaconda\.org"
        r"|registry\.npmjs\.org|deb\.debian\.org|--(extra-)?index-url|--find-link[s]"
    )
    found = []
    for name in filter(None, names.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (raw := path.read_bytes()):
            for number, line in enumerate(raw.decode(errors="replace").splitlines(), 1):
                found += [
                    f"{name}:{number}: {match[0]}" for match in unwanted.finditer(line)
                ]
    assert not found


def test_the_public_workflow_calls_the_targets_of_our_own_ci():
    texts = [
        (ROOT / name).read_text() for name in (".ci/run", ".github/workflows/ci.yml")
    ]
    own, public = (
        {*re.findall(r"^ *(?:- run: )?make ([a-z-]+)", t, re.M)} for t in texts
    )
    assert own == public == {"lint", "test", "test-browser", "dist"}


IN_SDIST = """
Makefile requirements.lock CONTRIBUTING.md CHANGELOG.md THIRD_PARTY.md
tests/core/test_stream.py examples/frank_wolfe.py notebooks/00_start_here.ipynb
data/reference/README.md
"""


@module_fixture
def built(tmp_path_factory):
    """Return the wheel and the sdist, built as `make dist` does."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def test_wheel_and_sdist_hold_what_they_should_and_no_more(built):
    wheel = set(zipfile.ZipFile(built[0]).namelist())
    tops = {name.partition("/")[0] for name in wheel}
    assert tops == {"workbench", f"workbench_mc-{PROJECT['version']}.dist-info"}
    kinds = {Path(name).suffix for name in wheel if name.startswith("workbench/")}
    assert kinds == {*".py .typed .md .js .css .html .csv .mplstyle".split()}
    own = "py.typed live/chart.js figures/report/coverage.html".split()
    assert {f"workbench/{name}" for name in own} < wheel
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {*IN_SDIST.split()} <= names
    tops = {name.partition("/")[0] for name in names}
    assert not tops & {*".hypothesis .venv .git runs course docs figures dist".split()}


PROGRAM = """
import nmslib, workbench
from sklearn.datasets import load_iris
from workbench.estimators import WestonWatkinsClassifier
from workbench.live import explore

X, y = load_iris(return_X_y=True, as_frame=True)
X.assign(species=y.map({0: "a", 1: "b", 2: "c"})).to_csv("rows.csv", index=False)
assert WestonWatkinsClassifier().fit(X, y).score(X, y) > 0.9
assert explore(["ww_walrus"], "iris").sliders.widgets["C"].value
print(workbench.__version__)
"""


@slow
@pytest.mark.skipif(
    not os.environ.get("WORKBENCH_INSTALL_TEST"),
    reason="installs everything once more, two minutes: set WORKBENCH_INSTALL_TEST=1",
)
def test_wheel_and_sdist_work_outside_the_repository(built, tmp_path):
    """Also what `conda env create` runs: the pins of the lock stand for conda's
    packages."""
    wheel, sdist = built
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    here = tmp_path / "elsewhere"
    here.mkdir()
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "WORKBENCH"))
    }

    def run(*arguments, cwd=here, program=python):
        return subprocess.run(
            [program, *arguments],
            timeout=1200,
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
        )

    requirements = here / "requirements.txt"
    requirements.write_text("\n".join([*pip_part()[:-1], str(wheel)]))
    pip = ["-m", "pip", "install", "--retries=2", "-c", ROOT / "constraints.txt"]
    installed = run(*pip, "-r", requirements)
    if installed.returncode and (
        retried := re.search(r"Retrying \(.*", installed.stderr)
    ):
        pytest.skip(f"the package index cannot be reached: {retried[0]}")
    assert installed.returncode == 0, installed.stderr[-3000:]
    before = set(python.parents[1].rglob("site-packages/*"))

    tried = run("-c", PROGRAM)
    assert tried.stdout.strip() == PROJECT["version"], tried.stderr
    command = python.with_name("workbench")
    for words in (["list"], "run ww_walrus iris --rounds 5".split()):
        done = run(*words, program=command)
        assert done.returncode == 0 and done.stdout, (words, done.stderr)
    assert set(python.parents[1].rglob("site-packages/*")) == before

    # The sdist is a checkout: its tests run, here with the packages that are there
    # already.
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("workbench_mc-*")
    environment["PYTHONPATH"] = str(unpacked)
    tests = "-m pytest -n0 tests/core/test_stream.py tests/core/test_trace.py".split()
    passed = run(*tests, cwd=unpacked, program=sys.executable)
    assert passed.returncode == 0, passed.stdout + passed.stderr
