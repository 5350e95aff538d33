"""Files and texts of any content: what they say, or a ValueError; nothing runs, nothing
hangs."""

import gzip
import json
import pickle

import numpy as np
import pytest
from helpers import each
from helpers.attack_proofs import Bomb
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from fuzz.inputs import FOLDER, examples, refused
from workbench import cli, listed, load
from workbench.core.problem import Problem
from workbench.core.trace import Trace, read_trace, write_trace
from workbench.data.formats import Rows, write_npz
from workbench.runs import notebooks
from workbench.runs.grid import grid, read_points

RAN = FOLDER / "ran"  # what a file that runs code would leave behind
YAML = b"""about: text
solvers: {ridge: {alpha: [1, 1e-2]}}
data: [digits]
stop: {rounds: 3}
"""
UNSAFE = b"""solvers: !!python/object/apply:pathlib.Path.touch [x]
data: digits
stop: {rounds: 1}
"""
LINE = b"n: int = 3  # rows\nx: float = 1e-3  # step\nname: str = 'a'  # which\n"
CALL = f"n: int = open({str(RAN)!r}, 'w')  # rows"
CELL = {
    "cell_type": "code",
    "metadata": {"tags": ["parameters"]},
    "source": [LINE.decode()],
}
METADATA = {
    "kernelspec": {"name": "python3"},
    "workbench": {"figures": ["f"], "profiles": {"smoke": {"n": 1}, "paper": {}}},
}


def seeds():
    """Return valid files by suffix, whose mutations are tried."""
    X = np.arange(24.0).reshape(8, 3)
    y = np.arange(8) % 2
    names = "seed.npz sparse.npz bomb.npz seed.jsonl".split()
    npz, csr, bomb, trace = (FOLDER / name for name in names)
    write_npz(npz, Rows(X, y, 5, ("a", "b", "c"), "about"))
    write_npz(csr, Rows(csr_matrix(X % 3), y))
    np.savez(bomb, X=np.array([Bomb(RAN)], object), y=y, allow_pickle=True)
    rows = [{"round": 0, "gap": np.inf}, {"round": 1, "gap": 0.5}]
    write_trace(trace, Trace({"solver": "x"}, rows))
    text = b"a,b,label\n1,2.5,x\n3,-1e300,y\n,4,x\n0x10,nan,y\n"
    german = "ä,ö\n1,ü\n2,ß\n".encode("latin-1")
    svm = b"1 1:0.5 3:2\n-1 2:1e300 # remark\n2 1:1\n"
    lists = b"3 5 2\n1,2 0:1.5 4:2\n0 1:1\n 2:1\n"
    return {
        ".npz": [path.read_bytes() for path in (npz, csr, bomb)],
        ".csv": [text, text.replace(b",", b";"), german, b"1,2\n3,4\n"],
        ".tsv": [text.replace(b",", b"\t")],
        ".csv.gz": [gzip.compress(text)],
        ".svm": [svm, lists, b"Data\n1,2 3:4\n", pickle.dumps(Bomb(RAN))],
        ".svm.gz": [gzip.compress(svm)],
        ".parquet": [b"PAR1" + bytes(20) + b"PAR1"],
        ".jsonl": [
            trace.read_bytes(),
            trace.read_bytes() + b'{"a": NaN, "": null}\n[1]\n""\n',
            pickle.dumps(Bomb(RAN)),
        ],
        ".yaml": [YAML, UNSAFE, b"a: &a [*a]\n", b"{" * 200, b"&a [*a, *a]"],
        ".ipynb": [
            json.dumps(
                {"cells": [CELL | {"source": source}], "metadata": METADATA}
            ).encode()
            for source in (CELL["source"], CALL)
        ],
    }


SEEDS = seeds()
READERS = {".jsonl": read_trace, ".yaml": read_points, ".ipynb": notebooks.read}
BYTES = st.one_of(
    st.binary(max_size=6), st.sampled_from([b"\0", b"nan", b"inf", b"-1", b"9" * 30])
)


@st.composite
def mutated(draw, contents):
    """Draw a valid content with a few pieces replaced, doubled or lost, or any
    bytes."""
    content = draw(st.sampled_from(contents) | st.binary(max_size=80))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        lost = draw(st.sampled_from([0, 0, 1, 4, 1000]))
        content = content[:at] + draw(BYTES) + content[at + lost :]
    return content


def read_or_refused(read, *arguments, **named):
    """Return what is read, or None if a ValueError names what is wrong."""
    try:
        return read(*arguments, **named)
    except ValueError as error:
        assert refused(error), repr(error)


# SciPy, of a damaged shape
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@each("suffix", sorted(SEEDS))
@examples(50)
@given(data=st.data())
def test_a_file_of_any_bytes_is_read_or_refused(suffix, data):
    path = FOLDER / f"file{suffix}"
    path.write_bytes(data.draw(mutated(SEEDS[suffix])))
    found = read_or_refused(READERS.get(suffix, load), path)
    assert not RAN.exists()
    if isinstance(found, Problem):
        assert found.k >= 2
        assert np.isfinite(found.X.data if found.is_sparse else found.X).all()
    if isinstance(found, Trace):
        assert {type(part) for part in (found.header, *found.rows)} == {dict}


WORDS = """digits, wine, synthetic 30x3x3, checkers 20, text 30x3, +, |, @, or,
4 fourier,
constant, 2 pca, 3 log counts, 2 classes, 30 % test, 1 a class, 40 % rows,
20 % validation, standard, given, tfidf, unit, 0, -1, 1e9, é"""
WORDS = [",", *WORDS.replace("\n", " ").split(", ")]
PATHS = ["../x.csv", "/dev/null", "~", ".", "", "a\0b", "x" * 5000]


@examples(100)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
    | st.sampled_from(PATHS)
    | st.text(max_size=40)
)
def test_a_name_path_or_description_of_any_text(text):
    for read in (load, listed, lambda t: listed(t, int), lambda t: listed(t, float)):
        try:
            found = read(text)
            assert isinstance(found, Problem) or read is not load
        except (ValueError, FileNotFoundError) as error:
            assert str(error)


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats()
    | st.sampled_from(
        ["mrc_ccg", "ridge", "digits", "1e-2", "nan", "", "C", "rounds", "x" * 50]
    )
)
KEYS = st.sampled_from("ridge ww_walrus C rounds gap".split())
NESTED = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=6,
)


@examples(80)
@given(st.data())
def test_a_grid_of_any_entries(data):
    entries = {"solvers": "ridge, ww_walrus", "data": "digits", "stop": {"rounds": 3}}
    names = "solvers data stop parameters seeds repetitions test".split()
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
        entries[name] = data.draw(NESTED)
    found = read_or_refused(grid, **entries)
    assert found is None or len(found) > 0


@examples(60)
@given(st.data())
def test_a_notebook_of_any_content(data):
    content = {"cells": [CELL], "metadata": METADATA}
    at = data.draw(st.sampled_from("cells metadata cell kernelspec workbench".split()))
    junk = data.draw(NESTED)
    if at in content:
        content[at] = junk
    elif at == "cell":
        content["cells"] = [junk, CELL | {data.draw(st.sampled_from([*CELL])): junk}]
    else:
        content["metadata"] = METADATA | {at: junk}
    path = FOLDER / "any.ipynb"
    path.write_text(json.dumps(content))
    read_or_refused(notebooks.read, path)


ARGUMENTS = """list run sweep figures data check fetch ridge mrc_ccg wine -p alpha=1
alpha=x alpha= =1 C=1 --rounds 2 -1 nan --gap --seconds inf --test
0.5 --scale unit --out
/nowhere/x -j /dev/null x.yaml a\0.yaml x.ipynb --profile smoke --nothing é""".split()
ARGUMENTS.append("")
COMMANDS = [
    "run",
    "run ridge",
    "run ridge wine",
    "run ridge wine --rounds",
    "sweep",
    "data check",
]


@examples(40)
@given(
    st.sampled_from(COMMANDS),
    st.lists(st.sampled_from(ARGUMENTS) | st.text(max_size=5), max_size=4),
)
def test_a_command_of_any_arguments(capsys, command, more):
    code = cli.main([*command.split(), *more])
    told = capsys.readouterr()
    assert code in (0, 1, 2)
    assert "Traceback" not in told.err
    if code == 2:
        assert told.err.count("\n") == 1 and told.err.strip()
