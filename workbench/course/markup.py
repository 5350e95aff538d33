"""Markdown as HTML: formulas as MathML, code in colours, links as the course has them."""

from __future__ import annotations

import base64
import re
from html import escape
from pathlib import Path

import mistune
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_by_name
from pygments.util import ClassNotFound

from workbench.course.links import Resolve, in_repository, local, slug
from workbench.course.mathml import mathml

# What is code is matched first, so that no dollar in it begins a formula.
PARTS = re.compile(
    r"(?P<code>^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|\$\$(?P<display>.+?)\$\$|(?<!\\)\$(?P<inline>(?:\\.|[^$\\\n]|\n(?!\s*\n))+)\$",
    re.DOTALL | re.MULTILINE,
)
IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".svg": "image/svg+xml"}
# Private characters around a formula's number: markdown leaves them alone.
MARK = "\ue000{}\ue001"
MARKED = re.compile("\ue000(\\d+)\ue001")
FORMATTER = HtmlFormatter(nowrap=True)


class Page:
    """Renders the markdown of one page, and remembers its headings.

    Parameters
    ----------
    path : the lesson or cheat sheet, for its links and pictures
    resolve : where a link leads; None makes it plain text with the path of the file behind it

    Attributes
    ----------
    headings : ``(level, anchor, HTML)``, in their order
    """

    def __init__(self, path: Path, resolve: Resolve):
        self.path = path
        self.headings: list[tuple[int, str, str]] = []
        renderer = _Renderer(self, resolve)
        self._markdown = mistune.create_markdown(renderer=renderer, plugins=["table"])
        self._formulas: list[str] = []

    def html(self, markdown: str) -> str:
        """Return a piece of the page.

        Raises
        ------
        ValueError
            For a formula that is not understood, or a link or picture without its file.
        """
        self._formulas = []
        body = self._markdown(PARTS.sub(self._set_aside, markdown))
        body = body.replace("<table>", '<div class="wide"><table>')
        return self.fill(body.replace("</table>", "</table></div>"))

    def inline(self, markdown: str) -> str:
        """Return a line of text, without the paragraph around it."""
        return self.html(markdown).strip().removeprefix("<p>").removesuffix("</p>")

    def fill(self, text: str) -> str:
        """Return the text with its formulas put in."""
        return MARKED.sub(lambda match: self._formulas[int(match[1])], text)

    def anchor(self, text: str) -> str:
        """Return an anchor that no heading before it has."""
        base = found = slug(re.sub(r"<[^>]+>|\ue000\d+\ue001", " ", text)) or "section"
        taken, count = {anchor for _, anchor, _ in self.headings}, 1
        while found in taken:
            count += 1
            found = f"{base}-{count}"
        return found

    def _set_aside(self, match: re.Match) -> str:
        if match["code"]:
            return match[0]
        shown = match["display"] is not None
        formula = mathml(match["display"] if shown else match["inline"], display=shown)
        self._formulas.append(f'<span class="formula">{formula}</span>' if shown else formula)
        return MARK.format(len(self._formulas) - 1)


class _Renderer(mistune.HTMLRenderer):
    def __init__(self, page: Page, resolve: Resolve):
        super().__init__(escape=False)
        self.page, self.resolve = page, resolve

    def heading(self, text: str, level: int, **attributes) -> str:
        anchor = self.page.anchor(text)
        self.page.headings.append((level, anchor, self.page.fill(text)))
        return f'<h{level} id="{anchor}">{text}</h{level}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        target = self.resolve(url)
        if target is not None:
            return f'<a href="{escape(target)}">{text}</a>'
        path = in_repository(local(url, self.page.path))
        return f'{text} <span class="path">({escape(path)})</span>'

    def image(self, text: str, url: str, title: str | None = None) -> str:
        found = local(url, self.page.path)
        if found is None or found.suffix not in IMAGES:
            raise ValueError(f"picture {url}: only files beside the page, {', '.join(IMAGES)}")
        data = base64.b64encode(found.read_bytes()).decode()
        words = escape(re.sub(r"<[^>]+>", "", text))
        return f'<img src="data:{IMAGES[found.suffix]};base64,{data}" alt="{words}">'

    def block_code(self, code: str, info: str | None = None) -> str:
        return coloured(code, info or "text")


def coloured(code: str, language: str = "python") -> str:
    """Return code in a <pre>, its tokens in classes of pygments."""
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        lexer = TextLexer()
    # A scrolling region must be reachable by the keyboard.
    return (
        f'<pre class="code" tabindex="0"><code>{highlight(code, lexer, FORMATTER)}</code></pre>\n'
    )


def code_styles() -> str:
    """Return the colours of code, for light pages and for dark ones."""
    light, dark = (
        "\n".join(
            line
            for line in HtmlFormatter(style=style).get_style_defs(".code").splitlines()
            if line.startswith(".code .")
        )
        for style in ("xcode", "github-dark")
    )
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
