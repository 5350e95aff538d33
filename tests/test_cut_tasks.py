"""What a structural SVM is trained on: every task against brute force, and what users bring."""

from functools import partial
from itertools import islice, pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from workbench.core.problem import as_problem
from workbench.core.trace import load_state, save_state
from workbench.data.sequences import as_sequences
from workbench.data.synthetic import chain as synthetic_chain
from workbench.kernels.functions import Kernel
from workbench.sampled_cuts.chain import Chain, decode, errors
from workbench.sampled_cuts.cutting_plane import all_units, cutting_plane
from workbench.sampled_cuts.joint import JointFeatures, structural_svm
from workbench.sampled_cuts.solvers import cuts_exact
from workbench.sampled_cuts.spaces import KernelSpace
from workbench.sampled_cuts.state import CutState, start
from workbench.sampled_cuts.tasks import Binary, Multiclass, RocArea

ROWS, FEATURES = 40, 6  # of which a task takes some, in an order of its own
STARTS = np.array([0, 1, 5, 8, 12, 17])


def signs(rng, n):
    return np.where(np.arange(n) % 3 == 0, -1.0, 1.0)[rng.permutation(n)]


def costs(rng, K):
    made = rng.uniform(0.2, 3.0, (K, K))
    np.fill_diagonal(made, 0.0)
    return made


def binary(rng):
    return Binary(rng.permutation(ROWS)[:17], signs(rng, 17))


def multiclass(rng, slack=False):
    y = rng.integers(4, size=17).astype(np.int32)
    return Multiclass(rng.permutation(ROWS)[:17], y, costs(rng, 4), slack)


def roc_area(rng):
    return RocArea(rng.permutation(ROWS)[:17], signs(rng, 17))


def chain(rng):
    y = rng.integers(3, size=17).astype(np.int32)
    return Chain(rng.permutation(ROWS)[:17], y, STARTS, 3, transition=0.7)


TASKS = {
    "binary": binary,
    "multiclass": multiclass,
    "multiclass, slack": partial(multiclass, slack=True),
    "ranking": roc_area,
    "chain": chain,
}
each_task = pytest.mark.parametrize("make", TASKS.values(), ids=TASKS)
SEPARABLE = {name: make for name, make in TASKS.items() if name != "ranking"}
each_separable = pytest.mark.parametrize("make", SEPARABLE.values(), ids=SEPARABLE)


def a_point(task, rng):
    """Scores that some weights give to the rows of a task, and these weights."""
    phi = rng.normal(size=(ROWS, FEATURES))
    W, v = rng.normal(size=(FEATURES, task.K)), rng.normal(size=task.explicit)
    return phi, W, phi[task.parts] @ W, v


@each_task
@pytest.mark.parametrize("seed", range(4))
def test_gains_are_inner_products_with_the_cut(make, seed):
    rng = np.random.default_rng(seed)
    task = make(rng)
    phi, W, F, v = a_point(task, rng)
    answers = task.answers(F, v)
    D, e = rng.normal(size=W.shape), rng.normal(size=v.shape)
    for at, (weights, explicit) in {"here": (W, v), "elsewhere": (D, e)}.items():
        gains = task.gains(phi[task.parts] @ weights, explicit, answers)
        if at == "here":
            np.testing.assert_allclose(answers.gains, gains, atol=1e-12)
        for units in (np.arange(task.n), rng.integers(task.n, size=3), np.array([2, 2, 0, 2])):
            cut = task.cut(answers, units, 0.3)
            G = phi[cut.parts].T @ cut.B
            found = np.vdot(G, weights) + cut.explicit @ explicit
            assert found == pytest.approx(0.3 * gains[units].sum(), abs=1e-12)


@each_separable
@pytest.mark.parametrize("seed", range(4))
def test_a_task_of_few_units_answers_as_the_whole_does(make, seed):
    rng = np.random.default_rng(seed)
    task = make(rng)
    phi, _, F, v = a_point(task, rng)
    units = np.array([3, 0, 3, task.n - 1])
    some = task.of(units)
    at = {part: place for place, part in enumerate(task.parts)}
    answers, whole = some.answers(F[[at[part] for part in some.parts]], v), task.answers(F, v)
    assert some.n == 4
    np.testing.assert_array_equal(answers.losses, whole.losses[units])
    np.testing.assert_allclose(answers.gains, whole.gains[units], atol=1e-12)
    few, cut = some.cut(answers, np.arange(4), 0.3), task.cut(whole, units, 0.3)
    np.testing.assert_allclose(phi[few.parts].T @ few.B, phi[cut.parts].T @ cut.B, atol=1e-12)
    np.testing.assert_allclose(few.explicit, cut.explicit, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_hinge_is_that_of_libsvm(seed):
    rng = np.random.default_rng(seed)
    task = binary(rng)
    f = rng.normal(size=17)
    answers = task.answers(f[:, None], np.zeros(0))
    hinge = np.maximum(0, 1 - task.signs * f)
    np.testing.assert_allclose(answers.losses - answers.gains, hinge, atol=1e-15)
    np.testing.assert_array_equal(answers.losses, hinge > 0)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_costs_of_any_kind_have_the_label_that_violates_most(seed, slack):
    rng = np.random.default_rng(seed)
    task = multiclass(rng, slack)
    F = 2.0 * rng.normal(size=(17, 4))
    answers = task.answers(F, np.zeros(0))
    cost, gain = task.costs[task.y], F[np.arange(17), task.y][:, None] - F
    violations = cost * (1 - gain) if slack else cost - gain
    assert not (violations.argmax(axis=1) == task.y).all()  # it matters
    np.testing.assert_allclose(answers.losses - answers.gains, violations.max(axis=1), atol=1e-14)
    np.testing.assert_array_equal(answers.outputs, violations.argmax(axis=1))


@pytest.mark.parametrize("seed", range(6))
def test_the_ranking_that_violates_most_is_that_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0])
    task = RocArea(np.arange(5), y)
    f = rng.normal(size=5)
    answers = task.answers(f[:, None], np.zeros(0))
    pairs = [(i, j) for i in np.flatnonzero(y > 0) for j in np.flatnonzero(y < 0)]
    best = max(
        sum(1 - f[i] + f[j] for (i, j), swapped in zip(pairs, choice) if swapped) / len(pairs)
        for choice in product((False, True), repeat=len(pairs))
    )
    assert (answers.losses - answers.gains).mean() == pytest.approx(best, abs=1e-14)


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
def test_the_loss_of_a_ranking_is_one_less_the_roc_area(scale):
    rng = np.random.default_rng(0)
    task = RocArea(np.arange(200), signs(rng, 200))
    f = scale * rng.normal(size=200) + task.signs
    answers, positive = task.answers(f[:, None], np.zeros(0)), task.signs > 0
    # The output that violates most ranks the positives one lower than their scores say.
    area = roc_auc_score(positive, f - positive)
    assert answers.losses.mean() == pytest.approx(1 - area, abs=1e-14)
    assert 0 < area < 1
    with pytest.raises(ValueError, match="task: a ranking of all rows has no answers for a few"):
        task.of(np.arange(3))


def paths(length, K):
    return np.array(list(product(range(K), repeat=length)))


def path_scores(F, moves, labels):
    own = F[np.arange(len(F)), labels].sum(axis=1)
    return own + moves[labels[:, :-1], labels[:, 1:]].sum(axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("K", "seed"), [(2, 0), (3, 1), (3, 2), (4, 3)])
def test_viterbi_finds_the_best_path(K, seed, dtype):
    rng = np.random.default_rng(seed)
    F, v = rng.normal(size=(17, K)).astype(dtype), rng.normal(size=K * K)
    y = rng.integers(K, size=17).astype(np.int32)
    task = Chain(np.arange(17), y, STARTS, K, transition=0.7)
    answers, labels = task.answers(F, v), decode(F, v, STARTS, 0.7)
    for i, (first, last) in enumerate(pairwise(STARTS)):
        every = paths(last - first, K)
        scores = path_scores(F[first:last], 0.7 * v.reshape(K, K), every)
        np.testing.assert_array_equal(labels[first:last], every[scores.argmax()])
        losses = (every != y[first:last]).sum(axis=1) / (17 / 5)
        best = (losses + scores).argmax()
        np.testing.assert_array_equal(answers.outputs[first:last], every[best])
        assert answers.losses[i] == pytest.approx(losses[best], abs=1e-15)
        own = path_scores(F[first:last], 0.7 * v.reshape(K, K), y[None, first:last])[0]
        assert answers.gains[i] == pytest.approx(own - scores[best], abs=1e-5)


def solved(task, X, C, eps):
    """Exact cuts in the space of the rows themselves."""
    kernel = Kernel("linear", 1.0, 1, 0.0, np.float64, np.zeros(0))
    s = start(as_problem(X, np.arange(len(X)) % 2), task, kernel, C, True, 0)
    space = KernelSpace(s, kernel, kernel.points(X), task.K, 64.0)
    return cutting_plane(task, space, s, C, eps, all_units, False)


def best_of(steps):
    *_, s = islice(steps, 2000)  # far beyond what these small problems take
    assert s.lower <= s.upper
    return s


def joint_multiclass(X, y, costs, slack):
    """What a user brings: plain functions of one example."""
    K, d = len(costs), X.shape[1]

    def joint_feature(x, label):
        return np.concatenate([x * (c == label) for c in range(K)])

    def inference(x, label, w):
        scores = w.reshape(K, d) @ x
        gains = scores[label] - scores
        return int(np.argmax(costs[label] * (1 - gains) if slack else costs[label] - gains))

    def loss(label, other):
        return costs[label, other]

    return JointFeatures(X, y, joint_feature, loss, inference, K * d, slack)


@pytest.mark.parametrize("slack", [False, True])
def test_joint_features_solve_the_same_problem(slack):
    rng = np.random.default_rng(3)
    y = (np.arange(30) % 3).astype(np.int32)
    X = rng.normal(size=(30, 2)) + 2 * rng.normal(size=(3, 2))[y]
    task = Multiclass(np.arange(30), y, costs(rng, 3) / 3, slack)
    theirs = joint_multiclass(X, y, task.costs, slack)
    setting = {"C": 0.5, "eps": 2e-7}
    both = zip(structural_svm(theirs, **setting), solved(task, X, **setting))
    for s, other in islice(both, 1, 9):
        assert [s.primal, s.model] == pytest.approx([other.primal, other.model], rel=1e-6)
    ours = best_of(solved(task, X, **setting))
    for stabilised in (False, True):
        s = best_of(structural_svm(theirs, **setting, stabilised=stabilised))
        assert s.upper == pytest.approx(ours.upper, rel=1e-6)
        assert s.upper - s.lower <= 0.5 * 30 * 2e-7 * (1 + 1e-6)
        W = ours.expansion()[1].T @ X[ours.expansion()[0]]
        np.testing.assert_allclose(s.transitions, W.ravel(), atol=0.01)  # |w - w*|^2 <= 2 gap


def test_joint_features_of_a_chain():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(17, 2)), rng.integers(2, size=17).astype(np.int32)
    y[:2] = 0, 1
    pieces = [slice(a, b) for a, b in pairwise(STARTS)]

    def joint_feature(x, labels):
        made = np.zeros((2, 2))
        np.add.at(made, (labels[:-1], labels[1:]), 1.0)
        return np.concatenate([(np.eye(2)[labels].T @ x).ravel(), made.ravel()])

    def loss(labels, others):
        return (labels != others).mean() * len(labels) / (17 / 5)

    def inference(x, labels, w):
        every = paths(len(x), 2)
        values = [loss(labels, o) + w @ joint_feature(x, o) for o in every]
        return every[np.argmax(values)]

    X_, Y_ = [X[p] for p in pieces], [y[p] for p in pieces]
    s = best_of(structural_svm(JointFeatures(X_, Y_, joint_feature, loss, inference, 8), eps=1e-6))
    exact = best_of(cuts_exact(as_sequences(X_, Y_), kernel="linear", eps=1e-6))
    assert s.upper == pytest.approx(exact.upper, rel=1e-6)
    np.testing.assert_allclose(s.transitions[4:], exact.transitions, atol=0.01)


def test_joint_features_resume_bit_for_bit(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 3
    task = joint_multiclass(X, y, costs(rng, 3), False)
    whole = [(s.info(), s.transitions.tobytes()) for s in islice(structural_svm(task), 9)]
    *_, s = islice(structural_svm(task), 5)
    save_state(tmp_path / "s.npz", s)
    again = islice(structural_svm(task, state=load_state(tmp_path / "s.npz", CutState)), 5)
    assert [(s.info(), s.transitions.tobytes()) for s in again] == whole[4:]


@pytest.mark.parametrize("units", [[1], [4, 0, 4]])
def test_joint_features_of_few_units(units):
    rng = np.random.default_rng(2)
    X, y, v = rng.normal(size=(6, 2)), np.arange(6) % 3, rng.normal(size=6)
    for slack in (False, True):
        task = joint_multiclass(X, y, costs(rng, 3), slack)
        whole, some = task.answers(None, v), task.of(np.array(units)).answers(None, v)
        np.testing.assert_array_equal(some.losses, whole.losses[units])
        cut = task.cut(whole, np.array(units), 0.5)
        assert cut.explicit @ v == pytest.approx(0.5 * some.gains.sum(), abs=1e-14)


def test_outputs_without_loss_may_violate():
    features = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, -1.0]])

    def loss(y, other):
        return float(other == 2)

    def inference(x, y, w):
        return int(np.argmax(features @ w + [0, 0, 1]))

    task = JointFeatures([0], [0], lambda x, y: features[y], loss, inference, 2)
    s = best_of(islice(structural_svm(task, C=10.0, eps=1e-7), 200))
    # The least |w|^2 with w_0 + w_1 >= 1 and w_1 <= 0, which the output without loss asks for.
    np.testing.assert_allclose(s.transitions, [1.0, 0.0], atol=2e-3)
    assert [s.lower, s.upper] == pytest.approx([0.5, 0.5], abs=2e-6)


def test_bounds_hold_whatever_the_size_of_the_losses():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), (np.arange(30) % 3).astype(np.int32)
    task = Multiclass(np.arange(30), y, 5.0 * (1.0 - np.eye(3)))
    theirs = joint_multiclass(X, y, task.costs, False)
    best = best_of(structural_svm(theirs, eps=1e-4)).lower
    for steps in (structural_svm(theirs), solved(task, X, 1.0, 1e-2)):
        for s in islice(steps, 5):
            assert s.lower <= best * (1 + 1e-9) and best <= s.upper


def most_violating(x, y, w):
    return int(np.argmax(2 * w[::2] + (np.arange(3) != y)))


BROKEN = {
    "joint_feature: must return 6 numbers, got float64 of shape .5,. for example 2": {
        "joint_feature": lambda x, y: np.zeros(6 - (x[0] == 2))
    },
    "joint_feature: must return 6 numbers, got complex128 of shape .6,. for example 0": {
        "joint_feature": lambda x, y: np.zeros(6, complex)
    },
    "joint_feature: must return finite numbers, not so for example 1": {
        "joint_feature": lambda x, y: np.full(6, np.nan if x[0] == 1 else 0.0)
    },
    "loss: must be 0 of the true output, is not for example 0": {"loss": lambda y, o: 1.0},
    "loss: must be a finite number of at least 0, got -1.0 for example 0": {
        "loss": lambda y, o: -float(y != o)
    },
    "loss: must be a finite number of at least 0, got nan for example 2": {
        "loss": lambda y, o: np.nan if (y, o) == (2, 0) else float(y != o)
    },
    "loss: must be a finite number of at least 0, got inf for example 2": {
        "loss": lambda y, o: np.inf if (y, o) == (2, 0) else float(y != o)
    },
    "loss: must be a finite number of at least 0, got array": {"loss": lambda y, o: np.zeros(2)},
    "loss_augmented_inference: must return the output that violates most, that of example 1": {
        "loss_augmented_inference": lambda x, y, w: 0 if y == 1 else most_violating(x, y, w)
    },
    "size: must be a whole number of at least 1, got 0": {"size": 0},
    "size: must be a whole number of at least 1, got 1.5": {"size": 1.5},
    "X: needs at least one example": {"X": [], "Y": []},
    "Y: has 2 outputs, X has 3 examples": {"Y": [0, 1]},
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_oracle_is_found_out(message):
    whole = {
        "X": np.arange(3.0)[:, None],
        "Y": [0, 1, 2],
        "joint_feature": lambda x, y: np.repeat(np.eye(3)[y], 2),
        "loss": lambda y, o: float(y != o),
        "loss_augmented_inference": most_violating,
        "size": 6,
    }
    assert len(list(islice(structural_svm(JointFeatures(**whole)), 100))) > 1
    with pytest.raises(ValueError, match=message):
        list(islice(structural_svm(JointFeatures(**whole | BROKEN[message])), 100))


@pytest.mark.parametrize("name", ["C", "eps"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1"])
def test_joint_parameters_are_positive(name, value):
    task = joint_multiclass(np.eye(2), [0, 1], 1.0 - np.eye(2), False)
    with pytest.raises(ValueError, match=f"{name}: must be a positive number"):
        structural_svm(task, **{name: value})


A, B = np.zeros((2, 3)), np.ones((1, 3))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_sequences_are_their_positions_in_order(kind):
    X, y = [kind(A), kind(B), kind(B)], [["a", "b"], ["b"], ["c"]]
    problem = as_sequences(X, y, X_test=X[:2], y_test=y[:2], name="few")
    assert problem.starts.tolist() == [0, 2, 3, 4] and problem.starts_test.tolist() == [0, 2, 3]
    assert problem.y.tolist() == [0, 1, 1, 2] and problem.y_test.tolist() == [0, 1, 1]
    assert problem.X.shape == (4, 3) and problem.is_sparse == sp.issparse(X[0])
    assert problem.classes.tolist() == ["a", "b", "c"] and problem.name == "few"
    assert as_sequences(X, y).X_test is None


@pytest.mark.parametrize(
    ("message", "X", "y", "rest"),
    [
        ("X: needs at least one sequence", [], [], {}),
        ("X: sequence 1 is empty; leave empty sequences out", [A, A[:0]], [[0, 1], []], {}),
        (r"X\[0\]: must have two dimensions", [A[0]], [[0, 1]], {}),
        (r"X\[1\]: holds NaN", [A, B * np.nan], [[0, 1], [0]], {}),
        ("X: sequence 1 has 2 features, the first has 3", [A, B[:, :2]], [[0, 1], [0]], {}),
        ("X: sequence 1 is", [A, sp.csr_matrix(B)], [[0, 1], [0]], {}),
        ("y: has 1 sequences, X has 2", [A, B], [[0, 1]], {}),
        (r"y\[1\]: has 2 labels for 1 rows", [A, B], [[0, 1], [0, 1]], {}),
        (r"y\[0\]: 1 labels are missing", [A], [[0, None]], {}),
        ("y: needs at least two classes", [A], [[1, 1]], {}),
        ("y_test: labels .2. are not among", [A], [[0, 1]], {"X_test": [B], "y_test": [[2]]}),
        ("y_test: has 0 sequences, X_test has 1", [A], [[0, 1]], {"X_test": [B]}),
        ("X_test: has 2 features, X has 3", [A], [[0, 1]], {"X_test": [B[:, 1:]], "y_test": [[0]]}),
        ("X_test: sequence 0 is empty", [A], [[0, 1]], {"X_test": [B[:0]], "y_test": [[]]}),
    ],
)
def test_bad_sequences_are_refused(message, X, y, rest):
    with pytest.raises(ValueError, match=message):
        as_sequences(X, y, **rest)


def test_where_sequences_start_is_part_of_the_checksum():
    rows, labels = np.arange(12.0).reshape(4, 3), np.array([0, 1, 1, 0])

    def checksum(*cuts, **test):
        X, y = np.split(rows, cuts), np.split(labels, cuts)
        return as_sequences(X, y, **{name: {"X": X, "y": y}[name[0]] for name in test}).checksum

    assert checksum(1) == checksum(1)
    tests = dict.fromkeys(("X_test", "y_test"))
    assert len({checksum(1), checksum(2), checksum(1, 2), checksum(1, **tests)}) == 4


def test_first_sequences_and_tiny():
    problem = as_sequences([A, B, B + 1, A], [[0, 1], [1], [2], [0, 2]])
    few = problem.first_sequences(3)
    assert few.starts.tolist() == [0, 2, 3, 4] and few.y.tolist() == [0, 1, 1, 2]
    assert few.k == 3 and few.X.shape == (4, 3)
    for n in (0, 5, -1):
        with pytest.raises(ValueError, match=f"n: must be from 1 to 4, got {n}"):
            problem.first_sequences(n)
    with pytest.raises(ValueError, match=r"n: no \[2\] in the first 2 sequences"):
        problem.first_sequences(2)
    small = problem.tiny()
    assert small.starts[0] == 0 and small.starts[-1] == small.n and small.k == 3
    assert set(np.diff(small.starts)) <= {1, 2}
    assert len(list(islice(cuts_exact(small), 3))) == 3


@pytest.mark.parametrize(
    "part", [lambda p: p.split(0.3), lambda p: p.subset(0.5), lambda p: p.first_classes(2)]
)
def test_a_part_of_the_sequences_is_sequences_or_refused(part):
    problem = as_sequences([A, B, B + 1, A] * 5, [[0, 1], [1], [2], [0, 2]] * 5)
    try:
        taken = part(problem)
    except ValueError:
        return
    assert taken.starts[-1] == taken.n
    assert taken.X_test is None or taken.starts_test[-1] == len(taken.y_test)


def test_the_judge_of_chains_decodes_sequences():
    problem = synthetic_chain(30, 8, 3, test=10)
    *_, s = islice(cuts_exact(problem, gamma=1.0, C=10.0), 15)
    row = errors(problem)(s)
    labels = decode(s.scores(problem.X_test), s.transitions, problem.starts_test)
    assert row["test_error"] == np.mean(labels != problem.y_test)
    assert row["train_error"] < np.mean(s.scores(problem.X).argmax(axis=1) != problem.y)
