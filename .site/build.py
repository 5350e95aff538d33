"""Make one site from the pages of `make docs`: add a start, a gallery, a bar, a search.

Run it as ``python .site/build.py docs`` when docs/course, docs/report.html and docs/api
have been written.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from html import escape, unescape
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
from jinja2 import Environment, FileSystemLoader
from nbconvert.filters import markdown2html
from nbformat.v4 import new_markdown_cell
from PIL import Image

from workbench.core.stream import below, seconds
from workbench.data import load
from workbench.figures.report import sidecars
from workbench.figures.saved import SENTENCES
from workbench.live import replay
from workbench.papers import order, title
from workbench.runs.notebooks import CHECKOUT, Notebook, find

sys.path.insert(0, str(CHECKOUT / "notebooks" / "learn"))
import course

HERE = Path(__file__).parent.resolve()

STYLE = (HERE / "site.css").read_text("utf-8")
BAR = {
    "figures.html": "Figures",
    "course/index.html": "Course",
    "report.html": "Claims",
    "api/workbench.html": "API",
    "index.html#guides": "Guides",
}
LATER = {  # pages that are in the bar if they have been made
    "trust.html": (
        "Trust",
        "What is promised, how each promise is attacked, and what was found.",
    ),
    "checker.html": (
        "Checker",
        "Drop a proof and its rows, and read the certified interval.",
    ),
}
KINDS = {
    "figures": "figure",
    "course": "course",
    "report.html": "claims and numbers",
    "api": "API",
    "guides": "guide",
}
COVER = "mrc_convergence", "certificate"
THUMBNAIL = 480, 320  # pixels at most
GAP = 20  # pixels between a figure and the caption beneath it; lines are closer
LINES = 4  # of such a caption, at most
MOST_TEXT = 4000  # characters of a section that the search reads
UNREAD = {"script", "style", "nav", "header", "pre", "math", "svg", "footer"}
HEADINGS = "h1", "h2", "h3"
SLOT = "the figures stand here"


class Picture(NamedTuple):
    """A figure of the gallery: its texts, page, image and thumbnail."""

    paper: str
    name: str
    heading: str
    sentence: str
    caption: str
    command: str
    page: str
    image: str
    thumbnail: str


class Sections(HTMLParser):
    """The sections of a page, ``[title, anchor, text]``.

    There is one per heading, and one per name of the API.
    """

    def __init__(self, page: str):
        super().__init__()
        self.sections = [["", "", ""]]
        self.unread = 0  # open elements whose text is not read
        self.heading = False
        self.anchor = ""
        self.feed(page)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        names = dict(attributes)
        if tag in UNREAD:
            self.unread += 1
        if tag in (*HEADINGS, "section", "div") and "id" in names:
            self.anchor = names["id"]
        if tag in HEADINGS:
            self.heading = True
            self.sections.append(["", self.anchor, ""])
        elif tag == "section" and names.keys() == {"id"}:  # a name of the API
            self.sections.append([self.anchor, self.anchor, ""])

    def handle_endtag(self, tag: str) -> None:
        if tag in UNREAD:
            self.unread -= 1
        if tag in HEADINGS:
            self.heading = False

    def handle_data(self, data: str) -> None:
        section = self.sections[-1]
        if self.heading and not self.unread:
            section[0] += data.replace("¶", "")
        elif not self.unread and len(section[2]) < MOST_TEXT:
            section[2] += data


def pictures(notebook: Notebook, out: Path) -> list[Picture]:
    """Return a notebook's committed figures; write their pictures and thumbnails."""
    shown = []
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in notebook.figures:
        path = CHECKOUT / "figures" / notebook.name / f"{name}.png"
        record = json.loads(path.with_suffix(".json").read_text("utf-8"))
        lists = {field: [] for field in sidecars.LISTS}
        figure = sidecars.Figure(
            notebook.name, name, "", lists | record, path.read_bytes()
        )
        image = f"{notebook.name}-{name}.png"
        small = f"{notebook.name}-{name}-small.png"
        picture = uncaptioned(path)
        picture.save(folder / image, optimize=True)
        picture.thumbnail(THUMBNAIL)
        picture.save(folder / small, optimize=True)
        caption = record["caption"]
        shown.append(
            Picture(
                paper=figure.paper,
                name=name,
                heading=figure.heading,
                sentence=SENTENCES.split(caption)[0],
                caption=caption,
                command=record["command"],
                page=f"figures/{notebook.name}.html",
                image=image,
                thumbnail=f"figures/{small}",
            )
        )
    return shown


def uncaptioned(path: Path) -> Image.Image:
    """Return a picture without the caption beneath it, which pages have as text."""
    with Image.open(path) as picture:
        picture = picture.convert("RGB")
    inked = np.flatnonzero(np.asarray(picture).min(axis=(1, 2)) < 215)
    gaps = np.diff(inked)[::-1]
    lines = np.flatnonzero(gaps > 2)  # from the bottom: of the caption, then the figure
    ends = [end for end in lines[: LINES + 1] if gaps[end] >= GAP]
    if not ends:
        return picture
    last = int(inked[::-1][ends[0] + 1])
    return picture.crop((0, 0, picture.width, last + GAP // 2))


def notebook_page(notebook: Notebook, shown: list[Picture]) -> str:
    """Return a notebook as a page: first cell, figures, then its text and code."""
    content = course.read(notebook.path)
    content.cells.insert(1, new_markdown_cell(SLOT, id="figures"))
    made = []
    for picture in shown:
        image = f'src="{escape(picture.image)}" alt="{escape(picture.heading)}"'
        caption = f"<figcaption>{escape(picture.caption)}</figcaption>"
        figure = f'<figure class="made" id="{escape(picture.name)}">'
        made.append(f"{figure}<img {image}>{caption}</figure>")
    commands = [shown[0].command, f"workbench figures {notebook.name} --from results"]
    made.append("".join(f"<pre>{escape(command)}</pre>" for command in commands))
    made.append(
        f'<p class="quiet"><a href="../../notebooks/figures/{notebook.name}.ipynb">'
    )
    page = course.page(content, notebook.path, [])
    page = page.replace(
        f"<p>{SLOT}</p>", "\n".join(made) + f"{notebook.name}.ipynb</a></p>", 1
    )
    lessons = "|".join(path.stem for path in [*course.lessons(), *course.sheets()])
    return re.sub(rf'href="(?=({lessons})\.html)', 'href="../course/', page)


def part_of(place: str) -> str:
    """Return the folder of a page, or the first page of the report's."""
    return re.sub(r"^report-.*", "report.html", place.split("/")[0])


def dressed(page: str, place: str, bar: dict[str, str]) -> str:
    """Return a page with the site's bar, style and links; `place` is its address."""
    up = "../" * place.count("/")
    folder = part_of(place)
    if folder == "figures":
        folder = "figures.html"
    links = ""
    for address, name in bar.items():
        current = " aria-current=page" if address.split("/")[0] == folder else ""
        links += f'<a href="{up}{address}"{current}>{name}</a>'
    top = (
        '<!--site--><div class="site" role="navigation" aria-label="Site">'
        f'<a class="home" href="{up}index.html">workbench</a>{links}'
        f'<form role="search" action="{up}search.html"><input type="search" name="q" '
        'placeholder="Search" aria-label="Search this site"></form></div><!--/site-->'
    )
    page = re.sub(
        r'<header><a href="index.html">workbench · the course.*?</header>',
        "",
        page,
        flags=re.S,
    )
    page = page.replace("form-action 'none'", "form-action 'self' file:")
    page = page.replace("img-src data:", "img-src data: 'self' file:")
    notebook = r"(?:\.\./)*notebooks/figures/(\w+)\.ipynb"
    link = rf'<a href="{up}figures/\1.html">figure</a>'
    page = re.sub(rf"(?<=\()<code>{notebook}</code>(?=\))", link, page)
    if folder == "report.html":
        page = re.sub(rf'href="{notebook}"', r'href="figures/\1.html"', page)
    style = f"<!--site--><style>{STYLE}</style><!--/site-->"
    page = page.replace("</head>", f"{style}</head>", 1)
    return re.sub(r"<body[^>]*>", lambda body: body[0] + top, page, count=1)


def within(page: str, path: Path, out: Path) -> str:
    """Return a page whose links to files of the checkout lead to copies in the site."""
    up = "../" * (len(path.relative_to(out).parts) - 1)

    def copied(link: re.Match) -> str:
        file = (path.parent / unquote(link[1])).resolve()
        if file.is_relative_to(out.resolve()) or not file.is_file():
            return link[0]
        if (out / file.name).is_file():  # the checker
            return f'href="{up}{file.name}'
        copy = Path("files", file.relative_to(CHECKOUT))
        (out / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, out / copy)
        return f'href="{up}{copy.as_posix()}'

    return re.sub(r'href="((?:\.\./)+[^"#:]+)', copied, page)


def entries(page: str, place: str) -> list[list[str]]:
    """Return a row of the search for each section of a page.

    It has the title, the address, the kind and the text.
    """
    named = re.search(r"<title>(.*?)( · workbench| API documentation)?</title>", page)
    page_title = unescape(named[1]) if named else ""
    kind = KINDS.get(part_of(place), "page")
    found = []
    for heading, anchor, text in Sections(page).sections:
        text = " ".join(text.split())
        heading = " ".join(heading.split())
        if text or heading:
            names = dict.fromkeys([page_title, heading])  # once if they are the same
            whole = " › ".join(filter(None, names))
            text = text.replace("View Source", "")  # a button of the API's pages
            found.append([whole, f"{place}#{anchor}".removesuffix("#"), kind, text])
    return found


def recording() -> str:
    """Return the runs that play on the start page."""
    problem = load("wine", test=0.3, scale="standard")
    rules = below("gap", 0.005), seconds(2)
    names = "mrc_ccg", "mrc_subgradient", "mrc_interior_point"
    runs = [replay.record(name, problem, *rules) for name in names]
    return replay.embedded(replay.Replay(*runs).data)


def build(out: Path, notebooks: list[Notebook], moving: str) -> None:
    """Write the site's own pages into `out`, and dress every page there."""
    loader = FileSystemLoader(HERE)
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["hashed"] = replay.hashed
    template = environment.get_template("page.html.jinja2")
    more = [(place, *words) for place, words in LATER.items() if (out / place).exists()]
    bar = BAR | {place: name for place, name, _ in more}
    guides = []
    (out / "guides").mkdir(exist_ok=True)
    for path in sorted((CHECKOUT / "guides").glob("*.md")):
        page_title, page = from_markdown(path)
        guides.append((f"guides/{path.stem}.html", page_title))
        (out / guides[-1][0]).write_text(page, "utf-8")
    found: list[Picture] = []
    for notebook in notebooks:
        shown = pictures(notebook, out)
        (out / shown[0].page).write_text(notebook_page(notebook, shown), "utf-8")
        found += shown
    found.sort(key=lambda picture: order(picture.paper))
    groups = groupby(found, lambda picture: picture.paper)
    papers = [(title(paper), list(group)) for paper, group in groups]
    start = template.render(
        kind="start",
        title="Start",
        recording=moving,
        more=more,
        guides=guides,
        cover="figures/{}-{}-small.png".format(*COVER),
        style=replay.STYLE,
        script=replay.SCRIPT if moving else "",
    )
    (out / "index.html").write_text(start, "utf-8")
    gallery = template.render(kind="figures", title="Figures", papers=papers)
    (out / "figures.html").write_text(gallery, "utf-8")
    rows = []
    for path in sorted(out.rglob("*.html")):
        place = path.relative_to(out).as_posix()
        page = re.sub(r"(?s)<!--site-->.*?<!--/site-->", "", path.read_text("utf-8"))
        if place != "search.html":
            rows += entries(page, place)
            page = within(dressed(page, place, bar), path, out)
            path.write_text(page, "utf-8")
    pages = json.dumps(rows, ensure_ascii=False).replace("</", "<\\/")
    script = f"const PAGES = {pages};\n{(HERE / 'search.js').read_text('utf-8')}"
    page = template.render(kind="search", title="Search", script=script)
    (out / "search.html").write_text(dressed(page, "search.html", bar), "utf-8")


def from_markdown(path: Path) -> tuple[str, str]:
    """Return the title and the page of a Markdown file.

    The page is one folder deeper than the file. Links between guides and pictures of
    figures stay in the site, other relative links lead to copies of files.
    """
    text = path.read_text("utf-8")
    title = text.partition("\n")[0].removeprefix("# ")
    text = re.sub(r"\]\((?!https?:|#)(?=[^)]*/)", "](../", text)
    text = re.sub(r"(?<=\.\./)\.\./(figures/\w+)/(?=\w+\.png)", r"\1-", text)
    text = re.sub(r"\]\((\w+)\.md", r"](\1.html", text)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta '
        f'charset="utf-8"><title>{escape(title)}</title><meta '
        f'http-equiv="Content-Security-Policy" content="{policy}; '
        "form-action 'none'\"><meta "
        'name="viewport" content="width=device-width"></head>'
        f'<body class="own"><main>{markdown2html(text)}</main></body></html>'
    )
    return title, page


if __name__ == "__main__":
    out = Path(sys.argv[1])
    _, trust = from_markdown(CHECKOUT / "TRUST.md")
    (out / "trust.html").write_text(trust, "utf-8")
    build(out, find(), recording())
    print(f"the site: {out / 'index.html'}")
