"""Sentences in the columns of CoNLL's shared tasks, as sequences of words.

A line has a word, its part of speech and its label; a blank line ends a sentence. Tjong
Kim Sang, Buchholz: Introduction to the CoNLL-2000 shared task: chunking. CoNLL 2000.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from workbench.data.formats import BROKEN, Rows

BEYOND = ["", ""]  # the words and tags beyond the ends of a sentence


def read_sentences(train: Path, test: Path) -> Rows:
    """Read a training and a test file of sentences, plain or compressed (.gz).

    A word is up to 16 indicators, float32 CSR: the lower-cased words and the tags of
    parts of speech at places -2 to 2 around it, the pairs of neighbouring tags there,
    its last three letters, and whether it has a capital and a digit; ``features`` are
    their names. Those of a single training word have no column. An indicator is 1/4, so
    that rows have norm one at most. Test sentences with a label that the training
    sentences lack are left out; ``about`` counts them.

    Raises
    ------
    ValueError
        If a file cannot be read, or a line has another number of columns.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    own, others = _sentences(train), _sentences(test)
    labels = {label for *_, label in chain(*own)}
    known = [s for s in others if labels.issuperset(label for *_, label in s)]
    starts = np.cumsum([0, *map(len, own + known)])
    m = int(starts[len(own)])
    said = [
        indicators for sentence in own + known for indicators in described(sentence)
    ]
    columns = CountVectorizer(analyzer=list, min_df=2, dtype=np.float32)
    parts = columns.fit_transform(said[:m]), columns.transform(said[m:])
    about = f"words of {len(own)} training and {len(known)} test sentences; "
    about += (
        f"{len(others) - len(known)} more have a label that no training sentence has"
    )
    y = np.array([label for *_, label in chain(*own, *known)])
    names = tuple(columns.get_feature_names_out())
    X = np.float32(0.25) * sp.vstack(parts, "csr")
    return Rows(X, y, m, names, about, starts=starts)


def described(sentence: list[list[str]]) -> Iterator[list[str]]:
    """Yield the names of each word's indicators."""
    words = [*BEYOND, *(word.lower() for word, *_ in sentence), *BEYOND]
    tags = [*BEYOND, *(tag for _, tag, _ in sentence), *BEYOND]
    for t, (word, *_) in enumerate(sentence):
        near = tags[t : t + 5]
        said = [
            f"word {place} {other}" for place, other in enumerate(words[t : t + 5], -2)
        ]
        said += [f"tag {place} {tag}" for place, tag in enumerate(near, -2)]
        said += [
            f"tags {place} {' '.join(pair)}"
            for place, pair in enumerate(pairwise(near), -2)
        ]
        case = f"case {word != word.lower()} {any(map(str.isdigit, word))}"
        yield [*said, f"end {word.lower()[-3:]}", case]


def _sentences(path: Path) -> list[list[list[str]]]:
    """Return the sentences of a file, as lists of word, tag and label."""
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read; {error}") from None
    blocks = text.strip().split("\n\n")
    sentences = [
        [line.split() for line in block.strip().split("\n")] for block in blocks
    ]
    if any(len(row) != 3 for row in chain(*sentences)):
        raise ValueError(f"{path}: a line must be a word, its tag and its label")
    return sentences
