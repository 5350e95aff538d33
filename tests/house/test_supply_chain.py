"""Our dependencies and their licences, and that no source turns data into code.

``python tests/house/test_supply_chain.py`` writes THIRD_PARTY.md again.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import workbench

ROOT = Path(__file__).parents[2]
LIST = ROOT / "THIRD_PARTY.md"
PACKAGE = Path(workbench.__file__).parent.resolve()

# As published, of packages that only other systems or Pythons install, or whose wheel
# names none.
GIVEN = dict.fromkeys(
    "aiosignal frozenlist importlib-metadata lazy-importer multidict nmslib propcache "
    "yarl".split(),
    "Apache-2.0",
)
GIVEN |= {
    "aiohappyeyeballs": "PSF-2.0",
    "aiohttp": "Apache-2.0 AND MIT",
    "appnope": "BSD-2-Clause",
    "colorama": "BSD-3-Clause",
    "overrides": "Apache License, Version 2.0",
    "pywinpty": "MIT",
    "zipp": "MIT",
}
# The beginnings of all names by which permissive licences go, and MPL-2.0, which asks
# for the source of its own files alone.
KINDS = r"(3-Clause )?BSD|0BSD|MIT|Apache|ISC|PSF|Python Software|MPL-2|Mozilla|Zlib"
KINDS += r"|CC0-1|LLVM"
LOCKED = """
## Locked

| package | version | licence |
|---|---|---|
"""
HEAD = LIST.read_text("utf-8").partition(LOCKED)[0]  # written by hand


def locked():
    """Yield name and version of every pin of the lock."""
    for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines():
        if found := re.match(r"([a-z0-9][\w.-]*)(?:\[[a-z-]*\])?==([^ ;\\]+)", line):
            yield found[1], found[2]


def licence(name):
    """Return a package's statement on its licence, in one line."""
    if name in GIVEN:
        return GIVEN[name]
    said = importlib.metadata.metadata(name)
    classifiers = "\n".join(said.get_all("Classifier") or [])
    classified = "; ".join(re.findall(r"^License .*:: (.*)$", classifiers, re.M))
    text = said.get("License") or ""
    short = text if len(text.splitlines()) == 1 and text != "UNKNOWN" else ""
    return said.get("License-Expression") or short or classified


def third_party():
    """Return THIRD_PARTY.md, its second part from what is installed and what is given
    above."""
    rows = [f"| {name} | {version} | {licence(name)} |\n" for name, version in locked()]
    return "".join([HEAD, LOCKED, *rows])


def test_every_locked_package_has_a_known_licence():
    own = [(name, pin) for name, pin in locked() if name not in GIVEN]
    try:
        other = [name for name, pin in own if importlib.metadata.version(name) != pin]
    except importlib.metadata.PackageNotFoundError as error:
        other = [error.name]
    if other:
        pytest.skip(f"the environment is not the locked one: {other}")
    assert LIST.read_text("utf-8") == third_party()
    unknown = {
        name: part
        for name, _ in locked()
        for part in re.split(r" AND | OR | WITH |; ", licence(name))
        if not re.match(KINDS, part)
    }
    assert not unknown


def test_what_is_not_locked_has_the_licence_of_its_files():
    """MRCpy was said to be MIT in a sentence that nothing compared with anything."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [x for extra in project["optional-dependencies"].values() for x in extra]
    peers = (ROOT / "benchmarks/peers.py").read_text("utf-8")
    wanted += re.findall(r'"([\w-]+)==', peers)
    browser = json.loads((ROOT / "tests/browser/package.json").read_text("utf-8"))
    for kind in browser:
        wanted += browser[kind] if kind.endswith("ependencies") else []
    names = {re.match(r"[\w-]+", each)[0].lower() for each in wanted}
    outside = dict(re.findall(r"^\| ([\w-]+) \| (.+?) \| .+ \|$", HEAD, re.MULTILINE))
    assert names - dict(locked()).keys() == outside.keys() - {"package"}
    benchmarks = (ROOT / "benchmarks/README.md").read_text("utf-8")
    assert f"| MRCpy 3.0.0, from the package index | {outside['mrcpy']} |" in benchmarks


def test_nothing_turns_data_into_code():
    """No exec, eval, pickle, shell or unsafe YAML, by Ruff's rules of security."""
    rules = "S102,S301,S302,S307,S506,S602,S605"
    command = "-m ruff check --isolated --ignore-noqa --output-format concise"
    command = [*command.split(), "--select"]
    done = subprocess.run(
        [sys.executable, *command, rules, "."],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^([\w/]+\.py):.* (S\d+) ", done.stdout, re.MULTILINE)
    assert not found and "All checks passed" in done.stdout, done.stdout + done.stderr


if __name__ == "__main__":
    LIST.write_text(third_party(), "utf-8")
