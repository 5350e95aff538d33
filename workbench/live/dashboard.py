"""The controls around the live view; their values take effect at the next run or
step."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import ipywidgets as widgets

from workbench.core.kinds import Record, Values
from workbench.core.measures import held_out
from workbench.core.problem import Problem
from workbench.core.stream import Row, nothing
from workbench.data import load
from workbench.live.chart import Chart, Curve, Inside
from workbench.live.inside import portrait
from workbench.live.lane import Lane, Spare
from workbench.live.player import AT_REST, PLAYING, Player
from workbench.live.sliders import WIDE, Sliders, captioned, in_words, slider
from workbench.registry import SOLVERS
from workbench.runs.run import resolve

BUDGETS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 3600)  # choices of solver seconds
# Seconds between two rounds.
PAUSES_S = {
    "1 round/s": 1.0,
    "3 rounds/s": 1 / 3,
    "10 rounds/s": 0.1,
    "full speed": 0.0,
}
PING_S = 4.0  # seconds between two checks that a page is open
MAX_UNANSWERED = 8  # then the run pauses
TIME_FRACTION = 0.01  # fraction of wall time for portraits
MIN_PAUSE_S = 0.1  # seconds between two portraits
GREY = "#909090"
Wanted = tuple[str | None, dict[str, Record]]  # the data, and the parameters by solver


class Dashboard(widgets.VBox):
    """Controls, a :class:`Chart` of the runs and the :class:`Inside` of one of them.

    Parameters and errors are those of :func:`workbench.live.explore`.
    """

    def __init__(
        self,
        problem: Sequence[str] | Mapping[str, Values] | Problem,
        solvers: Sequence[str],
        parameters: Values,
        chosen: Sequence[str],
        seconds: float,
    ):
        self.problem = problem if isinstance(problem, Problem) else None
        names = [problem.name] if isinstance(problem, Problem) else [*problem]
        suited = problem if isinstance(problem, Mapping) else {}
        self.sliders = Sliders(solvers, {**parameters, **suited.get(names[0], {})})
        self.data = widgets.Dropdown(options=names, description="data", **WIDE)
        self.solvers = widgets.SelectMultiple(
            options=[(SOLVERS[name].label, name) for name in solvers],
            value=tuple(chosen),
            rows=min(len(solvers), 16),
            description="solvers",
            **WIDE,
        )
        budgets = sorted({*BUDGETS_S, seconds})
        self.budget = slider("seconds", [(f"{s:g}", s) for s in budgets], seconds)
        self.speed = slider("speed", list(PAUSES_S.items()), 0.0)
        self.watched = widgets.Dropdown(description="inside of", **WIDE)
        self.watched.tooltip = "The solver whose state is drawn below"
        self.chart, self.inside = Chart(self._pending, self._release), Inside()
        self.player = Player(self._on_rows)
        self._portrait = Spare(TIME_FRACTION, MIN_PAUSE_S)
        self._loaded: tuple[str | None, Problem] | None = None
        self._target: Wanted = None, {}  # requested by the last run or step
        self._arranged: Wanted = None, {}  # in play now
        self._watching, self._loop = False, None
        with suppress(RuntimeError):  # without a kernel
            self._loop = asyncio.get_running_loop()

        acts = {
            "run": (
                "play",
                self.run,
                "Start, or resume; a run that has ended starts again",
            ),
            "pause": (
                "pause",
                self.player.pause,
                "Pause when the round in progress ends",
            ),
            "step": (
                "step-forward",
                self.step,
                "Play one round of each solver, then pause",
            ),
            "back": (
                "step-backward",
                self.player.back,
                "Go back by one round, then pause",
            ),
            "stop": ("stop", self.player.stop, "End these runs; their curves stay"),
            "reset": ("refresh", self.reset, "End these runs and remove all curves"),
        }
        self.buttons, size = {}, {"width": "6em"}
        for name, (icon, act, tip) in acts.items():
            button = widgets.Button(
                description=name, icon=icon, tooltip=tip, layout=size
            )
            button.on_click(lambda _, act=act: act())
            self.buttons[name] = button
        self.data.observe(
            lambda _: self.sliders.set(suited.get(self.data.value, {})), "value"
        )
        self.solvers.observe(lambda _: self._choose(), "value")
        self.watched.observe(lambda _: self._look(), "value")
        for control in (self.budget, self.speed):
            control.observe(lambda _: self._pace(), "value")
        self._choose()
        self._pace()
        for control in (self.data, self.solvers, *self.sliders.widgets.values()):
            control.observe(lambda _: self.chart.say(), "value")

        # Objectives of several papers are not comparable, but test errors are.
        papers = {SOLVERS[name].steps.__module__.rpartition(".")[0] for name in solvers}
        self.chart.say(main="test error" if len(papers) > 1 else "objective")

        column = [
            widgets.HTML("<b>Problem</b>, applied at the next run or step"),
            captioned(
                self.data, "rows to train on; test rows serve for evaluation only"
            ),
            captioned(
                self.solvers, "hold Ctrl or Shift to choose several; they run together"
            ),
            widgets.HTML("<b>Pace</b>, applied at once"),
            captioned(self.budget, "limit of each run; only solver time counts"),
            captioned(self.speed, "slower, to watch and to evaluate every round"),
        ]
        title = widgets.HTML("<b>Parameters</b>, applied at the next run or step")
        sliders = widgets.VBox([title, *self.sliders.rows.values()]).add_class(
            "live-parameters"
        )
        buttons = widgets.HBox(
            [*self.buttons.values()], layout={"flex_flow": "row wrap"}
        )
        parts = [buttons, widgets.VBox(column), sliders, self.watched]
        for part in parts:
            part.add_class("live-controls")  # the page disables these without a kernel
        body = widgets.HBox([parts[1], self.chart, sliders]).add_class("live-body")
        super().__init__([buttons, body, self.watched, self.inside])
        self.add_class("live-page")

    def run(self) -> None:
        """Start or resume; if controls have changed, branch or start again, as after
        the end."""
        self._ask()
        self.player.run(self._arrange)
        if self._loop and not self._watching:
            self._watching, self.chart.unanswered = True, 0
            self._loop.call_soon_threadsafe(self._loop.call_later, PING_S, self._watch)

    def step(self) -> None:
        """Go on by one round of each solver, then pause."""
        self._portrait.now()
        self._ask()
        self.player.step(self._arrange)

    def reset(self) -> None:
        """End the runs and remove all curves; the controls stay unchanged."""
        self.retire()
        self.chart.clear()
        self.inside.show("", [])

    def retire(self) -> None:
        """End the runs, and release the data and the states; the canvas stays
        unchanged."""
        self.player.stop()
        for curve in self.chart.curves:
            curve.lane = None
        self._target, self._arranged, self._loaded = (None, {}), (None, {}), None

    def _shown(self) -> Wanted:
        """Return what the controls show; no data if they are a given problem."""
        values = {name: self.sliders.parameters(name) for name in self.solvers.value}
        return None if self.problem else self.data.value, values

    def _ask(self) -> None:
        """Request what the controls show."""
        self._target = self._shown()
        self.chart.say(note="")

    def _watch(self) -> None:
        """Pause a run that no page shows. A busy cell delays this: it is on the
        kernel's loop."""
        self._watching = self.player.status in PLAYING
        if self._watching:
            if self.chart.unanswered >= MAX_UNANSWERED:
                self.player.pause()
                self.chart.say(note="paused: no page showed this; press run to resume")
            self.chart.unanswered += 1
            self.chart.say(ping=self._loop.time())  # a page answers each only once
            self._loop.call_later(PING_S, self._watch)

    def _arrange(self, lanes: list[Lane]) -> list[Lane]:
        """Return the requested lanes, made from `lanes`; runs in the player's
        thread."""
        target = spec, wanted = self._target
        if not wanted:
            raise ValueError("choose at least one solver")
        loaded = self._loaded
        if loaded is None or loaded[0] != spec:
            self.chart.say(doing="loading the data")
            loaded = spec, self.problem or load(spec)
        made = [self._lane(lanes, *each, loaded[1]) for each in wanted.items()]
        self._loaded, self._arranged = loaded, target
        return made

    def _over(self, lane: Lane) -> bool:
        return bool(lane.ended) or lane.seconds >= self.player.budget

    def _lane(
        self, lanes: list[Lane], name: str, values: Record, problem: Problem
    ) -> Lane:
        """Return the lane to resume unless all are over, a branch of it, or a new
        one."""
        same = (
            x
            for x in lanes
            if x.solver == name and x.problem is problem and not x.error
        )
        if old := next(same, None):
            differ = [name for name, v in values.items() if old.parameters[name] != v]
            if not differ and not all(map(self._over, lanes)):
                return old
            if old.last and not self._over(old) and {*differ} <= {*SOLVERS[name].live}:
                return old.branch(old.parameters | values)
        measure = nothing if problem.X_test is None else held_out(problem)
        return Lane(name, problem, values, measure)

    def _release(self, curve: Curve) -> None:
        """Release a removed run, with its states and the pictures of its inside."""
        lane, curve.lane, curve.live = curve.lane, None, False
        self.player.lanes = [other for other in self.player.lanes if other is not lane]
        if lane and lane.solver == self.watched.value:
            self.inside.show("", [])
            self._look()

    def _on_rows(self, lane: Lane | None, rows: list[Row] | None) -> None:
        if lane is None:
            return self._status()
        curve = self._curve(lane)
        if curve is None:
            return
        curve.ended = lane.ended or (
            "out of time" if lane.seconds >= self.player.budget else ""
        )
        if rows is None:
            self.chart.add(curve, lane.rows, restart=True)
        else:
            self.chart.add(curve, rows)
        if not rows or lane.ended:
            self._portrait.now()
        if lane.solver == self.watched.value and self._portrait.due():
            self._portrait.run_and_rest(self._show, lane)

    def _status(self) -> None:
        """Show the player's status, and give each new lane its curve."""
        error, lanes = self.player.error, self.player.lanes
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        said = f"{kind}{error}" if error else ""
        self.chart.say(status=self.player.status, error=said, doing="")
        for curve in self.chart.curves:
            curve.live = curve.lane in lanes
            if curve.lane and any(
                curve.lane.problem is not new.problem for new in lanes
            ):
                curve.colour, curve.lane = (
                    GREY,
                    None,
                )  # bounds on other data are not comparable
        for lane in lanes:
            if not self._curve(lane):
                name = (self._loaded or (None,))[0] or lane.problem.name
                words = legend(lane.solver, lane.parameters, name, lane.since)
                curve = self.chart.begin(*words)
                curve.lane = lane
                self.chart.add(curve, lane.rows)

    def _curve(self, lane: Lane) -> Curve | None:
        return next((curve for curve in self.chart.curves if curve.lane is lane), None)

    def _look(self) -> None:
        """Show the inside of the chosen solver's run, if no round is in progress."""
        lanes = [curve.lane for curve in self.chart.curves if curve.lane]
        lanes = [lane for lane in lanes if lane.solver == self.watched.value]
        if lanes and self.player.status in AT_REST:
            self._show(lanes[-1])

    def _show(self, lane: Lane) -> None:
        if (
            lane.state is None or lane.error
        ):  # a state that failed within a round is not drawn
            return
        where = f"{SOLVERS[lane.solver].label}, {lane.problem.name}: round {lane.state.round}"
        try:
            self.inside.show(where, portrait(lane.state, lane.problem, lane.parameters))
        except Exception as error:  # a picture that fails does not end the run
            self.inside.show(where, [])
            self.chart.say(
                note=f"the inside cannot be shown: {type(error).__name__}: {error}"
            )

    def _choose(self) -> None:
        chosen, watched = self.solvers.value, self.watched.value
        self.sliders.show(chosen)
        self.watched.options = [(SOLVERS[name].label, name) for name in chosen]
        self.watched.value = watched if watched in chosen else next(iter(chosen), None)
        self.watched.layout.display = None if len(chosen) > 1 else "none"

    def _pace(self) -> None:
        self.player.budget = self.budget.value
        self.player.pause_between = self.speed.value
        self.chart.say(budget=self.budget.value)

    def _pending(self) -> str:
        """Return the changes that have no effect yet, and what each waits for."""
        waiting = [(self._target, self._shown(), "run or step is pressed")]
        if self.player.status in PLAYING:
            waiting.append((self._arranged, self._target, "the round in progress ends"))
        for (data, old), (spec, new), end in waiting:
            names = ["data"] * (data != spec) + ["solvers"] * (set(old) != set(new))
            for solver in set(old) & set(new):
                names += self.sliders.differ(solver, old[solver], new[solver])
            if old and names:
                return f"pending until {end}: {', '.join(dict.fromkeys(names))}"
        return ""


def legend(
    solver: str, parameters: Values, data: str, since: int | None = None
) -> tuple[str, str, list[str]]:
    """Return a run's name, colour and settings: those that are not the defaults, and
    its data."""
    defaults = resolve(solver, {})[1]
    settings = [
        f"{k} = {in_words(v)}" for k, v in parameters.items() if v != defaults.get(k)
    ]
    branch = [] if since is None else [f"from round {since}"]
    return SOLVERS[solver].label, SOLVERS[solver].colour, [data, *settings, *branch]
