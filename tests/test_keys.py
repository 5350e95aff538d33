"""Content keys: equal where nothing differs, different where anything does that can matter."""

import importlib
import sys
from dataclasses import replace
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.arena import match
from workbench.arena.entries import entry
from workbench.data.panels import panel
from workbench.registry import SOLVERS
from workbench.runs import keys, sweep
from workbench.runs.grid import grid
from workbench.runs.keys import code, key
from workbench.runs.sweep import point_key
from workbench.runs.worker import Limits

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["nan", "inf", "1", "1.0", "True", "None", ""])
)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def same(a, b):
    """Tell whether two values are one in the sense of keys: 1 is 1.0, True is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    number = (int, float)
    if isinstance(a, number) and isinstance(b, number):
        return isinstance(a, bool) == isinstance(b, bool) and (a == b or (a != a and b != b))
    return type(a) is type(b) and a == b


@pytest.fixture(scope="module")
def iris():
    return panel("iris", test=0.3)


@pytest.fixture(scope="module")
def point():
    [point] = grid("mrc_ccg", "iris", stop={"gap": 1e-3, "rounds": 50}, test=0.3)
    return point


@given(st.dictionaries(st.text(min_size=1, max_size=3), plain, max_size=5), st.randoms())
def test_the_order_of_names_does_not_count(parts, random):
    names = list(parts)
    random.shuffle(names)
    assert key(parts={n: parts[n] for n in names}) == key(parts=parts)
    assert key(**{f"x{n}": 1 for n in names}) == key(**{f"x{n}": 1 for n in parts})


@given(plain, plain)
def test_keys_differ_exactly_where_values_do(a, b):
    assert (key(value=a) == key(value=b)) == same(a, b)
    assert key(n=1) == key(n=1.0) == key(n=np.int64(1)) == key(n=np.float32(1)) != key(n=True)


def test_the_order_of_a_grid_does_not_count():
    def keys_of(solvers, data, stop, seeds):
        points = grid(solvers, data, stop=stop, seeds=seeds, test=0.3)
        found = [point_key(p, panel(p.data, p.seed, p.test), False) for p in points]
        assert len(set(found)) == len(found) == 20
        return sorted(found)

    axes, stop = {"eps1": [1e-1, 1e-2], "n_max": [10, 20]}, {"rounds": 5, "gap": 1e-3}
    shuffled = {"mrc_lp": {}, "mrc_ccg": {"n_max": [20, 10], "eps1": [1e-2, 1e-1]}}
    one = keys_of({"mrc_ccg": axes, "mrc_lp": {}}, ["iris", "wine"], stop, [0, 1])
    assert keys_of(shuffled, ["wine", "iris"], dict(reversed(stop.items())), [1, 0]) == one


@pytest.mark.parametrize(
    ("counts", "change"),
    [
        (True, {"solver": "mrc_splitting"}),
        (True, {"stop": {"gap": 1.0000001e-3, "rounds": 50}}),
        (True, {"stop": {"gap": 1e-3, "rounds": 51}}),
        (True, {"stop": {"gap": 1e-3, "rounds": 50, "cpu": 10}}),
        (True, {"repetition": 1}),
        (False, {"data": "lost or iris", "varied": ("eps1",)}),
    ],
)
def test_whatever_changes_a_run_changes_its_key(counts, change, point, iris):
    changed = point_key(replace(point, **change), iris, False)
    assert (changed != point_key(point, iris, False)) == counts


@pytest.mark.parametrize("name", SOLVERS)
def test_every_parameter_of_every_solver_is_in_the_key(name, iris):
    [point] = grid(name, "iris", stop={"rounds": 1}, test=0.3)
    seen = {point_key(point, iris, False)}
    for parameter, value in point.parameters.items():
        if isinstance(value, str):
            other = "linear"  # a kernel
        else:
            other = 7 if value in (None, np.inf) else not value if value is True else value + 1
        parameters = {**point.parameters, parameter: other}
        seen.add(point_key(replace(point, parameters=parameters), iris, False))
    assert len(seen) == 1 + len(point.parameters)


def test_any_value_of_the_data_counts(point, iris):
    expected = point_key(point, iris, False)
    for name in ("X", "X_test", "y", "y_test"):
        array = getattr(iris, name).copy()
        array.flat[0] = (
            1 - array.flat[0] if array.dtype.kind == "i" else np.nextafter(array.flat[0], 9)
        )
        changed = replace(iris, **{name: array})
        assert point_key(point, changed, False) != expected, name
    assert point_key(point, replace(iris, X=iris.X.astype(np.float32)), False) != expected


def test_timed_runs_are_apart_and_each_is_a_measurement(point, iris):
    untimed, timed = (point_key(point, iris, timed) for timed in (False, True))
    assert untimed != timed
    # A seed that changes neither data nor parameters changes no result, but it is a run.
    other = replace(point, seed=1)
    assert point_key(other, iris, False) == untimed
    assert point_key(other, iris, True) != timed


def keys_of(solver, iris):
    """Return the keys of a solver's point and of its match in the arena."""
    [point] = grid(solver, "iris", stop={"rounds": 1}, test=0.3)
    contender = match.Match("iris", 0, solver, entry(solver), 1.0, 1.0, None, False)
    code.cache_clear()
    return point_key(point, iris, False), match.match_key(contender, iris)


def both_differ(a, b):
    return all(x != y for x, y in zip(a, b))


@pytest.mark.parametrize(
    ("library", "solver", "counts"),
    [
        *((name, "cuts_exact", True) for name in ("numpy", "scipy", "numba", "llvmlite")),
        *((name, "cuts_exact", True) for name in ("scikit-learn", "pandas", "python")),
        *(
            ("highspy", "mrc_ccg", True),
            ("nmslib", "memoir_l2", True),
            ("vowpalwabbit", "vw", True),
        ),
        *(("nmslib", "mrc_ccg", False), ("matplotlib", "mrc_ccg", False)),
    ],
)
def test_the_version_of_every_library_that_a_run_uses_counts_and_no_other(
    library, solver, counts, iris, monkeypatch
):
    before, installed = keys_of(solver, iris), keys.version
    if library == "python":
        monkeypatch.setattr(keys.platform, "python_version", lambda: "3.99.0")
    fake = lambda name: "0.0.1" if name == library else installed(name)  # noqa: E731
    monkeypatch.setattr(keys, "version", fake)
    changed = keys_of(solver, iris)
    assert both_differ(changed, before) if counts else changed == before


def test_every_library_is_found_by_the_name_of_its_module():
    packages = [path.stem for path in keys.PACKAGE.glob("*") if path.suffix in ("", ".py")]
    _, libraries = keys.reached(*(f"workbench.{name}" for name in packages if name[0] != "_"))
    installed = libraries & set(packages_distributions())
    assert {"sklearn", "PIL", "yaml", "highspy"} <= installed
    assert [name for name in installed if None in keys._versions([name]).values()] == []


@pytest.mark.parametrize("name", ["mrc_splitting", "memoir_l1", "ww_walrus", "cuts_linear_time"])
def test_every_file_whose_functions_run_counts(name, iris, tmp_path, monkeypatch):
    """Ask the interpreter, and not the imports, what was run."""
    ran = set()

    def heard(frame, event, argument):
        ran.add(frame.f_code.co_filename)

    [point] = sweep.planned(grid(name, "digits + 20 fourier", stop={"rounds": 2}, test=0.3), False)
    sweep._problem.cache_clear()
    sys.setprofile(heard)
    try:
        sweep.solve(point, False, tmp_path / "trace.jsonl", Limits())
    finally:
        sys.setprofile(None)
    ours = {Path(file) for file in ran if Path(file).is_relative_to(keys.PACKAGE)}
    files, _ = keys.reached(SOLVERS[name].steps.__module__, sweep.__name__)
    assert len(ours) > 10 and ours <= {*files}
    names = {path.relative_to(keys.PACKAGE).with_suffix("").as_posix() for path in files}
    assert {"core/stream", "runs/worker", "data/formats"} <= names
    assert not {"cli", "figures/saved", "figures/plots", "registry", "live/dashboard"} & names
    before, text = point_key(point, iris, False), keys._text
    for changed in files if name == "memoir_l1" else ():
        patch = lambda path: text(path) + "\nA = 1" * (path == changed)  # noqa: B023, E731
        monkeypatch.setattr(keys, "_text", patch)
        code.cache_clear()
        assert point_key(point, iris, False) != before, changed


def test_the_function_that_a_name_stands_for_counts(iris, monkeypatch):
    before = keys_of("ww_walrus", iris)
    monkeypatch.setitem(SOLVERS, "ww_walrus", SOLVERS["ww_shark"])
    assert both_differ(keys_of("ww_walrus", iris), before)


SOLVER = '''\
"""A solver."""
from {package} import helper
from .deeper.constants import STEP

def steps(problem, *, eps=1.0):
    return helper.half(eps) * STEP
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that rewrites a file of a small package and hashes its solver's code."""
    name = "solvers_of_a_test"
    files = {
        "__init__.py": "",
        "solver.py": SOLVER.format(package=name),
        "helper.py": "from workbench.core import measures\n\ndef half(x):\n    return x / 2\n",
        "deeper/__init__.py": "",
        "deeper/constants.py": "import numpy\nSTEP = 1.0\n",
        "stranger.py": "A = 1\n",
    }
    (tmp_path / name / "deeper").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()

    def rewrite(file=None, old="", new=""):
        if file:
            assert old in files[file]
            files[file] = files[file].replace(old, new)
        for path, text in files.items():
            (tmp_path / name / path).write_text(text)
        code.cache_clear()
        return code(f"{name}.solver")

    yield rewrite
    code.cache_clear()
    assert name not in sys.modules, "hashing code must not run it"


@pytest.mark.parametrize(
    ("counts", "file", "old", "new"),
    [
        (False, "solver.py", "eps=1.0", "\n    eps = 1.0,  # the first step\n"),
        (False, "helper.py", "return x / 2", "# halved\n\n    return (x / 2)"),
        (False, "stranger.py", "A = 1", "A = 2"),  # not imported
        (True, "solver.py", "eps=1.0", "eps=2.0"),
        (True, "helper.py", "x / 2", "x / 3"),
        (True, "deeper/constants.py", "1.0", "1.5"),
    ],
)
def test_the_code_of_a_solver_and_of_all_that_it_imports_counts(package, counts, file, old, new):
    before = package()
    assert (package(file, old, new) != before) == counts
    assert package(file, new, old) == before


def test_a_solver_s_code_is_its_own_and_not_that_of_all_solvers(package):
    package()
    files, libraries = keys.reached("solvers_of_a_test.solver")
    assert keys.PACKAGE / "core" / "problem.py" in files and {"numpy", "scipy"} <= libraries
    files, _ = keys.reached("workbench.mrc.ccg", sweep.__name__, match.__name__)
    assert keys.PACKAGE / "mrc" / "risk.py" in files
    assert keys.PACKAGE / "mrc" / "pdhg.py" not in files
    with pytest.raises(ValueError, match="no source of numpy_of_nobody can be read"):
        code("numpy_of_nobody")


def test_code_is_read_again_when_the_next_sweep_is_planned(package, monkeypatch):
    before = package()
    module = "solvers_of_a_test.solver"
    spec = importlib.util.find_spec("solvers_of_a_test")
    path = spec.submodule_search_locations[0] + "/helper.py"
    with open(path, "a") as helper:
        helper.write("\nB = 2\n")
    assert code(module) == before  # as the modules of this process themselves
    sweep.planned([], False)
    assert code(module) != before
