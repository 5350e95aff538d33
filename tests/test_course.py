"""The course: formulas, copies without solutions, pages that need nothing but themselves."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from checks.exercise import credit
from workbench.cli import main
from workbench.core.stream import rounds
from workbench.data.panels import panel
from workbench.figures import lessons as course
from workbench.figures.lesson_files import PARTS, Page, graded_copy, read, rewritten, student_copy
from workbench.figures.lessons import html_page
from workbench.live.replay import MIME, Replay, hashed, record, script

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
    assert {x for x in read.links if not x.startswith(("https:", "#"))} <= known
    if page in SHEETS:
        assert re.findall(r"^## (.+)$", cells[0].source, flags=re.M) == HEADINGS
    else:
        contents = text.partition("<nav")[2].partition("</nav>")[0]
        assert solutions and contents.count("<li>") == read.tags.count("h2") > 2


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
    copy, made = student_copy(lesson, COPIES), graded_copy(lesson, COPIES)
    cells = nbformat.reads(made, as_version=4).cells
    graded = [cell for cell in cells if "nbgrader" in cell.metadata]
    assert [c for c in cells if c not in graded] == nbformat.reads(copy, as_version=4).cells
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
        new_markdown_cell("# 1 · Two by two\n\n**What is** it? **What is $2^2$?**", id="title"),
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
    places = {"out": folder.parent / "out", "executed": folder.parent / "executed"}
    failed = course.build(names, folder=folder, say=lines.append, **places, **options)
    return failed, "\n".join(lines)


@pytest.mark.slow
def test_a_lesson_goes_through_whole_and_a_failing_one_is_named(folder):
    failed, told = built(folder, nbgrader=True)
    assert failed == ["ww_9_next"]
    assert "ww_1_two done in" in told and "ww_9_next | ZeroDivisionError" in told
    out = folder.parent / "out"
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    students = {"students/ww_1_two.ipynb", "students/ww_9_next.ipynb"}
    assigned = {f"nbgrader/source/{name}/{name}.ipynb" for name in ("ww_1_two", "ww_9_next")}
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
    found = course.sections({"a.html": text, "students/b.ipynb": "{}"})
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
    assert read(folder / "ww_1_two.ipynb").question == "What is $2^2$?"
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

    def build(names, out, *, jobs, again, nbgrader, say):
        given.append((names, out, jobs, again, nbgrader))
        return ["ls_1_second_order"]

    monkeypatch.setattr(course, "build", build)
    assert main("lessons ls_1 --out there -j 2 --again --nbgrader".split()) == 1
    assert "1 failed: ls_1_second_order" in capsys.readouterr().err
    assert given == [(["ls_1"], Path("there"), 2, True, True)]
    assert main(["lessons", "--out"]) == 2
