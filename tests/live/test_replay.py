"""Recorded runs: what they keep is what a dashboard shows, and their page plays it
anywhere."""

import base64
import json
import re
import zlib
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from helpers import module_fixture, refuses, wait

from checks.scrub import Scrub
from workbench import below, load, rounds
from workbench.cli import main
from workbench.core.trace import Trace
from workbench.live.inside import portrait
from workbench.live.lane import Lane
from workbench.live.pictures import pack
from workbench.live.replay import MIME, Replay, record


@module_fixture
def recorded():
    problem = load("wine", test=0.3)
    return (
        record("ww_walrus", problem, below("gap", 1e-3), parameters={"C": 0.5}),
        record("ww_walrus_fast", problem, rounds(12)),
    )


def unpacked(page):
    data = re.search(
        r'<script type="text/plain" class="recording">([\w+/=]*)</script>', page
    )[1]
    return json.loads(zlib.decompress(base64.b64decode(data)))


SECONDS = 'NaN Infinity null "1" -1 1e9 ' + "1" * 400


def points(run):
    return np.frombuffer(base64.b64decode(run["points"])).reshape(-1, 5)


def test_frames_are_what_a_dashboard_shows_in_that_round(recorded):
    walrus, _ = recorded
    lane = Lane("ww_walrus", load("wine", test=0.3), {"C": 0.5})
    frames = iter(walrus.frames)
    frame = next(frames)
    seen = 0
    while frame:
        lane.advance()
        if frame["words"]["title"] == f"round {lane.state.round}":
            words, buffers = pack(portrait(lane.state, lane.problem))
            assert frame["words"]["pictures"] == words
            assert [base64.b64decode(text) for text in frame["buffers"]] == buffers
            frame = next(frames, None)
            seen += 1
    assert seen == len(walrus.frames) > 5
    assert lane.state.round == walrus.trace.last["round"]


def test_a_run_has_the_points_and_words_of_its_trace(recorded):
    first, second = Replay(*recorded).data["runs"]
    assert (first["name"], first["settings"]) == (
        "Walrus",
        ["wine, standardised", "C = 0.5"],
    )
    assert first["ended"] == "gap <= 0.001" and second["ended"] == "12 rounds"
    last = recorded[0].trace.last
    seconds, round_, lower, upper, error = points(first)[-1]
    assert (seconds, round_, error) == (
        last["seconds"],
        last["round"],
        last["test_error"],
    )
    assert last["lower"] <= lower <= upper <= last["upper"]
    assert np.unique(points(second)[:, 1]).tolist() == list(range(13))
    assert record("centroid", load("iris")).trace.stopped_by == "finished"


def test_words_in_a_trace_are_never_markup(recorded):
    trace = recorded[1].trace
    bad = "</script><script>alert(1)</script>"
    header = trace.header | {"problem": trace.header["problem"] | {"name": bad}}
    replay = Replay(Trace(header, trace.rows))
    page = replay.page()
    bundle = replay._repr_mimebundle_()
    assert "<script>alert" not in page
    assert unpacked(page)["runs"][0]["settings"][0] == bad
    assert bundle["text/html"].startswith("<iframe srcdoc=")
    assert len(bundle[MIME]["runs"]) == 1


# What is written in place of the first such words in a trace.
DAMAGE = [('"seconds": 0.', f'"seconds": {x}, "s": 0.') for x in SECONDS.split()]
DAMAGE += {
    '"solver": "ww_walrus"': '"solver": ["ww_walrus"]',
    '"parameters": {': '"parameters": {"D": [1], ',
    '"name": ': '"names": ',
    '"upper": ': '"upper": "a", "u": ',
    '"stopped_by": ': '"stopped_by": {}, "s": ',
}.items()


def test_what_cannot_be_played_is_refused(recorded, tmp_path, capsys):
    trace = recorded[0].trace
    with refuses("unknown name 'walrus'"):
        record("walrus", load("iris"))
    with refuses("run 2, of ww_walrus, has no rows"):
        Replay(trace, Trace(trace.header, []))
    kept = tmp_path / "a.jsonl"
    page = tmp_path / "page.html"
    assert main(["run", "ww_walrus", "iris", "--out", str(kept)]) == 0
    assert main(["replay", str(kept), str(kept), "--out", str(page)]) == 0
    runs = unpacked(page.read_text("utf-8"))["runs"]
    assert [run["name"] for run in runs] == ["Walrus", "Walrus"]
    page.unlink()
    whole = kept.read_text()
    header, *rows = whole.splitlines(keepends=True)
    damaged = ["no trace", header, "".join(rows), header + "".join(rows[::-1])]
    damaged += ['{"schema": 1}\n' + "".join(rows), header + '{"round": 0}']
    for text in damaged + [whole.replace(*change, 1) for change in DAMAGE]:
        kept.write_text(text)
        capsys.readouterr()
        assert main(["replay", str(kept), "--out", str(page)]) == 2, text
        assert capsys.readouterr().err.startswith("workbench: ") and not page.exists()


def test_it_plays_in_a_browser_from_a_file(recorded, tmp_path, browser):
    page = tmp_path / "page.html"
    page.write_text(Replay(*recorded).page(), "utf-8")
    browser.get(page.as_uri())
    slide = """const slider = document.querySelector(".replay input");
        slider.value = arguments[0]; slider.dispatchEvent(new Event("input"));"""
    cells = (
        "return [...document.querySelectorAll('tbody')].map((each) => "
        "each.rows[0].innerText)"
    )
    title = "return document.querySelector('.inside .title')?.textContent"
    foot = """const it = document.querySelector('.replay canvas');
        const top = Math.round(0.94 * it.height), pen = it.getContext('2d');
        return pen.getImageData(0, top, it.width, it.height - top).data.join()"""

    until = partial(wait, limit=20)
    last = recorded[0].trace.last["round"]
    until(lambda: f"\t{last}\t" in "".join(browser.execute_script(cells)[:1]))
    assert browser.execute_script(title) == f"round {last}"
    browser.execute_script(slide, 0)
    until(lambda: browser.execute_script(title) == "round 0")
    # the first moment
    assert sum("\t0\t" in line for line in browser.execute_script(cells)) == 1
    axis = browser.execute_script(foot)
    browser.execute_script("document.querySelector('.replay button').click()")
    until(lambda: f"\t{last}\t" in browser.execute_script(cells)[0])
    label = "return document.querySelector('.replay button').textContent"
    assert browser.execute_script(label) == "play"
    # It stays as it is while the runs play.
    assert browser.execute_script(foot) == axis
    browser.execute_script("document.querySelector('tbody .hide').click()")
    hidden = "return !!document.querySelector('tbody.hidden')"
    until(lambda: browser.execute_script(hidden))
    page.write_text(Scrub("C", [1, 2], lambda C: plt.bar([0], [C])).page(), "utf-8")
    browser.get(page.as_uri())
    image = "return document.querySelector('.replay img')?.src"
    until(lambda: (first := browser.execute_script(image)) and first[:5] == "data:")
    second = browser.execute_script(image)
    browser.execute_script(slide, 0)
    assert browser.execute_script(image) != second
