"""Files and texts of any content: what they say, or a ValueError; nothing runs, nothing hangs."""

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import FOLDER
from fuzz.trying import examples, refused, trying
from workbench import cli
from workbench.core.problem import Problem
from workbench.core.trace import Trace, read_trace, write_trace
from workbench.data import load
from workbench.data.formats import Rows, write_npz
from workbench.data.panels import listed, panel
from workbench.runs import notebooks
from workbench.runs.grid import grid, read_points

RAN = FOLDER / "ran"  # what a file that runs code would leave behind


class Bomb:
    def __reduce__(self):
        return Path.touch, (RAN,)


def seeds():
    """Return sound files by suffix, whose mutations are tried."""
    X, y = np.arange(24.0).reshape(8, 3), np.arange(8) % 2
    npz, csr = FOLDER / "seed.npz", FOLDER / "sparse.npz"
    write_npz(npz, Rows(X, y, 5, ("a", "b", "c"), "about"))
    write_npz(csr, Rows(sp.csr_matrix(X % 3), y))
    np.savez(FOLDER / "bomb.npz", X=np.array([Bomb()], object), y=y, allow_pickle=True)
    text = b"a,b,label\n1,2.5,x\n3,-1e300,y\n,4,x\n0x10,nan,y\n"
    german = "ä,ö\n1,ü\n2,ß\n".encode("latin-1")
    svm = b"1 1:0.5 3:2\n-1 2:1e300 # remark\n2 1:1\n"
    lists = b"3 5 2\n1,2 0:1.5 4:2\n0 1:1\n 2:1\n"
    return {
        ".npz": [npz.read_bytes(), csr.read_bytes(), (FOLDER / "bomb.npz").read_bytes()],
        ".csv": [text, text.replace(b",", b";"), german, b"1,2\n3,4\n"],
        ".tsv": [text.replace(b",", b"\t")],
        ".csv.gz": [gzip.compress(text)],
        ".svm": [svm, lists, b"Data\n1,2 3:4\n", pickle.dumps(Bomb())],
        ".svm.gz": [gzip.compress(svm)],
        ".parquet": [b"PAR1" + bytes(20) + b"PAR1"],
    }


SEEDS = seeds()
BYTES = st.one_of(st.binary(max_size=6), st.sampled_from([b"\0", b"nan", b"inf", b"-1", b"9" * 30]))


@st.composite
def mutated(draw, contents):
    """Draw a sound content with a few pieces replaced, doubled or lost, or any bytes."""
    content = draw(st.sampled_from(contents) | st.binary(max_size=80))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        lost = draw(st.sampled_from([0, 0, 1, 4, 1000]))
        content = content[:at] + draw(BYTES) + content[at + lost :]
    return content


def written(content, suffix):
    path = FOLDER / f"file{suffix}"
    path.write_bytes(content)
    return path


def read_or_refused(entry, read, *given):
    """Return the data read, or None if a ValueError names what is wrong."""
    with trying(entry):
        try:
            return read(*given)
        except ValueError as error:
            assert refused(error), repr(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", sorted(SEEDS))
@examples(40)
@given(data=st.data())
def test_a_file_of_any_bytes_is_a_problem_or_refused(suffix, data):
    path = written(data.draw(mutated(SEEDS[suffix])), suffix)
    problem = read_or_refused(f"load, {suffix}", load, path)
    if problem is not None:
        assert isinstance(problem, Problem) and problem.k >= 2
        assert np.isfinite(problem.X.data if problem.is_sparse else problem.X).all()
    assert not RAN.exists()


@examples(100)
@given(
    st.text(max_size=40)
    | st.sampled_from(["../x.csv", "/dev/null", "~", ".", "", "a\0b", "x" * 5000])
)
def test_a_name_or_path_of_any_text(text):
    with trying("load, a name"):
        try:
            load(text)
        except (ValueError, FileNotFoundError) as error:
            assert str(error)


ROWS = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    max_size=4,
)


@examples(60)
@given(st.data())
def test_a_trace_of_any_bytes_is_read_or_refused(data):
    trace = Trace({"solver": "x"}, [{"round": 0, "gap": np.inf}, {"round": 1, "gap": 0.5}])
    write_trace(FOLDER / "sound.jsonl", trace)
    others = [json.dumps(row).encode() for row in data.draw(st.lists(ROWS, max_size=2))]
    sound = (FOLDER / "sound.jsonl").read_bytes() + b"\n".join(others)
    path = written(data.draw(mutated([sound])), ".jsonl")
    if found := read_or_refused("read_trace", read_trace, path):
        assert isinstance(found.header, dict)
        assert all(isinstance(row, dict) for row in found.rows)
        assert found.stopped_by is None or found.last


WORDS = """digits, wine, synthetic 30x3x3, checkers 20, text 30x3, +, |, @, or, 4 fourier, constant,
2 pca, 3 log counts, 2 classes, 30 % test, 1 a class, 40 % rows, 20 % validation, standard, given,
tfidf, unit, 0, -1, 1e9, é"""
WORDS = [",", *WORDS.replace("\n", " ").split(", ")]


@pytest.mark.filterwarnings("ignore")
@examples(60)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join) | st.text(max_size=30)
)
def test_a_description_of_any_text(text):
    with trying("panel"):
        try:
            assert isinstance(panel(text), Problem)
        except (ValueError, FileNotFoundError) as error:
            assert str(error)
        try:
            listed(text), listed(text, int), listed(text, float)
        except ValueError as error:
            assert str(error)


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats()
    | st.sampled_from(["mrc_ccg", "ridge", "digits", "1e-2", "nan", "", "C", "rounds", "x" * 50])
)
NESTED = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ridge", "ww_walrus", "C", "rounds", "gap"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@examples(80)
@given(st.data())
def test_a_grid_of_any_entries(data):
    entries = {"solvers": "ridge, ww_walrus", "data": "digits", "stop": {"rounds": 3}}
    names = ["solvers", "data", "stop", "parameters", "seeds", "repetitions", "test"]
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
        entries[name] = data.draw(NESTED)
    found = read_or_refused("grid", lambda: grid(**entries))
    assert found is None or len({point.label for point in found}) >= 1


YAML = b"""about: text
solvers: {ridge: {alpha: [1, 1e-2]}}
data: [digits]
stop: {rounds: 3}
"""
UNSAFE = b"solvers: !!python/object/apply:pathlib.Path.touch [x]\ndata: digits\nstop: {rounds: 1}\n"


@examples(80)
@given(mutated([YAML, UNSAFE, b"a: &a [*a]\n", b"{" * 200, b"&a [*a, *a]"]))
def test_a_grid_file_of_any_bytes(content):
    read_or_refused("read_points", read_points, written(content, ".yaml"))


LINE = b"n: int = 3  # rows\nx: float = 1e-3  # step\nname: str = 'a'  # which\n"


@examples(80)
@given(mutated([LINE, b"n: int = __import__('os').getpid()  # x\n", b"a: int = " + b"(" * 300]))
def test_parameters_of_any_text(content):
    source = content.decode(errors="replace")
    found = read_or_refused("parameters_in", notebooks.parameters_in, source, "notebook")
    assert all(p.default is None or type(p.default) is p.type for p in (found or {}).values())


@examples(60)
@given(st.data())
def test_a_notebook_of_any_content(data):
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": [LINE.decode()]}
    metadata = {
        "kernelspec": {"name": "python3"},
        "workbench": {"figures": ["f"], "profiles": {"smoke": {"n": 1}, "paper": {}}},
    }
    sound = json.dumps({"cells": [cell], "metadata": metadata})
    content = json.loads(sound)
    at = data.draw(
        st.sampled_from(["cells", "metadata", "cell", "kernelspec", "workbench", "bytes"])
    )
    junk = data.draw(NESTED)
    if at in ("cells", "metadata"):
        content[at] = junk
    elif at == "cell":
        content["cells"] = [junk, {**cell, data.draw(st.sampled_from([*cell])): junk}]
    else:
        content["metadata"][at] = junk
    raw = json.dumps(content).encode()
    path = written(data.draw(mutated([raw])) if at == "bytes" else raw, ".ipynb")
    read_or_refused("notebooks.read", notebooks.read, path)


ARGUMENTS = """list run sweep figures data check fetch ridge mrc_ccg wine -p alpha=1 alpha=x alpha=
=1 C=1 --rounds 2 -1 nan --gap --seconds inf --test 0.5 --scale unit --out /nowhere/x -j /dev/null
x.yaml a\0.yaml x.ipynb --profile smoke --nothing é""".split()
ARGUMENTS.append("")
COMMANDS = ["run", "run ridge", "run ridge wine", "run ridge wine --rounds", "sweep", "data check"]


@examples(40)
@given(
    st.sampled_from(COMMANDS),
    st.lists(st.sampled_from(ARGUMENTS) | st.text(max_size=5), max_size=4),
)
def test_a_command_of_any_arguments(capsys, command, more):
    with trying("command line"):
        code = cli.main([*command.split(), *more])
    told = capsys.readouterr()
    assert code in (0, 1, 2)
    assert "Traceback" not in told.err
    if code == 2:
        assert told.err.count("\n") == 1 and told.err.strip()
