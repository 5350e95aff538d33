"""Data sets by name or from a file: look-up on this machine, download, check.

>>> load("digits", test=0.2)                                    # doctest: +SKIP
>>> load("letter", scale="standard")                            # doctest: +SKIP
>>> load("rows.csv", target="species")                          # doctest: +SKIP
>>> load("rows.npy", labels="labels.npy")                       # doctest: +SKIP
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.core.names import hint
from workbench.core.problem import Problem, as_problem, noted
from workbench.data import features
from workbench.data.cache import available_files, differences, fetch_into_cache, read
from workbench.data.formats import Rows, npz_shape, read_libsvm, read_npy, read_npz
from workbench.data.images import deskewed
from workbench.data.sources import SOURCES
from workbench.data.synthetic import synthetic, synthetic_text
from workbench.data.tables import TABLES, read_table, table_suffix
from workbench.data.text import zipf_text as zipf_text

EMBEDDED = {
    "digits": (1_797, 64, 10),
    "wine": (178, 13, 3),
    "breast_cancer": (569, 30, 2),
    "iris": (150, 4, 3),
}
GENERATED = {
    "synthetic_1k": (synthetic, (1_000, 20, 5)),
    "synthetic_10k": (synthetic, (10_000, 50, 10)),
    "synthetic_100k": (partial(synthetic, dtype=np.float32), (100_000, 100, 20)),
    "synthetic_text": (synthetic_text, (10_000, 20_000, 50)),
}
LABELS = ".labels.npy"
SCALES = {
    "standard": features.standardise,
    "unit": features.unit_rows,
    "root": features.root_rows,
    "range": features.ranged,
    "maximum": features.over_maximum,
    "tfidf": features.tfidf,
    "deskewed": deskewed,
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
) -> Problem:
    """Load a data set as a :class:`Problem`.

    Parameters
    ----------
    source : str, path or pair
        A name of :func:`available`: embedded in scikit-learn, generated, in the local mirror (the
        folder WORKBENCH_DATA), in the cache, or downloaded. Or a file: .csv, .tsv, .parquet, the
        workbench's .npz; any other suffix is read as LIBSVM's format with one label per line or
        several (:func:`workbench.data.formats.read_libsvm`), kept sparse unless more than half
        of it is non-zero. Or an .npy file of (n, d) rows, which is
        memory-mapped: float32 or float64 in C order are not copied, and may be more than fit into
        memory (data/README.md lists the solvers that do not copy them either). The file must not
        change while it is in use. Or a pair ``(X, y)``.
    target : the label column of a table; by default the one called target, label, class or y, else
        the last
    labels : n labels of the rows of an .npy file, or the name of an .npy file of such labels; by
        default ``rows.labels.npy`` for ``rows.npy``
    test : None for the published split if there is one, else no test rows; a fraction in (0, 1)
        for a stratified random split of all rows
    seed : int, seeds the random split
    scale : None, "standard" (columns to mean 0 and variance 1; sparse ones to variance 1), "unit"
        (rows to Euclidean norm 1), "root" (square roots, then unit rows), "range" (columns onto
        [-1, 1]; sparse ones over their largest magnitude), "maximum" (all entries over the largest
        magnitude), "tfidf" (sparse counts to unit rows of tf-idf) or "deskewed" (square images
        made upright and centred); fitted on the training rows

    Raises
    ------
    ValueError
        For an unknown name, a file that cannot be read, a bad argument, or rows and labels that
        :func:`workbench.core.problem.as_problem` refuses.
    FileNotFoundError
        For a file that does not exist, and for a data set that is not available here: the message
        lists what was tried and how to get it. No other data set is ever used instead.
    """
    if scale is not None and scale not in SCALES:
        raise ValueError(f"scale: must be None or one of {', '.join(SCALES)}, got {scale!r}")
    if test is not None and not 0 < test < 1:
        raise ValueError(f"test: must be None or lie strictly between 0 and 1, got {test!r}")
    if target is not None and not (_is_path(source) and table_suffix(source) in TABLES):
        raise ValueError(f"target: only tables ({', '.join(TABLES)}) have a label column to name")
    in_npy = _is_path(source) and Path(source).suffix == ".npy"
    if labels is not None and not in_npy:
        raise ValueError("labels: only the rows of an .npy file have labels of their own")
    if isinstance(source, tuple):
        if len(source) != 2:
            raise ValueError(f"source: must be a pair (X, y), got {len(source)} parts")
        problem = as_problem(*source)
    elif isinstance(source, str) and source in names():
        problem = _named(source, published=test is None)
    elif in_npy:
        problem = _mapped(_file(source), labels)
    elif _is_path(source):
        path = _file(source)
        problem = _problem(_read(path, target), path.name, published=test is None)
    else:
        raise ValueError(f"source: must be a name, a path or a pair (X, y), got {type(source)}")
    if test is not None:
        problem = problem.split(test, seed)
    problem = problem if scale is None else SCALES[scale](problem)
    if isinstance(source, str) and source in names():
        split = {} if test is None else {"test": test, "seed": seed}
        noted(problem, {"name": source, "scale": scale} | split)
    return problem


def names() -> list[str]:
    """Return every name that :func:`load` knows, also of files in the local mirror and cache."""
    return list(dict.fromkeys([*EMBEDDED, *GENERATED, *SOURCES, *available_files()]))


def available() -> list[Entry]:
    """Return the list of data sets, with their sizes and where each would come from now."""
    here = available_files()
    entries = []
    for name in names():
        if name in EMBEDDED:
            entry = Entry(name, *EMBEDDED[name], "scikit-learn", "BSD-3-Clause")
        elif name in GENERATED:
            entry = Entry(name, *GENERATED[name][1], "generated", "synthetic")
        elif source := SOURCES.get(name):
            away = "download" if source.parse else "not available"
            where = here[name][0] if name in here else away
            entry = Entry(name, *source.shape, where, source.licence)
        else:
            entry = Entry(name, *npz_shape(here[name][1]), here[name][0], "see its file")
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
    if name in EMBEDDED or name in GENERATED:
        where = "scikit-learn" if name in EMBEDDED else "generated"
        return Check(where, _named(name))
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


def _named(name: str, published: bool = True) -> Problem:
    if name in GENERATED:
        make, shape = GENERATED[name]
        return replace(make(*shape), name=name)
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
    X, y, m, columns, about = rows
    test = {"X_test": X[m:], "y_test": y[m:]} if m is not None and published else {}
    if test:
        X, y = X[:m], y[:m]
    return as_problem(X, y, **test, name=name, features=columns, about=about)


def _mapped(path: Path, labels) -> Problem:
    if labels is None:
        labels = path.with_suffix(LABELS)
    y = read_npy(_file(labels)) if _is_path(labels) else labels
    return as_problem(read_npy(path, mapped=True), y, name=path.name)


def _is_path(source) -> bool:
    return isinstance(source, str | os.PathLike)


def _file(source: str | os.PathLike) -> Path:
    try:
        path = Path(source).expanduser()
        if path.is_file():
            return path
    except (OSError, RuntimeError) as error:  # too long a name, no such user
        raise FileNotFoundError(f"source: there is no such file; {error}") from None
    if isinstance(source, str) and path.name == source and not path.suffix:
        _check_name(source)
    raise FileNotFoundError(f"source: there is no file {path}")


def _read(path: Path, target: str | None) -> Rows:
    suffix = table_suffix(path)
    if suffix in TABLES:
        return read_table(path, target)
    if suffix == ".npz":
        return read_npz(path)
    rows = read_libsvm(path)
    full = 2 * rows.X.nnz > rows.X.shape[0] * rows.X.shape[1]
    return rows._replace(X=rows.X.toarray()) if full else rows


def _check_name(name: str) -> None:
    if name not in names():
        raise ValueError(f"source: no data set or file is called {name!r}; {hint(name, names())}")
