"""What a docstring holds: sections in numpydoc's style, text that is almost Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape
from textwrap import dedent

import mistune

from workbench.course.markup import coloured

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
LISTED = {"Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"}
ROLE = re.compile(r":(?:func|class|data|meth|mod|attr):`(~?)([\w.]+)`")
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
DIRECTIVE = re.compile(r" *# doctest:.*")

Link = Callable[[str], str | None]


def sections(docstring: str) -> list[tuple[str, str]]:
    """Return the titles of a docstring's sections and their texts; the first has no title."""
    opening, *rest = SECTION.split(docstring)
    pairs = [("", opening), *zip(rest[::2], rest[1::2])]
    return [(title, text.strip("\n")) for title, text in pairs]


def items(text: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a section, ``name : words``, with the indented lines below them.

    The name may be several, ``"X, y"``; an error has its words below its name only.
    """
    for entry in re.split(r"\n(?=\S)", text):
        first, _, below = entry.partition("\n")
        name, _, words = first.partition(" : ")
        yield " ".join(name.split()), f"{words}\n{dedent(below)}".strip()


def docstring_html(docstring: str, link: Link) -> str:
    """Return a docstring as HTML; `link` says where a name leads, None for nowhere."""
    parts = []
    for title, text in sections(docstring):
        if title:
            parts.append(f'<p class="section">{escape(title)}</p>\n')
        if title not in LISTED:
            parts.append(text_html(text, link))
            continue
        rows = (
            f"<dt><code>{escape(name)}</code></dt><dd>{text_html(words, link)}</dd>\n"
            for name, words in items(text)
        )
        parts.append(f"<dl>\n{''.join(rows)}</dl>\n")
    return "".join(parts)


def text_html(text: str, link: Link) -> str:
    """Return text as HTML: roles are links, examples and indented blocks are code."""

    def linked(match: re.Match) -> str:
        short, target = match.groups()
        shown = target.rpartition(".")[2] if short else target
        url = link(target)
        return f"[`{shown}`]({url})" if url else f"`{shown}`"

    def fenced(match: re.Match) -> str:
        return f"```pycon\n{DIRECTIVE.sub('', match[0])}\n```"

    return _MARKDOWN(EXAMPLE.sub(fenced, ROLE.sub(linked, text)))


class _Renderer(mistune.HTMLRenderer):
    def block_code(self, code: str, info: str | None = None) -> str:
        return coloured(code, info or "text")


_MARKDOWN = mistune.create_markdown(renderer=_Renderer(escape=True), plugins=["url"])
