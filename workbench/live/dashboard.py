"""The controls around the live view; their values count from the next run or step on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from workbench.core.measures import held_out
from workbench.core.problem import Problem
from workbench.core.stream import Row, nothing
from workbench.data.panels import panel
from workbench.live.chart import Chart, Curve, Inside
from workbench.live.inside import portrait
from workbench.live.lane import Lane, Spare
from workbench.live.player import AT_REST, Player
from workbench.live.sliders import WIDE, Sliders, in_words, slider
from workbench.registry import SOLVERS
from workbench.runs.run import resolve

BUDGETS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 3600)  # choices of solver seconds
PAUSES_S = {"1/s": 1.0, "3/s": 1 / 3, "10/s": 0.1, "full": 0.0}  # seconds between two rounds
TIME_FRACTION = 0.01  # fraction of wall time for portraits
MIN_PAUSE_S = 0.1  # seconds between two portraits
GREY = "#909090"


class Dashboard(widgets.VBox):
    """Controls, a :class:`Chart` of the runs and the :class:`Inside` of one of them.

    Parameters and raises are those of :func:`workbench.live.explore`.
    """

    def __init__(
        self,
        problem: Sequence[str] | Problem,
        solvers: Sequence[str],
        parameters: Mapping[str, Any],
        chosen: Sequence[str],
        seconds: float,
    ):
        self.problem = problem if isinstance(problem, Problem) else None
        names = [self.problem.name] if self.problem else problem
        self.sliders = Sliders(solvers, parameters)
        self.data = widgets.Dropdown(options=names, description="data", **WIDE)
        self.solvers = widgets.SelectMultiple(
            options=[(SOLVERS[name].label, name) for name in solvers],
            value=tuple(chosen),
            rows=min(len(solvers), 16),
            description="solvers",
            tooltip="Several run side by side, for the same solver time each",
            **WIDE,
        )
        budgets = sorted({*BUDGETS_S, seconds})
        self.budget = slider("seconds", [(f"{s:g}", s) for s in budgets], seconds)
        self.speed = slider("rounds", list(PAUSES_S.items()), 0.0)
        self.watched = widgets.Dropdown(description="inside of", **WIDE)
        self.chart, self.inside = Chart(self._pending), Inside()
        self.player = Player(self._on_rows)
        self._curves: dict[Lane, Curve] = {}  # of the runs on the canvas, oldest first
        self._portrait = Spare(TIME_FRACTION, MIN_PAUSE_S)
        self._loaded: tuple[str | None, Problem] | None = None
        # The data, and the parameters by solver, that run or step requested last.
        self._target: tuple[str | None, dict[str, dict[str, Any]]] = None, {}

        acts = {
            "run": ("play", self.run, "Start, or resume"),
            "pause": ("pause", self.player.pause, "Pause when the round in progress ends"),
            "step": ("step-forward", self.step, "One round of each solver, then pause"),
            "back": ("step-backward", self.player.back, "Go back by one round, then pause"),
            "stop": ("stop", self.player.stop, "End these runs; their curves stay"),
            "reset": ("refresh", self.reset, "End these runs and remove all curves"),
        }
        self.buttons = {
            name: widgets.Button(description=name, icon=icon, tooltip=tip, layout={"width": "6em"})
            for name, (icon, _, tip) in acts.items()
        }
        for name, (_, act, _) in acts.items():
            self.buttons[name].on_click(lambda _, act=act: act())
        self.solvers.observe(lambda _: self._choose(), "value")
        self.watched.observe(lambda _: self._look(), "value")
        for control in (self.budget, self.speed):
            control.observe(lambda _: self._pace(), "value")
        self._choose()
        self._pace()
        for control in (self.data, self.solvers, *self.sliders.widgets.values()):
            control.observe(lambda _: self.chart.say(), "value")

        row = {"flex_flow": "row wrap"}
        buttons = widgets.HBox([*self.buttons.values()], layout=row)
        column = [self.data, self.solvers, *self.sliders.widgets.values()]
        column += [self.budget, self.speed, self.watched]
        controls = widgets.VBox(column, layout={"flex": "0 1 25em"})
        for part in (buttons, controls):
            part.add_class("live-controls")  # which the page disables without a kernel
        self.chart.layout.flex = "1 1 30em"
        chart = widgets.HBox([controls, self.chart], layout=row)
        super().__init__([buttons, chart, self.inside])
        self.add_class("live-page")

    def run(self) -> None:
        """Start, or resume; branch or start a new run if the controls have changed."""
        self._ask()
        self.player.run(self._arrange)

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
        """End the runs, and release the data and the states; the canvas stays unchanged."""
        self.player.stop()
        self._curves.clear()
        self._target, self._loaded = (None, {}), None

    @property
    def spec(self) -> str | None:
        """The chosen data in words that :func:`workbench.data.panels.panel` reads."""
        return None if self.problem else self.data.value

    def _ask(self) -> None:
        """Request what the controls show."""
        values = {name: self.sliders.parameters(name) for name in self.solvers.value}
        self._target = self.spec, values
        self.chart.say(note="")

    def _arrange(self, lanes: list[Lane]) -> list[Lane]:
        """Return the requested lanes, made from `lanes`; runs in the player's thread."""
        spec, wanted = self._target
        if not wanted:
            raise ValueError("solvers: choose at least one")
        loaded = self._loaded
        if loaded is None or loaded[0] != spec:
            loaded = spec, self.problem or panel(spec)
        made = [self._lane(lanes, *each, loaded[1]) for each in wanted.items()]
        self._loaded = loaded
        return made

    def _lane(self, lanes: list[Lane], name: str, values: dict[str, Any], problem: Problem) -> Lane:
        """Return the lane to resume, a branch of it, or a new one."""
        same = (x for x in lanes if x.solver == name and x.problem is problem and not x.error)
        if old := next(same, None):
            differ = old.changed(values)
            if not differ:
                return old
            if old.last and not old.ended and all(map(old.can_change, differ)):
                return old.branch(old.parameters | values)
        measure = nothing if problem.X_test is None else held_out(problem)
        return Lane(name, problem, values, measure)

    def _on_rows(self, lane: Lane | None, rows: list[Row] | None) -> None:
        if lane is None:
            return self._status()
        curve = self._curves.get(lane)
        if curve is None:
            return
        curve.ended = lane.ended or ("out of time" if lane.seconds >= self.player.budget else "")
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
        said = f"{type(error).__name__}: {error}" if error else ""
        self.chart.say(status=self.player.status, error=said)
        for lane, curve in [*self._curves.items()]:
            curve.live = lane in lanes
            if any(lane.problem is not new.problem for new in lanes):
                curve.colour = GREY  # bounds on other data are not comparable
                del self._curves[lane]
        for lane in lanes:
            if lane not in self._curves:
                name = (self._loaded or (None,))[0] or lane.problem.name
                words = legend(lane.solver, lane.parameters, name, lane.since)
                self._curves[lane] = self.chart.begin(*words)
                self.chart.add(self._curves[lane], lane.rows)
        for lane, curve in [*self._curves.items()]:
            if curve not in self.chart.curves:
                del self._curves[lane]

    def _look(self) -> None:
        """Show the inside of the chosen solver's run, if no round is in progress."""
        lanes = [lane for lane in self._curves if lane.solver == self.watched.value]
        if lanes and self.player.status in AT_REST:
            self._show(lanes[-1])

    def _show(self, lane: Lane) -> None:
        if lane.state is None or lane.error:  # a state that failed within a round is not drawn
            return
        where = f"{SOLVERS[lane.solver].label}, {lane.problem.name}: round {lane.state.round}"
        try:
            self.inside.show(where, portrait(lane.state, lane.problem, lane.parameters))
        except Exception as error:  # a picture that fails does not end the run
            self.inside.show(where, [])
            self.chart.say(note=f"the inside cannot be shown: {type(error).__name__}: {error}")

    def _choose(self) -> None:
        chosen, watched = self.solvers.value, self.watched.value
        self.sliders.show(chosen)
        self.watched.options = [(SOLVERS[name].label, name) for name in chosen]
        self.watched.value = watched if watched in chosen else next(iter(chosen), None)
        self.watched.layout.display = None if len(chosen) > 1 else "none"

    def _pace(self) -> None:
        self.player.budget = self.budget.value
        self.player.pause_between = self.speed.value

    def _pending(self) -> str:
        """Return which controls differ from what run or step requested last."""
        spec, wanted = self._target
        if not wanted:
            return ""
        names = ["data"] * (spec != self.spec)
        names += ["solvers"] * (set(wanted) != set(self.solvers.value))
        for solver in self.solvers.value:
            names += self.sliders.differ(solver, wanted[solver]) if solver in wanted else []
        said = ", ".join(dict.fromkeys(names))
        return f"pending: {said} (when run or step is pressed)" if said else ""


def legend(
    solver: str, parameters: Mapping[str, Any], data: str, since: int | None = None
) -> tuple[str, str, list[str]]:
    """Return a run's name, colour and settings: those that are not the defaults, and its data."""
    defaults = resolve(solver, {})[1]
    settings = [f"{k} = {in_words(v)}" for k, v in parameters.items() if v != defaults.get(k)]
    branch = [] if since is None else [f"from round {since}"]
    return SOLVERS[solver].label, SOLVERS[solver].colour, [data, *settings, *branch]
