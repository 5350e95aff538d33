"""The figures of the page, each with how it was made."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from workbench.figures.papers import token
from workbench.figures.report.markup import Html, tag
from workbench.figures.report.sidecars import Figure
from workbench.runs.notebooks import CHECKOUT, PROFILES


def card(figure: Figure, page: Path) -> Html:
    """Return a figure with its caption and its folded provenance, links relative to `page`."""
    width, height = figure.size
    caption = str(figure.record["caption"])
    picture = tag(
        "img",
        src="data:image/png;base64," + base64.b64encode(figure.png).decode("ascii"),
        alt=f"{heading(figure)}: {first_sentence(caption)}",
        # The pictures have 160 dots an inch; at half their size they are as large as in a paper.
        width=width // 2,
        height=height // 2,
        decoding="async",
    )
    marks = [tag("span", profile(figure), class_="mark")]
    if figure.record.get("timed"):
        marks.append(tag("span", "timed", class_="mark"))
    elif figure.record.get("runs"):
        marks.append(tag("span", "not timed", class_="mark untimed"))
    return tag(
        "article",
        tag("h4", heading(figure), " ", marks, id=figure.anchor, tabindex="-1"),
        tag("figure", picture, tag("figcaption", caption)),
        tag("details", tag("summary", "How it was made"), provenance(figure, page)),
        class_="item card",
        data_paper=token(figure.paper),
        data_sets=" ".join(map(token, figure.sets)),
        data_methods=" ".join(map(token, figure.methods)),
        data_ran="yes",
    )


def heading(figure: Figure) -> str:
    """Return the figure's name in words."""
    notebook, name = figure.notebook.replace("_", " "), figure.name.replace("_", " ")
    both = notebook if notebook.endswith(name) else f"{notebook}: {name}"
    return f"{both}, {figure.place}" if figure.place else both


def profile(figure: Figure) -> str:
    """Return the profile of the figure's notebook, ``custom`` for parameters that are none's."""
    found = figure.record.get("profile")
    return found if found in PROFILES else "custom"


def first_sentence(caption: str) -> str:
    """Return the caption up to its first full stop."""
    return re.split(r"(?<=[.!?])\s", caption, maxsplit=1)[0]


def provenance(figure: Figure, page: Path) -> Html:
    """Return all that the sidecar says on how a figure was made."""
    record = figure.record
    facts: list[tuple[str, Any]] = [
        ("command", tag("code", _command(figure))),
        ("notebook", _links(figure, page)),
        ("parameters", _pairs(record.get("parameters"))),
        ("data", _data(record.get("data", []))),
        ("machine", _pairs(record.get("machine"))),
        ("threads", _pairs(record.get("threads"))),
        ("conditions", _conditions(record)),
        ("commit", tag("code", record.get("commit", "unknown"))),
        ("versions", _pairs(record.get("versions"))),
        ("made", _made(record)),
    ]
    return tag("dl", [[tag("dt", name), tag("dd", fact)] for name, fact in facts if fact])


def _command(figure: Figure) -> str:
    command = figure.record.get("command")
    if command:
        return " ".join(map(str, command)) if isinstance(command, list) else str(command)
    # Sidecars that are older than this key say at least the profile.
    return f"workbench figures {figure.notebook} --profile {figure.record.get('profile')}"


def _links(figure: Figure, page: Path) -> list:
    name = f"{figure.notebook}.ipynb"
    found = []
    executed = f"runs/figures/{figure.place}"
    for said, folder in (("source", "notebooks/figures"), ("executed", executed)):
        path = CHECKOUT / folder / name
        if path.exists():
            target = quote(Path(os.path.relpath(path, page.parent)).as_posix())
            found += [" and " if found else "", tag("a", said, href=target)]
    return found


def _pairs(values: Mapping[str, Any] | None) -> list[Html]:
    return [
        tag("span", tag("i", f"{name} "), tag("code", _value(value)), class_="pair")
        for name, value in (values or {}).items()
    ]


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def _data(problems: list[dict[str, Any]]) -> list[Html]:
    """Return a line for each data set and size, with the checksums of all its splits."""
    groups: dict[tuple, list[str]] = {}
    for problem in problems:
        sizes = ", ".join(f"{key} = {problem[key]:,}" for key in "ndk" if _whole(problem.get(key)))
        kind = "synthetic" if problem.get("synthetic") else "real"
        said = (str(problem.get("name", "unnamed")), sizes, kind)
        groups.setdefault(said, []).append(str(problem.get("checksum", "no checksum")))
    return [
        tag("div", f"{name} ({', '.join(filter(None, rest))}) ", tag("code", " ".join(checksums)))
        for (name, *rest), checksums in groups.items()
    ]


def _whole(value: Any) -> bool:
    return isinstance(value, int)


def _conditions(record: Mapping[str, Any]) -> str:
    said = [f"{record['runs']} runs"] if "runs" in record else []
    if "timed" in record:
        said.append("measured in timing mode" if record["timed"] else "not in timing mode")
    if record.get("jobs"):
        jobs = record["jobs"]
        said.append("one notebook at a time" if jobs == 1 else f"{jobs} notebooks side by side")
    if record.get("load") is not None:
        said.append(f"load {record['load']}")
    if record.get("wall_over_cpu"):
        said.append(f"wall time {record['wall_over_cpu']} times CPU time")
    return ", ".join(said)


def _made(record: Mapping[str, Any]) -> str:
    said = [str(record["date"])] if record.get("date") else []
    if record.get("seconds") is not None:
        said.append(f"{record['seconds']} s after its notebook began")
    return ", ".join(said)
