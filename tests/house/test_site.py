"""The site of `make docs`: every figure has its card, links lead somewhere, the search
has all."""

import html
import json
import re
import runpy
import subprocess

import numpy as np
import pytest
from helpers import module_fixture, wait
from nbformat.v4 import new_notebook

import course
from workbench import load, rounds, run
from workbench.runs.notebooks import CHECKOUT, find


def script(name):
    """Return the names of a script of the site."""
    return runpy.run_path(f"{CHECKOUT}/.site/{name}.py")


@module_fixture
def site(tmp_path_factory):
    """Return a site of four figure notebooks, with stubs of the course, the API and
    others."""
    out = tmp_path_factory.mktemp("docs")
    stub = (
        "<html><head><title>Stub</title></head>"
        '<body><section id="until">A row.</section></body>'
    )
    for place in ("report.html", "report-mrc.html", "api/workbench.html", "trust.html"):
        (out / place).parent.mkdir(exist_ok=True)
        (out / place).write_text(stub, "utf-8")
    (out / "course").mkdir()
    (out / "course/index.html").write_text(
        course.page(new_notebook(), None, []), "utf-8"
    )
    build = script("build")["build"]
    names = "ww_convergence ls_recipe mrc_convergence certified_tuning".split()
    for _ in range(2):  # made again, the site is the same
        build(out, find(names), "")
    return out


def test_pages_have_bars_cards_targets_and_a_search(
    site,
):
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    for path, page in pages.items():
        assert page.count('class="site"') == page.count(">Trust</a><form") == 1
        for file, anchor in re.findall(r'(?:href|src)="([^"#:]*)#?([^":]*)"', page):
            target = (path.parent / file).resolve() if file else path
            if site not in target.parents:  # of the checkout, whose folder is docs/
                assert (CHECKOUT / target.relative_to(site.parent)).exists(), file
            elif site / "course" not in target.parents:
                assert (
                    f'id="{anchor}"' in pages[target] if anchor else target.exists()
                ), file
    assert 'report.html" aria-current' in pages[site / "report-mrc.html"]
    cards = pages[site / "figures.html"]
    for each in CHECKOUT.glob("figures/mrc_convergence/*.json"):
        assert cards.count(f'"figures/mrc_convergence.html#{each.stem}"') == 2
        assert json.loads(each.read_text("utf-8"))["command"] in html.unescape(cards)
    rows = json.loads(re.search("const PAGES = (.*);", pages[site / "search.html"])[1])
    assert ["Stub › until", "api/workbench.html#until", "API", "A row."] in rows
    assert {row[2] for row in rows} > {"figure", "course", "API", "guide"}


def test_the_search_of_every_page_finds_sections_in_a_browser(site, browser):
    for page in ("figures/ls_recipe.html", "course/index.html", "index.html"):
        browser.get((site / page).as_uri())
        field = browser.find_element("css selector", ".site input")
        field.send_keys("certified gap")
        field.submit()
        wait(lambda: "search.html?q=certified" in browser.current_url, 20)
        found = (
            "return document.querySelectorAll('.found "
            'a[href*="mrc_convergence"]\').length'
        )
        wait(lambda script=found: browser.execute_script(script), 20)
    assert not [
        line for line in browser.get_log("browser") if line["level"] == "SEVERE"
    ]


def test_the_page_of_the_checker_is_whole_and_verifies(tmp_path, browser):
    makefile = (CHECKOUT / "Makefile").read_text("utf-8").replace("\\\n\t", "")
    (command,) = re.findall(
        r"^\t(.* awk .*)\.\./\.\./docs/checker.html$", makefile, re.M
    )
    command = command.replace("$$", "$")
    page = tmp_path / "checker.html"
    proof = tmp_path / "proof.npz"
    rows = tmp_path / "rows.npz"
    subprocess.run(f"{command} {page}", shell=True, cwd=CHECKOUT, check=True)
    assert "<script src" not in page.read_text("utf-8")
    problem = load("iris")
    run("ww_walrus", problem, rounds(50), proof=proof)
    np.savez(rows, X=problem.X, y=problem.y)
    browser.get(page.as_uri())
    browser.find_element("css selector", "[type=file]").send_keys(f"{proof}\n{rows}")
    output = browser.find_element("css selector", "output")
    wait(lambda: output.text.startswith("Proved: the optimum is in ["), 20)


def test_what_ran_is_one_row_for_a_command():
    ran = script("ran")
    ended = ran["result"]("= 1 failed, 2 passed in 3.0s =\n", 1)
    page = (CHECKOUT / "CONTRIBUTING.md").read_text("utf-8")
    for result in ("done", ended):
        page = ran["written"](page, f"| `x` | with | 3.11 | {result} | 1 | a |\n")
    assert page.count("`x`") == page.count("1 failed, 2 passed, exit status 1") == 1


def test_trust_counts_what_ended_early_and_links_to_tests(tmp_path, monkeypatch):
    trust = script("trust")
    text = """mrc: 8 of 10 mutants killed, 2 survive
  survives: psi: a
  mrc.risk:7  psi: b
"""
    monkeypatch.setattr(pytest, "main", lambda *_, **__: pytest.ExitCode.INTERRUPTED)
    monkeypatch.setitem(trust["page"].__globals__, "command", lambda *_: (text, 1))
    monkeypatch.setitem(trust["page"].__globals__, "KEPT", tmp_path)
    kept = {
        "mutants": trust["mutants"](),
        "test_refused": trust["tests"]("test_refused"),
    }
    for name, found in kept.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(found | {"commit": "abc"}))
    page = trust["page"]()
    failed = "`mutant of mrc: mrc.risk:7  psi: b`, `test_refused.py (exit status 2)`"
    assert f"**Violations**: {failed}.\n" in page
    assert "| mrc | 10 | 8 | [1](tests/" in page
    for what in trust["MENDED"].values():
        file, test = what.split("::")
        assert f"def {test}(" in (CHECKOUT / "tests" / file).read_text("utf-8")
        assert what in page and what in (CHECKOUT / "TRUST.md").read_text("utf-8")
    (tmp_path / "TRUST.md").write_text(page)
    _, html_page = script("build")["from_markdown"](tmp_path / "TRUST.md")
    assert 'href="../tests/mutation/survivors.toml"' in html_page
