"""Chunked sentences as sequences: their features, labels, and where the files are looked for."""

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
    assert problem.classes.tolist() == ["B-ADVP", "B-NP", "B-VP", "I-NP", "O"]
    assert problem.y.tolist()[:4] == [1, 2, 1, 3] and problem.y_test.tolist() == [1, 2, 1, 1]
    assert "1 of 3 test sentences left out" in problem.about and not problem.synthetic
    for X in (problem.X, problem.X_test):
        assert X.dtype == np.float32 and X.has_canonical_format
        assert np.diff(X.indptr).tolist() == [16] * X.shape[0]
        assert X.power(2).sum(axis=1) == pytest.approx(1)
    fewer = conll2000(2, 1)
    assert (len(fewer.starts), len(fewer.starts_test), fewer.k, fewer.n) == (3, 2, 4, 8)


def test_each_indicator_means_what_it_should(mirror):
    problem = conll2000()
    train, test = (X.indices.reshape(-1, 16) for X in (problem.X, problem.X_test))
    before, word, after, tag, suffix, shape = 1, 2, 3, 7, 14, 15
    he, saw, three, cats, _, again, *_ = train
    assert saw[word] == again[word] == test[1][word] != cats[word] == test[0][word]  # Saw is saw
    assert three[word] == train[8][word] == test[2][word]  # rare, or unseen
    assert he[before] == test[0][before] == train[8][before] != saw[before]  # nothing there
    assert cats[after] == train[7][after] == train[8][after]
    assert he[tag] == test[2][tag] != saw[tag] == test[1][tag] and he[8] == train[4][8] != saw[8]
    assert saw[11] == again[11] != he[11]  # the pair of the tag before and its own
    assert cats[suffix] == test[0][suffix] != saw[suffix]
    assert he[shape] == train[8][shape] != saw[shape] == cats[shape] != three[shape]
    both = np.vstack([train, test])
    assert (both.max(axis=0)[:-1] < both.min(axis=0)[1:]).all()  # each template has its own columns
    assert problem.d > train.max() and problem.d <= 16 + sum(len(set(c)) for c in train.T)
    mirror(test=TEST.replace("him PRP", "dogs XYZ"))  # the vocabulary is that of the training rows
    other = conll2000()
    assert (problem.X != other.X).nnz == 0
    assert other.X_test.indices.reshape(-1, 16)[2][7] == three[7]


def test_what_is_wrong_is_said(mirror):
    with pytest.raises(ValueError, match=r"^n: must be None or from 1 to 3"):
        conll2000(n=4)
    mirror(train=TRAIN.replace("PRP ", ""))
    with pytest.raises(ValueError, match=r"conll2000_train.txt.gz: a line is not a word"):
        conll2000()


def test_files_that_are_not_available_are_downloaded_on_request(mirror, monkeypatch):
    monkeypatch.delenv("WORKBENCH_DATA")
    with pytest.raises(FileNotFoundError, match=r"(?s)_DATA is not set.*conll2000\(fetch=True\)"):
        conll2000()
    asked = []

    def give(files, folder, hashes):
        [(name, url)] = files.items()
        asked.append((url.rpartition("/")[2], hashes[name]))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TRAIN if "train" in name else TEST)

    monkeypatch.setattr(module, "download", give)
    problem = conll2000(fetch=True)
    assert asked == [(f"{part}.txt", module.SHA256[part]) for part in ("train", "test")]
    assert conll2000().checksum == problem.checksum


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
