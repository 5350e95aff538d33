"""Exercises graded by certificate: whatever found the weights, the provable gap is the
grade."""

import re

import numpy as np
from helpers import each, exact, slow
from helpers.solvers import objective
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from checks.certified import check_certified, proved
from workbench import SOLVERS
from workbench.proofs import verify

WEIGHT = 0.1  # C, alpha or lambda0
STATED = {  # the exercise of each paper, by the solver that makes its proof
    "ww_walrus": {"C": WEIGHT},
    "cs_working_set": {"C": WEIGHT, "l1": 0},
    "ls_accelerated": {"alpha": WEIGHT},
    "mrc_ccg": {"lambda0": WEIGHT, "eps1": 0.0},
    "cuts_exact": {"kernel": "linear", "C": WEIGHT, "eps": 1e-9},
}
GAP = 1e-3
CREDIT = re.compile(r": ([\d.]+) of 3 decades\. (.*)")


def value(name, problem, W):
    """Return the objective of an exercise, by plain arithmetic."""
    M = W if name == "mrc_ccg" else np.column_stack([W.T, np.zeros(problem.k)])
    return objective(name, problem, M, STATED[name])


def modelled(name, problem):
    """Return the solution of a modelling language."""
    proof, _ = proved(problem, name, GAP, **STATED[name])
    return exact.solve(proof.header, problem.X, problem.y)[1]


def sklearn(model, weight, **settings):
    """Return a way that fits a model of scikit-learn whose C is `weight(n)`, without
    intercept."""

    def solved(_, problem):
        made = model(C=weight(problem.n), fit_intercept=False, tol=1e-8, **settings)
        return made.fit(problem.X, problem.y).coef_.T

    return solved


def ours(name, **parameters):
    """Return a way that runs a solver of the package."""

    def solved(_, problem):
        for _, state in zip(range(5000), SOLVERS[name].steps(problem, **parameters)):
            if state.info()["gap"] < 1e-4 * state.info()["upper"]:
                break
        if hasattr(state, "M_best"):
            return state.M_best
        return np.linalg.lstsq(problem.X, state.scores(problem.X), rcond=None)[0]

    return solved


CS = {"multi_class": "crammer_singer", "max_iter": 50_000, "random_state": 0}
SOFTMAX = {"solver": "newton-cg", "max_iter": 5000}
RIGHT = {
    "ww_walrus": {"Shark": ours("ww_shark", C=WEIGHT, seed=2)},
    "cs_working_set": {"LIBLINEAR": sklearn(LinearSVC, lambda n: WEIGHT, **CS)},
    "cuts_exact": {"cuts": ours("cuts_exact", kernel="linear", C=WEIGHT, eps=1e-7)},
    "ls_accelerated": {
        "Newton-CG": sklearn(LogisticRegression, lambda n: 1 / (WEIGHT * n), **SOFTMAX)
    },
    "mrc_ccg": {"our interior point": ours("mrc_interior_point", lambda0=WEIGHT)},
}


def wrong(name, problem, best, least):
    """Yield weights that are not optimal, with a part of the hint that answers them."""
    rng = np.random.default_rng(0)
    axis = 0 if name == "mrc_ccg" else 1  # of the classes
    for t in (0.0, 0.125, 0.25, 0.5, 0.75, 1.5, 2.0, 4.0, 8.0, -1.0):
        yield t * best, "times it is far better" if t >= 4 else ""
    for order in ([1, 0, 2, 3], [1, 2, 3, 0], [3, 2, 1, 0]):
        yield best.take(order, axis=axis), "The classes are in another order"
    for size in (0.2, 0.5, 2.0):
        for _ in range(2):
            yield best + size * abs(best).max() * rng.normal(size=best.shape), ""
    for excess in (1.5 * GAP, 4 * GAP, 20 * GAP):  # nearly good enough
        D = rng.normal(size=best.shape)
        low = 0.0
        high = 1.0
        for _ in range(60):
            t = (low + high) / 2
            near = value(name, problem, best + t * D) < (1 + excess) * least
            low, high = (t, high) if near else (low, t)
        yield best + high * D, ""
    # a class or a feature is forgotten
    for c, of_class in ((0, True), (1, True), (0, False)):
        less = best.copy()
        np.moveaxis(less, axis if of_class else 1 - axis, 0)[c] = 0
        yield less, ""


@slow
@each("name", STATED)
def test_every_way_to_the_optimum_is_right(name, blobs, capsys):
    problem = blobs(60, 5, 4)
    told = []

    def answer(W):
        check_certified(W, problem, name, **STATED[name])
        return capsys.readouterr().out

    ways = RIGHT[name] | {"modelling language": modelled}
    found = {way: find(name, problem) for way, find in ways.items()}
    values = {way: value(name, problem, W) for way, W in found.items()}
    least = min(values.values())
    proof, _ = proved(problem, name, GAP, **STATED[name])
    assert verify(proof, problem).gap <= GAP / 20
    for way, W in found.items():
        assert values[way] < (1 + 0.9 * GAP) * least, way
        assert answer(W).startswith("right: certainly within "), way
    best = found[min(values, key=values.get)]
    for W, hint in wrong(name, problem, best, least):
        excess = value(name, problem, W) / least - 1
        assert excess > 1.1 * GAP
        printed = answer(W)
        assert printed.startswith("try again: ") and hint in printed
        credit, why = CREDIT.search(printed).groups()
        assert (
            np.clip(-np.log10(excess), 0, 3) - 0.15
            < float(credit)
            <= max(-np.log10(excess), 0)
        )
        assert len(why) > 20
        told.append(why)
    shape = "should have the shape"
    odd = (best * np.nan, "not finite"), (1e300 * best, "enormous"), (best[:2], shape)
    for W, hint in (*odd, (best.T, shape), ("best", shape)):
        printed = answer(W)
        assert printed.startswith("try again: ") and hint in printed
    assert len(set(told)) > 15  # the feedback is on the weights
