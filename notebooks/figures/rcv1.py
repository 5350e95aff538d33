"""RCV1's four classes, as section A.2.2 of least squares revisited describes them.

    python notebooks/figures/rcv1.py FOLDER rcv1_four_classes.npz

FOLDER holds the files of Lewis et al. (2004), online appendices 8 and 12, as they are
or as .gz: ``rcv1-v2.topics.qrels``, ``lyrl2004_tokens_train.dat`` and
``lyrl2004_tokens_test_pt0.dat`` to ``pt3.dat``. In the folder WORKBENCH_DATA the result
joins the figure ls_text.
"""

from __future__ import annotations

import gzip
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from workbench.data.formats import Rows, write_npz

CLASSES = ("CCAT", "ECAT", "GCAT", "MCAT")  # corporate, economics, government, markets


def four_classes(folder: Path) -> Rows:
    """Return the word counts of the stories with exactly one of :data:`CLASSES`.

    The roles of training and test rows are exchanged: most stories are training rows.
    Words are stemmed, and stop words removed, in the files.
    """
    topics, labels, texts, sizes = defaultdict(list), [], [], []
    for line in _lines(folder, "rcv1-v2.topics.qrels*"):
        topic, story, _ = line.split()
        topics[story] += [topic] * (topic in CLASSES)
    for part in ("test_pt?", "train"):
        for story, words in _stories(folder, f"lyrl2004_tokens_{part}.dat*"):
            if len(topics[story]) == 1:
                labels += topics[story]
                texts.append(words)
        sizes.append(len(texts))
    counter = CountVectorizer(tokenizer=str.split, token_pattern=None, lowercase=False)
    counter.fit(texts[: sizes[0]])
    return Rows(counter.transform(texts).astype(np.float32), np.array(labels), sizes[0])


def _stories(folder: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the number and the words of each story: ``.I number``, ``.W``, then lines
    of words."""
    story, words = "", []
    for line in _lines(folder, pattern):
        if line.startswith(".I"):
            if story:
                yield story, " ".join(words)
            story, words = line.split()[1], []
        elif not line.startswith(".W"):
            words.append(line.strip())
    yield story, " ".join(words)


def _lines(folder: Path, pattern: str) -> Iterator[str]:
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise FileNotFoundError(f"{folder}: has no file {pattern}")
    for path in paths:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            yield from file


if __name__ == "__main__":
    write_npz(Path(sys.argv[2]), four_classes(Path(sys.argv[1])))
