"""Chunked sentences as sequences: their features and labels, and what is refused."""

import gzip
from hashlib import sha256

import numpy as np
import pytest
from helpers import refuses

from workbench import load
from workbench.data.cache import mirror_folder
from workbench.data.sources import SHA256

TRAIN = """He PRP B-NP
saw VBD B-VP
3 CD B-NP
cats NNS I-NP

He PRP B-NP
Saw VBD B-VP
cats NNS B-NP
. . O

Up RB B-ADVP

"""
TEST = """Cats NNS B-NP
saw VBD B-VP
him PRP B-NP

he PRP B-LST

He PRP B-NP

""".replace("\n", "\r\n")


def test_sentences_become_sequences(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    for part, text in (("train", TRAIN), ("test", TEST)):
        (tmp_path / f"some_{part}.txt.gz").write_bytes(gzip.compress(text.encode()))
    problem = load("some")
    assert problem.starts.tolist() == [0, 4, 8, 9]
    assert problem.starts_test.tolist() == [0, 3, 4]
    assert problem.classes.tolist() == "B-ADVP B-NP B-VP I-NP O".split()
    assert problem.y[:4].tolist() == [1, 2, 1, 3]
    assert problem.y_test.tolist() == [1, 2, 1, 1]
    assert "1 more have a label" in problem.about and not problem.synthetic
    for X in (problem.X, problem.X_test):
        assert X.dtype == np.float32 and X.has_canonical_format
        assert np.diff(X.indptr).max() <= 16 and set(X.data) == {0.25}
    said = {problem.features[column] for column in problem.X[6].indices}
    assert (
        set("case False False,end ats,tag 0 NNS,word 0 cats,tag -2 PRP".split(","))
        <= said
    )
    assert "tag 0 RB" not in problem.features
    (tmp_path / "some_test.txt.gz").write_bytes(gzip.compress(b"He PRP"))
    with refuses("a line must be a word, its tag and its label"):
        load("some")


def test_the_published_sentences():
    folder = mirror_folder()
    if folder is None or not (folder / "conll2000_train.txt.gz").is_file():
        pytest.skip(
            "needs conll2000_train.txt.gz in the folder that WORKBENCH_DATA names"
        )
    for part in ("train", "test"):
        text = gzip.decompress((folder / f"conll2000_{part}.txt.gz").read_bytes())
        assert sha256(text).hexdigest() == SHA256[f"{part}.txt"]
    problem = load("conll2000 | 3 % rows")
    assert (problem.k, len(problem.starts_test)) == (22, 2012) and len(
        problem.starts
    ) > 268
