"""Same seed, same machine, same trace: for every solver, in any process; nearly with
threads."""

import json
from pathlib import Path

from helpers import each, module_fixture, processes
from helpers.solvers import NAMES, SHORT, TWO_CLASSES
from pytest import approx

import workbench

# Relative differences that a second thread may make, by solver; all others agree to the
# bit. BLAS may add up long sums in another order. (nmslib, no solver's default, has a
# seed of its own.)
TOLERANCES = {"nystroem_svm": 1e-9, "cuts_exact": 1e-9}
PROGRAM = """
import hashlib, json, re, sys
from dataclasses import fields
import numpy as np
from workbench.core.problem import as_problem
from workbench.registry import SOLVERS
from workbench.runs.run import run
from workbench.core.stream import rounds
from workbench.core.trace import encode

def said(value):
    if isinstance(value, np.ndarray):
        return hashlib.sha256(value.tobytes()).hexdigest()[:16]
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    return repr(value)

names, short, two = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
y = np.arange(500) % 3
# from here on BLAS shares work
X = rng.normal(size=(500, 24)) + 1.5 * rng.normal(size=(3, 24))[y]
found = {}
for name in names:
    # linear programs have one thread
    n = 60 if name.startswith(("mrc_lp", "svm_")) else 500
    problem = as_problem(X[:n], y[:n] % 2 if name in two else y[:n])
    chosen = short.get(name)
    trace, state = run(name, problem, rounds(3), parameters=chosen, warm_up=False)
    clock = re.compile("cpu|.*seconds")
    rows = [{c: v for c, v in r.items() if not clock.fullmatch(c)} for r in trace.rows]
    kept = [f.name for f in fields(state) if not clock.fullmatch(f.name)]
    whole = {name: said(getattr(state, name)) for name in kept}
    found[name] = [rows, whole, state.scores(X[:20]).tolist()]
print(json.dumps(encode(found)))
"""


def started(hash_seed, names, threads=1):
    """Start a fresh process that runs these solvers, so that several go side by
    side."""
    more = {
        f"{pool}_NUM_THREADS": str(threads) for pool in "OMP OPENBLAS MKL NUMBA".split()
    }
    root = str(Path(workbench.__file__).parents[1])
    more |= {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": root}
    work = json.dumps([names, SHORT, sorted(TWO_CLASSES)])
    return processes.started("-W", "ignore", "-c", PROGRAM, work, **more)


@module_fixture
def runs(request):
    """Return the traces of solvers in two processes of one thread, and in one of two
    threads."""
    chosen = " ".join(item.name for item in request.session.items)
    names = [name for name in NAMES if f"nearly[{name}]" in chosen]
    again = [name for name in names if name in TOLERANCES]
    three = [started(1, names), started(2, again), started(3, names, threads=2)]
    answers = [process.communicate()[0] for process in three]
    assert [process.returncode for process in three] == [0, 0, 0]
    return [json.loads(answer) for answer in answers]


@each("name", NAMES)
def test_processes_agree_to_the_bit_and_threads_nearly(name, runs):
    (rows, _, scores), (others, _, other_scores) = runs[0][name], runs[2][name]
    if name not in TOLERANCES:
        assert runs[0][name] == runs[2][name]
        return
    assert runs[0][name] == runs[1][name]
    close = {"rel": TOLERANCES[name], "abs": TOLERANCES[name]}
    for row, other in zip(rows, others, strict=True):
        words = {column for column, value in row.items() if isinstance(value, str)}
        assert [row.pop(word) for word in words] == [other.pop(word) for word in words]
        assert row == approx(other, **close)
    for score, other in zip(scores, other_scores, strict=True):
        assert score == approx(other, **close)
