"""The docstrings are there and true of the signatures, their examples run, and the pages hold."""

import doctest
import importlib
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from workbench import docs
from workbench.docs.docstrings import ROLE, docstring_html, items, sections
from workbench.docs.modules import read_modules
from workbench.docs.pages import Names
from workbench.registry import SOLVERS

MODULES = read_modules()


def documented():
    for module in MODULES:
        yield module, "", module.doc, ()
        for entry in module.entries:
            yield module, entry.name, entry.doc, entry.arguments


def parameters(docstring):
    """Return the names that a docstring lists as parameters, without the stars of some."""
    listed = dict(sections(docstring)).get("Parameters", "")
    names = [name for name, _ in items(listed)] if listed else []
    return [name.lstrip("*") for entry in names for name in entry.split(", ")]


def test_every_public_name_has_a_docstring():
    bare = [
        f"{module.name}.{name}"
        for module, name, doc, _ in documented()
        if not doc and "." not in name and not name.isupper()
    ]
    assert not bare
    solvers = {solver.steps.__name__ for solver in SOLVERS.values()}
    assert solvers <= {name for _, name, doc, _ in documented() if doc}


def test_docstrings_list_parameters_that_exist():
    listed = {
        f"{module.name}.{name}": set(parameters(doc)) - set(arguments)
        for module, name, doc, arguments in documented()
    }
    assert not {name: wrong for name, wrong in listed.items() if wrong}
    assert parameters("Do.\n\nParameters\n----------\n*rules, X : a\n    b : c\ny : d\n") == [
        "rules",
        "X",
        "y",
    ]


def test_docstrings_refer_to_names_that_exist():
    names = Names(MODULES)
    lost = [
        f"{module.name}.{name}: {target}"
        for module, name, doc, _ in documented()
        for _, target in ROLE.findall(doc)
        if not names.link(target, module, name.partition(".")[0])
        and target.partition(".")[0] not in ("sklearn", "scipy", "numpy")
    ]
    assert not lost


def test_examples_run():
    tried = 0
    for module in MODULES:
        if re.search(r"^ *>>> (?!.*\+SKIP)", module.path.read_text("utf-8"), re.MULTILINE):
            result = doctest.testmod(importlib.import_module(module.name))
            assert not result.failed, module.name
            tried += result.attempted
    assert tried


def test_docstrings_become_html_and_nothing_of_them_runs():
    doc = (
        "Take <script> & `x`, see :func:`~a.b`.\n\n    indented\n\n>>> 1  # doctest: +SKIP\n1\n\n"
        "Raises\n------\nValueError\n    For a <b>.\n"
    )
    html = docstring_html(doc, {"a.b": "a.html#b"}.get)
    assert "Take &lt;script&gt; &amp; <code>x</code>" in html
    assert '<a href="a.html#b"><code>b</code></a>' in html
    assert "<dt><code>ValueError</code></dt><dd><p>For a &lt;b&gt;.</p>" in html
    assert html.count("<pre") == 2 and "doctest" not in html


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.open = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.loads += [given[x] for x in ("src", "href") if x in given and tag != "a"]
        if tag not in ("meta", "link", "img", "input", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("docs")
    (out / "api").mkdir()
    (out / "api" / "workbench.gone.html").write_text("of a module that is no more")
    return docs.build(out).parent


def test_pages_load_nothing_and_their_links_lead_somewhere(folder):
    pages = {path: Reader(path.read_text("utf-8")) for path in folder.rglob("*.html")}
    assert len(pages) == len(MODULES) + 3
    for path, page in pages.items():
        assert len(set(page.ids)) == len(page.ids), path.name
        assert all(source.startswith("data:") for source in page.loads), path.name
        for link in page.links:
            if not re.match(r"https?:", link):
                target, _, anchor = unquote(link).partition("#")
                found = (path.parent / target).resolve() if target else path
                assert found in pages, f"{path.name}: {link}"
                assert not anchor or anchor in pages[found].ids, f"{path.name}: {link}"


def test_the_table_of_solvers_holds_every_solver(folder):
    rows = (folder / "api" / "solvers.html").read_text("utf-8").split("<tr>")[2:]
    assert len(rows) == len(SOLVERS)
    for row, (name, solver) in zip(rows, SOLVERS.items()):
        assert f"<code>{name}</code>" in row and solver.colour in row
        assert all(f'<code class="live">{parameter}=' in row for parameter in solver.live)
    certified = {name for row, name in zip(rows, SOLVERS) if "<td>yes</td>" in row}
    assert {"mrc_ccg", "ww_walrus", "svm_ccg"} <= certified
    assert not {"memoir_l2", "ridge"} & certified
