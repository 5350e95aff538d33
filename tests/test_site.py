"""The site of `make docs`: every figure has its card, links lead somewhere, the search has all."""

import json
import re
import runpy

from nbformat.v4 import new_notebook

import course
from workbench.runs.notebooks import CHECKOUT, find


def test_pages_have_a_bar_figures_a_card_links_a_target_and_the_search_all_sections(tmp_path):
    stub = '<html><head><title>Stub</title></head><body><section id="until">A row.</section></body>'
    for place in ("report.html", "api/workbench.html", "trust.html"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(stub, "utf-8")
    (tmp_path / "course").mkdir()
    (tmp_path / "course/index.html").write_text(course.page(new_notebook(), None, []), "utf-8")
    site = runpy.run_path(str(CHECKOUT / ".site" / "build.py"))
    notebooks = find(["ww_convergence", "ls_recipe", "mrc_convergence"])
    for _ in range(2):  # made again, the site is the same
        site["build"](tmp_path, notebooks, "")
    pages = {path: path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    for path, page in pages.items():
        assert page.count('class="site"') == page.count(">Trust</a>") == 1
        for file, anchor in re.findall(r'(?:href|src)="([^"#:]*)#?([^":]*)"', page):
            target = (path.parent / file).resolve() if file else path
            if target.suffix == ".ipynb":
                assert list(CHECKOUT.glob(f"notebooks/*/**/{target.name}")), file
            elif target.parent.name != "course":
                assert f'id="{anchor}"' in pages[target] if anchor else target.exists(), file
    cards = pages[tmp_path / "figures.html"]
    for each in CHECKOUT.glob("figures/mrc_convergence/*.json"):
        assert cards.count(f'"figures/mrc_convergence.html#{each.stem}"') == 2
        assert json.loads(each.read_text("utf-8"))["command"] in cards
    rows = json.loads(re.search("const PAGES = (.*);", pages[tmp_path / "search.html"])[1])
    assert ["Stub › until", "api/workbench.html#until", "API", "A row."] in rows
    assert {row[2] for row in rows} > {"figure", "course", "API"}
