"""The cache of compiled code: taken while nothing has changed, renewed when a callee has."""

import ast
import importlib
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
    "outer.py": "from workbench.kernels.compiled import njit\nfrom workbench.middle import middle\n"
    "from workbench.plain import UNUSED\n\n"
    "@njit(cache=True)\ndef outer(x):\n    return middle(x)\n",
}
ASK = """
import os, sys
import numba  # once, not for every answer

for place in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        print("end", flush=True)
    else:
        sys.path.insert(0, place.strip())
        from workbench.outer import outer
        print(outer(0), sum(outer.stats.cache_hits.values()), flush=True)
        os._exit(0)
"""


@pytest.mark.parametrize("kind", ["in its tree", "in a folder of the user's", "zipped"])
def test_a_changed_callee_in_another_file_is_compiled_again(kind, tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    env |= {"XDG_CACHE_HOME": str(tmp_path / "home")}
    if kind == "in a folder of the user's":
        env |= {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-B", "-c", ASK]
    asked = subprocess.Popen(command, env=env, cwd=tmp_path, **pipes)

    def answer(**changes):
        for name, text in (FILES | {f"{stem}.py": text for stem, text in changes.items()}).items():
            path = tmp_path / "src" / "workbench" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        place = tmp_path / "src"
        if kind == "zipped":
            place = tmp_path / "src.zip"
            with zipfile.ZipFile(place, "w") as archive:
                for name in FILES:
                    archive.write(tmp_path / "src" / "workbench" / name, f"workbench/{name}")
        print(place, file=asked.stdin, flush=True)
        said = "".join(iter(asked.stdout.readline, "end\n"))
        return tuple(map(int, said.split()))

    assert answer() == (20, 0)
    if kind == "in its tree":
        assert answer(plain="UNUSED = 2\n") == (20, 1)
    changed = FILES["inner.py"].replace("TEN = 10", "TEN = 30").replace("x + 10", "x + 20")
    # Of an index that cannot be unpickled, as its types' module has moved, nothing is read.
    indexes = [path for path in tmp_path.rglob("*.nbi")]
    assert indexes
    for path in indexes:
        version = pickle.dumps(pickle.loads(path.read_bytes()))
        path.write_bytes(version + b"cworkbench.gone\nName\n.")
    assert answer(inner=changed) == (50, 0)
    asked.communicate()


def kernels_of(path):
    """Return the compiled functions of a file, and its imports from the package by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workbench")
        for alias in node.names
    }
    kernels = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any("njit" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    return kernels, imports


def test_kernels_take_from_modules_with_kernels_alone():
    """The stamp of their cache would not know of anything else that they use."""
    seen = 0
    for path in PACKAGE.rglob("*.py"):
        kernels, imports = kernels_of(path)
        if not kernels or path.name == "compiled.py":
            continue
        module = ".".join(["workbench", *path.relative_to(PACKAGE).with_suffix("").parts])
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


def test_kernels_assign_only_constants_to_slices():
    """An array on the right takes a third longer to compile: a message on shapes comes with it."""
    for path in PACKAGE.rglob("*.py"):
        for kernel in kernels_of(path)[0]:
            for node in ast.walk(kernel):
                if isinstance(node, ast.Assign | ast.AugAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    sliced = any(isinstance(getattr(t, "slice", None), ast.Slice) for t in targets)
                    assert not sliced or isinstance(node.value, ast.Constant), ast.unparse(node)
