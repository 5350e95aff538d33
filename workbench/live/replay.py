"""Recorded runs that a page plays without a kernel, on the chart of the dashboards.

>>> Replay(record("mrc_ccg", problem, below("gap", 0.01)))    # doctest: +SKIP
"""

import base64
import hashlib
import json
import zlib
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template

import numpy as np

from workbench.core.kinds import Record, Values
from workbench.core.measures import held_out
from workbench.core.problem import Problem
from workbench.core.stream import Rule, geometric, nothing
from workbench.core.trace import Trace
from workbench.live.chart import CHART, INSIDE, Curve
from workbench.live.dashboard import legend
from workbench.live.inside import portrait
from workbench.live.lane import Lane
from workbench.live.pictures import pack

MIME = "application/vnd.workbench.replay+json"
FRAME_RATIO = 1.2  # ratio of the rounds of two neighbouring pictures of the inside
HERE = Path(__file__).parent
STYLE = (HERE / "replay.css").read_text(encoding="utf-8")


def _closed(module: str) -> str:
    """Return a module as the body of a function that returns its default export."""
    return module.replace("export default", "const exported =") + "\nreturn exported;"


# The script that plays all recordings of a page.
SCRIPT = f"""\
const CHART = (() => {{
{_closed(CHART)}
}})();
const INSIDE = (() => {{
{_closed(INSIDE)}
}})();
{(HERE / "replay.js").read_text(encoding="utf-8")}"""


@dataclass
class Recording:
    """A run that has ended: its trace, and pictures of the inside at some rounds.

    A frame has ``seconds``, and the ``words`` and ``buffers`` of the panel.
    """

    trace: Trace
    frames: list[Record] = field(default_factory=list)


class Replay:
    """Recordings as Jupyter shows them, and as the course's pages embed them.

    Parameters
    ----------
    recordings : runs that :func:`record` has made, or traces, which have no pictures of
        the inside

    Raises
    ------
    ValueError
        If a trace has no rows, its seconds decrease or are not finite, or its solver is
        unknown.
    """

    def __init__(self, *recordings: Recording | Trace):
        self.data = {"runs": [_run(i, each) for i, each in enumerate(recordings, 1)]}

    def page(self) -> str:
        """Return an HTML page that needs no other file and no network."""
        return Template((HERE / "replay.html").read_text(encoding="utf-8")).substitute(
            recording=embedded(self.data),
            script=SCRIPT,
            hash=hashed(SCRIPT),
            style=STYLE,
        )

    def _repr_mimebundle_(self, **_) -> Record:
        style = "width: 100%; height: 60em; border: 0"
        frame = f'<iframe srcdoc="{escape(self.page())}" style="{style}"></iframe>'
        return {"text/html": frame, MIME: self.data, "text/plain": "a recorded run"}


def record(
    solver: str, problem: Problem, *rules: Rule, parameters: Values | None = None
) -> Recording:
    """Run a solver until it ends or a rule stops it, and keep what a dashboard shows.

    Parameters
    ----------
    solver : a name of the registry
    problem : Problem
    rules : rules of :mod:`workbench.core.stream`, such as ``rounds(50)``; an endless
        solver needs one
    parameters : values by name; the other parameters keep their defaults

    Raises
    ------
    ValueError
        As for :func:`workbench.runs.run.resolve`. Errors of the solver and of the
        evaluation are raised, too.
    """
    measure = nothing if problem.X_test is None else held_out(problem)
    lane = Lane(solver, problem, parameters or {}, measure)
    due = geometric(FRAME_RATIO)
    frames: list[Record] = []
    while row := lane.advance(wait=True):
        if due(row):
            frames.append(_frame(lane))
        reasons = (rule(row) for rule in rules)
        lane.ended = next(filter(None, reasons), lane.ended)
    if lane.error:
        raise lane.error
    if frames and frames[-1]["seconds"] < lane.seconds:
        frames.append(_frame(lane))
    return Recording(lane.trace, frames)


def embedded(data: Values | None) -> str:
    """Return the HTML element with these recordings, deflated; empty without any."""
    if not data:
        return ""
    packed = _base64(zlib.compress(json.dumps(data).encode(), 9))
    return f'<script type="text/plain" class="recording">{packed}</script>'


def hashed(script: str) -> str:
    """Return a script's hash, for a content security policy that allows only it."""
    return f"sha256-{_base64(hashlib.sha256(script.encode()).digest())}"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _frame(lane: Lane) -> Record:
    """Return the pictures of a lane's present state."""
    pictures, buffers = pack(portrait(lane.state, lane.problem))
    return {
        "seconds": lane.seconds,
        "words": {"title": f"round {lane.state.round}", "pictures": pictures},
        "buffers": [*map(_base64, buffers)],
    }


def _run(number: int, recording: Recording | Trace) -> Record:
    """Return a recording as plain data; a ValueError says why it cannot be played."""
    if isinstance(recording, Trace):
        recording = Recording(recording)
    trace = recording.trace
    try:
        solver = trace.header["solver"]
        seconds = trace.column("seconds")
        if not len(seconds):
            raise ValueError(f"replay: run {number}, of {solver}, has no rows")
        if not np.isfinite(seconds).all() or (np.diff(seconds, prepend=0.0) < 0).any():
            raise ValueError(
                f"replay: run {number}, of {solver}, has falling or infinite seconds"
            )
        data = trace.header["problem"]["name"]
        words = legend(solver, trace.header["parameters"], data)
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"replay: run {number} is not the run of a solver; {error}"
        ) from None
    curve = Curve(number, *words, ended=trace.stopped_by or "")
    curve.add(trace.rows)
    texts, points = curve.news()
    return texts | {"points": _base64(points), "frames": recording.frames}
