"""HTML from small functions: text is escaped unless it was made here."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from html import escape
from pathlib import Path
from typing import Any

VOID = {"img", "input", "br", "meta", "col"}


class Html(str):
    """Text that is HTML already: all else is escaped."""

    __slots__ = ()


def tag(name: str, /, *content: Any, **attributes: Any) -> Html:
    """Return an element.

    Parameters
    ----------
    content : text, elements or lists of them; None is nothing
    attributes : ``class_`` for class, ``data_x`` for data-x; None and False leave one out, True
        writes its name alone
    """
    said = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        said += f" {key}" if value is True else f' {key}="{escape(str(value))}"'
    if name in VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{join(*content)}</{name}>")


def join(*content: Any) -> Html:
    """Return texts and elements, one after the other."""
    parts = []
    for item in content:
        if isinstance(item, (list, tuple)):
            parts.append(join(*item))
        elif item is not None:
            parts.append(item if isinstance(item, Html) else escape(str(item)))
    return Html("".join(parts))


def policy(script: str = "") -> str:
    """Return a page's security policy: no request goes out, and no script runs but this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"script-src 'sha256-{digest}'; " if script else ""
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"{scripts}form-action 'none'; base-uri 'none'"
    )


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def embedded(data: Any, name: str) -> Html:
    """Return data as a script element that is no script: no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{escape(name)}">{text}</script>')
