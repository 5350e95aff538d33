"""The course: formulas, copies without solutions, pages that need nothing but themselves."""

import re
import shutil
import subprocess
import xml.dom.minidom
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from workbench import course
from workbench.cli import main
from workbench.course import executed, html
from workbench.course.lessons import HEADINGS, chosen, read_lessons, read_sheet, read_sheets, tags
from workbench.course.links import in_students, slug
from workbench.course.markup import PARTS, Page
from workbench.course.mathml import mathml
from workbench.course.students import student_copy

LEARN = Path(__file__).parents[1] / "notebooks" / "learn"
LESSONS = {path.stem: path for path in sorted(LEARN.glob("*.ipynb"))}
SHEETS = {path.stem: path for path in sorted((LEARN / "cheat_sheets").glob("*.md"))}
EMPTY = {"area", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


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
        assert tag not in ("script", "iframe", "object", "embed"), tag
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
        assert tag == "mspace", f"<{tag}/> is no HTML"

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def sound(text):
    """Return a page as read, after what must be true of every page."""
    page = Reader(text)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert page.tags.count("h1") == page.tags.count("main") == 1
    assert not re.search(r"@import|url\(|\ue000|\$\$", text)
    assert "http:" not in text and "https:" not in re.sub(r'<a href="https:[^"]*"', "", text)
    return page


# Formulas.

EXAMPLES = {
    "x_1^2": "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>",
    r"\frac12": "<mfrac><mn>1</mn><mn>2</mn></mfrac>",
    "1.25": "<mn>1.25</mn>",
    r"\mathbb R": "<mi>ℝ</mi>",
    r"\mathcal{U}": "<mi>𝒰</mi>",
    r"\text{ for all }": "<mtext>\N{NO-BREAK SPACE}for all\N{NO-BREAK SPACE}</mtext>",
    r"\sqrt[3]{x}": "<mroot><mi>x</mi><mn>3</mn></mroot>",
    r"\Phi": '<mi mathvariant="normal">Φ</mi>',
    "a'": '<msup><mi>a</mi><mo lspace="0" rspace="0">′</mo></msup>',
    r"\begin{cases} a & b \\ c & d \end{cases}": "<mtr><mtd><mi>c</mi></mtd><mtd><mi>d</mi></mtd>",
}


@pytest.mark.parametrize("source", EXAMPLES)
def test_a_formula_becomes_mathml(source):
    made = mathml(source)
    xml.dom.minidom.parseString(made)
    assert EXAMPLES[source] in made


def test_limits_stand_under_their_sum_only_in_display():
    assert "<munder>" in mathml(r"\sum_i x_i", display=True)
    assert "<munder>" not in mathml(r"\sum_i x_i") + mathml(r"\frac{\sum_i x_i}2", display=True)
    assert "<munder>" in mathml(r"\arg\max_y v_y", display=True)
    assert "<msub>" in mathml(r"\log_2 x", display=True)


def test_a_sign_without_a_left_hand_side_has_no_space_around_it():
    assert 'form="prefix"' in mathml("-x") and 'form="prefix"' in mathml("a = -x")
    assert 'form="prefix"' not in mathml("a - x") + mathml("(a) - x") + mathml("a_1 - x")


MISTAKES = {
    r"\foo x": r"unknown command \foo",
    r"\begin{foo} x \end{foo}": "unknown environment foo",
    r"\begin{cases} x \end{pmatrix}": "ends as pmatrix",
    "{a": "unexpected end",
    "a}": "unexpected }",
    "a & b": "unexpected &",
    "x_1_2": "a second _",
    "^2": "nothing to hang on",
    r"\frac1": "more is missing",
    r"\left( a": "unexpected end",
    r"\left a \right)": "no delimiter",
    r"\mathbb{\alpha}": "takes letters",
    r"\text{a \alpha}": "takes words",
}


@pytest.mark.parametrize("source", MISTAKES)
def test_what_is_not_understood_is_an_error_that_quotes_the_formula(source):
    with pytest.raises(ValueError, match=re.escape(MISTAKES[source])) as error:
        mathml(source)
    assert str(error.value).startswith(f"formula {source!r}")


@pytest.mark.parametrize("name", [*LESSONS, *SHEETS])
def test_every_formula_converts(name):
    if name in SHEETS:
        texts = [SHEETS[name].read_text()]
    else:
        cells = nbformat.read(LESSONS[name], as_version=4).cells
        texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    found = [part for text in texts for part in PARTS.finditer(text) if not part["code"]]
    assert len(found) >= 5
    for part in found:
        source = part["display"] or part["inline"]
        made = mathml(source, part["display"] is not None)
        xml.dom.minidom.parseString(made)
        assert not re.search(r"[\\$]", re.sub(r"<mo[^>]*>∖</mo>", "", made)), source


# Markdown.


def rendered(markdown, resolve=lambda target: target, path=LEARN / "page.md"):
    return Page(path, resolve).html(markdown)


def test_dollars_in_code_are_no_formulas_and_bars_in_formulas_no_columns():
    assert "<code>$a$ b</code>" in rendered("see `$a$ b` here")
    assert "<math" not in rendered("```\n$a$\n```")
    made = rendered("| a | b |\n|---|---|\n| $|x|$ | $\\|y\\|$ |")
    assert made.count("<td>") == 2 and made.count("<math>") == 2
    assert rendered("a $x$ b\n\n$$y$$").count("<math") == 2
    assert "<math" not in rendered("5 \\$ and $\n\n$ more")


def test_folded_text_is_rendered_inside():
    made = rendered("<details><summary>Why $x$</summary>\n\nAs *it* is $y$.\n</details>\n\nOn.")
    Reader(made)
    assert "<summary>Why <math>" in made and "<em>it</em>" in made
    assert made.index("</details>") < made.index("On.")


def test_headings_have_anchors_of_their_own():
    page = Page(LEARN / "page.md", lambda target: target)
    made = page.html("## The game\n\n## The game\n\n## Of $x$")
    assert [anchor for _, anchor, _ in page.headings] == ["the-game", "the-game-2", "of"]
    assert 'id="the-game-2"' in made and "<math>" in page.headings[2][2]


def test_code_is_coloured_and_escaped():
    made = rendered("```python\nif a < b: pass\n```")
    assert '<span class="k">if</span>' in made and "&lt;" in made
    assert "<code>plain &lt;" in rendered("```\nplain <b>\n```")


def test_links_to_files_that_are_not_there_are_errors():
    assert slug("The-Game") == slug("The game") == "the-game"
    with pytest.raises(ValueError, match=r"nowhere\.ipynb: there is no such file"):
        in_students("[a](nowhere.ipynb)", LEARN / "page.md", LEARN)


# The lessons.


@pytest.mark.parametrize("name", LESSONS)
def test_student_copies_hold_no_solution(name):
    lesson = next(x for x in read_lessons(LEARN) if x.name == name)
    copy = student_copy(lesson)
    nbformat.validate(copy)
    text = "\n".join(cell.source for cell in copy.cells)
    ours, theirs = lesson.notebook.cells, copy.cells
    solutions = [cell for cell in ours if "solution" in tags(cell)]
    exercises = [cell.source for cell in ours if "exercise" in tags(cell)]
    assert solutions and exercises
    assert all(cell.source not in text for cell in solutions)
    # A line that a solution alone has is not in the copy either.
    others = {line for cell in ours if cell not in solutions for line in cell.source.splitlines()}
    for cell in solutions:
        own = [line for line in cell.source.splitlines() if line not in others and len(line) > 12]
        assert not set(own) & set(text.splitlines())
    assert [cell.source for cell in theirs if "exercise" in tags(cell)] == exercises
    summaries = re.findall(r"<details[^>]*>\s*<summary>(.*?)</summary>", text)
    assert all(summary.startswith("Hint") for summary in summaries)
    assert text.count("<details") == text.count("</details>") == len(summaries)
    assert all(not cell.get("outputs") for cell in theirs)
    prose = "\n".join(cell.source for cell in theirs if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)#\s]+)", re.sub("`[^`]*`", "", prose)):
        assert (
            re.match(r"https?:|\.\./cheat_sheets/\w+\.html$", target) or (LEARN / target).exists()
        )


@pytest.mark.parametrize("name", LESSONS)
def test_the_page_of_every_lesson_is_sound(name):
    lessons = read_lessons(LEARN)
    lesson = next(x for x in lessons if x.name == name)
    pages = {x.path.resolve() for x in lessons} | {path.resolve() for path in SHEETS.values()}
    text = html.lesson_page(lesson, {}, lessons, pages)
    page = sound(text)
    solutions = sum("solution" in tags(cell) for cell in lesson.notebook.cells)
    assert text.count("<summary>Solution</summary>") == solutions > 0
    names = {path.split("#")[0] for path in page.links} - {"", "index.html"}
    made = {f"{x.name}.html" for x in lessons} | {f"cheat_sheets/{x}.html" for x in SHEETS}
    assert {path for path in names if not path.startswith("https:")} <= made


def test_the_instructors_map_knows_every_lesson_and_answers_every_question():
    text = (LEARN / "README.md").read_text()
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert all((LEARN / target).exists() for target in targets)
    assert {path.name for path in LESSONS.values()} <= set(targets)
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[5:]:
        asked = section.partition("*Exam questions*")[2].partition("*A pitfall")[0]
        questions = len(re.findall(r"^\d+\. ", asked, flags=re.MULTILINE))
        answers = len(re.findall(r"<summary>Answer</summary>\n\n +\S", asked))
        assert questions == answers >= 4, section.splitlines()[0]


# Cheat sheets.


def sheet_text(headings=HEADINGS):
    return "# A method (a paper, 2001)\nOne sentence.\n" + "".join(
        f"\n## {heading}\n$x$ is said.\n" for heading in headings
    )


def test_a_cheat_sheet_without_a_heading_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "method.md"
    path.write_text(sheet_text())
    assert read_sheet(path).title == "A method (a paper, 2001)"
    for missing in HEADINGS:
        path.write_text(sheet_text([heading for heading in HEADINGS if heading != missing]))
        with pytest.raises(ValueError, match=re.escape(f"method.md: the heading '## {missing}'")):
            read_sheets(tmp_path)
    for text, told in (
        (sheet_text([*HEADINGS, "More"]), "one heading too many, 'More'"),
        (sheet_text(reversed(HEADINGS)), "the heading '## Problem' is missing"),
        (sheet_text().removeprefix("# "), "does not begin with '# <method>"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=told):
            read_sheet(path)


@pytest.mark.parametrize("name", SHEETS)
def test_every_cheat_sheet_is_a_sound_page(name):
    sheet = read_sheet(SHEETS[name])
    pages = {path.resolve() for path in [*LESSONS.values(), *SHEETS.values()]}
    page = sound(html.sheet_page(sheet, LEARN, pages))
    assert page.tags.count("h2") == len(HEADINGS)
    inside = [link for link in page.links if not link.startswith(("https:", "#"))]
    for link in inside:
        path, known = link.split("#")[0], ("../index.html", f"{name}.html")
        stem = Path(path).stem
        assert path in known or stem in SHEETS or (path.startswith("../") and stem in LESSONS)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("name", SHEETS)
def test_every_cheat_sheet_prints_on_one_page(name, tmp_path):
    page, pdf = tmp_path / "sheet.html", tmp_path / "sheet.pdf"
    page.write_text(html.sheet_page(read_sheet(SHEETS[name]), LEARN, set()))
    options = "--headless --no-sandbox --disable-gpu --no-first-run --no-pdf-header-footer"
    options += " --disable-background-networking --disable-component-update --disable-sync"
    command = [CHROMIUM, *options.split(), f"--user-data-dir={tmp_path / 'profile'}"]
    subprocess.run(
        [*command, f"--print-to-pdf={pdf}", page.as_uri()],
        check=True,
        timeout=120,
        capture_output=True,
    )
    assert len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())) == 1


def test_what_is_printed_in_pieces_is_one_text():
    pieces = [new_output("stream", name="stdout", text=text) for text in ("right:", " so\n")]
    noise = new_output("stream", name="stderr", text="a warning")
    value = new_output("execute_result", {"text/plain": "<A at 0x7f0a>"})
    made = html._outputs([pieces[0], noise, pieces[1], value], "Plot.")
    assert re.sub("<.*?>", "", made).strip() == "right: so"


# The build, on lessons of its own.


def small_lesson(answer="4"):
    check = 'print("right: four" if two_times_two == 4 else "not yet: put your answer there")'
    return new_notebook(
        cells=[
            new_markdown_cell("# 1 · Two by two\n\n**What is** it? **What is $2^2$?**", id="title"),
            new_code_cell("import matplotlib.pyplot as plt\nplt.plot([1, 2]);", id="plot"),
            new_markdown_cell("The line *rises*. See [the next](ww_9_next.ipynb).", id="read"),
            new_code_cell(
                f"two_times_two = ...\n{check}", id="yours", metadata={"tags": ["exercise"]}
            ),
            new_code_cell(
                f"two_times_two = {answer}  # secret\n{check}",
                id="theirs",
                metadata={"tags": ["solution"]},
            ),
            new_code_cell("print(two_times_two < 5, '<b>')\nobject()", id="after"),
            new_markdown_cell(
                "<details><summary>Why</summary>\n\nBecause secret.\n</details>\n\n"
                "<details><summary>Hint</summary>\n\nCount.\n</details>",
                id="why",
            ),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a lesson, one that fails, and a cheat sheet."""
    learn = tmp_path / "learn"
    (learn / "cheat_sheets").mkdir(parents=True)
    (learn / "cheat_sheets" / "method.md").write_text(sheet_text())
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
    failed, told = built(folder)
    assert failed == ["ww_9_next"]
    assert "ww_1_two done in" in told and "ww_9_next | ZeroDivisionError" in told
    out = folder.parent / "out"
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    students = {"students/ww_1_two.ipynb", "students/ww_9_next.ipynb"}
    assert files == {"index.html", "ww_1_two.html", "cheat_sheets/method.html"} | students

    text = (out / "ww_1_two.html").read_text()
    page = sound(text)
    assert 'src="data:image/png;base64,' in text
    assert 'alt="Plot, 1 · Two by two. The line rises."' in text
    assert "right: four" in text and "not yet" not in re.sub(
        r"<code>.*?</code>", "", text, flags=re.S
    )
    assert "True &lt;b&gt;" in text and "retina" not in text and " at 0x" not in text
    assert "ww_9_next.html" not in page.links and "ww_9_next.ipynb)" in text

    index = sound((out / "index.html").read_text())
    assert {"ww_1_two.html", "cheat_sheets/method.html", *students} <= set(index.links)
    assert "ww_9_next.html" not in index.links
    sound((out / "cheat_sheets" / "method.html").read_text())
    copy = (out / "students" / "ww_1_two.ipynb").read_text()
    assert "secret" not in copy and "Count." in copy and "ww_9_next.ipynb" in copy

    # What has not changed is not run again, whatever becomes of its prose; a failure always is.
    lesson = nbformat.read(folder / "ww_1_two.ipynb", as_version=4)
    lesson.cells[2].source += " A new sentence."
    nbformat.write(lesson, folder / "ww_1_two.ipynb")
    nbformat.write(small_lesson("5"), folder / "ww_9_next.ipynb")
    failed, told = built(folder)
    assert failed == ["ww_9_next"] and "ww_1_two: starts" not in told
    assert "cell theirs: its solution is not accepted: not yet" in told
    assert "A new sentence." in (out / "ww_1_two.html").read_text()


def test_outputs_are_those_of_the_same_code_only(folder, monkeypatch):
    kept = folder.parent / "executed"
    kept.mkdir()
    lesson = read_lessons(folder)[0]
    assert executed.outputs(lesson, kept) is None
    done = small_lesson()
    done.metadata["workbench_key"] = executed.lesson_key(lesson)
    nbformat.write(done, kept / "ww_1_two.ipynb")
    assert set(executed.outputs(lesson, kept)) == {"plot", "yours", "theirs", "after"}
    lesson.notebook.cells[0].source += " More words."
    assert executed.outputs(lesson, kept) is not None
    with monkeypatch.context() as patched:
        patched.setattr(executed, "package_code", lambda: "other")
        assert executed.outputs(lesson, kept) is None
    lesson.notebook.cells[1].source += "\nplt.title('new')"
    assert executed.outputs(lesson, kept) is None


def test_ctrl_c_keeps_what_is_done(folder, monkeypatch):
    def interrupted(lessons, kept, **options):
        kept.mkdir()
        done = small_lesson()
        done.metadata["workbench_key"] = executed.lesson_key(read_lessons(folder)[0])
        nbformat.write(done, kept / "ww_1_two.ipynb")
        raise KeyboardInterrupt

    monkeypatch.setattr(course, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        built(folder)
    sound((folder.parent / "out" / "ww_1_two.html").read_text())
    assert "ww_1_two.html" in (folder.parent / "out" / "index.html").read_text()


def test_a_bad_formula_fails_its_lesson_before_anything_is_run(folder, monkeypatch):
    ran = []
    monkeypatch.setattr(course, "execute", lambda lessons, *_, **__: ran.extend(lessons) or {})
    lesson = small_lesson()
    lesson.cells[0].source += " $\\foo$"
    nbformat.write(lesson, folder / "ww_9_next.ipynb")
    failed, told = built(folder)
    assert failed == ["ww_9_next"] and [lesson.name for lesson in ran] == ["ww_1_two"]
    assert r"ww_9_next | cell title: formula '\\foo': unknown command \foo" in told


def test_mistakes_are_told_before_anything_runs(folder):
    lessons = read_lessons(folder)
    assert [lesson.name for lesson in chosen(lessons, ["ww_1"])] == ["ww_1_two"]
    assert [lesson.question for lesson in lessons] == ["What is $2^2$?"] * 2
    with pytest.raises(ValueError, match=r"unknown name 'ls_1'; known are ww_1_two, ww_9_next"):
        built(folder, "ls_1")
    with pytest.raises(ValueError, match="jobs: must be at least 1"):
        built(folder, jobs=0)
    open_ended = small_lesson()
    open_ended.cells[-1].source = "<details><summary>Why</summary>\n\nBecause."
    nbformat.write(open_ended, folder / "ww_9_next.ipynb")
    with pytest.raises(ValueError, match="ww_9_next: cell why: a <details> lacks"):
        built(folder)


def test_the_command_tells_by_its_exit_code_what_failed(monkeypatch, capsys):
    given = []

    def build(names, out, *, jobs, again, say):
        given.append((names, out, jobs, again))
        return ["ls_1_second_order"]

    monkeypatch.setattr(course, "build", build)
    assert main("lessons ls_1 --out there -j 2 --again".split()) == 1
    assert "1 failed: ls_1_second_order" in capsys.readouterr().err
    assert given == [(["ls_1"], Path("there"), 2, True)]
    assert main(["lessons", "--out"]) == 2
