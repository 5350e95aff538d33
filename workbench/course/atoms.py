"""Pieces of a formula as MathML, and the space that TeX puts between two of them."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from workbench.course import symbols as tex

SYMBOLS = {
    name: (character, kind)
    for kind, table in (
        ("bin", tex.BINARY),
        ("rel", tex.RELATIONS),
        ("open", tex.OPEN),
        ("close", tex.CLOSE),
        ("bar", tex.BARS),
        ("punct", tex.PUNCTUATION),
        ("op", tex.SUMS | tex.INTEGRALS),
    )
    for name, character in table.items()
}
TIGHT = 'lspace="0" rspace="0"'


class Atom(NamedTuple):
    """A piece of a row: its MathML, its class in TeX, and whether display puts limits under it."""

    xml: str
    kind: str = "ord"
    limits: bool = False


def symbol(character: str, kind: str, signs: bool) -> Atom:
    """Return a character of a class; `signs` tells that plus and minus have no left-hand side."""
    character = escape(character)
    if kind == "op":
        return Atom(f"<mo>{character}</mo>", kind, character not in tex.INTEGRALS.values())
    if kind == "bin" and signs:
        return Atom(f'<mo form="prefix" {TIGHT}>{character}</mo>')
    if kind == "rel":
        return Atom(
            f'<mo stretchy="false" lspace="0.278em" rspace="0.278em">{character}</mo>', kind
        )
    if kind == "bar":
        return Atom(f'<mo stretchy="false" {TIGHT}>{character}</mo>', kind)
    if kind in ("open", "close"):
        return Atom(f'<mo stretchy="false">{character}</mo>', kind)
    return Atom(f"<mo>{character}</mo>", kind)


def fence(character: str) -> str:
    """Return a delimiter as tall as what it holds, nothing where there is none."""
    return f'<mo stretchy="true" symmetric="true" {TIGHT}>{character}</mo>' if character else ""


def joined(atoms: list[Atom]) -> str:
    """Return the row, with TeX's thin spaces around the names of functions."""
    pieces = []
    for atom, after in zip(atoms, [*atoms[1:], Atom("", "end")]):
        pieces.append(atom.xml)
        pair = (atom.kind, after.kind)
        if pair in {("fn", k) for k in ("ord", "fn", "op")} | {(k, "fn") for k in ("ord", "close")}:
            pieces.append('<mspace width="0.167em"/>')
    return "".join(pieces)


def one(atoms: list[Atom]) -> str:
    """Return the atoms as a single element."""
    return atoms[0].xml if len(atoms) == 1 else f"<mrow>{joined(atoms)}</mrow>"
