"""The rooms of the package: imports go downwards only, and each has a budget of
tokens."""

import ast
import gc
import tokenize
from pathlib import Path

import pytest
from helpers import each

import workbench

PACKAGE = Path(workbench.__file__).parent
PAPERS = "mrc", "weston_watkins", "memoir", "least_squares", "sampled_cuts"
# From the ground up; rooms of one floor do not know each other.
FLOORS = [
    ("core",),
    ("kernels",),
    ("data",),
    PAPERS,
    ("peers",),
    ("registry",),
    ("papers",),
    ("proofs",),
    ("runs",),
    ("live",),
    ("figures",),
    ("estimators",),
    ("certification", "arena"),
    ("cli",),
]
# Tokens of Python, see :func:`tokens`. A budget rises only in the commit that says what
# else went.
BUDGETS = {
    "core": 10_460,
    "kernels": 5_990,
    "data": 14_585,
    "mrc": 19_170,
    "weston_watkins": 9_780,
    "memoir": 14_700,
    "least_squares": 10_100,
    "sampled_cuts": 10_910,
    "peers": 6_410,
    "registry": 925,
    "papers": 440,
    "proofs": 11_350,
    "runs": 13_675,
    "live": 12_770,
    "figures": 16_565,
    "estimators": 4_050,
    "certification": 7_860,
    "arena": 5_315,
    "cli": 3_700,
}
TESTS = 184_510
NOT_COUNTED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


@pytest.fixture(scope="module", autouse=True)
def no_garbage():
    """Python 3.11 fails to parse if a finaliser that the parser sets off prints a
    traceback."""
    gc.collect()


def imports(path):
    """Yield the modules of the package that a file imports, inside its functions
    too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module != "workbench", (
                f"{path}: name the module that is imported"
            )
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_room_has_its_floor():
    rooms = {
        path.parent.relative_to(PACKAGE).parts[0] for path in PACKAGE.glob("*/**/*.py")
    }
    # a solver of one's own may lie beside them
    assert rooms | {"registry", "papers", "cli"} == FLOOR.keys()
    assert BUDGETS.keys() == FLOOR.keys()


def test_imports_go_downwards_only():
    upwards = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        room = place.parts[0].removesuffix(".py")
        for name in imports(path):
            other = [*name.split("."), ""][1]
            if name.startswith("workbench.") and other in FLOOR and other != room:
                if FLOOR[other] >= FLOOR.get(room, FLOOR["peers"]):
                    upwards.append(f"{place} imports {name}")
    assert not upwards


def tokens(path):
    """Return the number of tokens but comments, line ends, indents and docstrings.

    A comma that only ends an unfolded list does not count either: unfolding is free.
    """
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    docstrings = {
        (node.body[0].lineno, node.body[0].col_offset)
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, documented)
        and ast.get_docstring(node, clean=False) is not None
    }
    total = 0
    depth = 0  # of f-strings, which are one token until Python 3.11, and many later
    last = None
    with path.open("rb") as file:
        for part in tokenize.tokenize(file.readline):
            name = tokenize.tok_name[part.type]
            depth -= name == "FSTRING_END"
            counts = part.type not in NOT_COUNTED and part.start not in docstrings
            if counts and not depth and name != "FSTRING_END":
                total += 1
                unfolded = last and last.string == "," and last.end[0] < part.start[0]
                total -= bool(unfolded) and part.string in ")]}"
                last = part
            depth += name == "FSTRING_START"
    return total


def test_docstrings_comments_and_line_ends_are_no_tokens(tmp_path):
    path = tmp_path / "few.py"
    code = "def f(a):\n    return g(\n        f'{a!r:>{3}}',  # three\n    )\n"
    path.write_text(f'"""One."""\n\n\n{code}')
    assert tokens(path) == len("def f ( a ) : return g ( text )".split())


@each("room", BUDGETS)
def test_no_room_is_over_its_budget(room):
    files = [*(PACKAGE / room).rglob("*.py"), *PACKAGE.glob(f"{room}.py")]
    total = sum(map(tokens, files))
    assert 0 < total <= BUDGETS[room], f"{room} has {total} tokens: something has to go"


def test_the_tests_are_not_over_their_budget():
    total = sum(map(tokens, Path(__file__).parents[1].rglob("*.py")))
    assert 0 < total <= TESTS, f"the tests have {total} tokens: something has to go"
