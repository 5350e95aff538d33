"""Sentences whose words are tagged with chunks, the shared task of CoNLL-2000, as sequences.

Tjong Kim Sang, Buchholz: Introduction to the CoNLL-2000 shared task: chunking. CoNLL 2000.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from itertools import pairwise
from numbers import Integral
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from checks.sequences import SequenceProblem, vars_of
from workbench.core.problem import as_problem
from workbench.data.cache import cache_folder, download, mirror_folder
from workbench.data.formats import BROKEN

FOLDER = "https://raw.githubusercontent.com/teropa/nlp/master/resources/corpora/conll2000/"
SHA256 = {  # of the published text, as others have published them too
    "train": "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
    "test": "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
}
WINDOW = range(-2, 3)  # places of the words and tags that a position is described by
LEAST = 2  # training positions that a feature needs for a column of its own


def conll2000(
    n: int | None = None, n_test: int | None = None, *, fetch: bool = False
) -> SequenceProblem:
    """Return sentences as sequences of words, each labelled with its chunk, "B-NP" and the like.

    A word is 16 indicators, float32 CSR: the lower-cased words and the tags of parts of speech at
    places -2 to 2 around it, the pairs of neighbouring tags there, its last three letters, and
    whether it has a capital and a digit. What is beyond the sentence's ends is a word and a tag of
    its own; what occurs less than twice in the training sentences shares one column. Every
    indicator is 1/4, so that rows have norm one.

    Parameters
    ----------
    n : the first training sentences, of 8,936; None for all. Vocabulary and classes are theirs.
    n_test : the first test sentences, of 2,012; None for all. Those with a chunk that the training
        sentences lack are left out; ``about`` counts them.
    fetch : download the files unless they are in the local mirror or the cache

    Raises
    ------
    ValueError
        For an `n` or `n_test` out of range, or a file that cannot be read.
    FileNotFoundError
        If the files are not available, with how to get them.
    """
    train, test = _sentences("train", n, "n", fetch), _sentences("test", n_test, "n_test", fetch)
    classes = {chunk for sentence in train for *_, chunk in sentence}
    known = [s for s in test if all(chunk in classes for *_, chunk in s)]
    if not known:
        raise ValueError("n: every test sentence has a chunk that the training sentences lack")
    sentences = train + known
    starts = np.cumsum([0] + [len(sentence) for sentence in sentences])
    m = starts[len(train)]
    words, tags, chunks = zip(*(row for sentence in sentences for row in sentence), strict=True)
    X, y = indicators(list(templates(words, tags, starts)), m), np.array(chunks)
    made = as_problem(
        *(X[:m], y[:m]),
        X_test=X[m:],
        y_test=y[m:],
        name=f"CoNLL-2000, {len(train)} sentences",
        about=f"CoNLL-2000 chunking, the Wall Street Journal; {len(test) - len(known)} of "
        f"{len(test)} test sentences left out, whose chunks the training sentences lack",
    )
    ends = starts[: len(train) + 1], starts[len(train) :] - m
    return SequenceProblem(**vars_of(made), starts=ends[0], starts_test=ends[1])


def templates(words, tags, starts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield (N,) integer codes: of each position's word at place -2, at place -1, and so on."""
    word, tag = _codes([w.lower() for w in words]), _codes(tags)
    around = [_shifted(tag, starts, place) for place in WINDOW]
    yield from (_shifted(word, starts, place) for place in WINDOW)
    yield from around
    yield from (a * (tag.max() + 1) + b for a, b in pairwise(around))
    yield _codes([w.lower()[-3:] for w in words])
    yield _codes([f"{w != w.lower()}{any(map(str.isdigit, w))}" for w in words])


def indicators(codes: list[np.ndarray], m: int) -> sp.csr_matrix:
    """Return rows of norm one with one entry for each of the templates.

    Parameters
    ----------
    codes : of each template, (N,)
    m : the first positions; a code that occurs in them less than `LEAST` times has no column of
        its own, but shares its template's first
    """
    columns, width = [], 0
    for code in codes:
        values, counts = np.unique(code[:m], return_counts=True)
        kept = np.append(values[counts >= LEAST], np.iinfo(code.dtype).max)
        at = np.searchsorted(kept, code)
        columns.append(width + np.where(kept[at] == code, at + 1, 0))
        width += len(kept)
    N, t = len(codes[0]), len(codes)
    data = np.full(N * t, 1 / np.sqrt(t), np.float32)
    where = np.stack(columns, axis=1).ravel()
    return sp.csr_matrix((data, where, np.arange(N + 1) * t), shape=(N, width))


def _codes(values: Sequence[str]) -> np.ndarray:
    """Return whole numbers from 1 instead of the values; 0 is left for what is beyond."""
    code = {value: i for i, value in enumerate(sorted(set(values)), 1)}
    return np.array([code[value] for value in values])


def _shifted(codes: np.ndarray, starts: np.ndarray, place: int) -> np.ndarray:
    """Return the codes that are `place` positions further on, 0 beyond the sentence's ends."""
    sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    there = np.arange(len(codes)) + place
    inside = (there >= starts[sentence]) & (there < starts[sentence + 1])
    return np.where(inside, codes[np.where(inside, there, 0)], 0)


def _sentences(part: str, n: int | None, argument: str, fetch: bool) -> list[list[list[str]]]:
    """Return the first sentences of one file, as lists of word, tag and chunk."""
    path, text = _text(part, fetch)
    blocks = text.strip().split("\n\n")
    if n is not None and not (isinstance(n, Integral) and 1 <= n <= len(blocks)):
        raise ValueError(f"{argument}: must be None or from 1 to {len(blocks)}, got {n!r}")
    sentences = [[line.split() for line in block.split("\n")] for block in blocks[:n]]
    if any(len(row) != 3 for sentence in sentences for row in sentence):
        raise ValueError(f"{path}: a line is not a word, its tag and its chunk")
    return sentences


def _text(part: str, fetch: bool) -> tuple[Path, str]:
    """Return where a file lies, and its text."""
    name = f"conll2000_{part}.txt"
    mirror, cached = mirror_folder(), cache_folder() / "conll2000" / name
    packed = mirror and mirror / f"{name}.gz"
    if packed and packed.is_file():
        try:
            return packed, gzip.decompress(packed.read_bytes()).decode()
        except BROKEN as error:
            raise ValueError(f"{packed}: cannot be read; {error}") from None
    try:
        if fetch:
            download({name: f"{FOLDER}{part}.txt"}, cached.parent, {name: SHA256[part]})
        return cached, cached.read_text("utf-8")
    except OSError as error:
        place = f"no {packed.name} in {mirror}" if mirror else "WORKBENCH_DATA is not set"
        raise FileNotFoundError(
            f"CoNLL-2000 is not available here. Tried:\n  local mirror: {place}\n  cache: {error}\n"
            "Run conll2000(fetch=True) with a network, or put conll2000_train.txt.gz and "
            "conll2000_test.txt.gz (lines of word, tag and chunk, a blank line between sentences) "
            "into the folder that WORKBENCH_DATA names."
        ) from None
