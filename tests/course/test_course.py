"""The course: copies without solutions, pages that need no other file, failures by
name."""

import csv
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr
from datetime import date
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from helpers import each_path, module_fixture, refuses, slow, wait
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import course
import decks
import instructor
import marking
from markup import PARTS, described
from workbench import load, rounds
from workbench.live.replay import MIME, SCRIPT, Replay, hashed, record

LESSONS = course.lessons()
SHEETS = course.sheets()
PAGES = {f"{path.stem}.html" for path in LESSONS + SHEETS}
HEADINGS = "Problem Dual Update Cost Certificate".split()
HEADINGS += ["When to use it (and when not)", "Here"]
EMPTY = {*"br hr img input link meta".split()}
SYLLABUS = instructor.SYLLABUS


class Reader(HTMLParser):
    """Reads a page strictly: tags are closed in their order, ids are unique, nothing is
    loaded."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.ids = []
        self.links = []
        self.tags = []
        self.feed(text)
        assert not self.open and len({*self.ids}) == len(self.ids)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        assert tag not in ("iframe", "object", "embed")
        assert not any(name.startswith("on") for name in given)
        if tag in "p div pre table details ul ol h2 section".split():
            assert "p" not in self.open, f"<{tag}> in a <p>"
        assert (given.get("src") or "data:").startswith("data:")
        assert tag != "img" or given["alt"].strip()
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        empty = tag in EMPTY  # as <img />
        assert empty or (self.open and self.open.pop() == tag), f"</{tag}>"


def page_of(path, lessons=(), **options):
    return course.page(course.read(path), path, lessons, **options)


def local(links):
    """Return the files that links name."""
    return {x.partition("#")[0] for x in links if not x.startswith(("https:", "#"))}


def sound(text):
    """Return a page as read, after what must be true of every page."""
    page = Reader(text)
    assert page.tags.count("h1") == 1
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    known = PAGES | {"index.html", "syllabus.html", "glossary.html"}
    known |= {f"students/{path.name}" for path in LESSONS}
    known |= {f"{path.stem}.html" for path in decks.decks()}
    assert local(page.links) <= known
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert scripts in ([], [SCRIPT], [course.SEARCH])
    assert [*map(hashed, scripts)] == re.findall(r"script-src '([^']*)';", text)
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"@import|url\(|\$\$", text)
    return page


@each_path(LESSONS + SHEETS)
def test_every_lesson_and_cheat_sheet_becomes_a_sound_page(path):
    cells = course.read(path).cells
    text = page_of(path, LESSONS)
    read = sound(text)
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = PARTS.finditer(re.sub(r"\]\([^()\s]+\)", "]", prose))
    formulas = sum(bool(m["display"] or m["inline"]) for m in found)
    made = re.findall(r"<math.*?</math>", text)
    assert len(made) >= formulas >= 5
    assert not re.search(r"[\\$]", re.sub("<mo[^>]*>∖</mo>", "", "".join(made)))
    solutions = sum("solution" in cell.metadata.get("tags", ()) for cell in cells)
    assert text.count("<summary>Solution</summary>") == solutions
    if path in SHEETS:
        assert re.findall(r"^## (.+)$", prose, flags=re.M) == HEADINGS
    else:
        at = LESSONS.index(path)
        near = [p.stem + ".html" for p in LESSONS[max(at - 1, 0) : at + 2] if p != path]
        assert [link for link in read.links if link in near][-len(near) :] == near
        assert text.partition("</nav>")[0].count("<li>") == read.tags.count("h2") > 2
        assert course.heading(path)[1] and "](https://" in prose


@each_path(LESSONS)
def test_every_plot_has_the_words_that_read_it(path):
    notebook = course.read(path)
    drawn = [cell for cell in notebook.cells if "= plt.subplots(" in cell.source]
    for cell in drawn:
        cell.outputs = [new_output("display_data", {"image/png": ""})]
    described(notebook)
    words = [cell.outputs[0].metadata["image/png"]["alt"] for cell in drawn]
    assert not [each for each in words if not 30 < len(each) < 500]
    assert not re.search(r"[\\$]|(^|\n)(#|\*?Before|Predict)", "\n".join(words))


def test_the_contents_name_the_lessons_and_search_plain_words():
    found = []
    for path in (LESSONS[0], SHEETS[0], SYLLABUS):
        text = page_of(path)
        found += course.passages(f"{path.stem}.html", text)
        anchors = {f"{path.stem}.html#{each}" for each in ["", *sound(text).ids]}
        assert {link for link, _, _ in found if link.startswith(path.stem)} <= anchors
    words = "".join(word for _, _, word in found)
    assert len(found) > 15 and "derive" in words
    assert not re.search(r"[<$\\]|def |∑", words)
    text = course.page(new_notebook(), None, LESSONS, found)
    assert sound(text).tags.count("h2") == 10 and text.count("Time: ") == len(LESSONS)
    for path in LESSONS:
        title, *stated = course.heading(path)
        assert all(stated) and f'{path.stem}.html">{title.split(" · ")[0]}' in text


def test_the_glossary_is_in_order_and_every_lesson_links_to_it():
    path = course.LEARN / "glossary.md"
    sound(page_of(path))
    rows = re.findall(
        r"^\| (.+?) \| (.*?)\| (.+) \| .+ \| (.+) \|$", path.read_text(), re.M
    )
    terms = [term.lower() for term, *_ in rows[1:]]
    assert len(terms) > 40 and terms == sorted(set(terms))
    linked = {name for *_, links in rows for name in re.findall(r"\((\w+)\.", links)}
    lessons = {each.stem for each in LESSONS if each.parent == course.LEARN}
    assert linked == lessons
    for lesson in lessons:
        cells = course.read(course.LEARN / f"{lesson}.ipynb").cells
        assert "](glossary.md)" in cells[-1].source


def test_the_weeks_are_even_and_begin_with_lessons():
    text = SYLLABUS.read_text("utf-8")
    taught = instructor.weeks(text)
    assert [*taught] == [*range(1, 13)] and set().union(*taught.values()) <= set(
        LESSONS
    )
    hours = [float(hour) for hour in re.findall(r" \| ([\d.]+) \| ", text)]
    assert len(hours) == 12 and 4 <= min(hours) and max(hours) < 5.5
    assert f"another {sum(hours):.0f} hours: {18 + sum(hours):.0f} hours" in text
    assert sum(map(int, re.findall(r"(\d+) %", text.split("## The papers")[0]))) == 100
    start = date(2027, 10, 4)
    assert "\n| 12, 20 Dec | [five" in instructor.dated(text, start)
    days = instructor.due(text, start)
    assert str(days["ww_3_coordinate_descent"]) == "2027-10-25"
    assert (
        str(days["p4_cutting_planes"]) == "2027-12-06" and "cuts_3_chains" not in days
    )


@slow
def test_the_instructor_has_what_students_have_not(tmp_path):
    week = course.LEARN / "ww_1_the_loss.ipynb"
    instructor.write(tmp_path, {week: course.read(week)}, course.page)
    assert (
        "<summary>Solution</summary>"
        in (tmp_path / "solutions/ww_1_the_loss.html").read_text()
    )
    deck = (tmp_path / "slides/week_01.html").read_text()
    assert "What should it cost" in deck
    assert "<li><p>Only one-vs-rest</p>" in deck  # an answer of the quiz
    assert not re.search(r"Exercise 1|def ww_loss|src=\"https?:", deck)
    papers = [(tmp_path / f"exam_{i}.md").read_text() for i in (1, 2)]
    one, other = (re.split(r"^\d+\. ", text, flags=re.M)[1:] for text in papers)
    assert len(one) == len(other) == 10 and len({*one, *other}) == 20
    assert "Answer" not in "".join(papers)
    assert (tmp_path / "exam_1_answers.html").read_text().count("<math") > 40
    assert (tmp_path / "exam_1_answers.md").read_text().count("*Answer.*") == 10


@module_fixture
def recorded():
    """A recorded run, in the cell of the lesson that each deck plays."""
    data = {MIME: Replay(record("ww_walrus", load("iris"), rounds(3))).data}
    cell = new_code_cell("", id="recorded", outputs=[new_output("display_data", data)])
    played = {lesson for path in decks.decks() for lesson in decks.played(path)}
    return dict.fromkeys(played, new_notebook(cells=[cell]))


@each_path(decks.decks())
def test_a_deck_asks_shows_derives_plays_and_asks_again(path, recorded):
    text = decks.deck(path, recorded)
    assert {link for link in Reader(text).links if link[0] != "#"} <= PAGES
    assert hashed(decks.SCRIPT) in text and "://" not in text.split("<script")[0]
    first, picture, *derived, run, quiz = text.split("<section>")[1:]
    assert (first.count("<h1"), first.count("?")) == (1, 1)
    assert picture.count('src="data:image/png') == 1 and "Before you look" in picture
    assert 2 <= len(derived) <= 3 and all('"formula"' in each for each in derived)
    assert run.count('class="recording"') == 1 and "Before you press play" in run
    assert quiz.count("<details>") == 3 and quiz.count("<em>Right.</em>") == 1
    for lesson in decks.played(path):
        ids = {each.id: each.source for each in course.read(lesson).cells}
        assert "Replay(" in ids["recorded"]


@slow
def test_keys_turn_the_slides_and_a_run_plays(browser, recorded, tmp_path):
    page = tmp_path / "deck.html"
    page.write_text(decks.deck(decks.decks()[0], recorded))
    browser.get(page.as_uri())
    press = browser.find_element("tag name", "body").send_keys
    press("\ue00f" * 9)  # page down
    assert browser.current_url.endswith("#7")
    press("\ue012")  # left
    seen = "return document.querySelector('section.now button').textContent"
    wait(lambda: browser.execute_script(seen) == "play", 20)
    chart = "return document.querySelector('section.now canvas').width"
    wait(lambda: browser.execute_script(chart) > 300, 20)


def test_every_link_of_the_students_folder_stays_in_it():
    """Links of notebooks, of the pages beside them, and of the README."""
    beside = {
        path.name.replace(".md", ".html"): page_of(path, copies=True)
        for path in course.texts()
    }
    inside = {path.name for path in LESSONS} | {*beside, *course.students()}
    links = re.findall(r"\]\(([^)\s]+)\)", course.students()["README.md"])
    for path in LESSONS:
        for cell in course.student_copy(path).cells:
            if cell.cell_type == "markdown":
                links += [m["target"] for m in PARTS.finditer(cell.source)]
    links += [link for text in beside.values() for link in Reader(text).links]
    found = local(filter(None, links))
    assert "glossary.html" in found and not found - inside


@slow
def test_the_students_folder_runs_without_a_checkout(tmp_path):
    """The wheel alone is on the path, no lesson is near, and no solution is inside."""
    path = course.LEARN / "one_equation.ipynb"
    files = course.students()
    files |= {
        f"checks/{p.name}": p.read_text() for p in path.parent.glob("checks/*.py")
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    course.wheel(tmp_path)
    (built,) = tmp_path.glob("*.whl")
    assert built.name in (tmp_path / "README.md").read_text()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*pip, str(tmp_path / "site"), str(built)], check=True)
    copy = course.student_copy(path)
    code = [cell.source for cell in copy.cells if cell.cell_type == "code"]
    code.append("import workbench\nprint(workbench.__file__)")
    alone = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "MPLBACKEND": "agg"}
    (tmp_path / "lesson.py").write_text("\n\n".join(code))
    ran = [sys.executable, "-W", "ignore", "lesson.py"]
    done = subprocess.run(ran, cwd=tmp_path, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not yet: ") == 5 and "given: Exercise" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(str(tmp_path / "site"))
    solutions = [c.source for c in course.read(path).cells if "-solution" in c.id]
    plain = "\n".join(p.read_text() for p in tmp_path.glob("*/*.txt"))
    assert len(solutions) == 5 and not any(text in plain for text in solutions)


@slow
def test_plots_appear_although_a_server_sets_a_backend():
    drawn = "import matplotlib.pyplot as plt\nimport checks.exercise\nplt.plot([0])"
    notebook = new_notebook(cells=[new_code_cell(drawn)])
    learn = {"metadata": {"path": str(course.LEARN)}}
    client = course.NotebookClient(notebook, resources=learn)
    client.execute(env=os.environ | {"MPLBACKEND": "agg"})
    assert any("image/png" in out.get("data", ()) for out in notebook.cells[0].outputs)


@slow
def test_marking_counts_what_a_student_found_wherever_it_stands():
    """One hand-in: given, right, right elsewhere, checks replaced, read from disk."""
    rest = course.read(course.LEARN / "one_equation.ipynb")
    asked, answers = tagged(rest.cells, "exercise"), tagged(rest.cells, "solution")
    notebook = course.without_solutions(rest)
    own = {cell.id: cell for cell in notebook.cells}
    first, second, third, fourth, fifth = (own[cell.id] for cell in asked)
    name = first.id.removesuffix("-yours")
    first.source = (
        f"import checks.exercise\nchecks.exercise.given({name!r})\n"
        f"{asked[0].source.splitlines()[-1]}"
    )
    second.source = answers[1].source
    place = notebook.cells.index(third) + 1
    notebook.cells.insert(place, new_code_cell(answers[2].source))
    cheat = 'checks.exercise.graded = lambda check: (1.0, "right: so\\n")\n'
    cheat += "import builtins, gc\nbuiltins.print = lambda *a, **k: None\n"
    fourth.source = f"import checks.exercise\n{cheat}{fourth.source}"
    lesson = "one_equation.ipynb"
    fifth.source = f"text = open({lesson!r}).read()\n{fifth.source}"
    done = marking.marked(notebook, seed=7)
    assert (done.lesson, done.odd, done.error) == ("one_equation", "gc", "")
    assert [mark.credit for mark in done.marks] == [0, 1, 1, 0, 0]
    said = [mark.said for mark in done.marks]
    assert said[0] == "the answer was taken from the lesson, with `given`"
    assert said[1].startswith("right") and said[2].startswith("in another cell: right")
    assert said[3].startswith("not yet") and "NameError" in said[4]
    assert "no lesson is read while one is marked" in str(fifth.outputs)
    line = marking.feedback(done.marks)
    assert line.startswith("1: the answer was taken") and "2: " not in line
    counts = [row[2:6] for row in marking.items([done, done])]
    assert counts[1] == [2, 2, 2, "1.00"] and counts[3] == [2, 0, 0, "0.00"]
    wrong = [marking.Mark(0, f"try again: {hint}") for hint in "aba"]
    each = [marking.Marked("l", [m], [a]) for m, a in zip(wrong, ("x", "y", "x"))]
    assert marking.items(each)[0][6:] == ["try again: a", 2, "x", 2]


@slow
def test_a_notebook_that_cannot_be_marked_does_not_stop_others(
    tmp_path, monkeypatch, capsys
):
    loop = "while True:\n    pass"
    deaf = f"import signal\n\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{loop}"
    right = "class teach:\n    check_bound = print\n\n\nbound = 'right: so'"  # not ours
    # all others of the lesson were deleted
    exercise = new_code_cell(right, id="bound-yours")
    dead = new_code_cell("import os\n\nos._exit(1)")
    foreign = new_code_cell("1")
    handed_in = {"dead": [dead, exercise], "foreign": [foreign]}
    handed_in["loops"] = [new_code_cell(loop), exercise, new_code_cell(deaf)]
    for name, cells in handed_in.items():
        nbformat.write(new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    (tmp_path / "cut off.ipynb").write_text('{"cells": [')
    monkeypatch.setattr(marking, "CELL_S", 10)
    handed = map(str, sorted(tmp_path.iterdir()))
    items = tmp_path / "items.csv"
    due = tmp_path / "due.csv"
    due.write_text("lesson,due\nsum_over_rows,2020-01-01\n")
    os.utime(tmp_path / "loops.ipynb", times=(1_578_000_000,) * 2)  # 2 January 2020
    arguments = ["mark.py", *handed, "--seed", "3", "--items", str(items)]
    arguments += ["--due", str(due)]
    monkeypatch.setattr(sys, "argv", arguments)
    marking.main()
    head, *rows = csv.reader(capsys.readouterr().out.splitlines())
    assert head == marking.COLUMNS and items.read_text().count("sum_over_rows") == 5
    cut, died, strange, row = rows
    names = [name for name, *_ in rows]
    assert names == [f"{n}.ipynb" for n in ("cut off", "dead", "foreign", "loops")]
    assert "NotJSONError" in cut[-1] and "DeadKernelError" in died[-1]
    assert "has no exercise of any lesson" in strange[-1]
    assert row[1:3] == ["sum_over_rows", "0.00"]
    assert row[5:7] == ["1", "3"] and "the cell is missing" in row[7]
    assert row[8:] == ["check_bound = ...", ""]


def test_a_copy_for_colab_is_set_up_again_after_a_restart(monkeypatch):
    copy = course.student_copy(LESSONS[0], colab="https://example.org/w")
    cell = copy.cells[1].source
    ran = []
    folders = []
    monkeypatch.setattr("os.path.isdir", lambda folder: bool(ran))
    monkeypatch.setattr("os.chdir", folders.append)
    monkeypatch.setattr(sys, "path", [])
    notebook = {"get_ipython": lambda: SimpleNamespace(system=ran.append)}
    exec(cell, notebook)
    assert not ran and not folders  # not on Colab
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    for _ in range(2):
        exec(cell, notebook)
    clone, install = ran
    assert "https://example.org/w " in clone and install.startswith("pip install")
    assert folders == 2 * ["/content/workbench/notebooks/learn"]
    assert sys.path == 2 * ["/content/workbench"]


@slow
def test_pages_fit_their_window_and_search_from_files(browser, tmp_path):
    found = []
    for path in (*LESSONS, SYLLABUS):
        text = page_of(path, LESSONS)
        (tmp_path / f"{path.stem}.html").write_text(text, "utf-8")
        found += course.passages(f"{path.stem}.html", text)
    (tmp_path / "index.html").write_text(
        course.page(new_notebook(), None, LESSONS, found)
    )
    wide = """for (const each of document.querySelectorAll("details")) each.open = true;
        return [...document.querySelectorAll(arguments[0])].filter((each) =>
            each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent);"""
    screen = {"height": 800, "deviceScaleFactor": 1, "mobile": False}
    for path in (tmp_path / "index", *LESSONS, SYLLABUS):
        browser.get((tmp_path / f"{path.stem}.html").as_uri())
        paper = 673, "html, pre, .formula", "print"  # A4 less margins, in pixels
        for width, parts, media in (
            (420, "html", ""),
            (1280, "html, .formula", ""),
            paper,
        ):
            size = screen | {"width": width}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
            assert not browser.execute_script(wide, parts), (path.stem, width)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.find_element("name", "q").send_keys("Hoeffding\n")
    links = """return [...document.querySelectorAll("#found a")]
        .map((each) => each.textContent)"""
    wait(lambda: "P7 · Hoeffding for sampled cuts" in browser.execute_script(links), 20)


@slow
def test_every_cheat_sheet_prints_on_one_page(tmp_path, monkeypatch):
    pages = [tmp_path / f"{path.stem}.html" for path in SHEETS]
    for path, page in zip(SHEETS, pages):
        page.write_text(page_of(path))
    if (said := course.pdf(pages)).startswith("no PDF: none of chromium, "):
        pytest.skip(said)
    assert not said
    for page in pages:
        content = page.with_suffix(".pdf").read_bytes()
        assert len(re.findall(rb"/Type\s*/Page\b", content)) == 1, page.stem
    monkeypatch.setenv("PATH", "")
    assert course.pdf(pages).startswith("no PDF: none of chromium, ")


def tagged(cells, tag):
    return [cell for cell in cells if tag in cell.metadata.get("tags", ())]


def lines(texts):
    return {line for text in texts for line in text.splitlines()}


@each_path(LESSONS)
def test_student_copies_have_no_solutions(path):
    ours = course.read(path).cells
    theirs = course.student_copy(path).cells
    hidden = [cell.source for cell in tagged(ours, "solution")]
    text = "\n".join(cell.source for cell in theirs)
    for above, cell in pairwise(ours):
        for folded in course.DETAILS.finditer(cell.source):
            explains = above.source in hidden and folded.start() == 0
            if folded[1] == "Worked solution" or explains:
                hidden.append(folded[0])
            else:  # a hint, or the proof of what the lesson states
                assert folded[0].strip() in text or "](" in folded[0]
    assert "is folded" not in text
    sources = [cell.source for cell in ours if cell.source not in hidden]
    public = lines(course.DETAILS.sub("", source) for source in sources)
    secret = {line for line in lines(hidden) - public if len(line) > 12}
    assert hidden and not secret & lines(cell.source for cell in theirs)
    assert not any(cell.get("outputs") for cell in theirs)
    exercises = [cell.source for cell in tagged(ours, "exercise")]
    assert exercises == [cell.source for cell in tagged(theirs, "exercise")]


@each_path(LESSONS)
def test_graded_copies_have_a_locked_check_behind_each_exercise(path):
    plain = course.student_copy(path).cells
    graded = course.student_copy(path, nbgrader=True)
    nbformat.validate(graded)
    locked = tagged(graded.cells, "graded")
    assert [cell for cell in graded.cells if cell not in locked] == plain
    for cell, exercise in zip(locked, tagged(plain, "exercise"), strict=True):
        source = exercise.source
        assert graded.cells[graded.cells.index(cell) - 1].source == source
        assert f"credit(lambda: {source.splitlines()[-1]})" in cell.source
        grade = cell.metadata.nbgrader
        assert grade.schema_version == 3 and grade.locked
        compile(cell.source, cell.id, "exec")


def test_links_and_formulas_that_lead_nowhere_are_named():
    path = LESSONS[0]
    text = "[to $x$](ww_2_the_subproblem.ipynb#a), [map](README.md), `[e](f)`"
    made = course.rewritten(text, path)
    rest = "](ww_2_the_subproblem.html#a), map (`notebooks/learn/README.md`), `[e](f)`"
    assert made.startswith("[to <math>") and made.endswith(f"</math>{rest}")
    assert "(walrus.html)" in course.rewritten("[w](cheat_sheets/walrus.md)", path)
    with refuses(r"ww_1.*there is no file nowhere\.md"):
        course.rewritten("[a](nowhere.md)", path)
    for formula in (r"\foo x", "{a", "x_1_2"):
        with refuses(re.escape(f"formula {formula!r}: ")):
            course.rewritten(f"Here: ${formula}$", path)


CHECK = 'print("right: four" if twice == 4 else "not yet: put your answer there")'
REPLAY = """print('<b>')
from workbench import load
from workbench.core.stream import rounds
from workbench.live.replay import Replay, record
Replay(record("ww_walrus", load("iris"), rounds(3)))"""
ANSWERS = {"ww_1_a": "4", "ww_2_b": "5", "ww_3_c": "1 / 0", "ww_4_d": "4"}


@module_fixture
def build(tmp_path_factory):
    """Build a course of four lessons, of which one is not asked for and two fail."""
    folder = tmp_path_factory.mktemp("learn")
    for name, answer in ANSWERS.items():
        cells = [
            new_markdown_cell("# Two by two\n\n**What is $2^2$?**\n\n## One\n\n## Two"),
            new_code_cell(f"twice = ...\n{CHECK}", metadata={"tags": ["exercise"]}),
            new_code_cell(
                f"twice = {answer}  # hidden\n{CHECK}", metadata={"tags": ["solution"]}
            ),
            new_code_cell(
                "import matplotlib.pyplot as plt\nplt.plot([0, 1])\nplt.show()"
            ),
            new_markdown_cell("*Reading the plot.* It rises by $\\frac12$."),
            new_code_cell(REPLAY if name == "ww_1_a" else "'<script>'"),
        ]
        nbformat.write(new_notebook(cells=cells), folder / f"{name}.ipynb")
    template = Path(course.__file__).parent / "course.html.j2"
    (folder / template.name).write_text(template.read_text("utf-8"), "utf-8")
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()) as said:
        patch.setattr(course, "LEARN", folder)
        patch.setenv("MPLBACKEND", "agg")  # as on servers
        options = ["--out", str(folder / "out"), "-j", "2", "--nbgrader"]
        assert course.main(["ww_1", "ww_2", "ww_3", *options]) == 1
    return folder / "out", said.getvalue()


@slow
def test_a_build_names_what_fails_and_writes_what_succeeds(build):
    out, said = build
    assert "ww_2_b failed: cell" in said and "is not accepted: not yet" in said
    assert "ww_3_c failed: " in said and "ZeroDivisionError" in said
    files = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    names = list(ANSWERS)
    expected = {f"nbgrader/source/{name}/{name}.ipynb" for name in names[:3]}
    expected |= {f"students/{name}.ipynb" for name in names}
    (built,) = out.glob("students/*.whl")
    beside = {"README.md", "constraints.txt", "authors_code.py", "checks/answers.txt"}
    expected |= {f"students/{name}" for name in beside | {built.name}}
    assert files == expected | {"index.html", "ww_1_a.html"}
    text = (out / "ww_1_a.html").read_text()
    assert text.count(f"<script>{SCRIPT}</script>") == 1
    assert text.count('class="recording"') == 1
    assert text.count('alt="It rises by 1/2."') == 1
    assert "right: four" in text and "&lt;b&gt;" in text
    assert "hidden" not in (out / "students/ww_1_a.ipynb").read_text()


def test_a_lesson_that_does_not_exist_is_refused(capsys):
    with refuses("2", SystemExit):
        course.main(["nothing"])
    assert "lesson: unknown name 'nothing'; " in capsys.readouterr().err
