"""Content keys: equal where nothing differs, different where anything does that can
matter."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from helpers import each, module_fixture
from hypothesis import given
from hypothesis import strategies as st

from workbench import SOLVERS, Figures, grid
from workbench.arena import match
from workbench.arena.entries import entry
from workbench.runs import engine, mill, sweep
from workbench.runs.engine import PACKAGE, code, key, sources
from workbench.runs.notebooks import find
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


def written(value):
    """Return a value as keys should see it: 1 is 1.0, True is not 1, nan is nan."""
    if isinstance(value, dict):
        return {name: written(part) for name, part in value.items()}
    if isinstance(value, list):
        return [written(part) for part in value]
    whole = isinstance(value, float) and value.is_integer()
    return repr(int(value) if whole else value)


@module_fixture
def point():
    [point] = grid("mrc_ccg", "iris", stop={"gap": 1e-3, "rounds": 50}, test=0.3)
    return point


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), plain, max_size=5), st.randoms()
)
def test_the_order_of_names_does_not_count(parts, random):
    names = list(parts)
    random.shuffle(names)
    assert key(parts={n: parts[n] for n in names}) == key(parts=parts)
    assert key(**{f"x{n}": 1 for n in names}) == key(**{f"x{n}": 1 for n in parts})


@given(plain, plain)
def test_keys_differ_exactly_where_values_do(a, b):
    assert (key(value=a) == key(value=b)) == (written(a) == written(b))
    assert key(n=1) == key(n=np.int64(1)) == key(n=np.float32(1)) != key(n=True)


def changed_key(point, problem, *, timed=False, **changes):
    """Return the key of a point with these changes."""
    return point_key(replace(point, **changes), problem.checksum, timed)


def test_whatever_changes_a_run_changes_its_key(point, iris):
    before = changed_key(point, iris)
    for counts, change in (
        (True, {"solver": "mrc_splitting"}),
        (True, {"stop": {"gap": 1.0000001e-3, "rounds": 50}}),
        (True, {"stop": {"gap": 1e-3, "rounds": 51}}),
        (True, {"stop": {"gap": 1e-3, "rounds": 50, "cpu": 10}}),
        (True, {"repetition": 1}),
        (False, {"data": "lost or iris", "varied": ("eps1",)}),
    ):
        assert (changed_key(point, iris, **change) != before) == counts


@each("name", SOLVERS)
def test_every_parameter_of_every_solver_is_in_the_key(name, iris):
    [point] = grid(name, "iris", stop={"rounds": 1}, test=0.3)
    seen = {changed_key(point, iris)}
    for parameter in point.parameters:
        parameters = point.parameters | {parameter: "another"}
        seen.add(changed_key(point, iris, parameters=parameters))
    assert len(seen) == 1 + len(point.parameters)


def test_timed_runs_are_apart_and_each_is_a_measurement(point, iris):
    # A seed that changes neither data nor parameters changes no result, but it is a
    # run.
    assert changed_key(point, iris, seed=1) == changed_key(point, iris)
    timed = [changed_key(point, iris, timed=True, seed=seed) for seed in (0, 1)]
    assert len({changed_key(point, iris), *timed}) == 3


def keys_of(solver, iris):
    """Return the keys of a solver's point and of its match in the arena."""
    [point] = grid(solver, "iris", stop={"rounds": 1}, test=0.3)
    contender = match.Match("iris", 0, solver, entry(solver), 1.0, 1.0, None, False)
    sources.cache_clear()
    return changed_key(point, iris), match.match_key(contender, iris)


def test_versions_of_libraries_and_named_functions_count(iris, monkeypatch):
    seen = [keys_of("ww_walrus", iris)]
    monkeypatch.setitem(SOLVERS, "ww_walrus", SOLVERS["ww_shark"])
    seen.append(keys_of("ww_walrus", iris))
    monkeypatch.setattr(engine.platform, "python_version", lambda: "3.99.0")
    seen.append(keys_of("ww_walrus", iris))
    for library in engine.LIBRARIES:
        monkeypatch.setattr(
            engine,
            "distributions",
            lambda n=library: [SimpleNamespace(name=n, version="0.0.1")],
        )
        seen.append(keys_of("ww_walrus", iris))
    sources.cache_clear()
    for kind in zip(*seen):
        assert len(set(kind)) == 3 + len(engine.LIBRARIES)


def hashed(solver, monkeypatch):
    """Return the files that the key of a solver's code has."""
    found = set()
    monkeypatch.setattr(engine, "sources", lambda *places: found.update(places) or "")
    code(SOLVERS[solver].steps)
    return {
        x
        for place in found
        for x in (place.rglob("*.py") if place.is_dir() else [place])
    }


@each("name", "mrc_splitting memoir_l1 ww_walrus cuts_linear_time libsvm ridge".split())
def test_every_file_whose_functions_compute_counts(name, tmp_path, monkeypatch):
    """Ask the interpreter, and not the imports, what was run."""
    ran = set()
    [point] = sweep.planned(
        grid(name, "digits + 20 fourier", stop={"rounds": 2}, test=0.3), False
    )
    sweep._problem.cache_clear()
    sys.setprofile(lambda frame, event, argument: ran.add(frame.f_code.co_filename))
    try:
        sweep.solve(point, False, tmp_path / "trace.jsonl", Limits())
    finally:
        sys.setprofile(None)
    ours = {Path(file) for file in ran if Path(file).is_relative_to(PACKAGE)}
    files = hashed(name, monkeypatch)
    others = {path.relative_to(PACKAGE).as_posix() for path in ours - files}
    # These plan, name and keep a run: they change none of its numbers.
    assert others <= {f"runs/{n}.py" for n in "engine grid parameters worker".split()}
    assert len(ours) > 10
    own = SOLVERS[name].steps.__module__.split(".")[1]
    rooms = {path.relative_to(PACKAGE).parts[0] for path in files}
    assert rooms == {"core", "kernels", "data", "registry.py", "runs", own}


def test_where_proofs_are_written_their_code_counts(monkeypatch):
    [point], rooms = grid("mrc_ccg", "wine", stop={"rounds": 1}), []
    monkeypatch.setattr(
        sweep, "code", lambda steps, *others: rooms.append(others) or ""
    )
    keys = {sweep.point_key(point, "", False, proofs) for proofs in (False, True)}
    assert rooms == [(), ("proofs",)] and len(keys) == 1


def test_any_change_of_a_source_counts_and_its_place_does_not(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "solver.py").write_text("def steps(problem):\n    yield 1\n")
        (tmp_path / name / "helper.py").write_text("A = 1\n")
    seen = {sources(tmp_path / "one"), sources(tmp_path / "two")}
    assert len(seen) == 1
    monkeypatch.syspath_prepend(tmp_path / "one")
    import solver  # a solver from elsewhere: the modules next to it count

    before = code(solver.steps)
    assert (
        before
        != code(SOLVERS["mrc_lp"].steps)
        != code(SOLVERS["mrc_lp"].steps, "arena")
    )
    (tmp_path / "one" / "helper.py").write_text("A = 2\n")
    assert code(solver.steps) == before  # as the modules of this process themselves
    sweep.planned([], False)  # a new sweep reads them again
    assert code(solver.steps) != before


def test_a_figure_has_the_key_that_the_mill_has_made(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_KEY", "made by the mill")
    assert Figures("nothing", {}, folder=tmp_path).key == "made by the mill"


def test_numbers_are_not_looked_up_as_names_of_data(monkeypatch):
    texts = []
    monkeypatch.setattr(mill, "state_of_folders", lambda names: texts.extend(names))
    [notebook] = find(["mrc_epsilon"])
    values = {"C": 1.0, "grid": "1e-2, 1e-3", "data": "iris", "others": ["wine", 2]}
    mill.notebook_key(notebook, values)
    assert texts == ["iris", "wine"]
