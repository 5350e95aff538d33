"""Data sets by name or from a file: loading, downloading and checking them.

>>> load("digits", test=0.2)                                    # doctest: +SKIP
>>> load("letter @ range + 400 fourier | 30 % test")            # doctest: +SKIP
>>> load("rows.csv", target="species")                          # doctest: +SKIP
>>> load("rows.npy", labels="labels.npy")                       # doctest: +SKIP
"""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from workbench.core.checks import check_fraction, check_known, check_whole, shown
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
    GENERATED,
    GIVEN,
    SCALES,
    Words,
    alternatives,
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
    source : str, Path or pair
        A description ``DATA @ SCALE`` with steps such as ``| 30 % test`` or ``+ 400
        fourier``, see data/README.md. It describes the same problem in `run`, grids,
        notebooks and dashboards. DATA is a name of :func:`available` or a file. A
        ``Path`` is a file without scale and steps. A pair is ``(X, y)``, or two files
        ``("train.svm", "test.svm")``.

        Files are .csv, .tsv and .parquet (:func:`workbench.data.tables.read_tables`),
        .npz (:func:`workbench.data.formats.read_npz`) and .npy. Files with any other
        suffix are read as LIBSVM's format (:func:`workbench.data.formats.read_libsvm`);
        their rows become sparse unless more than half of the entries are nonzero. An
        .npy file is memory-mapped, and not copied if its rows are float32 or float64 in
        C order. It may be larger than memory, and must not change while it is in use.
        :attr:`Problem.about` says what was read.
    target : str or None
        The label column of a table. By default it is the only one called target, label,
        class or y, or else the last.
    labels : array, str or Path
        The n labels of the rows of an .npy file, or an .npy file of labels; by default
        ``rows.labels.npy`` for ``rows.npy``.
    test : float or None
        The fraction, in (0, 1), of all rows that a stratified random split holds out,
        like ``| P % test``. By default the published split is used, if there is one.
    seed : int
        Seeds the random split, random features and fractions, and generated rows.
    scale : str or None
        A name of :data:`workbench.data.words.SCALES`. The scale is fitted on the
        training rows; "given" changes nothing. The default is "standard" for data sets
        by name, except sequences, and for ``synthetic NxDxK``, "tfidf" for ``text
        NxC``, and "given" for all others.
    options : options of the reader
        A table accepts the options of ``pandas.read_csv`` or ``read_parquet``, such as
        `decimal`, `encoding` and `na_values`. LIBSVM's format accepts those of
        scikit-learn's ``load_svmlight_files``.

    Raises
    ------
    ValueError
        If a name is unknown, a file cannot be read, or an argument, rows or labels are
        faulty.
    FileNotFoundError
        If a file or data set is not available. The message says what was tried and how
        to get it.
    """
    if scale is not None:
        check_known(scale, SCALES, "scale")
    if test is not None:
        check_fraction(test, "test")
    check_whole(seed, "seed", least=0)
    if target is not None:
        options["target"] = target
    if labels is not None:
        options["labels"] = labels
    if isinstance(source, str):
        return _from_words(source, scale, test, seed, options)
    if isinstance(source, os.PathLike):
        problem = _from_file(os.fspath(source), options, published=test is None)
    elif isinstance(source, tuple) and len(source) == 2:
        problem = _from_pair(source, options)
    else:
        raise ValueError(
            f"source: must be a name, a path or a pair (X, y), got {shown(source)}"
        )
    if test is not None:
        problem = problem.split(test, seed)
    return SCALES[scale or GIVEN](problem)


def check_described(text: str) -> None:
    """Raise what :func:`load` raises for a faulty description, or unknown data.

    Nothing is read and nothing is downloaded.
    """
    for data in [words.data for words in alternatives(text)]:
        if GENERATED.fullmatch(data) or data in names() or existing(data):
            return
    _existing(data)


def names() -> list[str]:
    """Return every name that :func:`load` knows, including those of available files."""
    return [*(SOURCES | available_files())]


def available() -> dict[str, str]:
    """Return, by name, a line with each data set's sizes, place and licence."""
    current = places()
    lines = {}
    for name in names():
        source = SOURCES.get(name, Source("", (None, None, None), "see its file"))
        elsewhere = "download" if source.route else "not available"
        place = current.get(name, elsewhere)
        n, d, k = ("?" if size is None else f"{size:,}" for size in source.shape)
        lines[name] = (
            f"{name:16} {n:>9} x {d:>9}  {k:>5} classes  {place:13} {source.licence}"
        )
    return lines


def places() -> dict[str, str]:
    """Return where each available data set is, by name: in which folder or library."""
    files = {name: place for name, (place, _) in available_files().items()}
    return files | dict.fromkeys(EMBEDDED, "scikit-learn")


def fetch(name: str, *, progress: bool = False) -> str:
    """Download a data set unless it is available; return the line of :func:`check`."""
    _check_name(name)
    if name in SOURCES and name not in places():
        fetch_into_cache(name, SOURCES[name], progress)
    return check(name)


def check(name: str) -> str:
    """Return a line with the place, the sizes and the checksum of a data set.

    A data set that is damaged, has changed since its download, or has other sizes than
    published raises a ValueError. One that is not available raises a FileNotFoundError.
    """
    _check_name(name)
    place = places().get(name)
    if place is None:
        raise FileNotFoundError(f"{name}: not available; fetch it first")
    problem = _named(name)
    n_test = 0 if problem.y_test is None else len(problem.y_test)
    if source := SOURCES.get(name):
        shape = (problem.n + n_test, problem.d, problem.k)
        n_train = problem.n if n_test else None
        if faults := differences(shape, n_train, source):
            raise ValueError(f"{name}, {place}: {faults}")
    return (
        f"{place}, {problem.n} rows and {n_test} test rows, d = {problem.d}, k = "
        f"{problem.k}; intact, checksum {problem.checksum}"
    )


def _from_words(
    text: str, scale: str | None, test: float | None, seed: int, options: dict
) -> Problem:
    """Return the problem of the first alternative whose data are available."""
    choices = alternatives(text)
    while True:
        words = choices.pop(0)
        if None not in (scale, words.scale):
            raise ValueError(f"scale: {text!r} has a scale already, {words.scale!r}")
        if None not in (test, words.test):
            raise ValueError(f"test: {text!r} holds out test rows already")
        words = words._replace(scale=scale or words.scale, test=test or words.test)
        try:
            problem = _of_words(words, seed, options)
            break
        except FileNotFoundError:
            if not choices:
                raise
    # The key "panel" is in committed proofs.
    recipe = {"panel": text, "seed": seed, "test": test, "scale": scale}
    noted(problem, {name: value for name, value in recipe.items() if value is not None})
    return problem


def _of_words(words: Words, seed: int, options: dict) -> Problem:
    is_name = words.data in names()
    problem = generated(words.data, seed, words.test)
    if problem is not None or is_name:
        _refuse_others(options, words.data)
    if problem is None:
        published = words.test is None
        if is_name:
            problem = _named(words.data, published)
        else:
            problem = _from_file(words.data, options, published)
        if not published:
            problem = problem.split(words.test, seed)
    # Sequences have indicators of words, which keep their scale.
    is_name = is_name and not problem.structure
    problem = SCALES[words.scale or default_scale(words.data, is_name)](problem)
    for step, amount in words.steps:
        problem = step(problem, amount, seed)
    return problem


def _from_pair(pair: tuple, options: dict) -> Problem:
    paths = [isinstance(part, str | os.PathLike) for part in pair]
    if not any(paths):
        _refuse_others(options, "a pair (X, y)")
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
    rows, tests = _read([train, test], options)
    check_features(rows.features, tests.features, f"source: {test}")
    return as_problem(
        rows.X,
        rows.y,
        X_test=tests.X,
        y_test=tests.y,
        name=train.name,
        features=rows.features,
        about=rows.about,
    )


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return suffix[1:]
    return "table" if table_suffix(path) in TABLES else "libsvm"


def _refuse_others(
    options: Iterable[str], source: str, accepted: str | None = None
) -> None:
    for name in options:
        if name != accepted:
            raise ValueError(f"{name}: is not an argument of load for {source}")


def _existing(text: str) -> Path:
    """Return the path of a file that exists."""
    path = existing(text)
    if path and path.is_file():
        return path
    if Path(text).name == text and not Path(text).suffix:
        _check_name(text)
    only = ", only a folder" if path else ""
    raise FileNotFoundError(f"source: there is no file {text}{only}")


def _from_file(text: str, options: dict, published: bool) -> Problem:
    path = _existing(text)
    if _kind(path) != "npy":
        return _problem(_read([path], options)[0], path.name, published)
    _refuse_others(options, path.name, accepted="labels")
    labels = options.get("labels", path.with_suffix(LABELS))
    if isinstance(labels, str | os.PathLike):
        labels = read_npy(_existing(os.fspath(labels)))
    return as_problem(read_npy(path), labels, name=path.name)


def _read(paths: list[Path], options: dict) -> list[Rows]:
    """Return the rows of a file, or of a training and a test file of the same kind."""
    kind = _kind(paths[0])
    if kind == "npz":
        _refuse_others(options, paths[0].name)
        return [read_npz(path) for path in paths]
    _refuse_others({*options} & {"labels"}, paths[0].name)
    if kind == "table":
        return read_tables(*paths, **options)
    parts = read_libsvm(*paths, **options)
    if 2 * parts[0].X.nnz > np.prod(parts[0].X.shape, dtype=float):
        parts = [part._replace(X=part.X.toarray()) for part in parts]
    return parts


def _named(name: str, published: bool = True) -> Problem:
    if name not in places():
        fetch_into_cache(name, SOURCES[name])
    if name in EMBEDDED:
        rows = SOURCES[name].parse([])
    else:
        rows = read(available_files()[name][1])
    labels = SOURCES[name].labels if name in SOURCES else None
    if labels is not None:
        present, codes = np.unique(rows.y, return_inverse=True)
        if len(present) == len(labels):
            rows = rows._replace(y=labels[codes])
    return _problem(rows, name, published)


def _problem(rows: Rows, name: str, published: bool) -> Problem:
    """Return the problem of these rows; only a `published` split has test rows."""
    X, y = rows.X, rows.y
    test = {}
    if published and rows.n_train is not None:
        test = {"X_test": X[rows.n_train :], "y_test": y[rows.n_train :]}
        X, y = X[: rows.n_train], y[: rows.n_train]
    problem = as_problem(
        X,
        y,
        **test,
        name=name,
        features=rows.features,
        about=rows.about,
        synthetic=rows.synthetic,
    )
    if rows.starts is None:
        return problem
    given = np.ravel(rows.starts)
    starts = given[given <= problem.n]
    later = given[len(starts) :] - problem.n
    return as_sequences(problem, starts, np.append(0, later))


def _check_name(name: str) -> None:
    if name not in names():
        raise ValueError(
            f"source: no data set or file is called {name!r}; {hint(name, names())}"
        )
