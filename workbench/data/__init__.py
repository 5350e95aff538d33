"""Data sets by name or from a file: look-up on this machine, download, check.

>>> load("digits", test=0.2)                                    # doctest: +SKIP
>>> load("letter @ range + 400 fourier | 30 % test")            # doctest: +SKIP
>>> load("rows.csv", target="species")                          # doctest: +SKIP
>>> load("rows.npy", labels="labels.npy")                       # doctest: +SKIP
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.core.names import hint
from workbench.core.problem import Problem, as_problem, noted
from workbench.data.cache import LABELS, available_files, differences, fetch_into_cache, read
from workbench.data.formats import (
    Rows,
    read_libsvm,
    read_libsvm_split,
    read_npy,
    read_npz,
)
from workbench.data.sources import SOURCES
from workbench.data.synthetic import synthetic as synthetic
from workbench.data.tables import TABLES, read_table, table_suffix
from workbench.data.text import zipf_text as zipf_text
from workbench.data.words import (
    GIVEN,
    SCALES,
    Words,
    alternatives,
    check_scale,
    default_scale,
    generated,
)

EMBEDDED = {
    "digits": (1_797, 64, 10),
    "wine": (178, 13, 3),
    "breast_cancer": (569, 30, 2),
    "iris": (150, 4, 3),
}


class Entry(NamedTuple):
    """One line of the list of data sets; `n` counts all rows, `d` is None if it varies."""

    name: str
    n: int | None
    d: int | None
    k: int | None
    where: str
    licence: str

    def __str__(self) -> str:
        n, d, k = ("?" if size is None else f"{size:,}" for size in self[1:4])
        return f"{self.name:16} {n:>9} x {d:>9}  {k:>5} classes  {self.where:13} {self.licence}"


class Check(NamedTuple):
    """The result of :func:`check`; a data set without faults is sound."""

    where: str
    problem: Problem | None = None
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        parts = [self.where]
        if p := self.problem:
            n_test = 0 if p.y_test is None else len(p.y_test)
            parts.append(f"{p.n} rows and {n_test} test rows, d = {p.d}, k = {p.k}")
        told = "; ".join(self.faults) or f"sound, checksum {p.checksum}"
        return f"{', '.join(parts)}; {told}"


def load(
    source,
    *,
    target: str | None = None,
    labels=None,
    test: float | None = None,
    seed: int = 0,
    scale: str | None = None,
    n_features: int | None = None,
    zero_based: bool | tuple[bool, bool] | None = None,
    **options,
) -> Problem:
    """Load a data set as a :class:`Problem`.

    Parameters
    ----------
    source : str, path or pair
        Words, ``DATA @ SCALE`` and steps such as ``| 30 % test`` or ``+ 400 fourier``; they mean
        the same problem in `run`, grids, notebooks and dashboards (data/README.md has the table).
        DATA is a name of :func:`available`: embedded in scikit-learn, generated, in the local
        mirror (the folder WORKBENCH_DATA), in the cache, or downloaded. Or it is a file, and a
        path that exists is a path, whatever it contains; a ``Path`` has no scale or steps.
        Files are .csv, .tsv, .parquet (:func:`workbench.data.tables.read_table`), the
        workbench's .npz, or with any other suffix LIBSVM's format
        (:func:`workbench.data.formats.read_libsvm`), kept sparse unless more than half of it is
        non-zero. What was taken for label, names, gaps and the first index is in
        :attr:`Problem.about`.
        An .npy file of (n, d) rows is memory-mapped: float32 or float64 in C order are not copied,
        and may be more than fit into memory (data/README.md lists the solvers that do not copy
        them either). The file must not change while it is in use.
        Or a pair ``(X, y)``, or a pair of files, ``("train.svm", "test.svm")``.
    target : the label column of a table; by default the one called target, label, class or y,
        else the last
    labels : n labels of the rows of an .npy file, or the name of an .npy file of such labels; by
        default ``rows.labels.npy`` for ``rows.npy``
    test : None for the published split if there is one, else no test rows; a fraction in (0, 1)
        for a stratified random split of all rows, as ``| P % test`` in words
    seed : int, seeds the random split, random features and fractions, and generated rows
    scale : "given" for none, "standard" (columns to mean 0 and variance 1; sparse ones to variance
        1), "unit" (rows to Euclidean norm 1), "root" (square roots, then unit rows), "range"
        (columns onto [-1, 1]; sparse ones over their largest magnitude), "maximum" (all entries
        over the largest magnitude) or "tfidf" (sparse counts to unit rows of tf-idf); fitted on
        the training rows. By default "standard" for data sets by name and ``synthetic NxDxK``,
        "tfidf" for ``text NxC``, else "given"
    n_features : the number of features of a file in LIBSVM's format, by default as many as occur
    zero_based : whether indices of LIBSVM's format count from 0, for each of two files if they
        differ; by default from 1, or from 0 if a 0 occurs
    options : of ``pandas.read_csv`` or ``read_parquet``, for a table

    Raises
    ------
    ValueError
        For an unknown name, a file that cannot be read, a bad argument, or rows and labels that
        :func:`workbench.core.problem.as_problem` refuses.
    FileNotFoundError
        For a file that does not exist, and for a data set that is not available here: the message
        lists what was tried and how to get it. No other data set is ever used instead.
    """
    if scale is not None:
        check_scale(scale, "scale=")
    if test is not None and not 0 < test < 1:
        raise ValueError(f"test: must be None or lie strictly between 0 and 1, got {test!r}")
    given = {"target": target, "labels": labels, "n_features": n_features, "zero_based": zero_based}
    given = {name: value for name, value in given.items() if value is not None} | options
    if isinstance(source, str):
        return _from_words(source, scale, test, seed, given)
    if isinstance(source, os.PathLike):
        problem = _from_file(Path(source).expanduser(), given, published=test is None)
    elif isinstance(source, tuple) and len(source) == 2:
        problem = _from_pair(*source, given)
    else:
        raise ValueError(
            "source: must be a name, a path or a pair (X, y), got "
            + (f"{len(source)} parts" if isinstance(source, tuple) else f"{type(source)}")
        )
    problem = problem if test is None else problem.split(test, seed)
    return problem if scale in (None, GIVEN) else SCALES[scale](problem)


def names() -> list[str]:
    """Return every name that :func:`load` knows, also of files in the local mirror and cache."""
    return list(dict.fromkeys([*EMBEDDED, *SOURCES, *available_files()]))


def available() -> list[Entry]:
    """Return the list of data sets, with their sizes and where each would come from now."""
    here = available_files()
    entries = []
    for name in names():
        if name in EMBEDDED:
            entry = Entry(name, *EMBEDDED[name], "scikit-learn", "BSD-3-Clause")
        elif source := SOURCES.get(name):
            away = "download" if source.parse else "not available"
            where = here[name][0] if name in here else away
            entry = Entry(name, *source.shape, where, source.licence)
        else:
            entry = Entry(name, None, None, None, here[name][0], "see its file")
        entries.append(entry)
    return entries


def fetch(name: str, *, progress: bool = False) -> Check:
    """Download a data set into the cache unless it is available, and check it.

    Raises
    ------
    ValueError
        For an unknown name.
    FileNotFoundError
        If it cannot be downloaded, with what was tried.
    """
    _check_name(name)
    if name in SOURCES and name not in available_files():
        fetch_into_cache(name, SOURCES[name], progress)
    return check(name)


def check(name: str) -> Check:
    """Read a data set that is available and compare it with the registry, without a download.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    _check_name(name)
    if name in EMBEDDED:
        return Check("scikit-learn", _named(name))
    if name not in available_files():
        return Check("not available", faults=("fetch it first",))
    where, _ = available_files()[name]
    try:
        problem = _named(name)
    except ValueError as error:
        return Check(where, faults=(str(error),))
    if name not in SOURCES:
        return Check(where, problem)
    n, n_train = problem.n, None
    if problem.y_test is not None:
        n, n_train = n + len(problem.y_test), n
    faults = differences((n, problem.d, problem.k), n_train, SOURCES[name])
    return Check(where, problem, faults)


def _from_words(
    text: str, scale: str | None, test: float | None, seed: int, given: dict
) -> Problem:
    choices = alternatives(text)
    for place, words in enumerate(choices):
        if None not in (scale, words.scale):
            raise ValueError(f"scale: {text!r} has a scale already, {words.scale!r}")
        if None not in (test, words.test):
            raise ValueError(f"test: {text!r} holds out test rows already")
        try:
            problem = _of_words(words, scale or words.scale, test or words.test, seed, given)
            break
        except FileNotFoundError:
            if place == len(choices) - 1:
                raise
    recipe = {"panel": text, "seed": seed, "test": test, "scale": scale}
    noted(problem, {name: value for name, value in recipe.items() if value is not None})
    return problem


def _of_words(
    words: Words, scale: str | None, test: float | None, seed: int, given: dict
) -> Problem:
    is_name = words.data in names()
    problem = generated(words.data, seed, test)
    if problem is not None or is_name:
        if given:
            raise ValueError(_misplaced(next(iter(given))))
    if problem is None:
        if is_name:
            problem = _named(words.data, published=test is None)
        else:
            problem = _from_file(_existing(words.data), given, published=test is None)
        problem = problem if test is None else problem.split(test, seed)
    scale = scale or default_scale(words.data, is_name)
    problem = problem if scale == GIVEN else SCALES[scale](problem)
    return words.apply_steps(problem, seed)


def _from_pair(first, second, given: dict) -> Problem:
    paths = [isinstance(part, str | os.PathLike) for part in (first, second)]
    if not any(paths):
        if given:
            raise ValueError(_misplaced(next(iter(given))))
        return as_problem(first, second)
    if not all(paths):
        raise ValueError("source: must be a pair of rows and labels or of two files, not of each")
    train, test = (_existing(os.fspath(part)) for part in (first, second))
    if _kind(train) != _kind(test) or _kind(train) == "npy":
        raise ValueError(f"source: {train} and {test} must be two tables, .npz or LIBSVM files")
    if _kind(train) == "libsvm":
        _check_given(given, "n_features", "zero_based")
        base = given.get("zero_based", "auto")
        rows, other = read_libsvm_split(train, test, given.get("n_features"), base)
        full = 2 * rows.X.nnz > rows.X.shape[0] * rows.X.shape[1]
        if full:
            rows, other = (part._replace(X=part.X.toarray()) for part in (rows, other))
    else:
        rows = _read(train, given)
        other = _read(test, given | ({"target": rows.label} if rows.label else {}))
        if None not in (rows.features, other.features) and rows.features != other.features:
            if sorted(rows.features) != sorted(other.features):
                odd = sorted({*rows.features} ^ {*other.features})
                raise ValueError(f"source: {train} and {test} have other columns: {odd[:5]}")
            order = [other.features.index(name) for name in rows.features]
            other = other._replace(X=other.X[:, order])
    return as_problem(
        rows.X,
        rows.y,
        X_test=other.X,
        y_test=other.y,
        name=train.name,
        features=rows.features,
        about=rows.about,
    )


def _kind(path: Path) -> str:
    if path.suffix == ".npy":
        return "npy"
    suffix = table_suffix(path)
    return "table" if suffix in TABLES else "npz" if suffix == ".npz" else "libsvm"


def _check_given(given: dict, *accepted: str) -> None:
    for name in given:
        if name not in accepted:
            raise ValueError(_misplaced(name))


def _misplaced(name: str) -> str:
    """Return the message for an argument of :func:`load` that its source does not take."""
    uses = {
        "target": f"only tables ({', '.join(TABLES)}) have a label column to name",
        "labels": "only the rows of an .npy file have labels of their own",
        "n_features": "is for LIBSVM's format",
        "zero_based": "is for LIBSVM's format",
    }
    return f"{name}: {uses.get(name, 'is not an argument of load, and the data is no table')}"


def _existing(text: str) -> Path:
    """Return the path of a file that exists."""
    try:
        path = Path(text).expanduser()
        if path.is_file():
            return path
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, no such user, a NUL
        raise FileNotFoundError(f"source: there is no such file; {error}") from None
    if path.name == text and not path.suffix:
        _check_name(text)
    raise FileNotFoundError(f"source: there is no file {path}")


def _from_file(path: Path, given: dict, published: bool = True) -> Problem:
    path = _existing(os.fspath(path))
    if _kind(path) == "npy":
        _check_given(given, "labels")
        labels = given.get("labels", path.with_suffix(LABELS))
        if isinstance(labels, str | os.PathLike):
            labels = read_npy(_existing(os.fspath(labels)))
        return as_problem(read_npy(path, mapped=True), labels, name=path.name)
    return _problem(_read(path, given), path.name, published)


def _read(path: Path, given: dict) -> Rows:
    if (kind := _kind(path)) == "table":
        options = {name: value for name, value in given.items() if name != "target"}
        for name in {"labels", "n_features", "zero_based"} & set(options):
            raise ValueError(_misplaced(name))
        return read_table(path, given.get("target"), options)
    if kind == "npz":
        _check_given(given)
        return read_npz(path)
    _check_given(given, "n_features", "zero_based")
    zero_based = given.get("zero_based", "auto")
    rows = read_libsvm(path, given.get("n_features"), zero_based=zero_based)
    full = 2 * rows.X.nnz > rows.X.shape[0] * rows.X.shape[1]
    return rows._replace(X=rows.X.toarray()) if full else rows


def _named(name: str, published: bool = True) -> Problem:
    if name in EMBEDDED:
        return _embedded(name)
    if name not in available_files():
        fetch_into_cache(name, SOURCES[name])
    rows = read(available_files()[name][1])
    if name in SOURCES and (labels := SOURCES[name].labels):
        present, codes = np.unique(rows.y, return_inverse=True)
        if len(present) == len(labels):
            rows = rows._replace(y=np.array(labels)[codes])
    return _problem(rows, name, published)


def _embedded(name: str) -> Problem:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    return as_problem(
        bunch.data,
        bunch.target_names[bunch.target],
        name=name,
        features=bunch.feature_names,
        about=f"{name}, as scikit-learn ships it",
    )


def _problem(rows: Rows, name: str, published: bool) -> Problem:
    X, y, m, columns, about, _ = rows
    test = {"X_test": X[m:], "y_test": y[m:]} if m is not None and published else {}
    if test:
        X, y = X[:m], y[:m]
    return as_problem(X, y, **test, name=name, features=columns, about=about)


def _check_name(name: str) -> None:
    if name not in names():
        raise ValueError(f"source: no data set or file is called {name!r}; {hint(name, names())}")
