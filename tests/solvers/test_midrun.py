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
    EXTRAS,
    NEW,
    SHORT,
    TWO_CLASSES,
    UNCERTIFIED,
    affine,
    objective,
    observe,
    suited,
    weight,
)

from workbench import SOLVERS, below, rounds, run
from workbench.runs.run import resolve

# One fit, one linear program, or a peer that cannot be resumed except by fitting again.
RESTARTED = {
    *"mrc_lp svm_lp svm_multi libsvm nystroem_svm liblinear_cs liblinear_ovr".split(),
    *"liblinear_lr liblinear_l2_dual liblinear_l2_primal liblinear_l1 logistic_lbfgs".split(),
    *("logistic_saga", "ridge", "centroid", "random_forest", "boosting", *EXTRAS),
}
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
COLUMNS = {"m_max", "eps2"}
# What does not change the iterates, or hardly: memory, stops.
UNSEEN = {"cache_mb"}
STOPS = {"eps", "eps1", "eps2", "k_max", "p", "passes"}

PAIRS = [
    pytest.param(name, parameter, old, new, id=f"{name} {parameter} {old} to {new}")
    for name, solver in SOLVERS.items()
    for parameter in solver.live
    if parameter in VALUES  # or the first test below fails
    for old, new in (VALUES[parameter], VALUES[parameter][::-1])
]
BEFORE, AFTER = 8, 25
FOUND = {}  # the optima, by what they depend on


def settings(name, parameter):
    given = SHORT.get(name, {}) | OWN.get(name, {})
    return given | (
        {"columns": True} if name.startswith("mrc") and parameter in COLUMNS else {}
    )


def made(name, blobs):
    return suited(name, blobs(n=40, d=16 if name in TWO_CLASSES else 4, k=4))


def halted(name, problem, parameters, most=BEFORE):
    """The state after some rounds, or after the last."""
    *_, state = islice(SOLVERS[name].steps(problem, **parameters), most + 1)
    return state


def seen(name, problem, parameters, state=None, most=AFTER):
    """The rows, without clock, and a copy of each state."""
    found = islice(observe(name, problem, parameters, state), most + 1)
    return [(row, copy.deepcopy(s)) for row, _, s in found]


def value(name, parameters, key):
    return (resolve(name, {})[1] | parameters).get(key)


def optimum(name, problem, parameters, state):
    """Return the ends of a narrow interval around the optimum; a new solver finds its
    own."""
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


def own(name, row):
    """Return the objective that the solver lowers."""
    if name == "ls_calibrated":
        return row["squared_error"]
    return row["upper"] if "upper" in row and "primal" not in row else row["primal"]


def stated(name, problem, s, parameters):
    """The same of a state's classifier, by definition; None of an estimate or a new
    objective."""
    if name == "cuts_constant_time":
        return None
    if name.startswith("ls") and name in UNCERTIFIED:
        link = "identity" if name in ("ls_calibrated", "ls_columns") else "softmax"
        loss = LINKS[link](
            s.scores(problem.X).astype(float), np.eye(problem.k)[problem.y]
        )
        if name == "ls_calibrated":
            return 2 * loss.value.mean()
        return loss.value.mean() + value(name, parameters, "alpha") / 2 * (s.W**2).sum()
    M = affine(s, problem.d)
    if name not in ("memoir_l1", "memoir_l2", "memoir_lsh", "memoir_averaged"):
        return objective(name, problem, M, parameters)
    lam = value(name, parameters, "lam") or 0.0
    one = lam / 2 * abs(M).sum() if name == "memoir_l1" else 0.0
    return one + objective("memoir_pegasos", problem, M, {"lam": 0.0 if one else lam})


def test_every_solver_says_which_of_its_parameters_are_live():
    for name, solver in SOLVERS.items():
        assert set(solver.live) <= set(inspect.signature(solver.steps).parameters) - {
            "state"
        }
        assert len(set(solver.live)) == len(solver.live)
        assert set(solver.live) <= set(VALUES), (
            f"{name}: VALUES has to have two values of each"
        )
        assert name in NEW or bool(solver.live) != (name in RESTARTED)


@each("name, parameter, old, new", PAIRS)
def test_all_is_true_of_the_new_value(name, parameter, old, new, blobs):
    problem, base = made(name, blobs), settings(name, parameter)
    # Bounds of the old value, if they stay, are seen to be false when they are narrow.
    state = halted(
        name, problem, base | {parameter: old}, 400 if name in NEW else BEFORE
    )
    before = pickle.dumps(state)
    after = base | {parameter: new}
    branch, fresh = seen(name, problem, after, state), seen(name, problem, after)
    assert pickle.dumps(state) == before
    assert branch[0][0]["round"] == state.round
    for row, s in branch[:: 1 if len(branch) < 20 else 6]:
        claim = stated(name, problem, s, after)
        assert claim is None or own(name, row) == pytest.approx(
            claim, rel=1e-4, abs=1e-6
        )
    (first, _), (last, _), (end, _) = branch[0], branch[-1], fresh[-1]
    if value(name, after, "mips") == "exact":
        assert last["recall"] == 1.0
    if name in UNCERTIFIED:
        assert own(name, last) <= 1.25 * own(name, end)
        assert own(name, last) <= own(name, first) or parameter not in WEIGHTS
        return
    lower, upper = optimum(name, problem, after, state)
    if name in NEW and parameter == weight(name):
        other = optimum(name, problem, base | {parameter: old}, state)
        assert lower > other[1] or upper < other[0], (
            "the two optima are too near each other"
        )
    best = [[row[key] for row, _ in branch] for key in ("lower", "upper", "gap")]
    assert max(best[0]) <= upper + 1e-6 and min(best[1]) >= lower - 1e-6
    assert np.all(np.diff(best[0]) >= 0) and np.all(np.diff(best[1]) <= 0)
    assert np.array_equal(best[2], np.subtract(best[1], best[0]))
    if "gap_ratio" in last:  # over the gap after round 1 of a run with the new value
        gaps = [row["primal"] - row["dual"] for row in (last, fresh[1][0])]
        assert last["gap_ratio"] == pytest.approx(gaps[0] / gaps[1], abs=1e-9)
    assert last["gap"] <= 3 * end["gap"] + 3e-3 * last["upper"]


SEEN = [pair for pair in PAIRS if pair.values[1] not in UNSEEN]


@each("name, parameter, old, new", SEEN)
def test_the_next_rounds_or_the_end_are_those_of_the_new_value(
    name, parameter, old, new, blobs
):
    problem, base = made(name, blobs), settings(name, parameter)
    if parameter not in STOPS:
        state = halted(name, problem, base | {parameter: old}, 0)
        runs = [
            seen(name, problem, base | {parameter: v}, state, 4)[1:] for v in (old, new)
        ]
        scores = [[s.scores(problem.X).tolist() for _, s in found] for found in runs]
        assert scores[0] != scores[1] or [r for r, _ in runs[0]] != [
            r for r, _ in runs[1]
        ]
        return
    state = halted(name, problem, base | {parameter: old}, 100)
    more = len(seen(name, problem, base | {parameter: new}, state, 100))
    if new < old if parameter.startswith("eps") else new > old:
        assert more > 1
    else:  # where eps grows, satisfied samples are counted again
        assert more == 1 or (more < 100 and name == "cuts_constant_time")


def test_the_interior_point_method_outlives_a_large_lambda0(blobs):
    problem = blobs(n=90, d=8, k=4, seed=3)
    state = halted("mrc_interior_point", problem, {"lambda0": 1.0}, 60)
    assert not len(state.J) and state.upper == pytest.approx(0.75)
    after = {"lambda0": 0.01}
    *_, (row, _) = seen("mrc_interior_point", problem, after, state)
    lower, upper = optimum("mrc_interior_point", problem, after, state)
    assert (
        row["lower"] <= upper + 1e-6
        and row["upper"] >= lower - 1e-6
        and row["gap"] < 1e-3
    )
