"""The tables of the page: the papers beside ours, and the times to a certified gap."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from workbench.figures.papers import token
from workbench.figures.report.comparison import Number, Row, counts, kind
from workbench.figures.report.markup import Html, join, tag
from workbench.figures.report.numerals import amount, as_printed
from workbench.figures.report.profiles import TOLERANCES, Scope, TimeRow, data_set, time_table

FEW = 6  # numbers of a row that we did not run; more of them are folded
DESCRIPTIONS = {"samples", "features", "classes", "parameter"}  # of data and settings, not results
LONG = 60  # lines of a table of times; a longer one is folded


def printed_tables(rows: Iterable[Row]) -> list[tuple[str, str, Html]]:
    """Return (anchor, heading, table) of every table of one paper."""
    found = []
    for (paper, name), group in groupby(rows, key=lambda r: (r.names["paper"], r.names["table"])):
        anchor = f"table-{paper}-{token(name) or 'none'}"
        heading = {"text": "In the text", "": "In no table"}.get(
            name, name if name.startswith("Figure") else f"Table {name}"
        )
        found.append((anchor, heading, _printed_table(anchor, heading, list(group))))
    return found


def time_tables(scopes: Iterable[Scope]) -> list[tuple[str, str, Html]]:
    """Return (anchor, heading, table) for each notebook with traces."""
    found = []
    for scope in scopes:
        if scope.notebook:
            anchor = "-".join(filter(None, ("times", scope.paper, scope.place, scope.notebook)))
            found.append((anchor, scope.title, _time_table(anchor, scope)))
    return found


def unit_of(number: Number) -> str:
    """Return the unit as it follows a number: fractions have none."""
    return {"": "", "fraction": "", "%": " %", "x": " ×"}.get(number.unit, f" {number.unit}")


def _printed_table(anchor: str, heading: str, rows: list[Row]) -> Html:
    head = _head(COLUMNS, 3, 5)
    bodies = []
    # Numbers of one method on one data set need not be neighbours in print.
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.names["dataset"], row.names["method"]), []).append(row)
    for (dataset, method), group in groups.items():
        ran = any(row.ours for row in group)
        lines = _lines(dataset, method, group) if ran else [_not_run(dataset, method, group)]
        bodies.append(
            tag(
                "tbody",
                lines,
                class_="item" if ran else "item not-run",
                data_paper=token(rows[0].names["paper"]),
                data_sets=token(dataset),
                data_methods=token(method),
                data_ran="yes" if ran else "no",
            )
        )
    found = counts(rows)
    caption = f"{heading}: {found.printed} numbers in print, {found.beside} with one of ours beside"
    if found.alone:
        caption += f"; {found.alone} of ours alone"
    if all(row.names["quantity"] in DESCRIPTIONS for row in rows):
        caption = f"{heading}: {found.printed} numbers on data and settings"
    table = tag("table", tag("caption", caption), tag("thead", head), bodies, class_="beside")
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_labelledby=anchor)


COLUMNS = ("data set", "method", "quantity", "paper", "ours", "ours against the paper", "remarks")


def _head(names: Sequence[str], first: int, last: int) -> Html:
    """Return a head row; the columns from `first` until `last` hold numbers."""
    kinds = ["number" if first <= place < last else None for place in range(len(names))]
    return tag("tr", [tag("th", n, scope="col", class_=k) for n, k in zip(names, kinds)])


def _name(name: str) -> Html:
    """Return a name that may be broken after its underscores."""
    return join([[part, Html("<wbr>")] for part in re.split(r"(?<=_)", name or "–")])


def _names(dataset: str, method: str, span: int) -> list[Html]:
    rowspan = span if span > 1 else None
    return [tag("th", _name(name), scope="rowgroup", rowspan=rowspan) for name in (dataset, method)]


def _lines(dataset: str, method: str, rows: list[Row]) -> list[Html]:
    lines = []
    for position, row in enumerate(rows):
        first = position == 0
        cells = [tag("td", _quantity(row)), tag("td", _paper(row), class_="number")]
        if row.ours is None:
            cells.append(tag("td", _why_not([row]), class_="absent", colspan=2))
        else:
            cells += [tag("td", _ours(row), class_="number"), tag("td", _verdict(row))]
        if first:
            span = len(rows) if len(rows) > 1 else None
            cells.append(tag("td", _remarks(rows), class_="remarks", rowspan=span))
        names = _names(dataset, method, len(rows)) if first else []
        lines.append(tag("tr", names, cells))
    return lines


def _not_run(dataset: str, method: str, rows: list[Row]) -> Html:
    """Return one line for all that a paper prints of a method which we did not run."""
    entries, before = [], None
    for row in rows:
        same = row.names["quantity"] == before and row.names["setting"]
        entries.append(tag("li", _setting(row) if same else _quantity(row), tag("b", _paper(row))))
        before = row.names["quantity"]
    numbers = tag("ul", entries, class_="numbers")
    if len(rows) > FEW:
        numbers = tag("details", tag("summary", _range(rows)), numbers)
    notes = dict.fromkeys(note for row in rows for note in row.note.split("; ") if note)
    return tag(
        "tr",
        _names(dataset, method, 1),
        tag("td", numbers, colspan=3),
        tag("td", _why_not(rows), class_="absent"),
        tag("td", "; ".join(notes), class_="remarks"),
    )


def _why_not(rows: list[Row]) -> str:
    described = all(row.names["quantity"] in DESCRIPTIONS for row in rows)
    return "nothing to run" if described else "not run here"


def _range(rows: list[Row]) -> str:
    """Return in one line what many numbers are about."""
    said = []
    for quantity in dict.fromkeys(row.names["quantity"] for row in rows):
        group = [row for row in rows if row.names["quantity"] == quantity]
        values = [row.paper.value for row in group if row.paper.value is not None]
        if not values:
            many = f" ({len(group)} cells)" if len(group) > 1 else ""
            said.append(f"{quantity} {_absent(group[0])}{many}")
            continue
        many = f" ({len(values)} numbers)" if len(values) > 1 else ""
        ends = dict.fromkeys([as_printed(min(values)), as_printed(max(values))])
        units = {row.paper.unit for row in group}
        unit = unit_of(group[0].paper) if len(units) == 1 else ""
        # Parameters share no scale, and so no range.
        ends = " to ".join(ends) + unit if quantity != "parameter" and len(units) == 1 else ""
        said.append(f"{quantity} {ends}{many}".strip())
    return ", ".join(said)


def _quantity(row: Row) -> Html:
    return join(row.names["quantity"], " ", _setting(row))


def _setting(row: Row) -> Html | None:
    setting = row.names["setting"]
    return join(tag("span", setting, class_="setting"), " ") if setting else None


def _paper(row: Row) -> str:
    if row.paper.value is None:
        return _absent(row)
    spread = f" ± {as_printed(row.paper.spread)}" if row.paper.spread is not None else ""
    return f"{as_printed(row.paper.value)}{spread}{unit_of(row.paper)}"


def _absent(row: Row) -> str:
    return "masked" if "masked" in row.note else "lost" if "lost" in row.note else "none"


def _ours(row: Row) -> Html | list:
    ours = row.ours.number.in_unit(row.paper.unit) or row.ours.number
    if ours.value is None:
        return tag("span", "no value", class_="absent")
    decimals = 0
    if row.paper.value is not None:
        decimals = len(as_printed(row.paper.value).partition(".")[2])
    spread = f" ± {amount(ours.spread, digits=2)}" if ours.spread is not None else ""
    shown = f"{amount(ours.value, decimals)}{spread}{unit_of(ours)}"
    if row.ours.row.get("cut") and kind(row.names["quantity"], row.paper.unit) == "time":
        shown = f"> {shown}"  # a lower bound
    return tag("a", shown, href=f"#{row.ours.anchor}", title="the figure that brought it")


def _verdict(row: Row) -> Html | str:
    verdict = row.verdict
    said = None
    if verdict.tone != "none":
        words = [verdict.amount, " ", tag("span", verdict.word)]
        said = tag("span", words, class_=f"verdict {verdict.tone}")
    # A time without a printed one beside it may still not be clean.
    time = row.measured and kind(row.names["quantity"], row.paper.unit) == "time"
    untimed = time and not row.ours.timed
    return join(said, tag("span", " not timed", class_="untimed") if untimed else None)


def _remarks(rows: list[Row]) -> Html:
    """Return what our data were, what else is other here, and the paper's notes, each said once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        about = f"{row.names['quantity']} {row.names['setting']}".strip()
        for remark in filter(None, _remarks_on(row)):
            found.setdefault(remark, []).append(about)
    lines = []
    for remark, about in found.items():
        of_all = len(about) == len(rows) or remark == OTHER_MACHINE
        few = ", ".join(about) if len(about) <= 2 else f"{len(about)} of {len(rows)} lines"
        lines.append(tag("div", remark if of_all else f"{few}: {remark}"))
    return join(lines)


OTHER_MACHINE = "times on another machine"
NOT_EXPLAINED = "the difference is not explained yet"


def _remarks_on(row: Row) -> list[str]:
    said = [row.note]
    if row.ours is not None:
        given, caveat = row.ours.row, row.verdict.caveat
        if "other data" in caveat or not row.ours.data:
            said.append(f"our data: {row.ours.data or 'not said'}")
        said.append(OTHER_MACHINE if "machine" in caveat else "")
        said.append(caveat if "units" in caveat else "")
        reason = str(given.get("reason") or "")
        # What differs between two runs is no cause of a difference until it has been tried.
        told = reason and row.measured and row.paper.value is not None
        said.append(f"here {reason}" if told else reason)
        said.append(NOT_EXPLAINED if row.verdict.tone in ("better", "worse", "differs") else "")
        said.append(f"{given['runs']} runs" if given.get("runs") else "")
        said.append(f"{given['cut']} of them ended by the clock" if given.get("cut") else "")
        said.append(f"one of {row.others + 1} measurements" if row.others else "")
    return said


def _time_table(anchor: str, scope: Scope) -> Html:
    names = ["data set", "solver", *(f"10⁻{'¹²³⁴⁵⁶'[i]}" for i in range(len(TOLERANCES))), "runs"]
    head = _head(names, 2, len(names))
    rows = time_table(scope)
    bodies = []
    for data, group in groupby(rows, key=lambda row: row.data):
        bodies += _time_lines(scope, data, list(group))
    text = (
        "Median processor seconds until the certified gap, or its ratio to the first, is at most …"
    )
    caption = tag("caption", f"{text} …")
    table = tag("table", caption, tag("thead", head), bodies, class_="times")
    table = tag("div", table, class_="scroll", tabindex="0", role="region", aria_labelledby=anchor)
    if len(rows) > LONG:
        table = tag("details", tag("summary", f"{len(rows)} lines"), table)
    return table


def _time_lines(scope: Scope, data: str, rows: list[TimeRow]) -> list[Html]:
    best = [min(row.cells[i][0] for row in rows) for i in range(len(TOLERANCES))]
    name, _, sizes = data.partition(" · ")
    lines = []
    for place, row in enumerate(rows):
        cells = []
        for (median, reached), fastest in zip(row.cells, best, strict=True):
            if reached == 0:
                cells.append(tag("td", "–", class_="number absent"))
                continue
            shown = amount(median) if math.isfinite(median) else "–"
            if math.isfinite(median) and median == fastest and len(rows) > 1:
                shown = tag("b", shown)
            some = tag("small", f" {reached} of {row.runs}") if reached < row.runs else None
            cells.append(tag("td", shown, some, class_="number"))
        untimed = None if row.timed else tag("span", " not timed", class_="untimed")
        colour = scope.looks[row.entry][0]
        lines.append(
            tag(
                "tbody",
                tag(
                    "tr",
                    tag("th", name, tag("small", sizes), scope="row"),
                    tag("th", _swatch(colour), row.entry, scope="row"),
                    cells,
                    tag("td", row.runs, untimed, class_="number"),
                ),
                class_="item" if place == 0 else "item again",
                data_paper=token(scope.paper),
                data_sets=token(data_set(row)),
                data_methods=token(row.entry.split(" (")[0]),
                data_ran="yes",
            )
        )
    return lines


def _swatch(colour: str) -> Html:
    # Black is the text's colour, or it would be lost on dark pages.
    colour = "currentColor" if colour == "#000000" else colour
    return tag("span", class_="swatch", style=f"background:{colour}", aria_hidden="true")
