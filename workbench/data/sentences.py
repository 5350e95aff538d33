"""Sentences in the columns of CoNLL's shared tasks, as sequences of words.

A line has a word, its part of speech and its label. A blank line ends a sentence. See
Tjong Kim Sang, Buchholz: Introduction to the CoNLL-2000 shared task: chunking. CoNLL
2000.
"""

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from workbench.data.formats import BROKEN, Rows, opened

BEYOND = ["", ""]  # the two empty words, or tags, before and after a sentence


def read_sentences(train: Path, test: Path) -> Rows:
    """Read a training and a test file of sentences, plain or compressed (.gz).

    A word becomes a row of up to 16 indicators (float32 CSR), whose names are
    ``features``. They are the words in lower case and the tags of parts of speech at
    the places -2 to 2 around the word, the pairs of neighbouring tags there, its last
    three letters, and whether it has a capital and a digit. Indicators of only one
    training word are left out. An indicator is 1/4, so that rows have a norm of at most
    one. Test sentences with a label that no training sentence has are left out;
    ``about`` counts them.

    Raises
    ------
    ValueError
        If a file cannot be read, or a line does not have three columns.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    training = _sentences(train)
    tests = _sentences(test)
    labels = {label for *_, label in chain(*training)}
    known = [s for s in tests if labels.issuperset(label for *_, label in s)]
    sentences = training + known
    starts = np.cumsum([0, *map(len, sentences)])
    n_train = int(starts[len(training)])
    words = [*chain.from_iterable(map(described, sentences))]
    columns = CountVectorizer(analyzer=list, min_df=2, dtype=np.float32)
    X_train = columns.fit_transform(words[:n_train])
    X_test = columns.transform(words[n_train:])
    X = np.float32(0.25) * sp.vstack([X_train, X_test], "csr")
    y = np.array([label for *_, label in chain(*sentences)])
    names = tuple(columns.get_feature_names_out())
    about = (
        f"words of {len(training)} training and {len(known)} test sentences; "
        f"{len(tests) - len(known)} more have a label that no training sentence has"
    )
    return Rows(X, y, n_train, names, about, starts=starts)


def described(sentence: list[list[str]]) -> Iterator[list[str]]:
    """Yield, for each word, the list of the names of its indicators."""
    words = [*BEYOND, *(word.lower() for word, *_ in sentence), *BEYOND]
    tags = [*BEYOND, *(tag for _, tag, _ in sentence), *BEYOND]
    for t, (word, *_) in enumerate(sentence):
        near = tags[t : t + 5]
        pairs = [f"{tag} {following}" for tag, following in pairwise(near)]
        yield [
            *_placed("word", words[t : t + 5]),
            *_placed("tag", near),
            *_placed("tags", pairs),
            f"end {word.lower()[-3:]}",
            f"case {word != word.lower()} {any(map(str.isdigit, word))}",
        ]


def _placed(kind: str, texts: list[str]) -> list[str]:
    """Return names for texts at the places -2, -1, ... relative to a word."""
    return [f"{kind} {place} {text}" for place, text in enumerate(texts, -2)]


def _sentences(path: Path) -> list[list[list[str]]]:
    """Return the sentences of a file, as lists of word, tag and label."""
    try:
        with opened(path) as file:
            text = file.read().decode()
    except BROKEN as error:
        raise ValueError(f"{path}: cannot be read; {error}") from None
    blocks = re.split(r"\n\s*\n", text.strip())
    sentences = [
        [line.split() for line in block.strip().split("\n")] for block in blocks
    ]
    if any(len(row) != 3 for row in chain(*sentences)):
        raise ValueError(f"{path}: a line must be a word, its tag and its label")
    return sentences
