"""Grids: every point is there once and typed, and what is wrong is refused before
anything runs."""

import math
import re

from helpers import each, refuses

from workbench.runs.grid import at_least, grid, read_points

STOP = {"rounds": 3}


def test_a_grid_is_the_product_of_its_axes():
    points = grid(
        {"mrc_ccg": {"eps1": [1e-2, 1e-3]}, "mrc_lp": {}},
        "wine, digits",
        stop={"cpu": 60},
        seeds=3,
        repetitions=2,
    )
    assert len(points) == (2 + 1) * 2 * 3 * 2 == len({point.label for point in points})
    assert points[0].label == "mrc_ccg eps1=0.01, wine, seed 0"
    assert points[23].label == "mrc_ccg eps1=0.001, digits, seed 2, repetition 1"
    # a default
    assert points[0].parameters["n_max"] == 400 and points[0].varied == ("eps1",)
    assert all(p.stop == {"cpu": 60.0} and p.test is None for p in points)


def test_parameters_of_points():
    def found(names, solvers, **axes):
        points = grid(solvers, "iris", stop=STOP, **axes)
        return [(p.solver, *(p.parameters[name] for name in names)) for p in points]

    # Alternatives are parameters that go together.
    given = {"mrc_ccg": [{"eps1": 1e-2, "n_max": [10, 20]}, {"eps1": 1e-4}]}
    expected = [("mrc_ccg", e, n) for e, n in ((1e-2, 10), (1e-2, 20), (1e-4, 400))]
    assert found(["eps1", "n_max"], given) == expected
    # Shared parameters go to every solver, and its own win.
    given = {"mrc_ccg": {"lambda0": 0.5}, "mrc_lp": {}}
    shared = {"lambda0": [0.1, 0.2]}
    expected = [("mrc_ccg", 0.5), ("mrc_lp", 0.1), ("mrc_lp", 0.2)]
    assert found(["lambda0"], given, parameters=shared) == expected
    # The seed of a point is the solver's too, unless the grid names it.
    given = {"memoir_pegasos": {"seed": [8, 9]}}
    assert found(["seed"], given, seeds=[4]) == [("memoir_pegasos", s) for s in (8, 9)]
    given = "memoir_pegasos"
    assert found(["seed"], given, seeds=[4, 5]) == [(given, s) for s in (4, 5)]


def test_values_take_the_type_of_their_default():
    axes = {  # with what they are in the points
        "eps1": {"1e-2": 0.01, 1: 1.0},
        "n_max": {50.0: 50, "1e2": 100, 2**60 + 1: 2**60 + 1},
        "columns": {True: True, None: None, "off": False},
    }
    stop = {"rounds": "5", "gap": "1e-3", "seconds": 1}
    points = grid({"mrc_ccg": {n: [*v] for n, v in axes.items()}}, "iris", stop=stop)
    for name, values in axes.items():
        found = {repr(point.parameters[name]) for point in points}
        assert found == set(map(repr, values.values()))
    assert repr(points[0].stop) == "{'rounds': 5, 'gap': 0.001, 'seconds': 1.0}"


MISTAKES = {
    "solver: unknown name 'mrc_cg'": {"solvers": "mrc_cg"},
    "mrc_ccg has no 'eps'": {"solvers": {"mrc_ccg": {"eps": 1}}},
    "mrc_ccg: eps1: must be distinct values": {
        "solvers": {"mrc_ccg": {"eps1": [0.1, "1e-1"]}}
    },
    "eps1: must be of type float, got 'small'": {
        "solvers": {"mrc_ccg": {"eps1": "small"}}
    },
    "columns: must be of type bool, got 'maybe'": {
        "solvers": {"mrc_ccg": {"columns": "maybe"}}
    },
    "mrc_ccg: eps1: must be finite, got -inf": {
        "solvers": {"mrc_ccg": {"eps1": -math.inf}}
    },
    "seed: must be a whole number >= 0, got -1": {
        "solvers": {"memoir_pegasos": {"seed": [-1]}}
    },
    "at most 100,000 points, got 2,000,000,000": {"seeds": 10**9},
    "at most 100,000 points, got 2,000,000": {"repetitions": 10**6},
    "at most 100,000 points, got 1,000,000": {
        "solvers": {
            "mrc_ccg": {name: [*range(100)] for name in ("eps1", "eps2", "lambda0")}
        }
    },
    "data: must be a list of descriptions": {"data": ["iris", False]},
    "list: an item is empty in 'iris,'": {"data": "iris,"},
    "stop: must set a limit (rounds, seconds, cpu)": {"stop": {"gap": 1e-3}},
    "stop: gap must be finite and not negative": {"stop": {"rounds": 1, "gap": -1}},
    "seeds: must be a count >= 1 or a list of seeds >= 0, got [-1]": {"seeds": [-1]},
    "repetitions: must be a whole number": {"repetitions": 0},
    "test: must lie strictly between 0 and 1, got 1.0": {"test": 1.0},
}


@each("message", MISTAKES)
def test_a_mistake_is_refused_and_named(message):
    arguments = {"solvers": ["mrc_lp", "mrc_ccg"], "data": "iris", "stop": STOP}
    with refuses(re.escape(message)):
        grid(**arguments | MISTAKES[message])


def test_repetitions_are_added_until_settings_have_enough():
    points = grid(["mrc_lp", "memoir_pegasos"], "iris, wine", stop=STOP, seeds=2)
    extended = at_least(points, 5)
    assert extended[: len(points)] == points
    for of in {(p.solver, p.data) for p in points}:
        runs = sorted(
            (p.seed, p.repetition) for p in extended if (p.solver, p.data) == of
        )
        assert runs == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    enough = grid("mrc_lp", "iris", stop=STOP, seeds=6)
    assert at_least(enough, 5) == enough


YAML = """about: Which n_max is best?
seeds: 2
test: null
data: [iris, wine + 10 fourier]
solvers:
  mrc_ccg:
    n_max: [&n 10, 20]
    eps1: 1e-3
  mrc_lp:
stop: {gap: 1e-4, rounds: *n}
"""


@each("mark, end", [("", "\n"), ("\ufeff", "\r\n")])
def test_a_yaml_file_is_read_as_arguments(mark, end, tmp_path):
    """With anchors, and as files of Windows are."""
    path = tmp_path / "small.yaml"
    path.write_bytes((mark + YAML.replace("\n", end)).encode())
    points = read_points(path)
    assert len(points) == 3 * 2 * 2 and points[0].test is None
    assert points[0].parameters | {"n_max": 10, "eps1": 1e-3} == points[0].parameters
    assert points[0].stop == {"gap": 1e-4, "rounds": 10}


GOOD = "solvers: {mrc_ccg: {n_max: N}}\ndata: D\nstop: {rounds: R}\n"
VALUES = {  # as people write them in YAML, and what a grid has then, or says
    "010": 10,
    "08": 8,
    "1_000": 1000,
    "0x10": 16,
    "0o10": 8,
    "+1e1": 10,
    "10.": 10,
    '"10"': 10,
    "[1, 1.5]": "must be of type int, got 1.5",
    "1:30": "must be of type int, got '1:30'",
    "no": "must be of type int, got 'no'",
    "~": "must be of type int, got None",
    "2026-11-29": "a timestamp is not accepted; put a text in quotes",
    "!!set {1}": "a set is not accepted",
    "{1: 2}": "must be of type int, got {1: 2}",
    ".inf": "must be of type int, got inf",
    "1, n_max: 2": "'n_max' appears twice",
    '1, "n_max": 2': "'n_max' appears twice",
    "1}, mrc_ccg: {n_max: 2": "'mrc_ccg' appears twice",
    "1, <<: {n_max: 3}, eps1: 1e-3": 1,
}


@each("text", VALUES)
def test_values_as_people_write_yaml_are_numbers_or_refused(text, tmp_path):
    path = tmp_path / "v.yaml"
    value = VALUES[text]
    path.write_text(GOOD.replace("N", text).replace("D", "no").replace("R", "0010"))
    if isinstance(value, str):
        with refuses(f"^v.yaml: .*{re.escape(value)}"):
            read_points(path)
    else:
        [point] = read_points(path)
        assert point.parameters["n_max"] == value
        assert type(point.parameters["n_max"]) is int
        assert point.data == "no" and point.stop == {"rounds": 10}


FILES = {
    "while parsing a flow sequence": "solvers: [mrc_lp\n",
    "must contain 'name: value' lines of solvers, data and stop": "mrc_lp\n",
    "must contain 'name: value' lines of solvers": "",
    "must contain 'name: value'": "1: 2\n",
    "missing 1 required positional argument: 'data'": GOOD.replace("data: D\n", ""),
    "unexpected keyword argument 'seed'": GOOD + "seed: 3\n",
    "'data' appears twice": GOOD + "data: wine\n",
    "found character '\\t'": "solvers:\n\tmrc_lp:\n",
    "expected a single document": f"{GOOD}---\n{GOOD}",
    "must be a text in UTF-8": GOOD.encode("utf-16"),
    "maximum recursion depth": "[" * 3000,
}


@each("message", FILES)
def test_a_bad_file_is_refused_and_named(message, tmp_path):
    path = tmp_path / "bad.yaml"
    content = FILES[message]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with refuses(rf"(?s)^bad\.yaml: .*{re.escape(message)}"):
        read_points(path)
