"""Pages made of what others wrote: hostile names in every field, and nothing of it runs."""

import json
import re
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from workbench.figures.report import report
from workbench.figures.report.rows import KEYS
from workbench.registry import SOLVERS

EVIL = "\"'></script></style><script>alert(1)</script><img src=x onerror=alert(2)><b id=evil>"
LINK = "javascript:alert(3)"


class Page(HTMLParser):
    """A page as a browser parses it: its elements and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.scripts = [], "", 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def told(self):
        """Return the page's text with what attributes say of it, for readers and filters."""
        return self.text + "".join(v for _, given in self.elements for v in given.values() if v)


def harmless(text, scripts):
    """Return the page; nothing in it is active but its own scripts, and it loads nothing."""
    page = Page(text)
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest", text)
    names = [name for name, _ in page.elements]
    assert names.count("script") == scripts
    assert not {"iframe", "object", "embed", "base", "svg"} & set(names)
    for name, given in page.elements:
        assert not [a for a in given if a.startswith("on") or a == "srcdoc"], (name, given)
        assert given.get("id") != "evil"
        for address in (given.get("href"), given.get("src"), given.get("action")):
            assert not re.match(r"\s*javascript:|\w+://", address or "", re.IGNORECASE), address
        if name == "img":
            assert given["src"].startswith("data:image/png;base64,")
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv"))
    assert "default-src 'none'" in policy and "script-src 'unsafe" not in policy
    return page


def hostile(value):
    """Return a sidecar's value with every text in it hostile, and its keys where they are free."""
    if isinstance(value, dict):
        return {key: hostile(v) for key, v in value.items()}
    return [hostile(v) for v in value] if isinstance(value, list) else EVIL + value


@pytest.fixture
def figures(tmp_path):
    """Return a folder with one figure whose sidecar is hostile, and one that cannot be read."""
    # A file's name cannot hold a slash.
    folder = tmp_path / "figures" / EVIL.replace("/", "|")
    folder.mkdir(parents=True)
    name = EVIL.replace("/", "|") + LINK
    plt.figure().savefig(folder / f"{name}.png")
    plt.close()
    row = dict.fromkeys((*KEYS, "unit", "reason", "data"), "words") | {"paper": "a paper"}
    texts = {
        "caption": "A caption.",
        "command": ["workbench", "figures"],
        "commit": "c0ffee",
        "date": "2026",
        "profile": "quick",
        "solvers": [{"solver": "mine", "label": "Mine"}],
        "data": [{"name": "rows", "checksum": "aa"}],
        "machine": {"cpu": "a processor"},
        "parameters": {"p": "value"},
        "threads": {"blas": "one"},
        "versions": {"numpy": "2"},
        "numbers": [row],
        "traces": [{"solver": "mrc_ccg", "data": "rows", "checksum": "aa", "label": "Mine"}],
    }
    record = hostile(texts)
    record["parameters"] |= {EVIL: EVIL, "link": LINK}
    record["numbers"][0] |= {"value": 1.0, "runs": EVIL}
    record["traces"][0] |= {"solver": "mrc_ccg", "times": {"1e-3": 1.0}, "timed": False}
    (folder / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    (folder / "broken.json").write_text(json.dumps({EVIL: EVIL}), encoding="utf-8")
    return tmp_path / "figures"


def test_nothing_hostile_is_active_in_the_report(figures, tmp_path, monkeypatch):
    look = SOLVERS["mrc_ccg"]._replace(label=f"{EVIL} the label")
    monkeypatch.setitem(SOLVERS, "mrc_ccg", look)
    printed = pd.DataFrame([dict.fromkeys((*KEYS, "unit", "hardware", "note"), EVIL)])
    printed["value"], printed["spread"] = 1.0, EVIL
    said = []
    path = report(tmp_path / "r.html", figures=figures, printed=printed, say=said.append)
    page = harmless(path.read_text("utf-8"), scripts=1)
    assert len(said) == 1  # the one that could not be read
    told = page.told()
    for words in ("A caption.", "a processor", "c0ffee", "rows", "value", "the label", "words"):
        assert words in told, words
    assert told.count("<script>alert(1)") > 20 and LINK in told
