"""The problem: what is accepted as rows and labels, what is refused, and its
subsets."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import scipy.sparse as sp
from helpers import dense_or_sparse, each, refuses

from workbench import as_problem
from workbench.core.checks import check_sparse

X = np.arange(24.0).reshape(8, 3)
Y = [0, 1, 2, 0, 1, 2, 0, 1]


def test_the_types_of_rows_and_labels():
    """That their values are kept exactly, fuzz/test_problem_fuzz.py has."""
    for dtype in (np.float32, np.uint8, np.int16, bool):
        assert as_problem(X.astype(dtype), Y).X.dtype == np.float32
    for dtype in (np.float64, np.int64, object):
        assert as_problem(X.astype(dtype), Y).X.dtype == np.float64
    frame = pd.DataFrame(X, columns=list("abc"))
    problem = as_problem(frame, ["yes", "no"] * 4, X_test=X[:2], y_test=["no", "yes"])
    assert problem.features == ("a", "b", "c") and problem.classes.tolist() == [
        "no",
        "yes",
    ]
    assert problem.y.dtype == np.int32 and problem.y_test.tolist() == [0, 1]
    assert as_problem(X, [True, False] * 4).classes.tolist() == [False, True]
    assert as_problem(sp.csr_matrix(np.zeros((8, 3))), Y).X.nnz == 0
    assert as_problem(X[:3], [2**63, 2**63 + 1, 5]).k == 3


def changed(kind=sp.csr_matrix, **parts):
    """Return the rows with these attributes."""
    rows = kind(X)
    for name, value in parts.items():
        setattr(rows, name, value)
    return rows


def poked(name, place, value, kind=sp.csr_matrix, dtype=None):
    array = getattr(kind(X), name)
    array = array.astype(dtype or array.dtype)
    array[place] = value
    return changed(kind, **{name: array})


STARTS = sp.csr_matrix(X).indptr
DAMAGED = {
    "a column far away": poked("indices", 0, 10**8),
    "a column before the first": poked("indices", 3, -1),
    "a column beyond 32 bits": poked("indices", 0, 2**32, dtype="i8"),
    "decreasing starts": poked("indptr", 4, 2),
    "starts that return to zero": changed(indptr=np.where(np.arange(9) % 8, 10**8, 0)),
    "starts whose differences overflow": changed(
        indptr=np.array([0, 2**31 - 1, -2, *STARTS[3:]], "i4")
    ),
    "too few starts": changed(indptr=STARTS[:-1]),
    "fewer values than columns": changed(data=np.ones(3)),
    "values in two dimensions": changed(data=np.ones((24, 1))),
    "a row far away": poked("indices", 0, 10**8, sp.csc_matrix),
    "coordinates far away": poked("row", 0, 10**8, sp.coo_matrix),
}


@each("kind", list(DAMAGED))
def test_a_damaged_sparse_matrix_is_refused_before_it_is_read(kind):
    for read in (check_sparse, partial(as_problem, y=Y)):
        with refuses(r"^X: is damaged; "):
            read(DAMAGED[kind])


@each("kind", [sp.csr_matrix, sp.csc_array])
def test_what_a_sparse_matrix_says_of_itself_is_not_believed(kind):
    rows = kind(np.ones((2, 2)))
    rows.indices = np.array([1, 0, 1, 1], rows.indices.dtype)
    rows.has_sorted_indices = rows.has_canonical_format = True
    before = rows.indices.copy()
    read = check_sparse(rows)
    assert read.has_canonical_format and read.format == "csr"
    expected = [[1, 1], [0, 2]] if rows.format != "csc" else [[1, 0], [1, 2]]
    assert np.array_equal(read.toarray(), expected)
    assert np.array_equal(rows.indices, before)


@each("value", [np.nan, np.inf, -np.inf])
@dense_or_sparse
def test_values_that_are_not_finite_are_refused(value, kind):
    rows = np.where(np.arange(24).reshape(8, 3) == 10, value, X)
    with refuses("X: contains NaN or infinite"):
        as_problem(kind(rows), Y)
    with refuses("X_test: contains NaN or infinite"):
        as_problem(kind(X), Y, X_test=kind(rows), y_test=Y)


NAMES = ["oak", "é"] * 4
FRAME = pd.DataFrame(X, columns=list("abc")).assign(d=1.0)
TWICE = [0, 0], [0, 0]
ROWS = {  # what is said of them
    "must have two dimensions": X[:, 0],
    "must contain real numbers": X.astype(str),
    r"is a sparse LIL matrix; convert it with \.tocsr\(\) first": sp.lil_matrix(X),
    "contains masked values": np.ma.masked_equal(X, 5),
}
NO_ROWS = [
    None,
    3.0,
    X[None],
    X[:, :0],
    [*X.tolist(), [1.0]],
    X.astype("M8[D]"),
    np.zeros((8, 3), "i4,f4"),
    sp.coo_array(X[:, 0]),
    np.array([[None, 1]] * 8, object),
    np.array([[10**400, 1]] * 8, object),
    (X + 1) * np.longdouble("1e4000"),
    sp.coo_matrix(([1.5e308] * 2, TWICE), (8, 3)),  # whose sum is infinite
]
LABELS = {
    "must be one-dimensional": np.ones((8, 2)),
    r"needs at least two classes, got only \[1\]": [1] * 8,
    "has 4 missing labels, such as nan; fill them": [0.5, np.nan] * 4,
    "has 4 missing labels, such as None": np.array([1, None] * 4, object),
    "mixes labels of types float, str": ["u", np.nan] * 4,
    "has 7 labels for 8 rows": Y[:-1],
    "mixes labels of types int, str": ["a", 1] * 4,
    "must be an array or a list of labels": np.zeros(8, "V4"),
}
NO_LABELS = [
    None,
    3,
    [[1], *[[1, 2]] * 7],
    [{"a": i} for i in range(8)],
    sp.csr_matrix(np.eye(8)),
    np.array(["NaT"] * 8, "M8[D]"),
    pd.array([None, *range(7)], "Int64"),
]


@each(
    "arguments, message",
    [
        ({"X": X[:0], "y": []}, "X: must not be empty"),
        *(({"X": rows}, f"^X: {said}") for said, rows in ROWS.items()),
        *(({"y": labels}, f"^y: {said}") for said, labels in LABELS.items()),
        ({"classes": [0, 1, 2, 3]}, r"classes: \[3\] have no training row"),
        ({"classes": [0, 1]}, r"y: labels \[2\] are not among the classes"),
        ({"X_test": X}, "give both or neither"),
        ({"X_test": X, "y_test": [7] * 8}, r"y_test: labels \[7\] are not among"),
        ({"X_test": X[:, :2], "y_test": Y}, "X_test: has 2 features, X has 3"),
        (
            {"X_test": sp.csr_matrix(X), "y_test": Y},
            "X_test: must be sparse exactly when",
        ),
        *(
            (
                {"X": FRAME[list("abc")], "X_test": FRAME[list(names)], "y_test": Y},
                f"X_test: .* got '{odd}'",
            )
            for names, odd in (("acb", "c"), ("abcd", "d"))
        ),
        *(
            (
                {"y": NAMES, "X_test": X, "y_test": [name, *NAMES[1:]]},
                "only in type, case, blanks",
            )
            for name in ("oak ", "Oak", "o\u200bak", "\ufeffoak", "oak\xa0")
        ),
        (
            {"X_test": X, "y_test": [*map(str, Y)]},
            "'0' differs from the class 0 only in type",
        ),
        *(
            (
                {"y": [one, other] * 4},
                "y: labels .* differ only in invisible characters or Unicode",
            )
            for one, other in (("é", "e\u0301"), ("oak", "oak\u200b"))
        ),
        ({"features": ["a"]}, "features: 1 names for 3 columns"),
        *(({"X": rows}, "^X: ") for rows in NO_ROWS),
        *(({"y": labels}, "^y: ") for labels in NO_LABELS),
    ],
)
def test_what_is_wrong_is_named(arguments, message):
    with refuses(message):
        as_problem(**{"X": X, "y": Y} | arguments)


def test_split_is_stratified_seeded_and_keeps_every_row_once():
    rows = np.arange(200.0).reshape(100, 2)
    problem = as_problem(rows, np.repeat(["a", "b"], [80, 20]))
    split = problem.split(0.25, seed=3)
    assert np.bincount(split.y_test).tolist() == [20, 5]
    both = np.vstack([split.X, split.X_test])
    assert sorted(map(tuple, both)) == sorted(map(tuple, rows))
    assert split.checksum == problem.split(0.25, seed=3).checksum
    assert split.checksum != problem.split(0.25, seed=4).checksum
    again = split.split(0.25, seed=3)
    assert again.n + len(again.y_test) == 100
    problem = as_problem(X, [0, 1, 2, 2, 2, 2, 2, 2])
    assert np.bincount(problem.split(0.9).y).tolist() == [1, 1, 1]
    problem = as_problem(sp.csr_matrix(np.eye(90)), np.arange(90) % 3).split(0.2)
    small = problem.subset(0.1, seed=1)
    assert np.bincount(small.y).tolist() == [2, 2, 2]
    assert small.X_test is problem.X_test
    assert problem.subset(1.0).checksum == problem.checksum
    for share in (0, 1.5):
        with refuses("test: must lie strictly between 0 and 1"):
            problem.split(share)
        with refuses("fraction: must lie in"):
            problem.subset(share)


def test_tiny_is_small_for_many_classes():
    tiny = as_problem(np.ones((4000, 2)), np.arange(4000) % 2000).tiny()
    assert tiny.k == 512 and np.bincount(tiny.y).tolist() == [2] * 512
    assert tiny.classes.tolist() == list(range(512))
    tiny = as_problem(np.ones((2**16, 2), "f4"), np.arange(2**16)).tiny()
    # codes of four bytes are for kernels of their own
    assert tiny.k == 2**16 and tiny.n == 512


def test_checksum_tells_rows_labels_and_split_apart():
    problem = as_problem(X, Y)
    assert len(problem.checksum) == 16
    assert as_problem(X.copy(), Y).checksum == problem.checksum
    others = [
        as_problem(X + 1, Y),
        as_problem(X, Y[::-1]),
        as_problem(X.astype("f4"), Y),
        problem.split(0.5),
        as_problem(sp.csr_matrix(X), Y),
    ]
    assert len({problem.checksum, *(other.checksum for other in others)}) == 6


def test_the_first_classes_keep_their_rows_and_their_test_rows():
    problem = as_problem(np.arange(24.0).reshape(12, 2), [0, 1, 2, 3] * 3).split(0.34)
    part = problem.first_classes(2)
    assert part.k == 2 and part.classes.tolist() == [0, 1]
    assert part.n == np.sum(problem.y < 2) and len(part.y_test) == np.sum(
        problem.y_test < 2
    )
    assert set(part.y) == set(part.y_test) == {0, 1}
    others = replace(problem, y_test=np.full_like(problem.y_test, 3)).first_classes(2)
    assert others.X_test is None and others.y_test is None
    for k in (1, 5):
        with refuses("classes: must be from 2 to 4"):
            problem.first_classes(k)
