"""The cache of compiled code: shared by equal sources, renewed when a callee has
changed."""

import ast
import importlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers import each

import workbench
from workbench.kernels import compiled

PACKAGE = Path(workbench.__file__).parent
FILES = {
    "__init__.py": "",
    "kernels/__init__.py": "",
    "kernels/compiled.py": Path(compiled.__file__).read_text(),
    "plain.py": "UNUSED = 1\n",
    "inner.py": "from workbench.kernels.compiled import njit\n\nTEN = 10\n\n"
    "@njit(cache=True)\ndef inner(x):\n    return x + 10\n",
    "middle.py": "from workbench.kernels.compiled import njit\n"
    "from workbench.inner import TEN, inner\n\n"
    "@njit(cache=True)\ndef middle(x):\n    return inner(x) + TEN\n",
    "outer.py": "from workbench.kernels.compiled import njit\n"
    "from workbench.middle import middle\n"
    "from workbench.plain import UNUSED\n\n"
    "@njit(cache=True)\ndef outer(x):\n    return middle(x)\n",
}
ASK = """
import os, sys, warnings
import numba, platformdirs  # once, not for every answer

for place in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        print("end", flush=True)
    else:
        sys.path.insert(0, place.strip())
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            from workbench.outer import outer
            print(outer(0), sum(outer.stats.cache_hits.values()), sep="\\n")
        for warning in warned:
            print(warning.message)
        sys.stdout.flush()
        os._exit(0)
"""


@pytest.fixture
def answer(tmp_path):
    """Return a function that imports a package of three kernels, and what its process
    printed.

    It gives the value, the kernels taken from the cache, and the warnings.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("NUMBA_")
    }
    env |= {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    asked = subprocess.Popen(
        [sys.executable, "-B", "-c", ASK],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(place="src", **changes):
        files = FILES | {f"{stem}.py": text for stem, text in changes.items()}
        packed = tmp_path / f"{place.removesuffix('.zip')}.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for name, text in files.items():
                archive.writestr(f"workbench/{name}", text)
            if not place.endswith(".zip"):
                archive.extractall(tmp_path / place)
        print(tmp_path / place, file=asked.stdin, flush=True)
        value, hits, *warned = "".join(
            iter(asked.stdout.readline, "end\n")
        ).splitlines()
        return int(value), int(hits), warned

    yield ask
    asked.communicate()


def test_equal_sources_share_machine_code_wherever_they_lie(answer):
    assert answer() == (20, 0, [])
    assert answer("second clone") == (20, 1, [])
    assert answer("zipped.zip") == (20, 1, [])
    assert answer("clone", plain="UNUSED = 2\n") == (20, 1, [])


@each("place", ["src", "src.zip"])
def test_a_changed_callee_in_another_file_is_compiled_again(place, answer):
    changed = (
        FILES["inner.py"].replace("TEN = 10", "TEN = 30").replace("x + 10", "x + 20")
    )
    assert answer(place) == (20, 0, [])
    assert answer(place, inner=changed) == (50, 0, [])
    assert answer(place) == (20, 1, [])


def test_without_a_cache_all_is_compiled_with_one_warning(answer, tmp_path):
    (tmp_path / "cache").write_text("a file, where there should be a folder")
    value, hits, (warned,) = answer()
    assert (value, hits) == (20, 0) and "NUMBA_CACHE_DIR" in warned


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "zeroed": lambda content: bytes(len(content)),
    "changed": lambda content: content[:-40] + b"?" + content[-39:],
    "other": lambda content: b"no machine code",
}


@each("damage", DAMAGE)
def test_a_damaged_file_is_compiled_and_written_again(damage, answer, tmp_path):
    assert answer() == (20, 0, [])
    for kind in ("nbi", "nbc"):
        for path in (tmp_path / "cache").glob(f"outer*.{kind}"):
            path.write_bytes(DAMAGE[damage](path.read_bytes()))
        assert answer() == (20, 0, []) and answer() == (20, 1, [])
    path.unlink()
    path.mkdir()  # nothing can be written there
    value, hits, (warned,) = answer()
    assert (value, hits) == (20, 0) and path.name in warned


def test_processes_that_compile_at_once_share_no_file(tmp_path):
    first, second = (compiled._Files(str(tmp_path), "kernel", "") for _ in range(2))

    def save_data(name, data):
        """Save, after another process that had read the same index has saved, too."""
        second._load_index = dict
        second.save("float", "code for floats")
        del second._load_index
        compiled._Files._save_data(first, name, data)

    first._save_data = save_data
    first.save("int", "code for integers")
    assert second.load("int") == "code for integers"
    assert second.load("float") == "code for floats"


def kernels_of(path):
    """Return the compiled functions of a file, and its imports from the package by
    name."""
    tree = ast.parse(path.read_text("utf-8"))
    imports = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("workbench")
        for alias in node.names
    }
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [
        f for f in functions if any("njit" in ast.unparse(d) for d in f.decorator_list)
    ], imports


def test_kernels_take_from_modules_with_kernels_alone():
    """The stamp of their cache would not know of anything else that they use."""
    seen = 0
    for path in PACKAGE.rglob("*.py"):
        kernels, imports = kernels_of(path)
        if not kernels or path.name == "compiled.py":
            continue
        module = ".".join(
            ["workbench", *path.relative_to(PACKAGE).with_suffix("").parts]
        )
        importlib.import_module(module)
        digest, followed = compiled._read(module)
        assert digest and imports["njit"] == "workbench.kernels.compiled", module
        for kernel in kernels:
            names = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)}
            for name in names & set(imports) - {"njit"}:
                seen += 1
                assert imports[name] in followed and compiled._read(imports[name])[0], (
                    f"{module}.{kernel.name} takes {name} from {imports[name]}"
                )
    assert seen > 30
