"""Documents of many classes: generated ones, lists of labels in files, tf-idf, validation rows."""

import bz2

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer

from workbench import data
from workbench.core.problem import as_problem
from workbench.data import text
from workbench.data.features import tfidf
from workbench.data.label_lists import read_label_lists
from workbench.data.panels import panel
from workbench.data.text import zipf_text
from workbench.estimators import CentroidClassifier

# generated documents


def test_generated_documents_have_what_they_say():
    problem = zipf_text(3000, 200, 1, d=5000, n_test=500, words=40)
    assert problem.X.shape == (3000, 5000) and problem.X_test.shape == (500, 5000)
    assert problem.synthetic and "synthetic" in problem.about and problem.k == 200
    assert sp.issparse(problem.X) and problem.X.dtype == np.float32
    assert problem.X.has_canonical_format and problem.X.data.min() == 1
    sizes = np.bincount(problem.y, minlength=200)
    assert sizes.min() >= 1 and sizes.max() > 5 * np.median(sizes)
    words = np.asarray(problem.X.sum(axis=1)).ravel()
    assert words.mean() == pytest.approx(40, rel=0.05) and words.min() >= 1
    assert np.log(words).std() == pytest.approx(0.5, abs=0.05)
    counts = np.sort(np.asarray(problem.X.sum(axis=0)).ravel())[::-1]
    slope = np.polyfit(np.log(np.arange(3, 301)), np.log(counts[2:300]), 1)[0]
    assert -1.3 < slope < -0.7


def test_generated_documents_are_those_of_their_seed():
    first, again = zipf_text(400, 30, 5), zipf_text(400, 30, 5)
    assert first.checksum == again.checksum != zipf_text(400, 30, 6).checksum
    more = zipf_text(400, 30, 5, n_test=7)
    assert (more.X != first.X).nnz == 0 and more.X_test.shape[0] == 7
    assert zipf_text(400, 30, 5, n_test=0).X_test is None
    assert zipf_text(400, 30).X_test.shape[0] == 100


def test_blocks_of_documents_join(monkeypatch):
    monkeypatch.setattr(text, "BLOCK", 150)
    problem = zipf_text(400, 30, 5, words=20)
    assert problem.X.shape[0] == 400 and np.diff(problem.X.indptr).min() >= 1
    assert np.asarray(problem.X.sum(axis=1)).mean() == pytest.approx(20, rel=0.1)


def test_what_is_hard_about_generated_documents():
    def accuracy(**settings):
        problem = tfidf(zipf_text(4000, 100, 3, n_test=1500, **settings))
        model = CentroidClassifier().fit(problem.X, problem.y)
        predicted = model.predict(problem.X_test)
        return np.mean(predicted == problem.y_test), predicted, problem.y_test

    usual = accuracy()[0]
    assert 0.5 < usual < 0.95
    assert accuracy(own=0.0)[0] < usual / 2
    clear, predicted, y = accuracy(own=0.5, noise=0.0)
    assert clear > 0.99
    # Wrong labels are those of siblings, and no method sees through them.
    noisy, predicted, y = accuracy(own=0.5, noise=0.3)
    assert noisy == pytest.approx(0.7, abs=0.04)
    subject = text._tree(100)[0]
    assert np.mean(subject[predicted] == subject[y]) > 0.98


def test_the_tree_has_three_levels():
    subject, field = text._tree(1000)
    assert len(np.unique(subject)) == 100 and len(np.unique(field)) == 10
    assert all(len(np.unique(field[subject == s])) == 1 for s in range(100))
    assert [part.tolist() for part in text._tree(2)] == [[0, 1], [0, 0]]


def test_topics_have_words_of_their_own():
    places = np.arange(20_000)
    secret = np.uint64(12345)
    first, second = (text._uniform(np.full(20_000, v), places, secret) for v in (7, 8))
    for u in (first, second):
        assert 0 <= u.min() and u.max() < 1
        assert np.histogram(u, 10, (0, 1))[0] == pytest.approx(2000, abs=200)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.03


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"k": 1}, "k: must be at least 2"),
        ({"n": 9, "k": 10}, "n: must be at least k = 10"),
        ({"d": 0}, "d: must be at least 1"),
        ({"n_test": -1}, "n_test: must not be negative"),
        ({"words": 0.5}, "words: must be at least 1"),
        ({"words": np.nan}, "words: must be at least 1"),
        ({"own": 0.7}, r"own: must lie in \[0, 0.6\]"),
        ({"noise": 1.1}, r"noise: must lie in \[0, 1\]"),
    ],
)
def test_generated_documents_check_their_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        zipf_text(**({"n": 100, "k": 10} | arguments))


# panels


def test_panels_of_documents():
    counts = panel("text 300x20 @ given", seed=2)
    assert (counts.n, counts.k, counts.synthetic) == (300, 20, True)
    assert counts.X_test.shape[0] == 129  # three tenths of all
    assert panel("text 300x20", seed=2, test=None).X_test is None
    weighed = panel("text 300x20", seed=2)
    assert (weighed.X != tfidf(counts).X).nnz == 0 and "tf-idf" in weighed.name
    assert panel("synthetic_text @ tfidf | 3 classes").k == 3
    with pytest.raises(ValueError, match="n: must be at least k"):
        panel("text 20x300")


def test_validation_rows_are_training_rows():
    whole = panel("text 4000x300 @ given", seed=3)
    part = panel("text 4000x300 @ given | 25 % validation", seed=3)
    assert part.k == 300 and set(part.y) == set(range(300))
    n_held = len(part.y_test)
    assert part.n + n_held == 4000 and 920 < n_held <= 1001
    rows = {(row.indices.tobytes(), row.data.tobytes()) for row in whole.X_test}
    assert not any((row.indices.tobytes(), row.data.tobytes()) in rows for row in part.X_test)
    sizes, held = np.bincount(whole.y), np.bincount(part.y_test, minlength=300)
    # Stratified: no class is more than a row away from its share, and small ones have theirs.
    assert np.abs(held - 0.25 * sizes).max() < 2
    small = sizes < 4
    assert held[small & (sizes > 1)].sum() > 0.15 * sizes[small & (sizes > 1)].sum()
    again = panel("text 4000x300 @ given | 25 % validation", seed=3)
    assert again.checksum == part.checksum
    alone = panel("wine @ given | 20 % validation", test=None)
    assert alone.n + len(alone.y_test) == 178
    for wrong in ("wine | 0 % validation", "wine | 100 % validation", "wine + 20 % validation"):
        with pytest.raises(ValueError, match="validation"):
            panel(wrong)


def test_validation_leaves_every_class_a_row():
    problem = as_problem(np.arange(6.0)[:, None], [0, 1, 2, 2, 2, 2])
    from workbench.data.panels import _validation

    part = _validation(problem, 0.9, 0)
    assert sorted(part.y) == [0, 1, 2] and part.y_test.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="holds out no row"):
        _validation(as_problem(np.eye(2), [0, 1]), 0.5, 0)


# tf-idf


def test_tfidf_is_that_of_the_training_rows():
    problem = zipf_text(200, 10, 0, d=300, n_test=50)
    weighed = tfidf(problem)
    X = problem.X.toarray().astype(float)
    weights = 1 + np.log((1 + 200) / (1 + (X > 0).sum(axis=0)))
    for given, made in ((problem.X, weighed.X), (problem.X_test, weighed.X_test)):
        expected = given.toarray() * weights
        expected /= np.linalg.norm(expected, axis=1)[:, None]
        np.testing.assert_allclose(made.toarray(), expected, rtol=1e-5)
    assert weighed.X.dtype == np.float32
    usual = TfidfTransformer().fit_transform(problem.X)
    np.testing.assert_allclose(weighed.X.toarray(), usual.toarray(), rtol=1e-6)
    empty = as_problem(sp.csr_matrix([[1.0, 0], [0, 0]]), [0, 1])
    assert tfidf(empty).X.toarray().tolist() == [[1, 0], [0, 0]]


def test_tfidf_is_for_counts():
    with pytest.raises(ValueError, match="X: tf-idf is for word counts in a sparse matrix"):
        tfidf(as_problem(np.eye(3), [0, 1, 1]))
    with pytest.raises(ValueError, match="X: holds negative values"):
        tfidf(as_problem(sp.csr_matrix(-np.eye(3)), [0, 1, 1]))
    X = sp.csr_matrix(np.eye(3))
    with pytest.raises(ValueError, match="X_test: holds negative values"):
        tfidf(as_problem(X, [0, 1, 1], X_test=-X, y_test=[0, 1, 1]))
    with pytest.raises(ValueError, match="dense"):
        data.load("iris", scale="tfidf")


# files with lists of labels

LSHTC = "7, 3 1:2 5:1\n9 2:1\n3 1:1 2:2.5\n12,3,9\n"


@pytest.mark.parametrize("name", ["train.txt", "train.txt.bz2", "train"])
def test_a_line_becomes_a_row_for_each_of_its_labels(tmp_path, name):
    packed = bz2.compress(LSHTC.encode()) if name.endswith("bz2") else LSHTC.encode()
    (tmp_path / name).write_bytes(packed)
    problem = data.load(tmp_path / name)
    assert problem.classes[problem.y].tolist() == [7, 3, 9, 3, 12, 3, 9]
    first, other, empty = [2, 0, 0, 0, 1], [1, 2.5, 0, 0, 0], [0] * 5
    assert problem.X.toarray().tolist() == [
        *(first, first, [0, 1, 0, 0, 0], other),
        *(empty, empty, empty),
    ]
    assert problem.about == (
        "4 lines: 2 with several labels became a row for each, 0 without a label none"
    )


def test_a_header_says_the_sizes(tmp_path):
    path = tmp_path / "xmc.txt"
    path.write_text("3 6 9\n1,8 0:1 4:2\n 3:1\n5 2:1\n")
    problem = data.load(path)
    assert problem.X.shape == (3, 6) and problem.classes.tolist() == [1, 5, 8]
    assert problem.X.toarray()[0].tolist() == [1, 0, 0, 0, 2, 0]
    assert "1 without a label none" in problem.about
    for text_, message in (
        ("4 6 9\n1 0:1\n2 3:1\n", "promises 4 rows and 6 features, it has 2 rows"),
        ("2 3 9\n1 0:1\n2 3:1\n", "promises 2 rows and 3 features.*0 to 3"),
    ):
        path.write_text(text_)
        with pytest.raises(ValueError, match=message):
            data.load(path)


def test_a_first_line_of_kaggle_is_skipped(tmp_path):
    (tmp_path / "train.csv.txt").write_text("Data\n5 1:1\n6 0:2\n")
    problem = data.load(tmp_path / "train.csv.txt")
    assert problem.classes.tolist() == [5, 6] and problem.X.toarray().tolist() == [[0, 1], [2, 0]]


def test_files_with_one_label_a_line_are_read_alike(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("# one, two\n2 1:1 3:2\n1 2:-1.5e0 # a, b\n2 3:1\n")
    rows, (X, y) = read_label_lists(path), load_svmlight_file(str(path))
    assert (rows.X != X).nnz == 0 and rows.y.tolist() == y.tolist()
    assert data.load(path).about == ""  # LIBSVM's reader: commas in remarks are none


@pytest.mark.parametrize(
    "line, message",
    [
        ("a,b 1:2", "line 2: labels must be whole numbers with commas, got 'a,b'"),
        ("1 2 3:4", "line 2: labels must be whole numbers with commas, got '1 2'"),
        ("1,,2 3:4", "line 2: labels"),
        ("1,2 3:x", "line 2: must hold index:value after its labels, got '3:x'"),
        ("1,2 3:1 4", "line 2: must hold index:value after its labels, got '4'"),
        ("1,2 3:1 -4:1", "line 2: must hold index:value after its labels, got '-4:1'"),
        ("1,2 3:1 x:1", "line 2: must hold index:value after its labels, got 'x:1'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, message):
    path = tmp_path / "bad.txt"
    path.write_text(f"1,2 1:1\n{line}\n3 1:1\n")
    with pytest.raises(ValueError, match=f"bad.txt: cannot be read as LIBSVM's.*{message}"):
        data.load(path)


def test_files_without_labels_are_refused(tmp_path):
    path = tmp_path / "none.txt"
    path.write_text("2 3 1\n 1:1\n 2:1\n")
    with pytest.raises(ValueError, match="has no line with a label"):
        data.load(path)
    path.write_text("1,2 1:nan\n3 1:1\n")
    with pytest.raises(ValueError, match="NaN or infinite"):
        data.load(path)
