"""A live parameter that changes in mid-run: the solver goes on, and all is true of the
new value.

A new solver, which no table here knows, is compared with a run of its own.
"""

import copy
import inspect
import pickle
from itertools import islice

import numpy as np
import pytest
from helpers import each, oracles
from helpers.oracles import LINKS
from helpers.solvers import (
    CERTIFIED,
    NEW,
    ONE_ROUND,
    SHORT,
    TWO_CLASSES,
    affine,
    after,
    check_bounds,
    objective,
    observe,
    suited,
    weight,
)
from pytest import approx

from workbench import SOLVERS, below, rounds, run
from workbench.runs.run import resolve

# Two values of every parameter.
VALUES = {
    **dict.fromkeys(("inner", "added"), (1, 3)),
    "lambda0": (0.01, 0.1),
    "lam": (0.03, 0.1),
    "C": (0.05, 0.5),
    "l1": (0.02, 0.2),
    "alpha": (0.02, 0.2),
    "eps": (1e-9, 0.3),
    "eps1": (0.0, 0.2),
    "eps2": (0.0, 0.05),
    "k_max": (3, 30),
    "n_max": (1, 12),
    "m_max": (1, 3),
    "steps": (15, 40),
    "batch_size": (4, 12),
    "cache_mb": (0.01, 512.0),
    "passes": (2, 5),
    "r": (4, 40),
    "p": (2, 20),
    "eta0": (0.02, 0.1),
    "eta_step": (0.02, 1.0),
    "mips": ("exact", "simple_lsh"),
}
# Settings in addition to those of SHORT: linear classifiers, and problems that are
# solved soon.
OWN = {name: {"kernel": "linear"} for name in SOLVERS if name.startswith("cuts")}
STEPS = {"batch_size": 20, "eta0": 0.005, "eta_step": 0.1}
OWN["cuts_constant_time"]["r"] = 40
OWN |= {
    "memoir_pegasos": {"lam": 0.1},
    "memoir_l2": STEPS | {"lam": 0.1},
    "memoir_lsh": STEPS | {"lam": 0.1, "bits": 4096},
    "memoir_l1": STEPS,
    "memoir_averaged": {"eta0": 0.1},
    "ls_generalized": {"alpha": 0.1},
    "ls_accelerated": {"alpha": 0.1},
    "ls_stagewise": {"block": 5},
    "ls_stagewise_passes": {"passes": 12},
    "ls_columns": {"block": 2, "passes": 24},
    "ls_columns_logistic": {"block": 2, "passes": 24},
    "cs_working_set": {"C": 0.1},
}
WEIGHTS = "lambda0 lam C alpha gamma".split()
# These say when a run stops, and do not change its iterates, or hardly.
STOPS = {*"eps eps1 eps2 k_max p passes".split()}

PAIRS = [
    pytest.param(name, parameter, old, new, id=f"{name} {parameter} {old} to {new}")
    for name, solver in SOLVERS.items()
    for parameter in solver.live
    if parameter in VALUES  # or the first test below fails
    for old, new in (VALUES[parameter], VALUES[parameter][::-1])
]
BEFORE = 8
AFTER = 25
FOUND = {}  # the optima, by what they depend on


def made(name, parameter, old, new, blobs):
    """Return a problem, and the solver's settings with the old and the new value."""
    problem = suited(name, blobs(n=40, d=16 if name in TWO_CLASSES else 4, k=4))
    base = SHORT.get(name, {}) | OWN.get(name, {})
    if parameter in ("m_max", "eps2") and name.startswith("mrc"):
        base |= {"columns": True}
    return problem, base | {parameter: old}, base | {parameter: new}


def seen(name, problem, parameters, state=None, most=AFTER):
    """Return the rows without the clock, and a copy of each state."""
    found = islice(observe(name, problem, parameters, state), most + 1)
    return [(row, copy.deepcopy(s)) for row, _, s in found]


def value(name, parameters, key):
    return (resolve(name, {})[1] | parameters).get(key)


def optimum(name, problem, parameters, state):
    """Return a narrow interval around the optimum, which a new solver finds itself."""
    of_problem = {
        p: v for p, v in parameters.items() if p in (*WEIGHTS, "l1", "link", "kernel")
    }
    known = name.split("_")[0], problem.checksum, *of_problem.items()
    if known not in FOUND and name in NEW:
        rules = below("gap", 1e-6), rounds(400)
        last = run(name, problem, *rules, parameters=parameters)[0].last
        FOUND[known] = last["lower"], last["upper"]
    elif known not in FOUND:  # the landmarks span the whole space here
        exact = name.replace("nystroem", "exact")
        FOUND[known] = oracles.optimum(exact, problem, of_problem, state)
    low, high = FOUND[known]
    assert high - low < 1e-4 or name in NEW
    return low, high


def lowered(name, row):
    """Return the objective that the solver lowers."""
    if name == "ls_calibrated":
        return row["squared_error"]
    return row["upper"] if "upper" in row and "primal" not in row else row["primal"]


def stated(name, problem, s, parameters):
    """Return a classifier's objective by definition, None if it is estimated or new."""
    if name == "cuts_constant_time":
        return None
    if name.startswith("ls") and name not in CERTIFIED:
        link = "identity" if name in ("ls_calibrated", "ls_columns") else "softmax"
        scores = s.scores(problem.X).astype(float)
        loss = LINKS[link](scores, np.eye(problem.k)[problem.y]).value.mean()
        if name == "ls_calibrated":
            return 2 * loss
        return loss + value(name, parameters, "alpha") / 2 * (s.W**2).sum()
    M = affine(s, problem.d)
    if name.startswith("memoir") and name not in CERTIFIED:
        lam = value(name, parameters, "lam") or 0.0
        if name == "memoir_l1":
            mean = objective("memoir_pegasos", problem, M, {"lam": 0.0})
            return mean + lam / 2 * abs(M).sum()
        return objective("memoir_pegasos", problem, M, {"lam": lam})
    return objective(name, problem, M, parameters)


def test_every_solver_says_which_of_its_parameters_are_live():
    for name, solver in SOLVERS.items():
        live = set(solver.live)
        assert live <= set(inspect.signature(solver.steps).parameters) - {"state"}
        assert len(live) == len(solver.live)
        assert live <= set(VALUES), f"{name}: VALUES has to have two values of each"
        # A peer cannot be resumed except by fitting again.
        fits = ".peers." in solver.steps.__module__
        assert name in NEW or bool(live) != (fits or name in ONE_ROUND)


@each("name, parameter, old, new", PAIRS)
def test_all_is_true_of_the_new_value(name, parameter, old, new, blobs):
    problem, before, later = made(name, parameter, old, new, blobs)
    # Bounds of the old value, if they stay, are seen to be false when they are narrow.
    state = after(400 if name in NEW else BEFORE, name, problem, **before)
    whole = pickle.dumps(state)
    branch = seen(name, problem, later, state)
    fresh = seen(name, problem, later)
    assert pickle.dumps(state) == whole
    assert branch[0][0]["round"] == state.round
    check_objective(name, problem, branch, later)
    if value(name, later, "mips") == "exact":
        assert branch[-1][0]["recall"] == 1.0
    if name not in CERTIFIED:
        first, last, end = (
            lowered(name, row) for row, _ in (branch[0], branch[-1], fresh[-1])
        )
        assert last <= 1.25 * end
        assert last <= first or parameter not in WEIGHTS
        return
    if name in NEW and parameter == weight(name):
        low, high = optimum(name, problem, later, state)
        other = optimum(name, problem, before, state)
        assert low > other[1] or high < other[0], "these optima are not far apart"
    check_bounds([row for row, _ in branch], optimum(name, problem, later, state))
    check_gaps([row for row, _ in branch], [row for row, _ in fresh])


def check_objective(name, problem, branch, parameters):
    """Check that rows have the objective of their states' classifiers."""
    for row, s in branch[:: 1 if len(branch) < 20 else 6]:
        claim = stated(name, problem, s, parameters)
        if claim is not None:
            assert lowered(name, row) == approx(claim, rel=1e-4, abs=1e-6)


def check_gaps(rows, fresh):
    """Check that a branch ends nearly as near the optimum as a run of its own."""
    last = rows[-1]
    if "gap_ratio" in last:  # over the gap after round 1 of a run with the new value
        gaps = [row["primal"] - row["dual"] for row in (last, fresh[1])]
        assert last["gap_ratio"] == approx(gaps[0] / gaps[1], abs=1e-9)
    assert last["gap"] <= 3 * fresh[-1]["gap"] + 3e-3 * last["upper"]


MOVES = [pair for pair in PAIRS if pair.values[1] not in STOPS | {"cache_mb"}]
ENDS = [pair for pair in PAIRS if pair.values[1] in STOPS]


@each("name, parameter, old, new", MOVES)
def test_the_next_rounds_are_those_of_the_new_value(name, parameter, old, new, blobs):
    problem, before, later = made(name, parameter, old, new, blobs)
    state = after(0, name, problem, **before)
    runs = []
    for settings in (before, later):
        branch = seen(name, problem, settings, state, 4)[1:]
        runs.append([(row, s.scores(problem.X).tolist()) for row, s in branch])
    assert runs[0] != runs[1]


@each("name, parameter, old, new", ENDS)
def test_the_end_is_that_of_the_new_value(name, parameter, old, new, blobs):
    problem, before, later = made(name, parameter, old, new, blobs)
    state = after(100, name, problem, **before)
    more = len(seen(name, problem, later, state, 100))
    if new < old if parameter.startswith("eps") else new > old:
        assert more > 1
    elif name == "cuts_constant_time":  # satisfied samples are counted again
        assert more < 100
    else:
        assert more == 1


def test_the_interior_point_method_outlives_a_large_lambda0(blobs):
    """With the large value, the optimum has no component."""
    name = "mrc_interior_point"
    problem = blobs(90, 8, 4, seed=3)
    later = {"lambda0": 0.01}
    state = after(60, name, problem, lambda0=1.0)
    assert not len(state.J)
    assert state.upper == approx(0.75)
    rows = [row for row, _ in seen(name, problem, later, state)]
    check_bounds(rows, optimum(name, problem, later, state))
    assert rows[-1]["gap"] < 1e-3
