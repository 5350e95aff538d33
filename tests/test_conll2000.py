"""Chunked sentences as sequences: their features and labels, and what is refused."""

import gzip
from hashlib import sha256

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from checks import conll2000 as module
from checks.conll2000 import conll2000
from workbench.data.cache import mirror_folder

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

"""


@pytest.fixture
def mirror(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))

    def put(train=TRAIN, test=TEST):
        for part, text in (("train", train), ("test", test)):
            (tmp_path / f"conll2000_{part}.txt.gz").write_bytes(gzip.compress(text.encode()))

    put()
    return put


def test_sentences_become_sequences(mirror):
    problem = conll2000()
    assert problem.starts.tolist() == [0, 4, 8, 9] and problem.starts_test.tolist() == [0, 3, 4]
    assert problem.classes.tolist() == "B-ADVP B-NP B-VP I-NP O".split()
    assert problem.y.tolist()[:4] == [1, 2, 1, 3] and problem.y_test.tolist() == [1, 2, 1, 1]
    assert "1 of 3 test sentences left out" in problem.about and not problem.synthetic
    for X in (problem.X, problem.X_test):
        assert X.dtype == np.float32 and X.has_canonical_format
        assert np.diff(X.indptr).tolist() == [16] * X.shape[0]
        assert X.power(2).sum(axis=1) == pytest.approx(1)
    fewer = conll2000(2, 1)
    assert (len(fewer.starts), len(fewer.starts_test), fewer.k, fewer.n) == (3, 2, 4, 8)


def test_the_published_sentences():
    folder = mirror_folder()
    if folder is None or not (folder / "conll2000_train.txt.gz").is_file():
        pytest.skip("needs conll2000_train.txt.gz in the folder that WORKBENCH_DATA names")
    for part in ("train", "test"):
        text = gzip.decompress((folder / f"conll2000_{part}.txt.gz").read_bytes())
        assert sha256(text).hexdigest() == module.SHA256[part]
    problem = conll2000(300, 100)
    assert len(problem.starts) == 301 and len(problem.starts_test) == 101
    model = LinearSVC().fit(problem.X, problem.y)
    assert 0.05 < np.mean(model.predict(problem.X_test) != problem.y_test) < 0.12
