"""The Markdown of lessons, with the links of the course and with formulas as MathML."""

from __future__ import annotations

import re
from pathlib import Path

from math_core import LatexError, LatexToMathML
from nbformat import NotebookNode

from workbench.runs.notebooks import CHECKOUT

LEARN = Path(__file__).parent.resolve()
MAP = LEARN / "README.md"  # of the instructor, which is not part of the course
# Code comes first, because it contains neither formulas nor links; formulas contain no
# links.
PARTS = re.compile(
    r"(?P<code>^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|\$\$(?P<display>.+?)\$\$|(?<!\\)\$(?P<inline>(?:\\.|[^$\\\n]|\n(?!\s*\n))+)\$"
    r"|(?<!!)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])+)\]\((?P<target>[^()\s]+)\)",
    re.DOTALL | re.MULTILINE,
)

NOT_READ = re.compile(
    r"\*Reading the plots?\.?\*|<summary>.*?</summary>|</?\w[^>]*>|\*\*"
)
SPOKEN = {  # formulas as one types them without TeX
    r"\\[td]?frac ?(\d) ?(\d)": r"\1/\2",
    r"\\[td]?frac\{([^{}]+)\}\{([^{}]+)\}": r"(\1)/(\2)",
    r"\\(?:math[a-z]+|text|operatorname|bar|hat|tilde)\b ?|\\[,;! ]|[{}]": "",
    r"\\\|": "|",
    r"\\le\b": "≤",
    r"\\ge\b": "≥",
    r"\\(?:cdot|times)\b": "·",
    r"\\([a-zA-Z]+)": r"\1",
}
ALT_CHARACTERS = 300


def described(notebook: NotebookNode) -> None:
    """Give each plot an alternative text: the sentences below it that read it.

    They are the first ones of the next text, as many as have `ALT_CHARACTERS`.
    """
    text = ""
    for cell in reversed(notebook.cells):
        if cell.cell_type == "markdown":
            text = cell.source
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", ()):
                alt = {"alt": spoken(text)}
                output.metadata["image/png"] = (
                    output.metadata.get("image/png", {}) | alt
                )


def spoken(text: str) -> str:
    """Return the first sentences of a text, without Markdown and TeX."""
    (block, *_) = NOT_READ.sub("", text).strip().split("\n\n")

    def typed(match: re.Match) -> str:
        words = match["words"] or (match["code"] or "").strip("`")
        formula = match["display"] or match["inline"] or ""
        for pattern, plain in SPOKEN.items():
            formula = re.sub(pattern, plain, formula)
        return words or formula

    words = " ".join(re.sub(r"\*(\w[^*]*)\*", r"\1", PARTS.sub(typed, block)).split())
    kept, *more = re.split(r"(?<=[.?!:]) (?=[A-Z(])", words)
    for sentence in more:
        if len(kept) + len(sentence) < ALT_CHARACTERS:
            kept += f" {sentence}"
        else:
            break
    return kept


def rewritten(
    source: str, path: Path, copies: bool = False, formulas: bool = True
) -> str:
    """Return Markdown of `path` with the links of the course, and with formulas as
    MathML.

    With `copies` links stay in the folder of student copies; without `formulas` TeX
    stays as it is. A link to a file that is not part of the course becomes its words
    and the file's path in the checkout. A ValueError names the page if a formula is not
    understood or a link leads to no file.
    """

    def part(match: re.Match) -> str:
        if match["target"]:
            return link(
                PARTS.sub(part, match["words"]), *match["target"].partition("#")
            )
        if match["code"] or not formulas:
            return match[0]
        return mathml(match["display"] or match["inline"], match["display"] is not None)

    def link(words: str, target: str, *anchor: str) -> str:
        place, found = target, (path.parent / target).resolve()
        if target and not re.match(r"https?:|mailto:", target):
            if not found.exists():
                raise ValueError(f"{path.name}: there is no file {target}")
            part_of_course = found.is_relative_to(LEARN) and found != MAP
            if not part_of_course or found.suffix not in (".ipynb", ".md"):
                return f"{words} (`{found.relative_to(CHECKOUT).as_posix()}`)"
            copied = copies and found.suffix == ".ipynb"
            place = found.name if copied else f"{found.stem}.html"
        return f"[{words}]({place}{''.join(anchor)})"

    def mathml(formula: str, display: bool) -> str:
        try:
            convert = LatexToMathML(fancy_error=False).convert_with_local_state
            made = convert(" ".join(formula.split()), displaystyle=display)
        except LatexError as error:
            raise ValueError(
                f"{path.name}: formula {formula.strip()!r}: {error}"
            ) from None
        # XML does not know this name of a sign, and a bar would end a table's cell.
        made = made.replace("&ApplyFunction;", "&#8289;").replace("|", "&#124;")
        return f'<span class="formula">{made}</span>' if display else made

    return PARTS.sub(part, source)
