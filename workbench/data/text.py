"""Generated documents with very many classes.

Word frequencies follow Zipf's law, topics form a tree, and class sizes a power law.
"""

import numpy as np
import scipy.sparse as sp

from workbench.core.blocks import pieces
from workbench.core.checks import check_memory, check_whole
from workbench.core.problem import Array, Problem, as_problem
from workbench.data.synthetic import check_sizes

BLOCK = 2**16  # documents generated together; their words take about 100 MB
GENRES = 20
# The fractions of a document's words that are from the vocabularies of its class, its
# subject, its field and its genre, and the sizes of these vocabularies.
SHARES = 0.1, 0.15, 0.10, 0.15
VOCABULARIES = 500, 800, 3000, 3000
WORDS = 60.0  # mean number of words in a document
ROW_BYTES = 400  # bytes of memory per document
NOISE = 0.08  # fraction of the documents with the label of a sibling
RARITY = 3.0  # a topical word has the rank d u^3 for a uniform u
SIZES = 0.6  # the class of rank r has a size proportional to r^-0.6
SPREAD = 0.5  # standard deviation of the logarithm of a document's length


def zipf_text(
    n: int = 20_000, k: int = 1_000, seed: int = 0, *, n_test: int | None = None
) -> Problem:
    """Return word counts of documents whose classes are the leaves of a tree of topics.

    The tree has about k^(1/3) fields, k^(2/3) subjects and k classes. A word of a
    document comes from the vocabulary of its class with probability 0.1, of its subject
    with 0.15, of its field with 0.10, of one of 20 genres with 0.15, and otherwise from
    the language. In each vocabulary, the r-th of m words has the probability log(1 +
    1/r) / log(1 + m), which is roughly proportional to 1/r. The numbers m are 500, 800,
    3000 and 3000, and d = 187 k^0.784 for the language. Each word of a topic is a word
    of the language, at the rank d u^3 for a uniform u. Lengths are log-normal, and
    their logarithms have a standard deviation of 0.5. The class of rank r has a
    fraction of the documents proportional to r^-0.6, and at least one training row. For
    8 % of all documents, including test documents, the label is replaced by another
    class of the same subject.

    With 20,000 documents of 1,000 classes, a cosine centroid on tf-idf has an accuracy
    of 59 %. Words are independent given the class, which favours centroids, so check
    any result on real text, too. A million documents of 100,000 classes take seconds
    and 1.2 GB.

    Parameters
    ----------
    n, k : int
        The numbers of training documents and of classes, n >= k >= 2.
    seed : int
        Seeds all random choices. Training rows are the same for every `n_test`.
    n_test : int or None
        The number of test documents; by default a quarter of n, at most 20,000.
    """
    check_sizes(n, 1, k, ROW_BYTES)
    d = round(187 * k**0.784)
    if n_test is None:
        n_test = min(n // 4, 20_000)
    check_whole(n_test, "n_test", least=0)
    check_memory(f"{n_test} test documents, which", n_test * ROW_BYTES)
    seeds = np.random.SeedSequence(seed).spawn(3)
    rng = np.random.default_rng(seeds[0])
    language = rng.permutation(d).astype(np.int32)  # the word at each rank
    sizes = np.cumsum(rng.permutation(np.arange(1.0, k + 1) ** -SIZES))
    secret = rng.integers(2**63, dtype=np.uint64)
    tree = _tree(k)

    def documents(labels: Array, rng: np.random.Generator) -> sp.csr_matrix:
        topics = tree[_with_noise(labels, tree[:, 1], rng)]
        genre = tree.max() + 1
        blocks = [
            _counts(topics[rows], genre, language, secret, rng)
            for rows in pieces(len(labels), BLOCK)
        ]
        return sp.vstack(blocks, format="csr")

    rng = np.random.default_rng(seeds[1])
    y = rng.permutation(np.concatenate([np.arange(k), _classes(sizes, n - k, rng)]))
    X = documents(y, rng)
    X_test = y_test = None
    if n_test:
        rng = np.random.default_rng(seeds[2])
        y_test = _classes(sizes, n_test, rng)
        X_test = documents(y_test, rng)
    about = (
        f"synthetic documents of {k} classes in a tree of topics, {WORDS:g} words "
        f"each, {SHARES[0]:g} of them the class's own; {NOISE:g} of the labels are a "
        "sibling's"
    )
    return as_problem(
        X,
        y,
        X_test=X_test,
        y_test=y_test,
        name=f"text {n}x{k}",
        synthetic=True,
        about=about,
    )


def _tree(k: int) -> Array:
    """Return the numbers (k, 3) of each class, its subject and its field.

    The numbers identify the vocabularies of all topics. Siblings have adjacent numbers.
    """
    fields = round(k ** (1 / 3))
    subjects = round(k ** (2 / 3))
    leaf = np.arange(k)
    subject = leaf * subjects // k
    field = subject * fields // subjects
    return np.column_stack([leaf, k + subject, k + subjects + field])


def _classes(sizes: Array, n: int, rng: np.random.Generator) -> Array:
    """Return n random classes; `sizes` are the cumulative sizes of classes."""
    classes = np.searchsorted(sizes, rng.random(n) * sizes[-1], side="right")
    return classes.clip(0, len(sizes) - 1)


def _with_noise(labels: Array, subject: Array, rng: np.random.Generator) -> Array:
    """Return the true class of each document; for some it is a sibling of the label."""
    first = np.searchsorted(subject, subject[labels])
    count = np.searchsorted(subject, subject[labels], side="right") - first
    wrong = (rng.random(len(labels)) < NOISE) & (count > 1)
    step = 1 + np.floor(rng.random(len(labels)) * (count - 1)).astype(int)
    return np.where(wrong, first + (labels - first + step) % count, labels)


def _counts(topics, genre: int, language, secret, rng) -> sp.csr_matrix:
    """Return the float32 word counts (n, d) of documents.

    `topics` (n, 3) has the numbers of the vocabularies of their class, subject and
    field, and `genre` is the number of the first genre's vocabulary.
    """
    n = len(topics)
    d = len(language)
    mean = np.log(WORDS) - SPREAD**2 / 2
    lengths = np.maximum(1, np.rint(rng.lognormal(mean, SPREAD, n))).astype(np.int64)
    topics = np.column_stack([topics, genre + rng.integers(GENRES, size=n)])
    spans = np.minimum([*VOCABULARIES, d], d)
    document = np.repeat(np.arange(n), lengths)  # the document of each word
    total = len(document)
    source = np.searchsorted(np.cumsum(SHARES), rng.random(total), side="right")
    rank = np.exp(rng.random(total) * np.log(spans + 1.0)[source]).astype(np.int64)
    rank = np.minimum(rank, spans[source]) - 1
    topical = np.flatnonzero(source < len(SHARES))
    vocabulary = topics[document[topical], source[topical]]
    u = _uniform(vocabulary, rank[topical], secret)
    rank[topical] = (d * u**RARITY).astype(np.int64)
    keys, counts = np.unique(document * d + language[rank], return_counts=True)
    return sp.csr_matrix((counts.astype(np.float32), np.divmod(keys, d)), shape=(n, d))


def _uniform(vocabulary: Array, rank: Array, secret: np.uint64) -> Array:
    """Return a fixed number in [0, 1) for each rank in a vocabulary, by splitmix64."""
    h = (vocabulary.astype(np.uint64) << np.uint64(20)) + rank.astype(np.uint64)
    h = h * np.uint64(0x9E3779B97F4A7C15) + secret
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor)
    h ^= h >> np.uint64(31)
    return (h >> np.uint64(11)) * 2.0**-53
