"""Every command and example in print runs as printed, or is checked if that is slow."""

import ast
import doctest
import importlib
import inspect
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from helpers import each, module_fixture, slow
from pytest import approx

from workbench import (
    SOLVERS,
    Figures,
    below,
    certify,
    cli,
    explore,
    load,
    rounds,
    run,
    sweep,
)
from workbench.arena import contest
from workbench.figures.report import report
from workbench.live.lane import Lane
from workbench.live.replay import Replay, record
from workbench.registry import Solver
from workbench.runs.grid import grid, read_points
from workbench.runs.mill import fan_out
from workbench.runs.notebooks import CHECKOUT, PROFILES, find, read
from workbench.runs.results import write_results

FOLDERS = """.binder .ci .github .jupyter .site benchmarks data examples figures guides
notebooks results tests/mutation workbench""".split()
KINDS = {"", *".md .py .ipynb .toml .yml .html .jinja2 .json".split()}
COMMANDS = "|".join(re.findall(r"(\w+)_command\b", " ".join(vars(cli))))
MAKEFILE = (CHECKOUT / "Makefile").read_text("utf-8")
TARGETS = "|".join(re.findall(r"^([a-z-]+):.* ## ", MAKEFILE, re.MULTILINE))
NAMED = rf"workbench[ ](?:{COMMANDS})|make[ ](?:[A-Z]\w+=\S+[ ])?(?:{TARGETS})"
START = rf"(?:[A-Z_]+=\S+[ ])?(?:(?:\.venv/bin/)?(?:{NAMED})(?![\w-])|"
START += r"(?:\.venv/bin/)?python[ ][\w./]+\.py|papermill[ ]\S+\.ipynb)"
PRINTED = re.compile(
    rf"""(?<!`)(?P<tick>``?)(?!`)\s*(?P<inline>{START}[^`]*)(?P=tick)  # in a text
    |<code>(?P<html>{START}[^<]*)</code>
    |^command[ ]=[ ]"(?P<quoted>{START}[^"\n]*)"  # of a claim or a figure
    |^(?:[ \t#>]|-[ ]run:[ ]|<pre>)*(?P<line>{START}(?:.*\\\n)*.*)$""",
    re.MULTILINE | re.VERBOSE,
)
# Names that are no commands, and commands that the program itself puts together.
NO_COMMAND = (
    "custom-compile-command 'make lock'",
    'f"workbench figures {notebook.name}',
)
# What is not run. Its names, options, parameters and files are checked. Figures,
# reports and sweeps take minutes, and other tests run them; the data may not be there;
# the example of a solver becomes one in test_own_solver.py.
LONG = "figures|report|sweep|data (fetch|check) letter|run frank_wolfe"
# Calls that take long, or that need what is not there.
LONG_CODE = r'contest\(|done\.table\(|load\("(letter|my)|sweep\(|report\(|Figures\(|'
LONG_CODE += r"figures\.save|pd\.read_parquet"
STANDS_FOR = """NAME: iris
{name}: iris
SOLVER: mrc_ccg
FILE.npy: rows.npy
mark.py: notebooks/learn/marking.py
checker.py: workbench/proofs/checker.py
rows_child.py: notebooks/figures/rows_child.py
mrc_epsilon.ipynb: notebooks/figures/mrc_epsilon.ipynb"""
# placeholders
STANDS_FOR = dict(line.split(": ") for line in STANDS_FOR.splitlines())
GUIDES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "guides").glob("*.md"))]
BLOCK = re.compile(
    r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
NUMBER = r"\d[\d.]*(?:e-?\d+)?"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?<!`)`((?:load|run|contest|explore|grid|sweep|certify)\([^`]*\))`")
FUNCTIONS = (below, certify, contest, explore, grid, load, record, report, rounds, run)
FUNCTIONS += (sweep, write_results, Figures, Lane, Replay, Solver)
FUNCTIONS += (SOLVERS["mrc_ccg"].steps,)
PUBLIC = {function.__name__: function for function in FUNCTIONS} | {"pd": pd}
MAKES_OWN = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}  # of the make that runs this
OUTPUT = {"handout", "teacher", "docs", "course"}  # folders that scripts write


def text_of(path):
    """Return a file's text: a notebook's cells, the command of a figure's record."""
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        return f'command = "{json.loads(text).get("command", "")}"'
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return "\n\n".join("".join(cell["source"]) for cell in cells)
    # Other blocks of guides run together, below.
    return BLOCK.sub("", text) if path.parent.name == "guides" else text


@module_fixture
def texts():
    paths = [CHECKOUT / "Makefile"]
    for kind in ("*.md", "*.toml", "*.yml"):
        paths += CHECKOUT.glob(kind)
    for folder in FOLDERS:
        # Environments and programs of peers are in hidden folders.
        found = sorted((CHECKOUT / folder).glob("[!.]*"))
        found += sorted(p for part in found for p in part.rglob("*"))
        paths += [p for p in found if p.suffix in KINDS and p.is_file()]
    return {str(path.relative_to(CHECKOUT)): text_of(path) for path in paths}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Go to a folder with the files that the texts name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    for name in ("notebooks", "results"):
        Path(name).symlink_to(CHECKOUT / name)
    Path("mine.ipynb").symlink_to(CHECKOUT / "notebooks/sweeps/mrc_ccg.ipynb")
    rows = np.random.default_rng(0).normal(size=(40, 3)).round(2)
    lines = [",".join(map(str, row)) + f",{'ab'[int(row[0] > 0)]}" for row in rows]
    text = "\n".join(["a,b,c,species", *lines])
    Path("rows.csv").write_text(text)
    Path("flowers.csv").write_text(text.replace(",", ";").replace(".", ","))
    np.save("rows.npy", rows)
    np.savez("weights.npz", W=np.ones((3, 2)), b=np.zeros(2))
    for name in ("other.npy", "labels.npy", "rows.labels.npy"):
        np.save(name, np.arange(40) % 2)
    for name in ("a", "b"):
        run(
            "ww_walrus",
            load("wine"),
            rounds(3),
            path=f"{name}.jsonl",
            proof=f"{name}.npz",
        )
    Path("wine.npz").symlink_to("a.npz")
    return tmp_path


def workbench_command(words):
    """Run a command of the package, or parse it to its last option and parameter."""
    text = " ".join(words)
    if len(words) == 1 or words[1:] == ["--out"]:  # names of a command and an option
        return cli.main([words[0], "--help"])
    if not re.match(LONG, text):
        return cli.main(words)
    given = cli._parser().parse_args(words)
    pairs = cli._pairs(getattr(given, "parameters", ()))
    if words[0] == "figures":
        assert given.profile in PROFILES
        for notebook in find([name for name in given.names if name != "iris"]):
            assert notebook.values(given.profile, pairs)
    elif words[0] == "sweep" and given.grid.suffix == ".ipynb":
        assert fan_out(read(given.grid), pairs, jobs=1)
    elif words[0] == "sweep":
        assert read_points(given.grid)
    return 0


def script(words, place):
    """Check that a script is there, and that its folder knows options and names."""
    [path, *_] = filter(Path.is_file, (CHECKOUT / words[0], place / words[0]))
    known = "".join(p.read_text("utf-8") for p in path.parent.glob("*.py"))
    known += " ".join(p.stem for p in path.parent.rglob("*.ipynb"))
    for word in words[1:]:
        if word.startswith("-"):
            assert f'"{word.partition("=")[0]}"' in known, word
        elif not re.search(r"[A-Z0-9./{]", word):  # a number, a path or a placeholder
            assert word in known or word in OUTPUT, word
    return 0


def pytest_command(words):
    """Check that pytest would find the files and the words of an expression."""
    files = [CHECKOUT / word for word in words if word.endswith(".py")]
    paths = files or {*(CHECKOUT / "tests").rglob("test_*.py")} - {Path(__file__)}
    known = "".join(path.read_text("utf-8") for path in paths) + " ".join(SOLVERS)
    expression = words[words.index("-k") + 1] if "-k" in words else ""
    return int(any(word not in known for word in re.findall(r"\w+", expression)))


def make_command(words, place):
    """Follow each line that make would run."""
    command = ["make", "-n", "-o", ".venv/.ok", *words]
    clean = {name: v for name, v in os.environ.items() if name not in MAKES_OWN}
    lines = subprocess.check_output(command, cwd=CHECKOUT, text=True, env=clean)
    pattern = re.compile(r"(\w+=\S* )*\.venv/bin/(python|workbench) ")
    ours = list(filter(pattern.match, lines.replace("\\\n", " ").splitlines()))
    assert ours or words[0] not in "data figures lessons report test".split()
    return max((follow(line, place) for line in ours), default=0)


def follow(command, place):
    """Run or check a command as the shell would; return its exit status."""
    if "$(" in command:  # a recipe, which make fills in
        return 0
    if "python" in command.split(".py")[0]:
        command = re.sub(r"[\[\]]|\.\.\.| or ", " ", command)  # optional arguments
    words = [STANDS_FOR.get(word, word) for word in shlex.split(command, comments=True)]
    if "&&" in words:
        first = words[: words.index("&&")]
        rest = words[words.index("&&") + 1 :]
        return follow(shlex.join(first), place) or follow(shlex.join(rest), place)
    for end in {"|", ">"} & {*words}:
        words = words[: words.index(end)]
    while "=" in words[0]:
        del words[0]
    name, *words = words
    match Path(name).name:
        case "workbench":
            return workbench_command(words)
        case "make":
            return make_command(words, place)
        case "papermill":
            notebook, _, kind, *given = words
            values = dict([given]) if kind == "-p" else yaml.safe_load(*given)
            return int(not read(Path(notebook)).check(values))
    if words[:2] == ["-m", "pytest"]:
        return pytest_command(words)
    return 0 if words[0] in ("-m", "-W") else script(words, place)


def test_every_command_in_print_runs(texts, here, capsys):
    seen = {}
    faults = []
    for name, text in texts.items():
        for found in PRINTED.finditer(text):
            command = found[found.lastgroup].replace("\\\n", " ").removesuffix("</pre>")
            seen.setdefault(" ".join(command.split()), name)
        for line in PRINTED.sub("", text).splitlines():
            if re.search(rf"(?<![\w./-])(?:{NAMED})(?![\w-])", line):
                if not any(words in line for words in NO_COMMAND):
                    faults.append(f"{name}: is this a command? {line.strip()[:99]}")
    for command, name in seen.items():
        if name.endswith("claims.toml") and "figures" in command:
            assert "--out" in command, "the committed figures stay"
        try:
            code = follow(command, (CHECKOUT / name).parent)
        except (Exception, SystemExit) as error:
            code = repr(error)
        if code:
            printed = capsys.readouterr().err.strip()[-300:]
            faults.append(f"{name}: {command}: {code} {printed}")
    assert not faults, "\n".join(faults)
    assert len(seen) > 150


WRONG = """
workbench run mrc_ccg iris --memory 2
workbench run mrc_ccg nowhere.csv
workbench figures mrc_epsilon --from results -p eps3=1
workbench sweep notebooks/sweeps/nothing.yaml
make test ARGS=tests/test_nothing.py
make test ARGS='-k no_such_solver'
make lessons ARGS='ls_2 --instructors DIR'
make figures ARGS='mrc_epsilom'
python benchmarks/mrc.py --rounds-of-all 3
papermill notebooks/figures/mrc_epsilon.ipynb out.ipynb -p m_max 3
"""


@each("command", WRONG.split("\n")[1:-1])
def test_a_command_that_is_wrong_is_found_out(command, here):
    try:
        code = follow(command, CHECKOUT)
    except (AssertionError, ValueError, OSError, SystemExit) as error:
        code = error
    assert code


def examples(texts):
    """Yield (file, code, kind) of each example; the kind is a module, block or call."""
    for name, text in texts.items():
        for code in PYTHON.findall(text):
            entry = code.lstrip().startswith('"')  # of a table
            yield name, f"{{{code}}}" if entry else code, "block"
        for code in CALL.findall(text) if name.endswith((".md", ".ipynb")) else ():
            yield name, " ".join(code.split()), "call"
        if name.startswith("workbench/") and " +SKIP" in text:
            module = (
                name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            )
            for node in ast.walk(ast.parse(text)):
                documented = isinstance(
                    node, ast.Module | ast.ClassDef | ast.FunctionDef
                )
                docstring = ast.get_docstring(node) if documented else None
                if " +SKIP" in (docstring or ""):
                    for part in doctest.DocTestParser().get_examples(docstring):
                        yield name, part.source, module


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # as the README says
def test_every_example_in_print_runs(texts, here):
    """Calls within sentences, and LONG_CODE, are only compared with the signatures."""
    faults = []
    state = {}
    count = 0
    usual = PUBLIC | {"problem": load("iris"), "points": [], "traces": []}
    for name, code, kind in examples(texts):
        count += 1
        if name not in state:
            own = vars(importlib.import_module(kind)) if "." in kind else {}
            state[name] = own | usual
        try:
            for node in ast.walk(ast.parse(code)):
                name_called = getattr(getattr(node, "func", None), "id", None)
                if f := PUBLIC.get(name_called):
                    given = {option.arg: option.value for option in node.keywords}
                    bound = inspect.signature(f).bind_partial(*node.args, **given)
                    assert not bound.arguments.get("unknown")
                    if f is load:
                        assert given.keys() <= {*inspect.signature(f).parameters}
            if kind != "call" and not re.search(LONG_CODE, code):
                exec(code, state[name])
        except Exception as error:
            faults.append(f"{name}: {code.strip()}: {error!r}")
    assert not faults, "\n".join(faults)
    assert count > 20


def printed_like(printed, words):
    """Return whether words are those in print: numbers of more than five characters
    nearly, seconds of any size, and anything for three dots."""
    parts = re.split(rf"({NUMBER} s\b|{NUMBER}|\.\.\.)", printed)
    patterns = [re.escape(part) for part in parts]
    known = []
    for i in range(1, len(parts), 2):
        if parts[i] == "...":
            patterns[i] = ".*?"
        elif parts[i].endswith(" s"):
            patterns[i] = f"{NUMBER} s"
        elif len(parts[i]) > 5:
            patterns[i] = f"({NUMBER})"
            known.append(float(parts[i]))
    found = re.fullmatch("".join(patterns), words, re.DOTALL)
    numbers = found and [float(number) for number in found.groups()]
    return numbers == approx(known, rel=1e-5, abs=1e-5)


@each(
    "printed, words, like",
    [
        ("in 2 s: 0.50000 of a...z", "in 31.5 s: 0.50001 of a b\nz", True),
        ("in 2 s: 0.5", "in 2 s: 0.51", False),
        ("an excess of 3", "an excess of 3 %", False),
    ],
)
def test_words_are_compared_as_they_are_printed(printed, words, like):
    assert printed_like(printed, words) == like


@slow
@pytest.mark.filterwarnings("default")  # the pages say which
@each("page", GUIDES, ids=lambda page: page.stem)
def test_a_page_prints_what_its_examples_print(page, tmp_path, monkeypatch, capfd):
    """Blocks of a page run in its order, in one folder and one Python session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CHECKOUT), *sys.path]))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)
    session = {}
    compared = []
    for language, code, printed in BLOCK.findall(page.read_text("utf-8")):
        if not printed and page.name == "README.md":
            continue  # other tests check these commands and examples
        if "import skore" in code and not find_spec("skore"):
            continue
        if language == "sh":
            subprocess.run(["bash", "-c", code], check=True, stderr=subprocess.STDOUT)
        else:
            exec(code, session)
        words = capfd.readouterr().out.strip()
        assert printed_like(printed.strip(), words), f"{code}\n{words}"
        compared += [code] if printed else []
    assert compared


def test_the_table_of_estimators_is_what_its_script_prints(capsys):
    runpy.run_path(str(CHECKOUT / "benchmarks/tables.py"))["main"](["iris"])
    page = (CHECKOUT / "guides/tables.md").read_text("utf-8")
    row = r"^\| ([A-Z].*?) \| [.\d]+ \| [.\d]+ s\*? \|"
    printed = re.findall(row, page, re.M)
    assert printed == re.findall(row, capsys.readouterr().out, re.M)
    assert sum("(ours)" in name for name in printed) == 5
