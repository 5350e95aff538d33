"""The tasks of a structural SVM, each against brute force, and sequences as
problems."""

from itertools import islice, pairwise, product

import numpy as np
from helpers import each, refuses, single_or_double
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx

from workbench import SOLVERS, as_problem, errors, load, rounds, run
from workbench.core.structures import as_sequences, as_tree
from workbench.data.formats import Rows, write_npz
from workbench.sampled_cuts.chain import decode
from workbench.sampled_cuts.solvers import cuts_exact
from workbench.sampled_cuts.tasks import Binary, Chain, CostSensitive, Multiclass

ROWS, FEATURES = 40, 6  # of which a task takes some, in an order of its own
STARTS = np.array([0, 1, 5, 8, 12, 17])


def binary(rng):
    return Binary(rng.permutation(ROWS)[:17], rng.choice([-1.0, 1.0], 17))


def multiclass(rng):
    return Multiclass(
        rng.permutation(ROWS)[:17], rng.integers(4, size=17).astype("i4"), 4
    )


def chain(rng, K=3):
    y = rng.integers(K, size=17).astype("i4")
    return Chain(rng.permutation(ROWS)[:17], y, STARTS, K, mean_length=17 / 5)


def test_the_first_of_equally_violating_labels_answers(rng):
    for K in (3, 4, 19):
        y = rng.integers(K, size=60).astype("i4")
        F = rng.integers(3, size=(60, K)).astype("f4")
        violation = np.where(
            np.arange(K) == y[:, None], 0, 1 - (F[np.arange(60), y][:, None] - F)
        )
        labels = np.where(violation.max(axis=1) > 0, violation.argmax(axis=1), y)
        answers = Multiclass(np.arange(60), y, K).answers(F, np.zeros(0))
        assert_array_equal(answers.outputs, labels)
        assert_array_equal(answers.losses, labels != y)
        assert_array_equal(answers.losses - answers.gains, violation.max(axis=1))


def cost_sensitive(rng):
    return CostSensitive(
        *vars(multiclass(rng)).values(), rng.random((4, 4)) * (1 - np.eye(4))
    )


each_task = each("make", [binary, multiclass, chain, cost_sensitive])


@each_task
@each("seed", range(4))
def test_gains_are_inner_products_with_the_cut(make, seed):
    rng = default_rng(seed)
    task = make(rng)
    phi = rng.normal(size=(ROWS, FEATURES))
    W = rng.normal(size=(FEATURES, task.K))
    v = rng.normal(size=task.explicit)
    F = phi[task.parts] @ W
    answers = task.answers(F, v)
    assert_allclose(answers.gains, task.gains(F, v, answers), atol=1e-12)
    for weights, explicit in (
        (W, v),
        (rng.normal(size=W.shape), rng.normal(size=v.shape)),
    ):
        gains = task.gains(phi[task.parts] @ weights, explicit, answers)
        for units in (
            np.arange(task.n),
            rng.integers(task.n, size=3),
            np.array([2, 2, 0, 2]),
        ):
            cut = task.cut(answers, units, 0.3)
            found = np.vdot(phi[cut.parts].T @ cut.B, weights) + cut.explicit @ explicit
            assert found == approx(0.3 * gains[units].sum(), abs=1e-12)
    units = np.array([3, 0, 3, task.n - 1])
    some = task.of(units)
    at = {part: place for place, part in enumerate(task.parts)}
    few = some.answers(F[[at[part] for part in some.parts]], v)
    assert_array_equal(few.losses, answers.losses[units])
    assert_allclose(few.gains, answers.gains[units], atol=1e-12)
    cuts = some.cut(few, np.arange(4), 0.3), task.cut(answers, units, 0.3)
    assert_allclose(*[phi[cut.parts].T @ cut.B for cut in cuts], atol=1e-12)
    assert_allclose(cuts[0].explicit, cuts[1].explicit, atol=1e-12)


def path_scores(F, moves, labels):
    own = F[np.arange(len(F)), labels].sum(axis=1)
    return own + moves[labels[:, :-1], labels[:, 1:]].sum(axis=1)


@single_or_double
@each("K, seed", [(2, 0), (3, 1), (4, 3)])
def test_viterbi_finds_the_best_path(K, seed, dtype):
    rng = default_rng(seed)
    F = rng.normal(size=(17, K)).astype(dtype)
    v = rng.normal(size=K * K)
    task = chain(rng, K)
    moves = v.reshape(K, K)
    answers = task.answers(F, v)
    labels = decode(F, v, STARTS)
    for i, (first, last) in enumerate(pairwise(STARTS)):
        part = slice(first, last)
        y = task.y[first:last]
        every = np.array(list(product(range(K), repeat=last - first)))
        scores = path_scores(F[part], moves, every)
        assert_array_equal(labels[part], every[scores.argmax()])
        losses = (every != y).sum(axis=1) / (17 / 5)
        best = (losses + scores).argmax()
        assert_array_equal(answers.outputs[part], every[best])
        assert answers.losses[i] == approx(losses[best], abs=1e-15)
        gain = path_scores(F[part], moves, y[None])[0] - scores[best]
        assert answers.gains[i] == approx(gain, abs=1e-5)


def some_sequences():
    """Sequences of random lengths, whose rows are numbered; the last class occurs only
    once."""
    lengths = default_rng(0).integers(1, 6, size=12)
    rows = np.arange(lengths.sum())
    problem = as_problem(rows[:, None] + [0.0, 1.0], np.where(rows == 20, 2, rows % 2))
    return as_sequences(problem, np.append(0, np.cumsum(lengths)))


def test_parts_of_sequences_are_whole_and_have_every_class(tmp_path):
    problem = some_sequences()
    whole = {tuple(s) for s in np.split(problem.X[:, 0], problem.starts[1:-1])}
    split = problem.split(0.25, seed=1)
    few = problem.subset(0.3, seed=1)
    for part in (split, few, split.split(0.5), split.subset(0.5)):
        assert {tuple(s) for s in np.split(part.X[:, 0], part.starts[1:-1])} < whole
        assert np.bincount(part.y, minlength=3).all()
    assert (len(split.starts), len(split.starts_test), len(few.starts)) == (11, 3, 6)
    assert split.joined().starts[-1] == problem.n == split.n + len(split.y_test)
    assert split.checksum != split.plain().checksum
    small = problem.tiny()
    assert small.starts[-1] == small.n and set(np.diff(small.starts)) <= {1, 2}
    assert len(list(islice(cuts_exact(small), 3))) == 3
    rows = Rows(problem.X, problem.y, int(problem.starts[10]), starts=problem.starts)
    write_npz(tmp_path / "few.npz", rows)
    read = load(str(tmp_path / "few.npz"))
    assert read.starts.tolist() == problem.starts[:11].tolist()
    assert len(read.starts_test) == 3
    bad = rows._replace(starts=problem.starts + 0.5)
    write_npz(tmp_path / "bad.npz", bad)
    for use, message in (
        (lambda: load(str(tmp_path / "bad.npz")), "starts must contain whole numbers"),
        (lambda: problem.first_classes(2), "classes: sequences"),
        (
            lambda: load(f"{tmp_path / 'few.npz'} | 20 % validation"),
            "rows: must make up whole",
        ),
        (
            lambda: as_sequences(problem, [0, 0, problem.n]),
            "starts: must be whole numbers that",
        ),
        (
            lambda: as_sequences(split, split.starts),
            "starts_test: must be whole numbers that",
        ),
    ):
        with refuses(message):
            use()


@each("name", SOLVERS)
def test_solvers_take_a_structure_or_say_that_they_do_not(name):
    sequences = some_sequences()
    trees = as_tree(as_problem(sequences.X, [f"{c % 2}.{c}" for c in sequences.y]))
    for problem in (sequences, trees):
        if name.startswith("cuts"):
            _, state = run(name, problem, rounds(3), measure=errors(problem))
            assert len(list(islice(SOLVERS[name].steps(problem, state=state), 2))) == 2
        else:
            with refuses(
                f"problem: has {problem.structure}, which {name} does not use"
            ):
                run(name, problem)


def test_errors_of_tokens_sequences_and_trees():
    problem = some_sequences().split(0.25)
    trees = as_tree(as_problem(problem.X, np.array(["a.b", "a.c", "d"])[problem.y]))
    assert_allclose(trees.costs, [[0, 0.5, 1], [0.5, 0, 1], [1, 1, 0]])
    assert trees.first_classes(2).costs.shape == (2, 2)
    assert trees.split(0.3).tiny().costs[:2, :2].shape == (2, 2)
    trace, s = run(
        "cuts_exact", problem, rounds(6), parameters={"C": 0.1}, measure=errors(problem)
    )
    labels = decode(s.scores(problem.X_test), s.transitions, problem.starts_test)
    wrong = np.split(labels != problem.y_test, problem.starts_test[1:-1])
    assert trace.last["test_error"] == np.concatenate(wrong).mean() > 0
    assert trace.last["test_sequence_error"] == np.mean([part.any() for part in wrong])
    trace, s = run(
        "cuts_exact", trees, rounds(2), parameters={"C": 0.1}, measure=errors(trees)
    )
    labels = s.scores(trees.X).argmax(axis=1)
    assert trace.last["train_cost"] == trees.costs[trees.y, labels].mean() > 0
