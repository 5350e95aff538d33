"""Certified tuning of a Weston-Watkins SVM on a dashboard: what is proven of all C of a range."""

from __future__ import annotations

import math
from functools import partial
from html import escape
from typing import Any, NamedTuple

import ipywidgets as widgets
import numpy as np

from workbench.core.names import count
from workbench.core.stream import Row
from workbench.data.panels import panel
from workbench.live.chart import Inside
from workbench.live.dashboard import PAUSES_S, button
from workbench.live.lane import Spare
from workbench.live.pictures import Lines
from workbench.live.player import Player
from workbench.live.sliders import WIDE, slider
from workbench.tuning.state import Tuning
from workbench.tuning.weston_watkins import certify_path

DATA = ("digits @ maximum", "iris", "wine", "breast_cancer", "synthetic 600x10x5")
ENDS = tuple(float(f"1e{e}") for e in range(-5, 5))  # of the range of C
EPS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
TIME_FRACTION = 0.1  # for drawing
MIN_PAUSE_S = 0.25  # between two drawings
CEILING = 1.5  # times the most counted errors: no upper bound is drawn above it


class Settings(NamedTuple):
    """The settings of the controls: data in the words of :func:`panel`, the range of C, and eps."""

    data: str
    ends: tuple[float, float]
    eps: float


class Search:
    """A certified search as a lane of a :class:`Player`; its rounds are solutions.

    Raises a ValueError or FileNotFoundError for data or a range that it does not accept.
    """

    seconds = 0.0  # nothing is timed

    def __init__(self, settings: Settings):
        problem = panel(settings.data)
        fold = problem, problem.X_test, problem.classes[problem.y_test]
        self.settings, self.ended = settings, ""
        self.error: Exception | None = None
        self._steps = certify_path([fold], settings.ends, settings.eps)
        self.state = next(self._steps)

    def advance(self, wait: bool = False) -> Row | None:
        """Go on by one solution and return its row; None if all intervals are closed."""
        try:
            state = next(self._steps, None)
        except Exception as error:
            self.error, self.ended = error, f"failed: {error}"
            return None
        if state is None:
            self.ended = "finished"
            return None
        self.state = state
        return state.info()

    def play(self, seconds: float, go: Any) -> list[Row]:
        """Go on by one solution: it may take longer than any slice of time."""
        row = self.advance()
        return [row] if row else []

    def evaluate_now(self) -> Row:
        """Return the present row; none if the search has failed in the middle of a solution."""
        return {} if self.error else self.state.info()


class TuningDashboard(widgets.VBox):
    """Controls, the band between what is proven and what is possible, and the proof in words.

    Parameters are those of :func:`workbench.live.tune`.
    """

    def __init__(self, data: str, C_range: tuple[float, float], eps: float):
        ends, values = sorted({*ENDS, *C_range}), sorted({*EPS, eps})
        self.data = widgets.Combobox(
            value=data, options=DATA, description="data", continuous_update=False, **WIDE
        )
        self.C_range = widgets.SelectionRangeSlider(
            options=[(f"{C:g}", C) for C in ends],
            index=tuple(map(ends.index, C_range)),
            description="range of C",
            continuous_update=False,
            **WIDE,
        )
        self.eps = slider("eps", [(f"{100 * v:g} %", v) for v in values], eps)
        self.eps.tooltip = "Of the validation rows: by so much no C may be better than ours"
        self.speed = slider("solutions", list(PAUSES_S.items()), PAUSES_S["10/s"])
        self.picture, self.proven, self.status = Inside(), widgets.HTML(), widgets.HTML()
        self.player = Player(self._on_rows)
        self._drawing = Spare(TIME_FRACTION, MIN_PAUSE_S)
        acts = {
            "run": ("play", self.run, "Start, or resume"),
            "pause": ("pause", self.player.pause, "Pause when the solution in progress is there"),
            "step": ("step-forward", self.step, "One solution, then pause"),
        }
        self.buttons = {name: button(name, *act) for name, act in acts.items()}
        self.speed.observe(lambda _: self._pace(), "value")
        for control in (self.data, self.C_range, self.eps):
            control.observe(lambda _: self._say(), "value")
        self._pace()
        self._say()
        controls = [self.data, self.C_range, self.eps, self.speed]
        controls = widgets.VBox(controls, layout={"max_width": "35em"})
        buttons = widgets.HBox([*self.buttons.values()], layout={"flex_flow": "row wrap"})
        super().__init__([buttons, controls, self.status, self.picture, self.proven])

    @property
    def settings(self) -> Settings:
        """The current settings of the controls."""
        return Settings(self.data.value.strip(), self.C_range.value, self.eps.value)

    def run(self) -> None:
        """Start, or resume; start again if the controls have changed."""
        self.player.run(partial(arranged, self.settings))

    def step(self) -> None:
        """Go on by one solution as `run` would, then pause."""
        self.player.step(partial(arranged, self.settings))

    def retire(self) -> None:
        """Stop for good; the picture stays."""
        self.player.stop()

    def _pace(self) -> None:
        self.player.pause_between = self.speed.value

    def _on_rows(self, lane: Search | None, rows: list[Row] | None) -> None:
        """Draw between two solutions: a state is on loan, and complete only then."""
        if lane is None:
            return self._say()
        if not rows:
            self._drawing.now()
        if not lane.error and self._drawing.due():
            self._drawing.run_and_rest(self._draw, lane)

    def _draw(self, search: Search) -> None:
        said = f"{search.settings.data}: errors on {search.state.rows:,} validation rows"
        self.picture.show(said, [band(search.state)] if len(search.state.at) else [])
        self.proven.value = f"<p>{escape(proof(search.state))}</p>"

    def _say(self) -> None:
        error, lanes = self.player.error, self.player.lanes
        said = f" {' '.join(str(error).split()) or type(error).__name__}" if error else ""
        differ = lanes and lanes[0].settings != self.settings
        hint = " pending: new settings (when run or step is pressed)" if differ else ""
        self.status.value = (
            f"<p role='status'><b>{self.player.status}</b>{hint} <span role='alert' "
            f"style='color: var(--jp-error-color1, #d32f2f)'>{escape(said)}</span></p>"
        )


def arranged(settings: Settings, lanes: list[Search]) -> list[Search]:
    """Return the search that has these settings, a new one unless it is the present one."""
    same = [lane for lane in lanes if lane.settings == settings and not lane.error]
    return same or [Search(settings)]


def band(state: Tuning) -> Lines:
    """Return the bounds on the errors at all C, in % of the validation rows, and the knots."""
    edges, *bounds = state.band()
    fewest, most = (np.repeat(100.0 * bound / state.rows, 2) for bound in bounds)
    counted = 100.0 * np.append(state.errors, state.fewest) / state.rows  # ours on top, and last
    top = min(100.0, CEILING * float(counted.max()))
    wanted = np.full(len(fewest), 100.0 * max(0, state.target) / state.rows)
    return Lines(
        f"Dots: counted errors. Ringed: the fewest, at C = {state.chosen:.3g}",
        np.repeat(edges, 2)[1:-1],
        np.stack([fewest, np.minimum(most, top), wanted]),
        ("at least", f"at most (drawn up to {top:.3g} %)", "ours less eps"),
        "C",
        "errors (% of validation rows)",
        np.stack([np.append(state.at, state.chosen), counted], axis=1),
        logarithmic=True,
        filled=True,
        marked=np.append(np.zeros(len(state.at)), 1.0),
    )


def proof(state: Tuning) -> str:
    """Return in one line what is proven at this moment."""
    low, high = state.ends
    least = int(state.band()[1].min())
    if least or not state.fewest:
        said = f"No C in [{low:g}, {high:g}] has fewer than {count(least, 'error')}"
    else:
        said = f"Nothing is proven yet for all C in [{low:g}, {high:g}]"
    if len(state.at):
        said += f"; ours, C = {state.chosen:.3g}, has {state.fewest:,} of {state.rows:,}"
    achieved = math.ceil(1e4 * state.achieved - 1e-9) / 100.0  # rounded, both are still proven
    return (
        f"{said}: achieved eps {achieved:g} %, wanted {100 * state.eps:g} %; certified: "
        f"{math.floor(100 * state.certified)} % of the axis; {count(state.n_solves, 'solution')}."
    )
