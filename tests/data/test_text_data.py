"""Generated documents of many classes: what they say they are."""

import numpy as np
from helpers import each, refuses
from pytest import approx

from workbench import load
from workbench.data import text
from workbench.data.text import zipf_text


def test_generated_documents_are_what_they_say():
    many = zipf_text(3000, 200, 1, n_test=500)
    assert many.X.shape == (3000, 11_908) and many.X_test.shape == (500, 11_908)
    assert many.synthetic and "synthetic" in many.about and many.k == 200
    assert many.X.dtype == np.float32 and many.X.has_canonical_format
    assert many.X.data.min() == 1
    sizes = np.bincount(many.y, minlength=200)
    assert sizes.min() >= 1 and sizes.max() > 5 * np.median(sizes)
    words = np.asarray(many.X.sum(axis=1)).ravel()
    assert words.mean() == approx(60, rel=0.05) and words.min() >= 1
    assert np.log(words).std() == approx(0.5, abs=0.05)
    # The frequency of words falls as in text.
    counts = np.sort(np.asarray(many.X.sum(axis=0)).ravel())[::-1]
    slope = np.polyfit(np.log(np.arange(3, 301)), np.log(counts[2:300]), 1)[0]
    assert -1.3 < slope < -0.7


def test_documents_are_generated_in_blocks(monkeypatch):
    monkeypatch.setattr(text, "BLOCK", 150)
    X = zipf_text(400, 30, 5).X
    assert X.shape[0] == 400 and X.sum() / 400 == approx(60, rel=0.1)


@each("name, value", [("k", 1), ("n", 9), ("n_test", -1)])
def test_impossible_numbers_of_documents_are_refused(name, value):
    with refuses(f"^{name}: must "):
        zipf_text(**({"n": 100, "k": 10} | {name: value}))


def test_generated_documents_follow_their_seed():
    first = zipf_text(400, 30, 5)
    again = zipf_text(400, 30, 5)
    assert first.checksum == again.checksum != zipf_text(400, 30, 6).checksum
    more = zipf_text(400, 30, 5, n_test=7)
    assert (more.X != first.X).nnz == 0 and more.X_test.shape[0] == 7
    assert zipf_text(400, 30, 5, n_test=0).X_test is None


def test_validation_rows_are_training_rows():
    words = "text 4000x300 @ given | 30 % test"
    whole, part = (load(w, seed=3) for w in (words, f"{words} | 25 % validation"))
    assert part.k == 300 and set(part.y) == set(range(300))
    assert len(whole.y_test) == 1714  # three tenths of all
    assert part.n + len(part.y_test) == 4000 and 920 < len(part.y_test) <= 1001
    rows = {(row.indices.tobytes(), row.data.tobytes()) for row in whole.X_test}
    assert not any(
        (row.indices.tobytes(), row.data.tobytes()) in rows for row in part.X_test
    )
    sizes = np.bincount(whole.y)
    held = np.bincount(part.y_test, minlength=300)
    assert abs(held - 0.25 * sizes).max() < 2
    small = (sizes < 4) & (sizes > 1)
    assert held[small].sum() > 0.15 * sizes[small].sum()


def test_validation_keeps_a_row_of_each_class_or_is_refused():
    most = load("wine @ given | 99.9 % validation")
    assert most.n + len(most.y_test) == 178 and set(most.y) == {0, 1, 2}
    for share in ("0", "100", "0.01"):
        with refuses("validation"):
            load(f"wine | {share} % validation")
