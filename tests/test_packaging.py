"""Packaging: one list of dependencies, its exports in step with it, and an install that works."""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import workbench

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())

RUNTIME = [Requirement(line) for line in PROJECT["dependencies"]]
UNLOCKED = {"vw"}  # a peer that has no wheels for every Python
EXTRAS = [
    Requirement(line)
    for extra, lines in PROJECT["optional-dependencies"].items()
    if extra not in UNLOCKED
    for line in lines
]
BUILD = [Requirement(line) for line in PYPROJECT["build-system"]["requires"]]


def pins(path):
    """The `name==version ; marker` lines of an exported file, without hashes and comments."""
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


def conda_part():
    return [line for line in ENVIRONMENT["dependencies"] if isinstance(line, str)]


def pip_part():
    (pip,) = [line["pip"] for line in ENVIRONMENT["dependencies"] if isinstance(line, dict)]
    return pip


@pytest.mark.parametrize("requirement", RUNTIME + EXTRAS + BUILD, ids=lambda r: r.name)
def test_lock_satisfies_pyproject(requirement):
    name = canonicalize_name(requirement.name)
    assert name in LOCK, f"{name} is not locked: run `make lock`"
    assert LOCK[name] in requirement.specifier, "the lock is out of date: run `make lock`"


def test_every_pin_of_the_lock_has_its_hashes():
    blocks = re.split(r"\n(?=[a-z0-9])", (ROOT / "requirements.lock").read_text())
    unhashed = [b.split()[0] for b in blocks if "==" in b and "--hash=sha256:" not in b]
    assert len(blocks) > len(RUNTIME) and not unhashed


def test_constraints_are_the_pins_of_the_lock():
    assert pins("constraints.txt") == pins("requirements.lock")


def test_environment_names_the_dependencies_and_pins_them_as_the_lock():
    given = {"pip", "python"}  # conda's own, not the package's
    conda = [line for line in conda_part() if re.match(r"[\w-]+", line)[0] not in given]
    *packages, editable = pip_part()
    assert editable == "-e ."
    assert versions(conda + packages) == {r.name: LOCK[r.name] for r in RUNTIME}


def test_environment_allows_the_supported_pythons_only():
    (python,) = [Requirement(line) for line in conda_part() if line.startswith("python")]
    named = [re.search(r"3\.\d+$", line) for line in PROJECT["classifiers"]]
    supported = {match[0] for match in named if match}
    allowed = {f"3.{minor}" for minor in range(30) if f"3.{minor}" in python.specifier}
    assert allowed == supported == {"3.11", "3.12", "3.13"}
    assert "3.11" in Requirement(f"python{PROJECT['requires-python']}").specifier


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert workbench.__version__ == PROJECT["version"] == citation["version"]


def test_the_package_imports_only_what_it_declares():
    dev = map(Requirement, PROJECT["optional-dependencies"]["dev"])
    declared = {r.name for r in RUNTIME + EXTRAS} - {r.name for r in dev}
    owners = importlib.metadata.packages_distributions()
    undeclared = set()
    for path in (ROOT / "workbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            else:
                continue
            tops = {module.partition(".")[0] for module in modules}
            for top in tops - sys.stdlib_module_names - {"workbench"}:
                if not declared & {canonicalize_name(name) for name in owners.get(top, [top])}:
                    undeclared.add(f"{path.relative_to(ROOT)}: {top}")
    assert not undeclared


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")
def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)[1].split())
    assert targets >= {"help", "figures", "lab", "test", "lint", "data", "lock", "peers", "clean"}
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  ([a-z-]+) +\S", printed.stdout, re.MULTILINE)
    assert set(listed) == targets


def test_no_machine_path_and_no_registry_host_is_committed():
    if not (shutil.which("git") and (ROOT / ".git").exists()):
        pytest.skip("this is no git checkout")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    unwanted = re.compile(
        r"(?<![\w.~-])/(work|farm|root|home|Users)/|pypi\.org|pythonhosted\.org|anaconda\.org"
        r"|registry\.npmjs\.org|deb\.debian\.org|--(extra-)?index-url|--find-link[s]"
    )
    found = []
    for name in filter(None, names.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (raw := path.read_bytes()):
            for number, line in enumerate(raw.decode(errors="replace").splitlines(), 1):
                found += [f"{name}:{number}: {match[0]}" for match in unwanted.finditer(line)]
    assert not found


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("WORKBENCH_INSTALL_TEST"),
    reason="installs everything once more, two minutes: set WORKBENCH_INSTALL_TEST=1",
)
def test_pip_part_of_environment_installs_in_a_fresh_environment(tmp_path):
    """As `conda env create` runs it, but with the locked pins in place of conda's packages."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"

    def run(*args, cwd=ROOT, timeout=1200):
        return subprocess.run(
            [python, *args], cwd=cwd, capture_output=True, text=True, timeout=timeout
        )

    requirements = tmp_path / "requirements.txt"
    requirements.write_text("\n".join(pip_part()))
    pip = ["-m", "pip", "install", "--retries=2", "-c", "constraints.txt"]
    installed = run(*pip, "-r", requirements)
    if installed.returncode and (retried := re.search(r"Retrying \(.*", installed.stderr)):
        pytest.skip(f"the package index cannot be reached: {retried[0]}")
    assert installed.returncode == 0, installed.stderr[-3000:]

    # Away from the checkout, so that it is the install that is imported.
    code = "import workbench, nmslib; print(workbench.__version__)"
    imported = run("-c", code, cwd=tmp_path)
    assert imported.stdout.strip() == PROJECT["version"], imported.stderr
    helped = subprocess.run([python.with_name("workbench"), "--help"], capture_output=True)
    assert helped.returncode == 0, helped.stderr
