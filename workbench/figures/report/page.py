"""The page around figures and tables: header, overview, contents, filters, legend."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import workbench
from workbench.figures.papers import PAPERS, order, title, token
from workbench.figures.report.comparison import Row, counts
from workbench.figures.report.gallery import card, heading, profile
from workbench.figures.report.kept import Runs
from workbench.figures.report.kept import section as kept_section
from workbench.figures.report.markup import Html, join, tag
from workbench.figures.report.profiles import Scope, ratios, share
from workbench.figures.report.sidecars import Figure
from workbench.figures.report.tables import printed_tables, time_tables
from workbench.runs.notebooks import PROFILES

TAUS = (1, 2, 5, 10)
PROFILE_WORDS = {
    "smoke": "smoke (seconds: it shows that the code runs, nothing else)",
    "quick": "quick (minutes, on small data)",
    "paper": "paper (the papers' sizes)",
    "custom": "parameters of their own",
}
AGREEMENT = (
    (
        "agrees",
        "agrees",
        "errors, fractions and percentages: |ours − paper| is at most the "
        "larger of both spreads and of half a unit of the last printed digit; times, sizes and "
        "speed-ups: within a factor of 2",
    ),
    ("better", "better", "beyond that, and ours is the faster, smaller, lower error, higher score"),
    ("worse", "worse", "beyond that, and ours is the slower, larger, higher error, lower score"),
    ("differs", "differs", "beyond that, where neither direction is the better one"),
    (
        "context",
        "context",
        "no claim: ours ran on other data (a stand-in, or a part), the clock ended it, or it is a "
        "time taken on another machine or not in timing mode",
    ),
)


def body(
    figures: list[Figure], rows: list[Row], scopes: list[Scope], runs: Runs, faults, page: Path
) -> Html:
    """Return the whole of the page's body."""
    papers = sorted(
        {f.paper for f in figures} | {r.names["paper"] for r in rows} | {s.paper for s in scopes},
        key=order,
    )
    sections, contents = [], []
    for paper in papers:
        section, entries = _section(paper, figures, rows, scopes, page)
        sections.append(section)
        contents.append(entries)
    fixed = [("overview", "Overview"), ("profiles", "Performance profiles")]
    fixed += [("kept", "Runs that were kept")] if runs else []
    links = [tag("li", tag("a", name, href=f"#{anchor}")) for anchor, name in fixed]
    return join(
        tag(
            "nav",
            tag("details", tag("summary", "Contents"), tag("ol", links, contents), open=True),
            aria_label="Contents",
        ),
        tag(
            "main",
            _header(figures, rows, scopes, faults),
            _filters(papers, figures, rows, scopes),
            _overview(papers, figures, rows),
            _profiles(scopes),
            kept_section(runs),
            sections,
            tag("p", "Nothing here is left by the filters.", class_="nothing", hidden=True),
            id="content",
        ),
    )


def _header(figures, rows: list[Row], scopes, faults: list[str]) -> Html:
    made = Counter(map(profile, figures))
    kinds = [name for name in (*PROFILES, "custom") if made[name]]
    shown = "; ".join(f"{made[name]} × {PROFILE_WORDS[name]}" for name in kinds)
    machines = Counter(str(f.record.get("machine", {}).get("cpu", "unknown")) for f in figures)
    commits = Counter(str(f.record.get("commit", "unknown")) for f in figures)
    dates = sorted(str(f.record["date"])[:10] for f in figures if f.record.get("date"))
    between = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "at unknown dates"
    values = counts(rows)
    timed = sum(run.timed for scope in scopes if scope.notebook for run in scope.runs)
    runs = sum(len(scope.runs) for scope in scopes if scope.notebook)
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [
        f"{len(figures)} figures of {len({f.notebook for f in figures})} notebooks, made {between} "
        f"on {', '.join(machines) or 'no machine'}; commit {', '.join(commits) or 'none'}.",
        f"{values.printed:,} numbers that the papers print: {values.beside} have a number of ours "
        f"beside them, {values.same_data} of these on the paper's own data; {values.claims} are "
        "compared as like with like.",
        f"{runs:,} runs with times to a certified gap, {timed:,} of them in timing mode.",
    ]
    said = f"Figures come from: {shown}." if figures else NO_FIGURES
    if any(commit.endswith("-dirty") for commit in commits):
        lines.append("A commit that ends in -dirty had changes which it does not hold.")
    left_out = None
    if faults:
        items = tag("ul", [tag("li", fault) for fault in faults])
        left_out = tag("div", tag("p", "Left out:"), items, class_="faults", role="note")
    return tag(
        "header",
        tag("h1", "workbench report"),
        tag("p", f"Large-scale multiclass classification, {now}, v{workbench.__version__}"),
        tag("p", tag("strong", said), class_="honest"),
        tag("ul", [tag("li", line) for line in lines]),
        left_out,
    )


NO_FIGURES = "There are no figures yet: make figures. The papers' numbers are below."


def _filters(papers: list[str], figures, rows, scopes) -> Html:
    sets = {token(name): name for figure in figures for name in figure.sets}
    sets |= {token(r.names["dataset"]): r.names["dataset"] for r in rows if r.names["dataset"]}
    methods = {token(r.names["method"]): r.names["method"] for r in rows if r.names["method"]}
    methods |= {token(name): name for figure in figures for name in figure.methods}
    choices = [tag("option", "all papers", value="")]
    choices += [tag("option", _short(paper), value=token(paper)) for paper in papers]
    ran = tag("label", tag("input", type="checkbox", id="ran"), " only what ran here")
    return tag(
        "form",
        tag("label", "Search ", tag("input", type="search", id="search", placeholder="words")),
        tag("label", "Paper ", tag("select", choices, id="paper")),
        _checkboxes("sets", "Data sets", sets),
        _checkboxes("methods", "Methods", methods),
        ran,
        tag("button", "Clear", type="reset"),
        tag("output", "", id="count", aria_live="polite"),
        id="filters",
        hidden=True,
        role="search",
        aria_label="Filters",
    )


def _checkboxes(name: str, legend: str, choices: dict[str, str]) -> Html:
    boxes = [
        tag("label", tag("input", type="checkbox", name=name, value=value), f" {choices[value]}")
        for value in sorted(choices, key=lambda value: choices[value].casefold())
        if value
    ]
    summary = tag("summary", legend, " ", tag("span", "", class_="chosen"))
    return tag("details", summary, tag("div", boxes, role="group", aria_label=legend), class_="box")


def _overview(papers: list[str], figures: list[Figure], rows: list[Row]) -> Html:
    tones = [tone for tone, _, _ in AGREEMENT]
    names = [
        "paper",
        "figures",
        "numbers in print",
        "masked or none",
        "ours beside",
        "on its data",
        "ours only",
        *tones,
    ]
    lines = []
    for paper in papers:
        every = [row for row in rows if row.names["paper"] == paper]
        tone, values = Counter(row.verdict.tone for row in every), counts(every)
        numbers = [
            sum(figure.paper == paper for figure in figures),
            *(values.printed, values.absent, values.beside, values.same_data, values.alone),
            *(tone[name] for name in tones),
        ]
        link = tag("a", title(paper), href=f"#paper-{paper}")
        cells = [tag("td", number or "–", class_="number") for number in numbers]
        lines.append(tag("tr", tag("th", link, scope="row"), cells))
    legend = [
        [tag("dt", tag("span", word, class_=f"verdict {tone}")), tag("dd", meaning)]
        for tone, word, meaning in AGREEMENT
    ]
    kinds = [None, *["number"] * (len(names) - 1)]
    head = tag("tr", [tag("th", n, scope="col", class_=k) for n, k in zip(names, kinds)])
    return tag(
        "section",
        tag("h2", "Overview", id="overview", tabindex="-1"),
        tag("div", tag("table", tag("thead", head), tag("tbody", lines)), class_="scroll overview"),
        tag("h3", "How the comparison is coloured"),
        tag("dl", legend, class_="legend"),
        tag("p", SHOWN),
    )


SHOWN = (
    "Of several measurements of one number the one shown is of the largest profile, then one in "
    "timing mode, then the latest. Spreads are as the papers and the notebooks give them. “masked” "
    "and “lost” are numbers that the text of the paper at hand does not have; “none” is a cell "
    "without a number in print, such as a run that did not end."
)


def _profiles(scopes: list[Scope]) -> Html:
    """Return the performance profiles as tables; the page's script draws them."""
    blocks = [_profile_table(scope) for scope in scopes]
    return tag(
        "section",
        tag("h2", "Performance profiles", id="profiles", tabindex="-1"),
        tag("p", EXPLAINED if scopes else "No figure has traces with times to a certified gap."),
        tag("div", blocks, id="profile"),
    )


EXPLAINED = (
    "The share of problems that a solver brought to a certified gap within τ times the processor "
    "time of the fastest solver shown (Dolan and Moré, 2002). Where a paper measures the gap over "
    "that after the first round, as for Weston-Watkins SVMs, this ratio is meant. A problem is one "
    "checksum of data, with one regularisation; its time is the median over runs. A run that never "
    "got there, or "
    "was stopped before, is never counted as solved. Only problems on which every solver shown ran "
    "are compared."
)


def _profile_table(scope: Scope) -> Html:
    times = {name: scope.times[scope.tolerance][name] for name in scope.shown}
    found, count = ratios(times)
    head = ["solver", *(f"τ = {tau}" for tau in TAUS), "ever"]
    kinds = [None, *["number"] * len(TAUS), "number"]
    lines = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            [
                tag("td", f"{100 * share(found[name], count, tau):.0f} %", class_="number")
                for tau in (*TAUS, float("inf"))
            ],
        )
        for name in times
    ]
    power = "⁻" + "⁰¹²³⁴⁵⁶"[int(scope.tolerance[-1])]
    caption = f"{scope.title}: gap at most 10{power}, {count} problems"
    table = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", [tag("th", n, scope="col", class_=k) for n, k in zip(head, kinds)])),
        tag("tbody", lines),
    )
    return tag("div", table, class_="scroll")


def _section(paper: str, figures, rows, scopes, page: Path) -> tuple[Html, Html]:
    own = [figure for figure in figures if figure.paper == paper]
    anchor = f"paper-{paper}"
    parts, entries = [], []
    blocks = [
        ("", "Beside the paper", printed_tables(_of(rows, paper))),
        ("Times: ", "Time to a certified gap", time_tables(s for s in scopes if s.paper == paper)),
    ]
    if own:
        parts.append(tag("h3", "Figures"))
        parts += [card(figure, page) for figure in own]
        entries += [_entry(figure.anchor, heading(figure)) for figure in own]
    for prefix, name, tables in blocks:
        if tables:
            parts.append(tag("h3", name))
        for target, head, table in tables:
            # A short table stays on one page of paper.
            short = " short" if table.count("<tr>") <= 16 else ""
            inner = [tag("h4", head, id=target, tabindex="-1"), table]
            parts.append(tag("section", inner, class_="group" + short, data_paper=token(paper)))
            entries.append(_entry(target, prefix + head))
    about = PAPERS[paper] if paper in PAPERS else None
    by = tag("p", f"{about.authors}, {about.where}", class_="authors") if about else None
    head = tag("h2", title(paper), id=anchor, tabindex="-1")
    listed = tag("li", tag("a", _short(paper), href=f"#{anchor}"), tag("ol", entries))
    return tag("section", head, by, parts, class_="paper", data_paper=token(paper)), listed


def _entry(anchor: str, name: str) -> Html:
    return tag("li", tag("a", name, href=f"#{anchor}"))


def _of(rows: list[Row], paper: str) -> list[Row]:
    return [row for row in rows if row.names["paper"] == paper]


def _short(paper: str) -> str:
    return paper.replace("_", " ")
