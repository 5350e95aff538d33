"""Our dependencies and their licences, and that no file that is read can run code.

``python tests/test_supply_chain.py`` writes THIRD_PARTY.md again.
"""

import ast
import importlib.metadata
import json
import pickle
import re
import tomllib
from pathlib import Path

import nbformat
import numpy as np
import pytest

import workbench
from workbench.core.trace import read_trace
from workbench.data import load
from workbench.runs.grid import read_points
from workbench.runs.notebooks import read

ROOT = Path(__file__).parents[1]
LIST = ROOT / "THIRD_PARTY.md"
PACKAGE = Path(workbench.__file__).parent.resolve()

# As published, of packages that only other systems or Pythons install, or whose wheel names none.
GIVEN = {
    "aiohappyeyeballs": "PSF-2.0",
    "aiohttp": "Apache-2.0 AND MIT",
    "aiosignal": "Apache-2.0",
    "appnope": "BSD-2-Clause",
    "colorama": "BSD-3-Clause",
    "frozenlist": "Apache-2.0",
    "multidict": "Apache-2.0",
    "nmslib": "Apache-2.0",
    "propcache": "Apache-2.0",
    "pywinpty": "MIT",
    "skops": "MIT",
    "yarl": "Apache-2.0",
}
# Name -> licence and the file that states it, of what is installed only by those who ask for it.
OUTSIDE = {
    "gurobipy": ("proprietary, with a licence for small problems", "LICENSE.txt of 13.0.3"),
    "liblinear-multicore": ("BSD-3-Clause", "LICENSE of 2.50.0"),
    "libsvm-official": ("BSD-3-Clause", "metadata of 3.37.0"),
    "lightgbm": ("MIT", "metadata of 4.7.0"),
    "mrcpy": (
        "GPL-3.0-or-later",
        "COPYING.md of 3.0.0; its metadata names none",
    ),
    "napkinxc": ("MIT", "metadata of 0.7.2"),
    "omikuji": ("MIT", "metadata of 0.5.2"),
    "playwright-core": ("Apache-2.0", "`tests/browser/package-lock.json`, which locks it"),
    "scikit-learn-intelex": ("Apache-2.0", "metadata of 2026.2.0"),
    "snapml": ("proprietary", "metadata of 1.17.2"),
    "vowpalwabbit": ("BSD-3-Clause", "metadata of 9.11.9"),
    "xgboost-cpu": ("Apache-2.0", "metadata of 3.2.0"),
}
# The beginnings of all names by which permissive licences go, and MPL-2.0, which asks for the
# source of its own files alone.
KINDS = r"(3-Clause )?BSD|0BSD|MIT|Apache|ISC|PSF|Python Software|MPL-2|Mozilla|Zlib|CC0-1|LLVM"
# Words of a licence's name -> words of its text.
TEXTS = {
    "MIT": r"Permission is hereby granted, free of charge|MIT License",
    "BSD": "Redistribution and use in source and binary forms",
    "Apache": "Apache License",
    "ISC": "Permission to use, copy, modify, and(/or)? distribute this software for any purpose",
    "PSF|Python Software": "This License Agreement is between|Python Software Foundation",
    "MPL|Mozilla": "Mozilla Public License",
}
# Packages that bring only one of their two licences as a file.
WITHOUT_TEXT = {("prometheus-client", "BSD-2-Clause")}
HEAD = """\
# Third-party licences

All packages that `requirements.lock` installs, with hashes, for use and for development, on any
system. None of their code is copied into this repository or its wheels. `python
tests/test_supply_chain.py` writes this file from the packages' metadata; a test compares it with
the lock, and each licence with the text that its package brings.

Wheels of NumPy, SciPy and scikit-learn contain GCC's runtime libraries (GPL-3.0-or-later with the
GCC runtime exception). The licence file of nmslib also names LSHKIT (GPL), which its Python wheel
does not contain.

## Not locked

Installed only by those who ask for it: peers of `benchmarks/` in environments of their own, extras
of `pyproject.toml`, and the driver of the tests in a browser. Nothing here is imported by the
package unless it is installed.

| package | licence | stated by |
|---|---|---|
"""
LOCKED = """
## Locked

| package | version | licence |
|---|---|---|
"""


def locked():
    """Yield name and version of every pin of the lock."""
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"([a-z0-9][\w.-]*)(?:\[[a-z-]*\])?==([^ ;\\]+)", line):
            yield found[1], found[2]


def licence(name):
    """Return a package's statement on its licence, in one line."""
    if name in GIVEN:
        return GIVEN[name]
    said = importlib.metadata.metadata(name)
    classified = [c for c in said.get_all("Classifier") or [] if c.startswith("License ::")]
    classified = "; ".join(c.rpartition(" :: ")[2] for c in classified)
    text = said.get("License") or ""
    short = text if len(text.splitlines()) == 1 and text != "UNKNOWN" else ""
    return said.get("License-Expression") or short or classified


def listed(part="Locked"):
    """Return name -> the two other columns of a table of THIRD_PARTY.md."""
    text = LIST.read_text("utf-8").partition(f"## {part}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w.-]+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    return {name: tuple(rest) for name, *rest in rows if name != "package"}


def alternatives(statement):
    """Return the licences that a statement names."""
    return re.split(r" AND | OR | WITH |; ", statement)


def test_every_locked_package_is_listed_with_its_licence():
    assert {name: version for name, (version, _) in listed().items()} == dict(locked())


def test_every_licence_is_of_a_kind_that_we_know():
    unknown = {
        name: statement
        for name, (_, statement) in listed().items()
        for part in alternatives(statement)
        if not re.match(KINDS, part)
    }
    assert not unknown


def test_licences_are_those_of_the_metadata_and_of_the_texts_that_packages_bring():
    for name, (_, statement) in listed().items():
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:  # only other systems need it
            assert statement == GIVEN[name]
            continue
        assert statement == licence(name)
        own = [f for f in files if re.search(r"\.dist-info/.*(LICEN|COPYING)", str(f), re.I)]
        text = " ".join(re.sub(r"[\s*#]+", " ", f.read_text(encoding="utf-8")) for f in own)
        for part in alternatives(statement):
            wanted = next((t for words, t in TEXTS.items() if re.search(words, part)), "")
            found = not text or re.search(wanted, text, re.IGNORECASE)
            assert found or (name, part) in WITHOUT_TEXT, f"{name}: no text of {part}"


def test_what_is_not_locked_is_listed_with_the_licence_of_its_own_files():
    """MRCpy was said to be MIT in a sentence that nothing compared with anything."""
    assert listed("Not locked") == OUTSIDE
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [each for extra in project["optional-dependencies"].values() for each in extra]
    wanted += re.findall(r'"([\w-]+)==', (ROOT / "benchmarks/peers.py").read_text("utf-8"))
    browser = json.loads((ROOT / "tests/browser/package.json").read_text("utf-8"))
    wanted += [name for kind in browser if kind.endswith("ependencies") for name in browser[kind]]
    names = {re.match(r"[\w-]+", each)[0].lower() for each in wanted}
    assert names - dict(locked()).keys() == OUTSIDE.keys()
    benchmarks = (ROOT / "benchmarks/README.md").read_text("utf-8")
    assert f"| MRCpy 3.0.0, from the package index | {OUTSIDE['mrcpy'][0]} |" in benchmarks


# Names whose use can turn data into code, and where we use them all the same.
FORBIDDEN = {
    *("eval", "exec", "compile", "__import__", "import_module", "allow_pickle", "shell"),
    *("pickle", "cloudpickle", "dill", "marshal", "shelve", "runpy", "read_pickle"),
    *("os.system", "os.popen", "unsafe_load", "full_load", "yaml.load", "joblib.load"),
    *("torch.load", "np.load"),
}
ALLOWED = {
    ("__init__.py", "import_module"): "of the names in a table, written there",
    ("peers/vowpal_wabbit.py", "import_module"): "one name, written there: an extra",
    ("memoir/mips/graphs.py", "import_module"): "one name, written there: its notice is silenced",
    ("runs/warm.py", "import_module"): "of the names in a table, written there",
    ("runs/grid.py", "yaml.load"): "with a loader derived from SafeLoader",
}


def suspicious(tree):
    """Yield the forbidden names that a module uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            yield from FORBIDDEN.intersection(part for name in names for part in name.split("."))
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            refused = any(ast.unparse(k) == "allow_pickle=False" for k in node.keywords)
            if called in FORBIDDEN and not (called == "np.load" and refused):
                yield called
            elif isinstance(node.func, ast.Attribute) and called != "re.compile":
                yield from FORBIDDEN & {node.func.attr}
            for keyword in node.keywords:
                if keyword.arg in FORBIDDEN and ast.unparse(keyword.value) != "False":
                    yield keyword.arg


def test_nothing_turns_data_into_code_but_where_it_says_why():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        place = path.relative_to(PACKAGE).as_posix()
        found |= {(place, name) for name in suspicious(tree)}
    assert found == ALLOWED.keys()


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import dill",
        "eval(text)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "frame = pd.read_pickle(path)",
        "yaml.load(text, Loader)",
        "os.system(line)",
        "subprocess.run(line, shell=True)",
        "importlib.import_module(name)",
    ],
)
def test_the_search_finds_what_it_looks_for(line):
    assert set(suspicious(ast.parse(line)))
    assert not set(suspicious(ast.parse("np.load(p, allow_pickle=False); re.compile(t)")))


class Bomb:
    """Fails the test when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("code was run",)


CALL = "__import__('pytest').fail('code was run')"


@pytest.mark.parametrize("reader", ["data", "trace", "grid", "notebook"])
def test_a_file_that_holds_code_is_refused_and_not_run(reader, tmp_path):
    archive = tmp_path / "rows.npz"
    np.savez(archive, **{"X": np.eye(2), "y": np.array([Bomb(), Bomb()]), "": np.array(Bomb())})
    trace, grid = tmp_path / "trace.jsonl", tmp_path / "grid.yaml"
    trace.write_bytes(pickle.dumps(Bomb()))
    grid.write_text("solvers: !!python/object/apply:pytest.fail ['code was run']\ndata: iris\n")
    cell = nbformat.v4.new_code_cell(f"n: int = {CALL}  # rows", metadata={"tags": ["parameters"]})
    notebook = tmp_path / "figure.ipynb"
    meta = {"workbench": {"figures": ["one"], "profiles": {}}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=meta), notebook)
    with pytest.raises((ValueError, json.JSONDecodeError)):
        {
            "data": lambda: load(archive),
            "trace": lambda: read_trace(trace),
            "grid": lambda: read_points(grid),
            "notebook": lambda: read(notebook),
        }[reader]()


def write_list():
    """Write THIRD_PARTY.md from the packages that are installed and what is given above."""
    outside = [f"| {name} | {said} | {by} |\n" for name, (said, by) in OUTSIDE.items()]
    rows = [f"| {name} | {version} | {licence(name)} |\n" for name, version in locked()]
    LIST.write_text("".join([HEAD, *outside, LOCKED, *rows]), encoding="utf-8")


if __name__ == "__main__":
    write_list()
