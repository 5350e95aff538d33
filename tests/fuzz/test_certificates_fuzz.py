"""One attack on all certificates: bounds hold, or a ValueError says what cannot be
done."""

import warnings
from dataclasses import replace

import numpy as np
from helpers import each
from helpers.oracles import LINKS, optimum, plain
from helpers.solvers import CERTIFIED, DENSE_ONLY, weight
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from fuzz.inputs import examples, refused, values
from workbench import as_problem, rounds, run

ROUNDS = 8
SCALES = [-8, -8, -5, -2, 0, 0, 0, 0, 2, 5, 8]  # powers of ten
WEIGHTS = [-12, -6, 0, 0, 0, 6, 14]
LAMBDAS = [-14, -8, -4, -2, -2, -1, 0, 4]
# Solvers of one problem, and how each weighs its loss: by `C`, or by 1 / (n C) next to
# the mean.
FAMILIES = {
    "mrc": {name: {} for name in CERTIFIED if name.startswith("mrc")},
    "svm": {"svm_lp": {}, "svm_ccg": {"eps": 0.0, "n_max": 2, "m_max": 1}},
    "svm_multi": {"svm_multi": {}},
    "ww": {"ww_walrus": {}, "ww_shark": {}, "ww_walrus_fast": {}},
    "cs": {
        "cs_working_set": {"l1": 0.0},
        "memoir_pegasos": {},
        "cuts_exact": {"kernel": "linear", "eps": 1e-12},
        "cuts_exact_fast": {"kernel": "linear", "eps": 1e-12},
    },
    "cuts": {"cuts_exact": {"eps": 1e-12}},
    "nystroem": {"cuts_nystroem": {"eps": 1e-12, "landmarks": 3}},
    "elastic net": {"cs_working_set": {}},
}
FAMILIES |= {
    link: {name: {"link": link} for name in ("ls_generalized", "ls_accelerated")}
    for link in LINKS
}
WEIGHTED = "mrc", "ww", "elastic net", *LINKS


def hard(pick, X, y, family):
    """Return a problem made harder by chance, as `pick` of a list of options has it."""
    n = len(y)
    k = y.max() + 1
    kind = pick(["", "", "duplicates", "singletons", "zero rows", "own scales"])
    if kind == "duplicates":
        X[n // 2 :] = X[: n - n // 2]
    elif kind == "singletons":
        y = np.minimum(np.arange(n), k - 1)
    elif kind == "zero rows":
        X[::2] = 0.0
    elif kind == "own scales":
        X *= 10.0 ** np.array([pick(SCALES) for _ in range(n)])[:, None]
    if pick([False, True]):
        X += 10.0 ** pick([0, 3, 4, 6])
    X *= 10.0 ** pick(SCALES)
    X = X.astype(pick([np.float64, np.float32]))
    weights = 10.0 ** np.array([pick(WEIGHTS) for _ in range(n)])
    if family == "svm":
        y = np.arange(n) % 2
    problem = as_problem(csr_matrix(X) if pick([False, True]) else X, y)
    weighted = family in WEIGHTED and pick([False, True])
    return replace(problem, weights=weights) if weighted else problem


def settings(name, problem, parameters, size):
    """Return the parameters with the weight `size` of the loss, or of the
    regulariser."""
    size = 1.0 / (problem.n * size) if name == "memoir_pegasos" else size
    return parameters | {weight(name): size}


def attack(family, problem, size):
    """Run all solvers of a family; hold their bounds against the optimum and one
    another."""
    ends = []
    for name, given_ in FAMILIES[family].items():
        if problem.is_sparse and name in DENSE_ONLY:
            continue
        if family == "cs" and problem.k == 2 and name.startswith("cuts"):
            continue  # the binary machine, whose norm is another
        parameters = settings(name, problem, given_, size)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                trace, state = run(
                    name,
                    problem,
                    rounds(ROUNDS),
                    parameters=parameters,
                    warm_up=False,
                )
            except ValueError as error:
                assert refused(error), f"{name}: {error!r}"
                continue
        scale = 1.0 / parameters["lam"] if name == "memoir_pegasos" else 1.0
        low, high = optimum(name, problem, parameters, state)
        for row in map(plain, trace.rows):
            what = f"{name}: {row}, optimum in {low!r}, {high!r}"
            assert -np.inf < row["lower"] <= row["upper"] < np.inf, what
            assert row["lower"] <= high and row["upper"] >= low, what
        ends.append((name, scale * row["lower"], scale * row["upper"]))
    assert not ends or max(e[1] for e in ends) <= min(e[2] for e in ends), ends


@examples(12)
@each("family", FAMILIES)
@given(data=st.data())
def test_bounds_hold_or_an_error_says_why_not(family, data):
    def pick(options):
        return data.draw(st.sampled_from(options))

    n = data.draw(st.integers(4, 14))
    k = data.draw(st.integers(2, 4))
    X = data.draw(values(n, data.draw(st.integers(1, 4))))
    y = np.arange(n) % k
    size = 10.0 ** pick(LAMBDAS if family == "mrc" else SCALES)
    try:
        problem = hard(pick, X, y, family)
    except ValueError as error:
        assert refused(error), repr(error)
        return
    attack(family, problem, size)
