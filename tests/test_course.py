"""The course: formulas, copies without solutions, pages that need nothing but themselves."""

import json
import re
import shutil
import sys
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from checks.exercise import credit
from workbench.cli import main
from workbench.core.stream import rounds
from workbench.data.panels import panel
from workbench.figures import lessons as course
from workbench.figures.course_pages import (
    dashboards,
    figure_pages,
    source_page,
    source_place,
    sources,
)
from workbench.figures.lesson_files import PARTS, Page, assignment, read, rewritten, student_copy
from workbench.figures.lesson_pages import html_page, pages_of, sections
from workbench.live.replay import MIME, Replay, hashed, record, script
from workbench.runs.jupyter_kernels import OneThreadKernelManager

LEARN = Path(__file__).parents[1] / "notebooks" / "learn"
LESSONS = [read(path) for path in sorted(LEARN.glob("*.ipynb"))]
SHEETS = [read(path) for path in sorted(LEARN.glob("cheat_sheets/*.md"))]
PLACES = {page.path: page.place for page in LESSONS + SHEETS}
COPIES = PLACES | {lesson.path: f"students/{lesson.name}.ipynb" for lesson in LESSONS}
HEADINGS = ["Problem", "Dual", "Update", "Cost", "Certificate"]
HEADINGS += ["When to use it (and when not)", "Here"]
SEARCH = "workbench/figures/search.js"
EMPTY = {"br", "hr", "img", "input", "link", "meta"}


class Reader(HTMLParser):
    """Reads a page strictly: every tag is closed in its order, ids are unique, nothing loads."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags = [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        assert len(given) == len(attributes), f"an attribute twice in <{tag}>"
        assert tag not in ("iframe", "object", "embed"), tag
        if tag == "script":  # the course's own, or the data of a recorded run
            run = {"type": "text/plain", "class": "recording"}
            assert given in ({}, run, {"type": "application/json", "id": "sections"}), given
        if tag in ("p", "div", "pre", "table", "details", "ul", "ol", "h2", "section"):
            assert "p" not in self.open, f"<{tag}> in a <p>"
        source = given.get("src") or given.get("srcset") or "data:"
        assert source.startswith("data:"), source
        if tag == "img":
            assert given["alt"].strip()
        if tag == "link":
            assert given["rel"] in ("icon", "prev", "next")
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" or given.get("rel") in ("prev", "next") else []
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in ("mspace", *EMPTY), f"<{tag}/> is not HTML"

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def sound(text):
    """Return a page as read, after what must be true of every page."""
    page = Reader(text)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert page.tags.count("h1") == page.tags.count("main") == 1
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert scripts in ([], [script()], [(LEARN.parents[1] / SEARCH).read_text("utf-8")])
    assert [hashed(each) for each in scripts] == re.findall(r"script-src '([^']*)';", text)
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"@import|url\(|\$\$", text)
    assert "http:" not in text and "https:" not in re.sub(r'<a href="https:[^"]*"', "", text)
    return page


def formulas(cell):
    """Return the formulas of a cell's Markdown, those in the words of links included."""
    if cell.cell_type != "markdown":
        return []
    source = re.sub(r"\]\([^()\s]+\)", "]", cell.source)
    return [m for m in PARTS.finditer(source) if m["display"] or m["inline"]]


@pytest.mark.parametrize("page", LESSONS + SHEETS, ids=lambda page: page.name)
def test_every_lesson_and_cheat_sheet_becomes_a_sound_page(page):
    text = html_page(page, PLACES, LESSONS)
    read = sound(text)
    cells = page.notebook.cells
    made = re.findall(r"<math.*?</math>", text.partition("<main")[2])
    assert len(made) == sum(len(formulas(cell)) for cell in cells) >= 5
    assert not [x for x in made if re.search(r"[\\$]", re.sub("<mo[^>]*>∖</mo>", "", x))]
    solutions = sum("solution" in cell.metadata.get("tags", ()) for cell in cells)
    assert text.count("<summary>Solution</summary>") == solutions
    up = "../" if page in SHEETS else ""
    known = {f"{up}{place}" for place in PLACES.values()} | {f"{up}index.html"}
    known |= {f"{other.name}.html" for other in SHEETS} if page in SHEETS else set()
    places = {file: f"{up}{source_place(file)}" for file in sources(page)}
    known |= {f"{places[f]}#L-{at}" for f, names in sources(page).items() for at in names.values()}
    known |= set(places.values())
    assert {x for x in read.links if not x.startswith(("https:", "#"))} <= known
    if page in SHEETS:
        assert re.findall(r"^## (.+)$", cells[0].source, flags=re.M) == HEADINGS
    else:
        contents = text.partition("<nav")[2].partition("</nav>")[0]
        assert solutions and page.question and contents.count("<li>") == read.tags.count("h2") > 2


@pytest.mark.slow
def test_every_cheat_sheet_prints_on_one_page(browser, printed, tmp_path):
    page = tmp_path / "sheet.html"
    for sheet in SHEETS:
        page.write_text(html_page(sheet, PLACES, []))
        browser.get(page.as_uri())
        pages = re.findall(rb"/Type\s*/Page\b", printed(preferCSSPageSize=True))
        assert len(pages) == 1, sheet.name


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_student_copies_hold_no_solution(lesson):
    theirs = nbformat.reads(student_copy(lesson, COPIES), as_version=4).cells
    text = "\n".join(cell.source for cell in theirs)
    ours = lesson.notebook.cells
    solutions = [cell for cell in ours if "solution" in cell.metadata.get("tags", ())]
    exercises = [cell.source for cell in ours if "exercise" in cell.metadata.get("tags", ())]
    assert solutions and exercises
    # A line that a solution alone has is not in the copy either.
    others = {line for cell in ours if cell not in solutions for line in cell.source.splitlines()}
    for cell in solutions:
        own = [line for line in cell.source.splitlines() if line not in others and len(line) > 12]
        assert cell.source not in text and not set(own) & set(text.splitlines())
    assert exercises == [c.source for c in theirs if "exercise" in c.metadata.get("tags", ())]
    summaries = re.findall(r"<details[^>]*>\s*<summary>(.*?)</summary>", text)
    assert all(summary.startswith("Hint") for summary in summaries)
    assert text.count("<details") == text.count("</details>") == len(summaries)
    assert all(not cell.get("outputs") for cell in theirs)
    prose = "\n".join(cell.source for cell in theirs if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)#\s]+)", re.sub("`[^`]*`", "", prose)):
        sheet = re.fullmatch(r"\.\./(cheat_sheets/\w+\.html)", target)
        assert re.match(r"https?:", target) or (
            sheet[1] in PLACES.values() if sheet else (LEARN / target).exists()
        )


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_assignments_are_student_copies_with_a_locked_cell_behind_each_exercise(lesson):
    made = assignment(lesson, COPIES, "nbgrader")
    assert made.keys() == {f"{lesson.name}.ipynb"}
    cells = nbformat.reads(made[f"{lesson.name}.ipynb"], as_version=4).cells
    graded = [cell for cell in cells if "nbgrader" in cell.metadata]
    copy = nbformat.reads(student_copy(lesson, COPIES), as_version=4).cells
    assert [c for c in cells if c not in graded] == copy
    ids = [cell.metadata.nbgrader["grade_id"] for cell in graded]
    assert len(set(ids)) == len(ids) > 3 and all(re.fullmatch(r"[\w-]+", name) for name in ids)
    for before, cell in pairwise(cells):
        assert ("exercise" in before.metadata.get("tags", ())) == (cell in graded)
        if cell in graded:  # as the third version of nbgrader's format asks
            kinds = {"grade": True, "locked": True, "solution": False, "task": False}
            rest = {"schema_version": 3, "points": 1, "grade_id": cell.metadata.nbgrader.grade_id}
            assert cell.metadata.nbgrader == kinds | rest
            assert f"credit(lambda: {before.source.splitlines()[-1]})" in cell.source
            compile(cell.source, cell.id, "exec")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_otter_runs_the_student_copies_unchanged_with_a_test_for_each_exercise(lesson):
    made = assignment(lesson, COPIES, "otter")
    notebook = nbformat.reads(made.pop(f"{lesson.name}.ipynb"), as_version=4)
    copy = nbformat.reads(student_copy(lesson, COPIES), as_version=4)
    tests = {
        c.id: c.metadata.pop("otter")["tests"] for c in notebook.cells if "otter" in c.metadata
    }
    exercises = [c for c in copy.cells if "exercise" in c.metadata.get("tags", ())]
    assert notebook == copy and tests == {c.id: [c.id] for c in exercises}
    assert made.keys() == {f"tests/{name}.py" for name in tests}
    for cell in exercises:
        test, check = made[f"tests/{cell.id}.py"], cell.source.splitlines()[-1]
        compile(test, cell.id, "exec")
        parts = 6 if re.search(r'check_certified\(.*"', check) else 1
        assert f"False, {cell.id!r}, 1, {parts}\ncheck = {check!r}\n" in test


class Case:
    """A stand-in for ``otter.test_files.test_case``."""

    def __init__(self, name):
        self.name = name

    def __call__(self, function):
        self.told = function
        return self


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    ("told", "reached"),
    [
        ("right: certainly within 4.0e-04 of the optimum, all 3 decades", 6),
        ("try again: within 3.0e-02 of the optimum: 1.5 of 3 decades. Most of the loss", 3),
        ("try again: within 9.0e-02 of the optimum: 0.9 of 3 decades. Row 3", 1),
        ("try again: 2.1 times the optimum: 0.0 of 3 decades. The classes", 0),
    ],
)
def test_otter_gives_a_sixth_of_a_point_for_half_a_decade(
    told, reached, real, monkeypatch, tmp_path
):
    if real:
        exception_test = pytest.importorskip("otter.test_files.exception_test")
    else:
        module = ModuleType("otter.test_files")
        module.test_case = Case
        monkeypatch.setitem(sys.modules, "otter", ModuleType("otter"))
        monkeypatch.setitem(sys.modules, "otter.test_files", module)
    lesson = next(lesson for lesson in LESSONS if lesson.name == "ww_3_coordinate_descent")
    test = assignment(lesson, COPIES, "otter")["tests/any-yours.py"]
    teach = SimpleNamespace(check_certified=lambda *_, **__: print(told))
    env = {"teach": teach, "W_own": ..., "problem": ...}
    if real:
        (tmp_path / "any-yours.py").write_text(test)
        graded = exception_test.ExceptionTestFile.from_file(str(tmp_path / "any-yours.py"))
        graded.run(env)
        assert graded.score == pytest.approx(reached / 6)
        assert graded.summary().count(told) == (reached < 6)
        return
    exec(test, made := {})
    said = []
    for case in (value for value in made.values() if isinstance(value, Case)):
        try:
            case.told(env)
        except AssertionError as missed:
            said.append(str(missed))
    assert len(said) == 6 - reached
    assert [line.strip() for line in said] == [told, *5 * ["not reached"]][: 6 - reached]


@pytest.mark.parametrize(
    ("told", "share"),
    [
        ("right: certainly within 4.0e-04 of the optimum, all 3 decades", 1.0),
        ("try again: within 3.0e-02 of the optimum: 1.5 of 3 decades. Most of the loss", 0.5),
        ("try again: 2.1 times the optimum: 0.0 of 3 decades. The classes", 0.0),
        ("try again: the largest hinge is not the sum", 0.0),
        ("not yet: put your answer where the ... is, then run the cell again", 0.0),
    ],
)
def test_the_credit_of_an_exercise_is_what_its_check_says(told, share, capsys):
    assert credit(lambda: print(told)) == share
    assert capsys.readouterr().out == f"{told}\n"


def test_the_instructors_map_knows_every_lesson_and_answers_every_question():
    text = (LEARN / "README.md").read_text()
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert all((LEARN / target).exists() for target in targets)
    assert {lesson.path.name for lesson in LESSONS} <= set(targets)
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[5:]:
        asked = section.partition("*Exam questions*")[2].partition("*A pitfall")[0]
        questions = len(re.findall(r"^\d+\. ", asked, flags=re.MULTILINE))
        answers = len(re.findall(r"<summary>Answer</summary>\n\n +\S", asked))
        assert questions == answers >= 4, section.splitlines()[0]


# The other pages.

ROOT = LEARN.parents[1]
DASHBOARDS = dashboards(ROOT / "notebooks" / "explore")


@pytest.mark.parametrize("page", DASHBOARDS, ids=lambda page: page.name)
def test_a_dashboards_page_says_how_to_start_it(page):
    places = PLACES | {page.path: page.place}
    read = sound(text := html_page(page, places, [*LESSONS, page]))
    assert f"<code>notebooks/explore/{page.name}.ipynb</code>" in text and "make lab" in text
    assert (page.name == "race") == ("make race" in text)
    assert "On this page" in text and LESSONS[-1].place in read.links
    (code,) = (cell.source for cell in page.notebook.cells if cell.cell_type == "code")
    assert "import recorded as explore" in code and "Without a running kernel" not in text


def test_there_is_a_page_for_each_dashboard():
    names = {path.stem for path in ROOT.glob("notebooks/explore/*.ipynb")}
    assert {page.name for page in DASHBOARDS} == names


@pytest.mark.slow
def test_a_dashboards_recorded_run_is_on_its_page(tmp_path):
    (page,) = (page for page in DASHBOARDS if page.name == "weston_watkins")
    assert not course.execute([page], tmp_path, jobs=1, again=False, say=print)
    text = html_page(page, PLACES | {page.path: page.place}, [page], course.outputs(page, tmp_path))
    assert sound(text).tags.count("script") == 2 and "Walrus fast" in text
    assert len(text) < 3_000_000


def test_all_quick_figures_are_on_pages_to_which_links_lead():
    pictures, places, found = 0, {}, {}
    pages = list(figure_pages(ROOT / "figures", ROOT / "notebooks" / "figures"))
    for page, outputs, drawn in pages:
        text = html_page(page, {}, [page], outputs)
        read = sound(text)
        assert len(text) < 3_000_000
        pictures += read.tags.count("img")
        anchors = {path: f"{path.stem.replace('_', '-')}" for path in drawn}
        assert set(anchors.values()) <= set(read.ids)
        assert all(f"<code>workbench figures {path.stem}" in text for path in drawn)
        places |= {path: f"{page.place}#{anchors[path]}" for path in drawn}
        found[page.place] = text
    assert pictures == len(list(ROOT.glob("figures/*/*.png"))) > 40
    assert set(places) == set(ROOT.glob("notebooks/figures/*.ipynb"))
    cell = new_markdown_cell("[how even](../figures/ww_runtime_ratio.ipynb)")
    made = rewritten(cell, LESSONS[0], PLACES | places)
    assert made == "[how even](figures_weston_watkins.html#ww-runtime-ratio)"
    assert any(
        "number of classes" in prose
        for *_, title, prose in sections(found)
        if title == "ww scaling"
    )


def test_a_page_leads_to_the_lines_of_what_it_uses():
    found = {lesson.name: sources(lesson) for lesson in LESSONS}
    ccg = ROOT / "workbench" / "mrc" / "ccg.py"
    assert "mrc_ccg" in found["mrc_2_cutting_planes"][ccg]
    assert "mrc_ccg" in found["mrc_5_which_feature"][ccg]  # named, and not imported
    of_sheet = sources(next(sheet for sheet in SHEETS if sheet.name == "walrus"))
    assert ROOT / "workbench/weston_watkins/bcd.py" in of_sheet
    lines = ccg.read_text().splitlines()
    assert lines[found["mrc_2_cutting_planes"][ccg]["mrc_ccg"] - 1] == "def mrc_ccg("
    files = pages_of(LESSONS, SHEETS, PLACES, {})
    for lesson, used in zip(LESSONS, found.values()):
        assert used, lesson.name
        for file, names in used.items():
            page = sound(files[source_place(file)])
            assert {f"L-{line}" for line in names.values()} <= set(page.ids)
            assert f"../{lesson.place}" in page.links
            assert f"{source_place(file)}#L-{min(names.values())}" in files[lesson.place]


def test_source_is_shown_as_it_is():
    page, _ = source_page(file := ROOT / "workbench" / "registry.py", {"a.html": "A"})
    assert (page.place, page.title) == ("source/workbench.registry.html", "workbench/registry.py")
    text = pages_of([], SHEETS, PLACES, {})["source/workbench.weston_watkins.bcd.html"]
    code = unescape(re.sub(r"<[^>]+>", "", text.partition("<pre")[2].partition("</pre>")[0]))
    assert [each[2:] for each in sections({"a.html": text})] == [
        ["workbench/weston_watkins/bcd.py", ""]
    ]
    file = ROOT / "workbench" / "weston_watkins" / "bcd.py"
    assert code.partition(">")[2].strip() == file.read_text().strip()


# Addresses of what the lessons cite: a network is not needed to see that one is mistyped.
KNOWN = re.compile(
    r"https://(doi\.org/10\.\d{4,5}/[\w.()/:;%-]+|arxiv\.org/abs/\d{4}\.\d{4,5}"
    r"|jmlr\.org/papers/v\d+/[\w-]+\.html|proceedings\.mlr\.press/v\d+/\w+\.html"
    r"|proceedings\.neurips\.cc/paper(_files)?/[\w/.-]+|web\.stanford\.edu/~boyd/cvxbook/"
    r"|www\.jstor\.org/stable/\d+|www\.microsoft\.com/en-us/research/publication/[a-z-]+/)"
)


def test_addresses_of_papers_are_well_formed():
    pages = [*LESSONS, *SHEETS, *map(read, sorted(LEARN.glob("problems/*.ipynb")))]
    found = [
        (page.name, link)
        for page in pages
        for cell in page.notebook.cells
        for link in re.findall(r"\]\((https?:[^)\s]*)", cell.source)
    ]
    assert len(found) > 40 and not [each for each in found if not KNOWN.fullmatch(each[1])]


# Markdown.


def rendered(markdown, path=LEARN / "page.md"):
    """Return the main part of the page of a cheat sheet with this text."""
    notebook = new_notebook(cells=[new_markdown_cell(markdown, id="sheet")])
    page = Page(path, notebook, "page.html", "A page", "", "")
    return html_page(page, {path: "page.html"}, []).partition('<main id="content">')[2]


def test_formulas_and_code_are_found_where_they_are():
    assert "<code>$a$ b</code>" in rendered("see `$a$ b` here")
    assert "<math" not in rendered("```\n$a$\n```") + rendered("5 \\$ and $\n\n$ more")
    made = rendered("| a | b |\n|---|---|\n| $|x|$ | $\\|y\\|$ |")
    assert made.count("<td>") == 2 and made.count("<math>") == 2
    assert rendered("a $x$ b\n\n$$y$$").count("<math") == 2
    made = rendered("<details><summary>Why $x$</summary>\n\nAs *it* is $y$.\n</details>\n\nOn.")
    assert "<summary>Why <math>" in made and "<em>it</em>" in made
    assert made.index("</details>") < made.index("On.")
    assert re.search('<h2 id="Of-x">Of <math><mi>x</mi></math>', rendered("## Of $x$"))
    made = rendered("```python\nif a < b: pass\n```\n\n```\nplain <b>\n```")
    assert '<span class="k">if</span>' in made and "<code>plain &lt;" in made


@pytest.mark.parametrize("formula", [r"\foo x", r"\begin{foo} x \end{foo}", "{a", "x_1_2", "a & b"])
def test_a_formula_that_is_not_understood_is_an_error_that_quotes_it(formula):
    with pytest.raises(ValueError, match=re.escape(f"page: cell sheet: formula {formula!r}: ")):
        rendered(f"Here: ${formula}$")


def test_links_lead_to_pages_and_else_say_the_path():
    lesson, sheet = LESSONS[0], SHEETS[0]
    text = f"[to $x$](../{lesson.path.name}#a), [map](../README.md), [c](#d), `[e](f)`"
    made = rewritten(new_markdown_cell(text), sheet, PLACES, formulas=False)
    assert made == (
        f"[to $x$](../{lesson.name}.html#a), map (`notebooks/learn/README.md`), [c](#d), `[e](f)`"
    )
    with pytest.raises(ValueError, match=r"nowhere\.ipynb: there is no such file"):
        rendered("[a](nowhere.ipynb)")


# The build, on lessons of its own.


def small_lesson(answer="4"):
    check = 'print("right: four" if two_times_two == 4 else "not yet: put your answer there")'
    code = lambda id, *lines, **more: new_code_cell("\n".join(lines), id=id, metadata=more)  # noqa: E731
    folded = "<details><summary>{}</summary>\n\n{}\n</details>"
    cells = [
        new_markdown_cell(
            "# 1 · Two by two\n\n**What is** it? **What is $2^2$, and $R^*$?**", id="title"
        ),
        code("plot", "import matplotlib.pyplot as plt", "plt.plot([1, 2]);"),
        new_markdown_cell("The line *rises*. See [the next](ww_9_next.ipynb).", id="read"),
        code("yours", "two_times_two = ...", check, tags=["exercise"]),
        code("theirs", f"two_times_two = {answer}  # secret", check, tags=["solution"]),
        code("after", "print(two_times_two < 5, '<b>')"),
        new_markdown_cell(
            folded.format("Why", "Because secret.") + "\n\n" + folded.format("Hint", "Count."),
            id="why",
        ),
    ]
    return new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a lesson, one that fails, and a cheat sheet."""
    learn = tmp_path / "learn"
    (learn / "cheat_sheets").mkdir(parents=True)
    (learn / "cheat_sheets" / "method.md").write_text("# A method (a paper, 2001)\n\n$x$ is said.")
    nbformat.write(small_lesson(), learn / "ww_1_two.ipynb")
    nbformat.write(small_lesson("1 / 0"), learn / "ww_9_next.ipynb")
    return learn


def built(folder, *names, **options):
    lines = []
    places = {name: folder.parent / name for name in ("out", "executed", "figures")}
    failed = course.build(names, folder=folder, say=lines.append, **places, **options)
    return failed, "\n".join(lines)


@pytest.fixture
def shown(folder):
    """Return the folder with a dashboard and a figure next to it."""
    notebook, explore = small_lesson(), folder.parent / "explore"
    notebook.cells = [
        new_markdown_cell("# Watch it\n\nWhat is **seen?**", id="title"),
        new_code_cell("C = 0.5", id="parameters"),
        new_markdown_cell(
            "## Controls\n\nA.\n\nWithout a running kernel\n\n![b](c.png)", id="live-text"
        ),
        new_code_cell(
            'from workbench.live import explore\nexplore(("iris",), ("ww_walrus",), {"C": C})',
            id="live",
        ),
        new_markdown_cell("## Try\n\n[Two by two](../learn/ww_1_two.ipynb).", id="try"),
    ]
    explore.mkdir()
    nbformat.write(notebook, explore / "ww.ipynb")
    drawn = folder.parent / "figures"
    shutil.copytree(ROOT / "figures" / "ww_scaling", drawn / "ww_scaling")
    shutil.copy(ROOT / "notebooks" / "figures" / "ww_scaling.ipynb", drawn)
    return folder


@pytest.mark.slow
def test_dashboards_and_figures_are_in_the_course_and_in_its_search(shown):
    failed, told = built(shown)
    assert failed == ["ww_9_next"] and "ww done in" in told
    out = shown.parent / "out"
    board, lesson, figures, index = (
        (out / f"{name}.html").read_text()
        for name in ("dashboard_ww", "ww_1_two", "figures_weston_watkins", "index")
    )
    assert sound(board).tags.count("script") == 2 and "c.png" not in board
    assert "ww_1_two.html" in sound(board).links and "figures_weston_watkins.html" in board
    assert 'rel="next" href="dashboard_ww.html"' in lesson and sound(figures).tags.count("img") == 1
    assert {"dashboard_ww.html", "figures_weston_watkins.html"} <= set(sound(index).links)
    assert "dashboard_ww.html#Try" in index and "figures_weston_watkins.html#ww-scaling" in index
    assert "source/workbench.weston_watkins.bcd.html" in index


@pytest.mark.slow
def test_a_lesson_goes_through_whole_and_a_failing_one_is_named(folder):
    failed, told = built(folder, graders=["nbgrader", "otter"])
    assert failed == ["ww_9_next"]
    assert "ww_1_two done in" in told and "ww_9_next | ZeroDivisionError" in told
    out = folder.parent / "out"
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    students = {"students/ww_1_two.ipynb", "students/ww_9_next.ipynb"}
    assigned = {f"nbgrader/source/{name}/{name}.ipynb" for name in ("ww_1_two", "ww_9_next")}
    assigned |= {f"otter/{name}/{name}.ipynb" for name in ("ww_1_two", "ww_9_next")}
    assigned |= {f"otter/{name}/tests/yours.py" for name in ("ww_1_two", "ww_9_next")}
    pages = {"index.html", "ww_1_two.html", "cheat_sheets/method.html"}
    assert files == pages | students | assigned

    text = (out / "ww_1_two.html").read_text()
    page = sound(text)
    assert 'src="data:image/png;base64,' in text
    assert 'alt="Plot, 1 · Two by two. The line rises."' in text
    printed = re.sub(r'<div class=" highlight.*?</pre>', "", text, flags=re.DOTALL)
    assert "right: four" in printed and "not yet" not in printed
    assert "True &lt;b&gt;" in text and "retina" not in text
    assert "ww_9_next.html" not in page.links and "ww_9_next.ipynb</code>)" in text

    index = sound((out / "index.html").read_text())
    assert {"ww_1_two.html", "cheat_sheets/method.html", *students} <= set(index.links)
    assert "ww_9_next.html" not in index.links
    found = sections({"a.html": text, "students/b.ipynb": "{}"})
    assert found[0][1:3] == 2 * ["1 · Two by two"] and found[0][0].startswith("a.html#")
    assert "The line rises. See" in found[0][3] and "secret" not in json.dumps(found)
    sound((out / "cheat_sheets" / "method.html").read_text())
    copy = (out / "students" / "ww_1_two.ipynb").read_text()
    assert "secret" not in copy and "Count." in copy and "ww_9_next.ipynb" in copy

    # A change of the prose alone runs nothing again; a failure is always run again.
    lesson = nbformat.read(folder / "ww_1_two.ipynb", as_version=4)
    lesson.cells[2].source += " A new sentence."
    nbformat.write(lesson, folder / "ww_1_two.ipynb")
    nbformat.write(small_lesson("5"), folder / "ww_9_next.ipynb")
    failed, told = built(folder)
    assert failed == ["ww_9_next"] and "ww_1_two" not in told
    assert "cell theirs: its solution is not accepted: not yet" in told
    assert "A new sentence." in (out / "ww_1_two.html").read_text()


@pytest.mark.parametrize("jobs", [1, 2])
def test_lessons_side_by_side_have_one_thread_each(folder, jobs, monkeypatch):
    managers = []

    class Preprocessor:
        def __init__(self, kernel_manager_class, **options):
            managers.append(kernel_manager_class)

        def preprocess(self, notebook, resources):
            raise RuntimeError

    monkeypatch.setattr(course, "ExecutePreprocessor", Preprocessor)
    built(folder, jobs=jobs)
    assert [issubclass(each, OneThreadKernelManager) for each in managers] == 2 * [jobs > 1]


def executed_lesson(folder):
    """Keep the first lesson as if it had been executed; return it and the folder."""
    kept = folder.parent / "executed"
    kept.mkdir()
    lesson, done = read(folder / "ww_1_two.ipynb"), small_lesson()
    done.cells[5].outputs = [
        new_output("stream", name="stdout", text="one, "),
        new_output("stream", name="stdout", text="text\n"),
        new_output("stream", name="stderr", text="a warning"),
    ]
    done.metadata["workbench_key"] = course.lesson_key(lesson)
    nbformat.write(done, kept / "ww_1_two.ipynb")
    return lesson, kept


def test_outputs_are_those_of_the_same_code_only(folder, monkeypatch):
    assert course.outputs(read(folder / "ww_1_two.ipynb"), folder.parent / "executed") is None
    lesson, kept = executed_lesson(folder)
    assert set(course.outputs(lesson, kept)) == {"plot", "yours", "theirs", "after"}
    lesson.notebook.cells[0].source += " More words."
    assert course.outputs(lesson, kept) is not None
    with monkeypatch.context() as patched:
        patched.setattr(course, "package_code", lambda: "other")
        assert course.outputs(lesson, kept) is None
    lesson.notebook.cells[1].source += "\nplt.title('new')"
    assert course.outputs(lesson, kept) is None


def test_ctrl_c_keeps_what_is_done(folder, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    executed_lesson(folder)
    monkeypatch.setattr(course, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        built(folder)
    text = (folder.parent / "out" / "ww_1_two.html").read_text()
    sound(text)
    assert ">one, text</pre>" in text and "a warning" not in text
    assert "ww_1_two.html" in (folder.parent / "out" / "index.html").read_text()


def test_a_recorded_run_plays_on_its_page_and_no_other_script_does(folder):
    lesson, kept = executed_lesson(folder)
    done = nbformat.read(kept / "ww_1_two.ipynb", as_version=4)
    recorded = Replay(record("ww_walrus", panel("iris"), rounds(3)))
    bundle = recorded._repr_mimebundle_()
    bundle[MIME]["runs"][0]["ended"] = "</script><script>alert(1)</script>"
    done.cells[5].outputs = [new_output("display_data", data=bundle)]
    nbformat.write(done, kept / "ww_1_two.ipynb")
    text = html_page(lesson, {}, [lesson], course.outputs(lesson, kept))
    page = sound(text)
    assert page.tags.count("script") == 2 and "<script>alert" not in text
    assert "<iframe" not in text and "Walrus, iris" in text.partition("<noscript>")[2]


def test_mistakes_are_told_before_anything_runs(folder, monkeypatch):
    monkeypatch.setattr(course, "execute", lambda *_, **__: pytest.fail("something was run"))
    assert read(folder / "ww_1_two.ipynb").question == "What is $2^2$, and $R^*$?"
    for source, told in (
        ("<details><summary>Why</summary>\n\nBecause.", "a <details> lacks its summary or its end"),
        ("It is $\\foo$.", "formula '\\\\foo': "),
        ("See [this](nowhere.md).", "link to nowhere.md: there is no such file"),
    ):
        lesson = small_lesson()
        lesson.cells[-1].source = source
        nbformat.write(lesson, folder / "ww_9_next.ipynb")
        with pytest.raises(ValueError, match=re.escape(f"ww_9_next: cell why: {told}")):
            built(folder)


def test_the_command_tells_by_its_exit_code_what_failed(monkeypatch, capsys):
    given = []

    def build(names, out, *, jobs, again, graders, say):
        given.append((names, out, jobs, again, graders))
        return ["ls_1_second_order"]

    monkeypatch.setattr(course, "build", build)
    assert main("lessons ls_1 --out there -j 2 --again --nbgrader --otter".split()) == 1
    assert "1 failed: ls_1_second_order" in capsys.readouterr().err
    assert given == [(["ls_1"], Path("there"), 2, True, ["nbgrader", "otter"])]
    assert main(["lessons", "--out"]) == 2
