"""The board of claims: its quotations, commands and numbers, and the propositions it
rests on."""

import json
import re
import sys
import textwrap
from collections import Counter
from itertools import islice, product
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pytest import approx

from workbench import load, rounds, run
from workbench.figures.report import claims as module
from workbench.figures.report import decide as deciding
from workbench.figures.report.claims import read_claims
from workbench.figures.report.coverage import COLUMNS, read_coverage
from workbench.figures.report.law import VERDICTS, cells, threshold, verdict
from workbench.least_squares import calibrated
from workbench.papers import PAPERS, title
from workbench.runs.notebooks import CHECKOUT, find
from workbench.weston_watkins.bcd import epoch, samples, ww_walrus
from workbench.weston_watkins.walrus import subproblem

sys.path.insert(0, str(Path(__file__).parents[1]))  # where this file is a script
from helpers import each, refuses
from helpers.oracles import weston_watkins

MARKS = "<!-- the board of claims -->", "<!-- the end of the board -->"


def between_marks(text, lines):
    """Return a page's text with these lines between the two marks."""
    head, rest = text.split(MARKS[0])
    return (
        head + "\n".join([MARKS[0], "", *lines, "", MARKS[1]]) + rest.split(MARKS[1])[1]
    )


def counted():
    """Return a table of the verdicts, with a line for each paper."""
    lines = [f"| paper | {' | '.join(VERDICTS)} |", "|---" * 7 + "|"]
    for paper in PAPERS:
        own = [claim for claim in read_claims() if claim.paper == paper]
        counts = Counter(claim.verdict for claim in own)
        numbers = " | ".join(str(counts[verdict] or "") for verdict in VERDICTS)
        lines.append(f"| {title(paper)} | {numbers} |")
    return lines


def front():
    """Return the README's counts, of verdicts and of what is covered."""
    items = read_coverage()
    words = []
    for column in COLUMNS:
        found = Counter(item.marks[column] for item in items)
        words.append(f"{found['yes']} ({found['in part']} in part) {column}")
    text = "[Every claim](data/reference/CLAIMS.md) has a verdict, by [a law](data/"
    text += f"reference/LAW.md). Of the papers' [{len(items)} parts](data/reference/"
    text += f"coverage.csv): {', '.join(words)}."
    return [*textwrap.wrap(text, 124, break_on_hyphens=False), "", *counted()]


def listed():
    """Return the claims' page: the counts, and a list of the claims of each verdict."""
    lines = counted()
    for word in VERDICTS:
        found = [claim for claim in read_claims() if claim.verdict == word]
        lines += [f"\n## {word.capitalize()}: {len(found)}\n"] if found else []
        for c in found:
            name = f"[{c.claim}](../../figures/{c.figure}.png)" if c.figure else c.claim
            details = [
                f"*“{c.quote}”* ({c.where})",
                f"Scope: {c.scope}: `{c.threshold}`",
                c.measured,
                f"`{c.command}`" if c.command else "",
            ]
            if c.decide and not c.decided:
                lacks = f"`workbench decide` measures more of it ({c.decide}"
                details.append(f"{lacks}, about {c.minutes:g} min of one core)")
            lines.append(f"- **{name}** ({PAPERS[c.paper].short}). {c.number}")
            lines += [f"  <br>{line}" for line in details if line]
    return lines


PAGES = {
    CHECKOUT / "README.md": front,
    CHECKOUT / "data" / "reference" / "CLAIMS.md": listed,
}


def test_every_claim_is_judged():
    assert {claim.paper for claim in read_claims()} == set(PAPERS)
    assert len({claim.claim for claim in read_claims()}) == len(read_claims())
    for claim in read_claims():
        assert claim.verdict in VERDICTS and claim.where and claim.scope
        assert claim.cells or claim.missing or claim.test
        assert bool(claim.cells) == bool(claim.machines)
        assert claim.command or claim.test or set(claim.missing.values()) - {"run"}
        if claim.figure:
            assert (CHECKOUT / f"figures/{claim.figure}.png").is_file()


def test_what_decides_a_claim_is_a_test_or_a_profile_that_exists():
    for claim in read_claims():
        if claim.test:
            file, _, name = claim.test.partition("::")
            assert f"def {name}(" in (CHECKOUT / file).read_text("utf-8")
        if claim.decide:
            assert "decide" in find([claim.decide])[0].profiles and claim.minutes > 0


# Values of one cell, their bound, the words of a claim, and its verdict.
LAW = """
9 10 11        |          | about 10 times      | holds
9 10 11        |          | at least 20 times   | does not hold
9 10 11        |          | at least 10 times   | not decided
60             | at least | about 100 times     | holds
40             | at least | about 100 times     | not decided
0.9            | at most  | faster              | does not hold
1.3            |          | faster              | holds
1.2            |          | faster              | not decided
none 2 2.1     |          | faster              | not decided
-0.2 -0.3 -0.25|          | within 0.5 points   | holds
0              |          | never violated      | holds
0              |          | not dominated       | holds
0.04           |          | equal to 1e-6       | does not hold
1.2            |          | exponent below 1.25 | holds
1.4            |          | below 1.5           | not decided
"""


@each("case", LAW.strip().splitlines())
def test_the_law(case):
    values, bound, words, expected = (text.strip() for text in case.split("|"))
    values = [None if text == "none" else float(text) for text in values.split()]
    rows = [{"cell": "a", "value": v, "bound": bound or None} for v in values]
    assert verdict(cells(rows, words, timed=True), {}) == expected


def test_cells_of_several_kinds():
    rows = [{"cell": str(x), "value": x} for x in (0.5, 2.0)]
    assert verdict(cells(rows, "faster", True), {}) == "in part"
    assert verdict(cells(rows[1:], "faster", True), {"b": "run"}) == "not decided"
    assert verdict([], {"b": "data"}) == "cannot be tested here"
    assert verdict([], {"b": "data", "c": "run"}) == "not decided"


def test_words_that_the_law_lacks_are_refused():
    with refuses("the law has no words 'somewhat faster'"):
        threshold("somewhat faster")


@each("page", PAGES, ids=lambda page: page.name)
def test_the_readme_has_the_counts_and_its_page_the_board(page):
    text = page.read_text("utf-8")
    assert text == between_marks(text, PAGES[page]()), (
        "python tests/papers/test_claims.py writes it again"
    )


def test_the_readme_is_short_and_begins_with_the_two_commands():
    lines = (CHECKOUT / "README.md").read_text("utf-8").splitlines()
    screen = "\n".join(lines[:15])
    assert "make figures" in screen and "make test" in screen and len(lines) <= 130


ENTRY = '''
[[claim]]
paper = "mrc"
claim = "c"
where = "w"
quote = "q"
scope = "s"
threshold = "below 1"
tables = ["a/b", "a/c?", "a/d!"]
cells = """
SELECT b.cell, b.value FROM "a/b" AS b JOIN "a/d!" UNION SELECT cell, value FROM "a/c"
"""
missing = {second = "run"}
'''


def sidecar(folder, name, *names, **more):
    """Write the sidecar of figure a/name, whose numbers are one half in these cells."""
    path = folder / "figures" / "a" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = [{"cell": cell, "value": 0.5} for cell in names]
    path.write_text(json.dumps({"numbers": numbers, "machine": {"cpu": "M"}} | more))


@pytest.fixture
def board(tmp_path, monkeypatch):
    """Return a function that writes claims and says which folders have results."""

    def write(entries, *folders):
        (tmp_path / "claims.toml").write_text(entries)
        monkeypatch.setattr(module, "PRINTED", tmp_path)
        monkeypatch.setattr(module, "CHECKOUT", folders[0])
        monkeypatch.setattr(module, "sources", lambda: folders)

    return write


def test_a_readers_runs_count_as_ours_do(tmp_path, board):
    ours, none, readers = (tmp_path / name for name in ("ours", "none", "the reader's"))
    board(ENTRY, ours, none, readers)
    for table in "bcd":
        sidecar(ours, table, "first")
    (before,) = module.read_claims.__wrapped__()
    sidecar(readers, "b", "second")  # without the other tables
    (after,) = module.read_claims.__wrapped__()
    assert (before.verdict, after.verdict) == ("not decided", "holds")


DECIDED = ENTRY + 'decide = "a"\nminutes = 30\n'
LATER = DECIDED.replace('"c"', '"d"').replace('"a"', '"z"')


def test_decide_makes_what_fits_once_and_judges_again(tmp_path, board, monkeypatch):
    decided = tmp_path / "decided"

    def make(names, profile, say):
        made.append((*names, profile))
        for table in "bc":
            sidecar(decided, table, "first", "second", date="2020-01-02T")
        return ["z"] if names == ["z"] else []

    sidecar(tmp_path, "d", "shared")
    twice = DECIDED.replace('"c"', '"c, the same notebook"')
    board(DECIDED + twice + LATER, tmp_path, decided)
    monkeypatch.setattr(deciding, "make", make)
    read_claims.cache_clear()
    try:
        made = []
        said = []
        claims = deciding.undecided("")
        assert {claim.verdict for claim in claims} == {"not decided"}
        assert deciding.decide(claims, 0.75, say=said.append) == []
        assert made == [("a", "decide")]
        assert said == [
            "z: not run; takes 30 min, 15 min are left",
            "c: holds; As claimed: first: 0.5; second: 0.5",
            "c, the same notebook: holds; As claimed: first: 0.5; second: 0.5",
            "d: holds; As claimed: first: 0.5; second: 0.5",
        ]
        assert [c.measured for c in read_claims()][:1] == ["M, 2020-01-02"]
        assert deciding.undecided("") == []
        assert deciding.decide(claims, None, say=said.append) == ["z"]
        assert made[1:] == [("a", "decide"), ("z", "decide")]
        with refuses("no name contains 'xyz'"):
            deciding.undecided("xyz")
    finally:
        read_claims.cache_clear()


@each("seed", range(3))
def test_the_reparametrised_dual_is_the_dual(seed, blobs):
    """Proposition 3.2: beta in [0, C]^(k-1) and alpha, whose columns sum to zero, are
    one dual."""
    problem = blobs(n=20, d=3, k=4, seed=seed)
    C = 0.7
    k = 4
    X = problem.X
    own = np.eye(k)[problem.y]
    alpha = cp.Variable((20, k))
    rest = -cp.multiply(1 - own, alpha)
    gain = cp.sum(cp.multiply(own, alpha)) - cp.sum_squares(X.T @ alpha) / 2
    box = [rest >= 0, rest <= C, cp.sum(alpha, axis=1) == 0]
    first = cp.Problem(cp.Maximize(gain), box)

    beta = cp.Variable((20, k))  # that of the own class is zero
    image = (
        cp.multiply(own, cp.sum(beta, axis=1, keepdims=True) @ np.ones((1, k))) - beta
    )
    gain = cp.sum(beta) - cp.sum_squares(X.T @ image) / 2
    box = [beta >= 0, beta <= C, cp.multiply(own, beta) == 0]
    second = cp.Problem(cp.Maximize(gain), box)
    for solved in (first, second):
        solved.solve(solver=cp.CLARABEL)
    assert first.value == approx(second.value, rel=1e-6)
    assert_allclose(X.T @ alpha.value, X.T @ image.value, atol=1e-4)
    beta.value = rest.value
    assert_allclose(image.value, alpha.value, atol=1e-6)


def by_faces(v, C):
    """Return the minimiser of (4): of all faces, each entry at 0, at C or free, the KKT
    point."""
    faces = np.array(list(product(range(3), repeat=len(v))))
    full = faces == 1
    free = faces == 2
    g = (C * full.sum(axis=1) + free @ v) / (1 + free.sum(axis=1))
    b = np.where(free, v - g[:, None], C * full)
    stationary = np.clip(v - b.sum(axis=1, keepdims=True), 0, C)
    return b[abs(b - stationary).max(axis=1).argmin()]


@each("kind", ["normal", "tied", "multiples of C", "below 0"])
@each("m", range(1, 7))
def test_algorithm_2_is_exact(m, kind, rng):
    """Theorem 3.4; for half of the multiples of C many breakpoints coincide."""
    for draw in range(100):
        C = 10.0 ** rng.uniform(-2, 2)
        v = rng.normal(0.5, 1.0, m) * 10.0 ** rng.uniform(-1, 2)
        if kind == "tied":
            v = np.round(v)
        elif kind == "multiples of C":
            v = C * (rng.integers(-1, 4, m) + 1e-9 * (draw % 2) * rng.normal(size=m))
        elif kind == "below 0":
            v = -abs(v)
        assert_allclose(
            subproblem(v, C), by_faces(v, C), rtol=0, atol=1e-12 * abs(v).max()
        )


@each("at", [0, 3, 40])
def test_a_visit_solves_the_block_of_both_duals(at, blobs):
    """Corollary 3.3 and Proposition 3.5, in a run: S1 over alpha_i by a conic
    solver."""
    problem = blobs(n=20, d=3, k=4)
    C = 0.7
    k = 4
    *_, state = islice(ww_walrus(problem, C=C), at + 1)
    data = samples(problem, C)
    W = state.W.copy()
    B = state.B.copy()
    for i, (x, y) in enumerate(zip(problem.X, problem.y)):
        own = np.eye(k)[y]
        rest = W[:, :k] - np.outer(x, own * B[i].sum() - B[i, :k])
        alpha = cp.Variable(k)
        gain = alpha[y] - cp.sum_squares(rest + x[:, None] @ alpha[None, :]) / 2
        box = [
            cp.multiply(1 - own, alpha) <= 0,
            alpha >= -C * (1 - own),
            cp.sum(alpha) == 0,
        ]
        cp.Problem(cp.Maximize(gain), box).solve(solver=cp.CLARABEL)
        epoch(data, W, B, np.array([i], np.uint64))
        assert_allclose(own * B[i].sum() - B[i, :k], alpha.value, atol=1e-5)


def solved(X, y, C, margin):
    """Return the weights of the Weston-Watkins SVM, by a conic solver."""
    k = y.max() + 1
    W = cp.Variable((X.shape[1], k))
    loss = margin * cp.sum(weston_watkins(X @ W / margin, np.eye(k)[y]))
    cp.Problem(cp.Minimize(cp.sum_squares(W) / 2 + C * loss)).solve(solver=cp.CLARABEL)
    return W.value


@each("C", (0.05, 1.0))
def test_the_two_formulations_have_one_solution(C, blobs):
    """Proposition A.29: margins of 2 with 2C, and of 1 with C, up to a factor of 2."""
    problem = blobs(n=30, d=3)
    one, two = (solved(problem.X, problem.y, m * C, margin=m) for m in (1, 2))
    assert_allclose(two, 2 * one, atol=1e-4)


def test_rows_with_several_labels(monkeypatch):
    """Section 4: Algorithm 2 with a clip for its projection; each digit has a set of
    labels."""
    sets = np.random.default_rng(0).random((10, 10)) < 0.4
    problem = load("digits", test=0.3)
    monkeypatch.setattr(
        calibrated, "targets", lambda y, k, dtype: sets[y].astype(dtype)
    )
    monkeypatch.setattr(calibrated, "project", lambda V: np.clip(V, 0, 1, out=V))
    trace, state = run("ls_calibrated", problem, rounds(20))
    before = trace.column("squared_error")[:-1]
    fitted, refitted, after = (
        trace.column(c)[1:] for c in ("fitted", "refitted", "squared_error")
    )
    assert (np.diff([before, fitted, refitted, after], axis=0) <= 1e-9).all()
    assert np.mean((state.scores(problem.X_test) > 0.5) == sets[problem.y_test]) > 0.95


def test_every_threshold_is_a_word_of_the_law():
    text = (CHECKOUT / "data/reference/LAW.md").read_text("utf-8")
    number = r"-?[\d.]+(?:e-?\d+)?"
    named = re.compile(rf"\bN\b|\bx\b|{number}")
    words = {named.sub("1", w) for w in re.findall(r"`([a-z][^`]+)`(?=,? [|`])", text)}
    for word in words:
        threshold(word)
    for claim in read_claims():
        assert named.sub("1", claim.threshold) in words, claim.threshold
        assert claim.scope != claim.quote


if __name__ == "__main__":
    for page, lines in PAGES.items():
        text = between_marks(page.read_text("utf-8"), lines())
        page.write_text(text, encoding="utf-8")
