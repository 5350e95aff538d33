"""What lessons and figure notebooks say of a paper: each sentence has its place, and
places, quotations and numbers are in the paper."""

import os
import re
from functools import cache
from pathlib import Path

import pytest
from helpers import each, each_path

import course
from workbench.figures.reference import listed, printed
from workbench.figures.report.claims import read_claims
from workbench.papers import PAPERS, paper_of_name

ROOT = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted([*ROOT.glob("learn/**/*.ipynb"), *ROOT.glob("figures/*.ipynb")])
NOTEBOOKS += sorted(ROOT.glob("learn/decks/*.md"))
TEXTS = os.environ.get("WORKBENCH_PAPERS")
needs_texts = pytest.mark.skipif(
    not TEXTS, reason="WORKBENCH_PAPERS does not name the folder of the papers' texts"
)
# The text of this paper has 123 instead of all numbers.
MASKED = "sampled_cuts"
BREAK = re.compile(r"\n\s*\n|\n(?=[-|>]|\d+\. )|(?<=[.?!])[\"*)]*\s+(?=[A-Z*$\[\"`(])")
# The paper that does or says something, or a quotation or number of "the paper's".
CITED = re.compile(
    r"\b[Tt]h(e|is) paper\b(?!'s| behind|`| \|)|^\W*The paper's\b|paper's (?=[\"$\d])"
    r"|\bIt (also )?(concludes|finds)\b|\bIt also says\b|; it reports|it prints \("
)
PLACE = re.compile(
    r"(?:Sections?|Appendix) (?P<section>[\dA-Z][\w.-]*\w|\d)"
    r"|section \*(?P<title>.+?)\*|\((?P<equation>\d+)\)"
    r"|(?P<kind>Table|Figure|Theorem|Algorithm|footnote|Problem|line)s? (?P<number>\w+)"
)
QUOTED = re.compile(r'"([^"]+)"')
NUMBER = re.compile(r"(?<![\w^.{(-])\d+(?:(?:,|\{,\}| )\d{3})*(?:\.\d+)?(?![\w^}])")


def sentences(path):
    """Yield the sentences of a notebook or deck that say something of a paper."""
    for cell in course.read(path).cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"^#.*$|\[[^]]*\]\(\S+\)", "\n", cell.source, flags=re.M)
            for part in BREAK.split(text):
                if CITED.search(line := " ".join(part.split())):
                    yield line


def papers_of(path):
    """Return the paper of a notebook, or all five if it crosses them."""
    return [paper] if (paper := paper_of_name(path.stem)) else [*PAPERS]


def plain(text):
    """Return letters and digits only, without ligatures, which one text has lost."""
    return re.sub(r"\\\w+|ff[il]|f[fil]|[\W_]", "", text.lower())


@cache
def text_of(paper):
    """Return the text of a paper; the files are in the order of `PAPERS`."""
    files = sorted(Path(TEXTS).glob("*.txt"))
    return dict(zip(PAPERS, files, strict=True))[paper].read_text("utf-8")


@cache
def numbers_of(paper):
    """Return the numbers in a paper's text and in `data/reference`."""
    inside = re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+", text_of(paper))
    rows = printed(paper)
    return {as_number(each) for each in inside} | {*rows["value"]} | {*rows["spread"]}


def as_number(text):
    """Return the number that is written with or without marks for thousands."""
    return float(re.sub(r"[{}, ]", "", text))


def is_there(place, paper):
    """Return whether a paper has this section, table, equation and so on."""
    text = text_of(paper)
    if title := place["title"]:
        return plain(title) in plain(text)
    if paper == MASKED or place["kind"] in ("footnote", "line"):
        return True  # the text has lost them
    if section := place["section"]:
        return re.search(rf"^{re.escape(section)}\b", text, re.M) is not None
    if number := place["equation"]:
        return f"({number})" in text
    named = f"{place['kind']} {place['number']}"
    captions = {row["table"] for row in listed("captions") if row["paper"] == paper}
    return f"{named}" in text or (
        place["kind"] == "Table" and place["number"] in captions
    )


@each_path(NOTEBOOKS)
def test_what_is_said_of_a_paper_has_its_place(path):
    assert not [line for line in sentences(path) if not PLACE.search(line)]


@needs_texts
@each("paper", PAPERS)
def test_claims_quote_their_papers_word_for_word(paper):
    def words(text):  # without spaces and hyphens, which lines break at
        return re.sub(r"[\s-]+", "", text)

    quotes = [claim.quote for claim in read_claims() if claim.paper == paper]
    text = words(text_of(paper))
    assert not [quote for quote in quotes if words(quote) not in text]


@needs_texts
@each_path(NOTEBOOKS)
def test_places_quotations_and_numbers_are_in_the_paper(path):
    papers = papers_of(path)
    strange = []
    for line in sentences(path):
        for place in PLACE.finditer(line):
            if not any(is_there(place, paper) for paper in papers):
                strange.append(place[0])
        for quoted in QUOTED.findall(line):
            if not any(plain(quoted) in plain(text_of(paper)) for paper in papers):
                strange.append(quoted)
        for number in NUMBER.findall(PLACE.sub("", line)):
            known = any(as_number(number) in numbers_of(paper) for paper in papers)
            if not known and MASKED not in papers:
                strange.append(number)
    assert not strange
