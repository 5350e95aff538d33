"""Data sets by name or from a file: look-up on this machine, download, check.

>>> load("digits", test=0.2)                                    # doctest: +SKIP
>>> load("letter @ range + 400 fourier | 30 % test")            # doctest: +SKIP
>>> load("rows.csv", target="species")                          # doctest: +SKIP
>>> load("rows.npy", labels="labels.npy")                       # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from workbench.core.checks import shown
from workbench.core.kinds import Given
from workbench.core.names import hint
from workbench.core.problem import Problem, as_problem, check_features, noted
from workbench.core.structures import as_sequences
from workbench.data.cache import (
    LABELS,
    available_files,
    differences,
    fetch_into_cache,
    read,
)
from workbench.data.formats import Rows, read_libsvm, read_npy, read_npz
from workbench.data.sources import SOURCES, Source
from workbench.data.synthetic import synthetic as synthetic
from workbench.data.tables import TABLES, read_tables, table_suffix
from workbench.data.text import zipf_text as zipf_text
from workbench.data.words import (
    GIVEN,
    SCALES,
    Words,
    alternatives,
    check_scale,
    default_scale,
    existing,
    generated,
)

EMBEDDED = {name: s.shape for name, s in SOURCES.items() if s.route == "scikit-learn"}


def load(
    source: Given,
    *,
    target: str | None = None,
    labels: Given = None,
    test: float | None = None,
    seed: int = 0,
    scale: str | None = None,
    **options,
) -> Problem:
    """Load a data set as a :class:`Problem`.

    Parameters
    ----------
    source : str, path or pair Words, ``DATA @ SCALE`` and steps such as ``| 30 % test``
        or ``+ 400 fourier``, as in data/README.md; they mean the same problem in `run`,
        grids, notebooks and dashboards. DATA is a name of :func:`available` or a file;
        a ``Path`` has no scale or steps. Files are .csv, .tsv, .parquet
        (:func:`workbench.data.tables.read_tables`), .npz
        (:func:`workbench.data.formats.read_npz`), .npy, or with any other suffix
        LIBSVM's format (:func:`workbench.data.formats.read_libsvm`), kept sparse unless
        more than half of it is non-zero. :attr:`Problem.about` says what was read. An
        .npy file is memory-mapped and not copied if its rows are float32 or float64 in
        C order; it may be larger than memory, and must not change while it is in use.
        Or a pair ``(X, y)``, or a pair of files, ``("train.svm", "test.svm")``.
    target : the label column of a table; by default the one called target, label, class
        or y, else the last
    labels : n labels of the rows of an .npy file, or the name of an .npy file of such
        labels; by default ``rows.labels.npy`` for ``rows.npy``
    test : None for the published split if there is one, else no test rows; a fraction
        in (0, 1) for a stratified random split of all rows, as ``| P % test`` in words
    seed : int, seeds the random split, random features and fractions, and generated
        rows
    scale : a name of :data:`workbench.data.words.SCALES`, fitted on the training rows,
        or "given" for none. By default "standard" for data sets by name and ``synthetic
        NxDxK``, "tfidf" for ``text NxC``, else "given"
    options : of ``pandas.read_csv`` or ``read_parquet`` for a table, such as `decimal`,
        `encoding` and `na_values`; of scikit-learn's ``load_svmlight_files`` for
        LIBSVM's format

    Raises
    ------
    ValueError
        For an unknown name, a file that cannot be read, a bad argument, and bad rows or
        labels.
    FileNotFoundError
        For a file or data set that is not available, with what was tried and how to get
        it.
    """
    if scale is not None:
        check_scale(scale, "scale=")
    if test is not None and not 0 < test < 1:
        raise ValueError(
            f"test: must be None or lie strictly between 0 and 1, got {test!r}"
        )
    given = {"target": target, "labels": labels}
    given = {
        name: value for name, value in given.items() if value is not None
    } | options
    if isinstance(source, str):
        return _from_words(source, scale, test, seed, given)
    if isinstance(source, os.PathLike):
        problem = _from_file(os.fspath(source), given, published=test is None)
    elif isinstance(source, tuple) and len(source) == 2:
        problem = _from_pair(source, given)
    else:
        raise ValueError(
            f"source: must be a name, a path or a pair (X, y), got {shown(source)}"
        )
    problem = problem if test is None else problem.split(test, seed)
    return SCALES[scale or GIVEN](problem)


def names() -> list[str]:
    """Return every name that :func:`load` knows, also of files in the local mirror and
    cache."""
    return [*(SOURCES | available_files())]


def available() -> dict[str, str]:
    """Return one line per data set, by name: its sizes and where it would be loaded
    from now."""
    here, lines = places(), {}
    for name in names():
        source = SOURCES.get(name, Source("", (None, None, None), "see its file"))
        where = here.get(name, "download" if source.route else "not available")
        n, d, k = ("?" if size is None else f"{size:,}" for size in source.shape)
        lines[name] = (
            f"{name:16} {n:>9} x {d:>9}  {k:>5} classes  {where:13} {source.licence}"
        )
    return lines


def places() -> dict[str, str]:
    """Return where each data set lies that is available."""
    files = {name: where for name, (where, _) in available_files().items()}
    return files | dict.fromkeys(EMBEDDED, "scikit-learn")


def fetch(name: str, *, progress: bool = False) -> str:
    """Download a data set into the cache unless it is available, and :func:`check`
    it."""
    _check_name(name)
    if name in SOURCES and name not in places():
        fetch_into_cache(name, SOURCES[name], progress)
    return check(name)


def check(name: str) -> str:
    """Return a line with place, size and checksum of a data set that is available.

    A data set that is damaged, has changed since its download, or differs in size from
    the registry is a ValueError; one that is not available is a FileNotFoundError.
    """
    _check_name(name)
    if (where := places().get(name)) is None:
        raise FileNotFoundError(f"{name}: not available; fetch it first")
    problem = _named(name)
    n_test = 0 if problem.y_test is None else len(problem.y_test)
    if source := SOURCES.get(name):
        shape = (problem.n + n_test, problem.d, problem.k)
        if faults := differences(shape, problem.n if n_test else None, source):
            raise ValueError(f"{name}, {where}: {faults}")
    return (
        f"{where}, {problem.n} rows and {n_test} test rows, d = {problem.d}, k = "
        f"{problem.k}; intact, checksum {problem.checksum}"
    )


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
            problem = _of_words(
                words, scale or words.scale, test or words.test, seed, given
            )
            break
        except FileNotFoundError:
            if place == len(choices) - 1:
                raise
    # Committed proofs have this key.
    recipe = {"panel": text, "seed": seed, "test": test, "scale": scale}
    noted(problem, {name: value for name, value in recipe.items() if value is not None})
    return problem


def _of_words(
    words: Words, scale: str | None, test: float | None, seed: int, given: dict
) -> Problem:
    is_name = words.data in names()
    problem = generated(words.data, seed, test)
    if problem is not None or is_name:
        _refuse_others(given, words.data)
    if problem is None:
        published = test is None
        if is_name:
            problem = _named(words.data, published)
        else:
            problem = _from_file(words.data, given, published)
        problem = problem if test is None else problem.split(test, seed)
    is_name = is_name and not problem.structure  # indicators of words keep their scale
    problem = SCALES[scale or default_scale(words.data, is_name)](problem)
    for step, amount in words.steps:
        problem = step(problem, amount, seed)
    return problem


def _from_pair(pair: tuple, given: dict) -> Problem:
    paths = [isinstance(part, str | os.PathLike) for part in pair]
    if not any(paths):
        _refuse_others(given, "a pair (X, y)")
        return as_problem(*pair)
    if not all(paths):
        raise ValueError(
            "source: must be a pair (X, y) or a pair of files, not one of each"
        )
    train, test = (_existing(os.fspath(part)) for part in pair)
    if _kind(train) != _kind(test) or _kind(train) == "npy":
        raise ValueError(
            f"source: {train} and {test} must be two tables, .npz or LIBSVM files"
        )
    rows, other = _read([train, test], given)
    check_features(rows.features, other.features, f"source: {test}")
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
    if (suffix := path.suffix.lower()) in (".npy", ".npz"):
        return suffix[1:]
    return "table" if table_suffix(path) in TABLES else "libsvm"


def _refuse_others(
    given: Iterable[str], source: str, accepted: tuple[str, ...] = ()
) -> None:
    if others := [name for name in given if name not in accepted]:
        raise ValueError(f"{others[0]}: is not an argument of load for {source}")


def _existing(text: str) -> Path:
    """Return the path of a file that exists."""
    path = existing(text)
    if path and path.is_file():
        return path
    if Path(text).name == text and not Path(text).suffix:
        _check_name(text)
    only = ", only a folder" if path else ""
    raise FileNotFoundError(f"source: there is no file {text}{only}")


def _from_file(text: str, given: dict, published: bool) -> Problem:
    path = _existing(text)
    if _kind(path) != "npy":
        return _problem(_read([path], given)[0], path.name, published)
    _refuse_others(given, path.name, ("labels",))
    labels = given.get("labels", path.with_suffix(LABELS))
    if isinstance(labels, str | os.PathLike):
        labels = read_npy(_existing(os.fspath(labels)))
    return as_problem(read_npy(path), labels, name=path.name)


def _read(paths: list[Path], given: dict) -> list[Rows]:
    """Return the rows of one file, or of a training and a test file of one kind."""
    kind, options = _kind(paths[0]), dict(given)
    if kind == "npz":
        _refuse_others(given, paths[0].name)
        return [read_npz(path) for path in paths]
    _refuse_others({*given} & {"labels"}, paths[0].name)
    if kind == "table":
        return read_tables(*paths, **options)
    parts = read_libsvm(*paths, **options)
    if 2 * parts[0].X.nnz > np.prod(parts[0].X.shape, dtype=float):
        parts = [part._replace(X=part.X.toarray()) for part in parts]
    return parts


def _named(name: str, published: bool = True) -> Problem:
    if name not in places():
        fetch_into_cache(name, SOURCES[name])
    rows = (
        SOURCES[name].parse([])
        if name in EMBEDDED
        else read(available_files()[name][1])
    )
    if name in SOURCES and (labels := SOURCES[name].labels) is not None:
        present, codes = np.unique(rows.y, return_inverse=True)
        if len(present) == len(labels):
            rows = rows._replace(y=labels[codes])
    return _problem(rows, name, published)


def _problem(rows: Rows, name: str, published: bool) -> Problem:
    X, y, m, columns, about, _, synthetic, starts = rows
    test: dict = (
        {"X_test": X[m:], "y_test": y[m:]} if m is not None and published else {}
    )
    if test:
        X, y = X[:m], y[:m]
    problem = as_problem(
        X, y, **test, name=name, features=columns, about=about, synthetic=synthetic
    )
    if starts is None:
        return problem
    later = starts[starts > problem.n] - problem.n
    return as_sequences(problem, starts[starts <= problem.n], np.append(0, later))


def _check_name(name: str) -> None:
    if name not in names():
        raise ValueError(
            f"source: no data set or file is called {name!r}; {hint(name, names())}"
        )
