r"""LaTeX formulas as MathML, made when a page is: a reader needs no script and no network.

>>> mathml("x^2")
'<math><msup><mi>x</mi><mn>2</mn></msup></math>'

It knows the commands of :mod:`workbench.course.symbols`. Any other is an error, never raw LaTeX on
a page.
"""

from __future__ import annotations

import re
from html import escape

from workbench.course import symbols as tex
from workbench.course.atoms import SYMBOLS, TIGHT, Atom, fence, joined, one, symbol

TOKENS = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)
ENDS = ("}", "&", r"\\", r"\end", r"\right")


def mathml(source: str, display: bool = False) -> str:
    """Return the ``<math>`` element of a formula.

    Parameters
    ----------
    source : LaTeX, without the dollars
    display : whether it stands on a line of its own

    Raises
    ------
    ValueError
        Quoting the formula: an unknown command or environment, or braces that do not match.
    """
    parser = _Parser(source, display)
    try:
        body = joined(parser.row(""))
    except ValueError as error:
        raise ValueError(f"formula {source.strip()!r}: {error}") from None
    shown = ' display="block"' if display else ""
    return f"<math{shown}>{body}</math>"


class _Parser:
    def __init__(self, source: str, display: bool):
        self.tokens = [*TOKENS.findall(source), ""]  # the empty one is the end
        self.at = 0
        self.display = display

    def peek(self) -> str:
        while self.tokens[self.at].isspace() or self.tokens[self.at] == "~":
            self.at += 1
        return self.tokens[self.at]

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise ValueError(f"{expected or 'more'} is missing at {token or 'its end'}")
        self.at += 1
        return token

    def row(self, *until: str) -> list[Atom]:
        """Parse atoms up to one of the tokens `until`, which stays."""
        atoms: list[Atom] = []
        while (token := self.peek()) not in until:
            if not token or token in ENDS:
                raise ValueError(f"unexpected {token or 'end'}")
            if token in (r"\displaystyle", r"\textstyle"):
                self.take()
                outside, self.display = self.display, token == r"\displaystyle"
                rest = joined(self.row(*until))
                flag = str(self.display).lower()
                atoms.append(Atom(f'<mstyle displaystyle="{flag}">{rest}</mstyle>'))
                self.display = outside
            else:
                signs = not atoms or atoms[-1].kind in ("bin", "rel", "open", "punct", "op", "fn")
                atoms.append(self.scripts(self.atom(signs)))
        return atoms

    def scripts(self, base: Atom) -> Atom:
        """Parse what hangs on an atom: subscript, superscript and primes, in any order."""
        below, above, primes = "", "", 0
        limits = base.limits and self.display
        while (token := self.peek()) in ("_", "^", "'", r"\limits", r"\nolimits"):
            self.take()
            if token == "'":
                primes += 1
            elif token == "_" and not below:
                below = self.argument()
            elif token == "^" and not above:
                above = self.argument()
            elif token in ("_", "^"):
                raise ValueError(f"a second {token} on one base")
            else:
                limits = token == r"\limits"
        if primes:
            prime = f"<mo {TIGHT}>{'′' * primes}</mo>"
            above = f"<mrow>{prime}{above}</mrow>" if above else prime
        if not below and not above:
            return base
        names = ("munder", "mover", "munderover") if limits else ("msub", "msup", "msubsup")
        name = names[2 if below and above else 0 if below else 1]
        return Atom(f"<{name}>{base.xml}{below}{above}</{name}>", base.kind)

    def argument(self) -> str:
        """Parse what a command is applied to, a group or one token, into one element."""
        outside, self.display = self.display, False
        # In \frac12 and x^10 each digit is an argument of its own.
        xml = f"<mn>{self.take()}</mn>" if self.peek().isdigit() else self.atom(True).xml
        self.display = outside
        return xml

    def text(self) -> str:
        """Return the characters of a group in braces, with their spaces."""
        self.take("{")
        start, depth = self.at, 1
        while depth:
            token = self.tokens[self.at]
            if not token:
                raise ValueError("} is missing")
            depth += {"{": 1, "}": -1}.get(token, 0)
            self.at += 1
        return "".join(self.tokens[start : self.at - 1])

    def atom(self, signs: bool) -> Atom:
        """Parse one atom; `signs` tells that plus and minus here have no left-hand side."""
        token = self.take()
        if token == "{":
            inside = self.row("}")
            self.take("}")
            return Atom(one(inside))
        if token.isdigit():
            while self.tokens[self.at].isdigit() or (
                self.tokens[self.at] == "." and self.tokens[self.at + 1].isdigit()
            ):
                token += self.take()
            return Atom(f"<mn>{token}</mn>")
        name = token.removeprefix("\\")
        name = name if name.strip() else " "  # a control space may be a line's end
        if name in SYMBOLS and (token == name or name.isalpha() or name in "{}"):
            return symbol(*SYMBOLS[name], signs)
        if token in ("|", r"\|"):
            return symbol("|" if token == "|" else "‖", "bar", signs)
        if token.startswith("\\"):
            return self.command(name)
        if token in "./!?":
            return Atom(f"<mo {TIGHT}>{token}</mo>", "ord" if token == "/" else "close")
        if token in "_^":
            raise ValueError(f"{token} has nothing to hang on")
        return Atom(f"<mi>{escape(token)}</mi>" if token.isalpha() else f"<mo>{escape(token)}</mo>")

    def command(self, name: str) -> Atom:
        if name in tex.GREEK:
            return Atom(f"<mi>{tex.GREEK[name]}</mi>")
        if name in tex.CAPITALS | tex.UPRIGHT:
            return Atom(f'<mi mathvariant="normal">{(tex.CAPITALS | tex.UPRIGHT)[name]}</mi>')
        if name in tex.FUNCTIONS:
            return Atom(f"<mo {TIGHT}>{name}</mo>", "fn", name in tex.LIMITS)
        if name in tex.SPACES:
            return Atom(f'<mspace width="{tex.SPACES[name]}"/>', "space")
        if name in tex.ACCENTS:
            wide = str(name.startswith(("wide", "over"))).lower()
            mark = f'<mo stretchy="{wide}">{tex.ACCENTS[name]}</mo>'
            return Atom(f'<mover accent="true">{self.argument()}{mark}</mover>')
        if name in tex.ALPHABETS:
            return self.alphabet(name)
        if (size := name.rstrip("lrm")) in tex.SIZES:
            return self.sized(tex.SIZES[size], {"l": "open", "r": "close"}.get(name[-1]))
        if handler := getattr(self, f"tex_{name}", None):
            return handler()
        raise ValueError(f"unknown command \\{name}")

    def alphabet(self, name: str) -> Atom:
        """Parse letters in an alphabet of their own."""
        self.peek()
        text = self.text() if self.peek() == "{" else self.take()
        if not re.fullmatch(r"[\w ]+", text):
            raise ValueError(f"\\{name} takes letters, not {text!r}")
        if name in ("mathrm", "mathit"):
            upright = ' mathvariant="normal"' if name == "mathrm" and len(text) == 1 else ""
            return Atom(f"<mi{upright}>{text}</mi>")
        return Atom(f"<mi>{''.join(tex.letter(name, character) for character in text)}</mi>")

    def delimiter(self) -> tuple[str, str]:
        """Parse a delimiter; return its character, empty for the full stop, and its class."""
        token = self.take()
        if token == ".":
            return "", "open"
        if token in ("|", r"\|"):
            return "|" if token == "|" else "‖", "bar"
        if token == "/":
            return "/", "ord"
        character, kind = SYMBOLS.get(token.removeprefix("\\"), ("", ""))
        if kind not in ("open", "close", "bar") or token in ("{", "}"):
            raise ValueError(f"{token} is no delimiter")
        return character, kind

    def sized(self, size: float, kind: str | None) -> Atom:
        r"""Parse the delimiter behind \big and its like."""
        character, own = self.delimiter()
        height = f'minsize="{size}em" maxsize="{size}em"'
        xml = f'<mo stretchy="true" symmetric="true" {height} {TIGHT}>{character}</mo>'
        return Atom(
            f"<mrow>{xml}</mrow>", kind or own
        )  # by itself: under a script it keeps its size

    def tex_left(self) -> Atom:
        left, _ = self.delimiter()
        inside = joined(self.row(r"\right"))
        self.take(r"\right")
        right, _ = self.delimiter()
        return Atom(f"<mrow>{fence(left)}{inside}{fence(right)}</mrow>")

    def tex_frac(self) -> Atom:
        return Atom(f"<mfrac>{self.argument()}{self.argument()}</mfrac>")

    def tex_tfrac(self) -> Atom:
        return Atom(f'<mstyle displaystyle="false">{self.tex_frac().xml}</mstyle>')

    def tex_dfrac(self) -> Atom:
        return Atom(f'<mstyle displaystyle="true">{self.tex_frac().xml}</mstyle>')

    def tex_binom(self) -> Atom:
        rule = f'<mfrac linethickness="0">{self.argument()}{self.argument()}</mfrac>'
        return Atom(f"<mrow>{fence('(')}{rule}{fence(')')}</mrow>")

    def tex_sqrt(self) -> Atom:
        if self.peek() == "[":
            self.take()
            index = one(self.row("]"))
            self.take("]")
            return Atom(f"<mroot>{self.argument()}{index}</mroot>")
        return Atom(f"<msqrt>{self.argument()}</msqrt>")

    def tex_text(self) -> Atom:
        text = re.sub(r"^\s+|\s+$", "\N{NO-BREAK SPACE}", self.text())
        if re.search(r"[\\${}]", text):
            raise ValueError(f"\\text takes words, not {text!r}")
        return Atom(f"<mtext>{escape(text)}</mtext>")

    def tex_operatorname(self) -> Atom:
        if limits := self.peek() == "*":
            self.take()
        name = re.sub(r"\\[,; ]", "\N{THIN SPACE}", self.text())
        if not re.fullmatch(r"[\w \N{THIN SPACE}-]+", name):
            raise ValueError(f"\\operatorname takes letters, not {name!r}")
        return Atom(f"<mo {TIGHT}>{name}</mo>", "fn", limits)

    def tex_overset(self) -> Atom:
        above, base = self.argument(), self.argument()
        return Atom(f"<mover>{base}{above}</mover>", "rel")

    def tex_underset(self) -> Atom:
        below, base = self.argument(), self.argument()
        return Atom(f"<munder>{base}{below}</munder>", "rel")

    def tex_underbrace(self) -> Atom:
        xml = f'<munder>{self.argument()}<mo stretchy="true">⏟</mo></munder>'
        return Atom(xml, limits=True)

    def tex_overbrace(self) -> Atom:
        return Atom(f'<mover>{self.argument()}<mo stretchy="true">⏞</mo></mover>', limits=True)

    def tex_substack(self) -> Atom:
        self.take("{")
        table = self.table("}", "")
        self.take("}")
        return Atom(table)

    def tex_begin(self) -> Atom:
        name = self.text()
        if name not in tex.TABLES:
            raise ValueError(f"unknown environment {name}")
        if name == "array":
            self.text()  # how its columns are set: here all are centred
        left, right, style = tex.TABLES[name]
        outside = self.display
        self.display = style == "aligned"
        table = self.table(r"\end", style)
        self.display = outside
        self.take(r"\end")
        if (ended := self.text()) != name:
            raise ValueError(f"{name} ends as {ended}")
        return Atom(f"<mrow>{fence(left)}{table}{fence(right)}</mrow>")

    def table(self, end: str, style: str) -> str:
        """Parse rows of cells up to the token `end`, which stays."""
        rows: list[list[str]] = [[]]
        while True:
            cell = joined(self.row("&", r"\\", end))
            rows[-1].append(f"<mtd>{cell}</mtd>")
            if self.peek() == end:
                break
            if self.take() == r"\\":
                if self.peek() == end:
                    break
                rows.append([])
        body = "".join(f"<mtr>{''.join(cells)}</mtr>" for cells in rows)
        looks = {"": "", "aligned": ' class="aligned" displaystyle="true"'}
        return f"<mtable{looks.get(style, f' class={style!r}')}>{body}</mtable>"
