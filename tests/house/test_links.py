"""Links of the documents and notebooks: files and headings that they name exist
here."""

import re
from pathlib import Path

import nbformat
from helpers import each

ROOT = Path(__file__).parents[2]
FOLDERS = "benchmarks data guides notebooks results tests/mutation workbench".split()
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md")),
]
DOCUMENTS += (ROOT / "notebooks").rglob("*.ipynb")
LINK = re.compile(r"\]\(<?([^()\s>]+)>?\)|\b(?:href|src)=[\"']([^\"']+)[\"']")


def markdown(path):
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text
    cells = nbformat.reads(text, 4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def anchors(path):
    """Return the names of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)", markdown(path), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
    }


@each("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(path):
    prose = re.sub(r"```.*?```|`[^`\n]+`", "", markdown(path), flags=re.DOTALL)
    broken = []
    for link in ("".join(found) for found in LINK.findall(prose)):
        place, _, name = link.partition("#")
        target = path.parent / place if place else path
        if not re.match("[a-z]+:", link) and (
            not target.exists() or (name and name not in anchors(target))
        ):
            broken.append(link)
    assert not broken
