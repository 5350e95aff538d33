"""The tasks of a structural SVM, each against brute force, and sequences as problems."""

from itertools import islice, pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import dense_or_sparse, each, refuses, single_or_double
from numpy.testing import assert_allclose, assert_array_equal

from checks.sequences import as_sequences
from workbench.sampled_cuts.chain import decode
from workbench.sampled_cuts.solvers import cuts_exact
from workbench.sampled_cuts.tasks import Binary, Chain, Multiclass

ROWS, FEATURES = 40, 6  # of which a task takes some, in an order of its own
STARTS = np.array([0, 1, 5, 8, 12, 17])


def binary(rng):
    return Binary(rng.permutation(ROWS)[:17], rng.choice([-1.0, 1.0], 17))


def multiclass(rng):
    return Multiclass(rng.permutation(ROWS)[:17], rng.integers(4, size=17).astype("i4"), 4)


def chain(rng, K=3):
    y = rng.integers(K, size=17).astype("i4")
    return Chain(rng.permutation(ROWS)[:17], y, STARTS, K)


def test_of_equally_violating_labels_the_first_answers_and_never_the_own(rng):
    for K in (3, 4, 19):
        y, F = rng.integers(K, size=60).astype("i4"), rng.integers(3, size=(60, K)).astype("f4")
        violation = np.where(np.arange(K) == y[:, None], 0, 1 - (F[np.arange(60), y][:, None] - F))
        labels = np.where(violation.max(axis=1) > 0, violation.argmax(axis=1), y)
        answers = Multiclass(np.arange(60), y, K).answers(F, np.zeros(0))
        assert_array_equal(answers.outputs, labels)
        assert_array_equal(answers.losses, labels != y)
        assert_array_equal(answers.losses - answers.gains, violation.max(axis=1))


each_task = each("make", [binary, multiclass, chain])


@each_task
@each("seed", range(4))
def test_gains_are_inner_products_with_the_cut_and_few_units_answer_as_all_do(make, seed):
    rng = np.random.default_rng(seed)
    task = make(rng)
    phi = rng.normal(size=(ROWS, FEATURES))
    W, v = rng.normal(size=(FEATURES, task.K)), rng.normal(size=task.explicit)
    F = phi[task.parts] @ W
    answers = task.answers(F, v)
    assert_allclose(answers.gains, task.gains(F, v, answers), atol=1e-12)
    for weights, explicit in ((W, v), (rng.normal(size=W.shape), rng.normal(size=v.shape))):
        gains = task.gains(phi[task.parts] @ weights, explicit, answers)
        for units in (np.arange(task.n), rng.integers(task.n, size=3), np.array([2, 2, 0, 2])):
            cut = task.cut(answers, units, 0.3)
            found = np.vdot(phi[cut.parts].T @ cut.B, weights) + cut.explicit @ explicit
            assert found == pytest.approx(0.3 * gains[units].sum(), abs=1e-12)
    units = np.array([3, 0, 3, task.n - 1])
    some = task.of(units)
    at = {part: place for place, part in enumerate(task.parts)}
    few = some.answers(F[[at[part] for part in some.parts]], v)
    assert_array_equal(few.losses, answers.losses[units])
    assert_allclose(few.gains, answers.gains[units], atol=1e-12)
    cuts = some.cut(few, np.arange(4), 0.3), task.cut(answers, units, 0.3)
    sums = [phi[cut.parts].T @ cut.B for cut in cuts]
    assert_allclose(*sums, atol=1e-12)
    assert_allclose(cuts[0].explicit, cuts[1].explicit, atol=1e-12)


def path_scores(F, moves, labels):
    own = F[np.arange(len(F)), labels].sum(axis=1)
    return own + moves[labels[:, :-1], labels[:, 1:]].sum(axis=1)


@single_or_double
@each("K, seed", [(2, 0), (3, 1), (4, 3)])
def test_viterbi_finds_the_best_path(K, seed, dtype):
    rng = np.random.default_rng(seed)
    F, v = rng.normal(size=(17, K)).astype(dtype), rng.normal(size=K * K)
    task, moves = chain(rng, K), v.reshape(K, K)
    answers, labels = task.answers(F, v), decode(F, v, STARTS)
    for i, (first, last) in enumerate(pairwise(STARTS)):
        part, y = slice(first, last), task.y[first:last]
        every = np.array(list(product(range(K), repeat=last - first)))
        scores = path_scores(F[part], moves, every)
        assert_array_equal(labels[part], every[scores.argmax()])
        losses = (every != y).sum(axis=1) / (17 / 5)
        best = (losses + scores).argmax()
        assert_array_equal(answers.outputs[part], every[best])
        assert answers.losses[i] == pytest.approx(losses[best], abs=1e-15)
        gain = path_scores(F[part], moves, y[None])[0] - scores[best]
        assert answers.gains[i] == pytest.approx(gain, abs=1e-5)


A, B = np.zeros((2, 3)), np.ones((1, 3))


@dense_or_sparse
def test_sequences_are_their_positions_in_order(kind):
    X, y = [kind(A), kind(B), kind(B)], [["a", "b"], ["b"], ["c"]]
    problem = as_sequences(X, y, X_test=X[:2], y_test=y[:2], name="few")
    assert problem.starts.tolist() == [0, 2, 3, 4] and problem.starts_test.tolist() == [0, 2, 3]
    assert problem.y.tolist() == [0, 1, 1, 2] and problem.y_test.tolist() == [0, 1, 1]
    assert problem.X.shape == (4, 3) and problem.is_sparse == sp.issparse(X[0])
    assert problem.classes.tolist() == ["a", "b", "c"] and problem.name == "few"
    assert as_sequences(X, y).X_test is None


def test_bad_sequences_are_refused_and_where_they_start_is_part_of_the_checksum():
    for message, X, y in (
        ("X, y: 2 and 1 sequences do not match", [A, B], [[0, 1]]),
        (r"X\[1\]: ", [A, B * np.nan], [[0, 1], [0]]),
    ):
        with refuses(message):
            as_sequences(X, y)
    rows, labels = np.arange(12.0).reshape(4, 3), np.array([0, 1, 1, 0])

    def checksum(*cuts, test=False):
        X, y = np.split(rows, cuts), np.split(labels, cuts)
        return as_sequences(X, y, **({"X_test": X, "y_test": y} if test else {})).checksum

    assert checksum(1) == checksum(1)
    assert len({checksum(1), checksum(2), checksum(1, 2), checksum(1, test=True)}) == 4


def test_first_sequences_and_tiny_ones():
    problem = as_sequences([A, B, B + 1, A], [[0, 1], [1], [2], [0, 2]])
    few = problem.first_sequences(3)
    assert few.starts.tolist() == [0, 2, 3, 4] and few.y.tolist() == [0, 1, 1, 2]
    assert few.k == 3 and few.X.shape == (4, 3)
    small = problem.tiny()
    assert small.starts[0] == 0 and small.starts[-1] == small.n and small.k == 3
    assert set(np.diff(small.starts)) <= {1, 2}
    assert len(list(islice(cuts_exact(small), 3))) == 3
