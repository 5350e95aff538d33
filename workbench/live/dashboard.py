"""The controls around the live view: what they say counts from the next run or step on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.core.measures import held_out
from workbench.core.problem import Problem
from workbench.core.stream import Row, nothing
from workbench.data.panels import panel
from workbench.figures.style import look
from workbench.live.chart import Chart, Inside
from workbench.live.curve import Curve
from workbench.live.inside import portrait
from workbench.live.keep import code, keep, own_parameters, send_to_sweep
from workbench.live.lane import Lane, Spare, can_change, changed
from workbench.live.player import PLAYING, Player
from workbench.live.sliders import Sliders, text

FOURIER = 400  # random features that the checkbox appends, as the paper does
BUDGETS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 3600)  # solver seconds
SPEEDS = {"1/s": 1.0, "3/s": 1 / 3, "10/s": 0.1, "full": 0.0}
SHARE = 0.01  # of the time, for portraits
REST = 0.1  # seconds between two of them at least
WIDE = {"style": {"description_width": "8em"}, "layout": {"width": "auto"}}


class Dashboard(widgets.VBox):
    """Controls, a :class:`Chart` of the runs and the :class:`Inside` of one of them.

    Parameters and raises as of :func:`workbench.live.explore`.
    """

    def __init__(
        self,
        problem: str | Sequence[str] | Problem,
        solvers: Sequence[str],
        parameters: Mapping[str, Any],
        chosen: Sequence[str],
        seconds: float,
    ):
        self.problem = problem if isinstance(problem, Problem) else None
        names = [problem] if isinstance(problem, str) else problem
        names = [self.problem.name] if self.problem else list(names)
        self.sliders = Sliders(solvers, parameters)
        self.data = widgets.Dropdown(options=names, description="data", **WIDE)
        self.fourier = widgets.Checkbox(description=f"+ {FOURIER} Fourier features", **WIDE)
        self.solvers = widgets.SelectMultiple(
            options=[(look(name).label, name) for name in solvers],
            value=tuple(chosen),
            rows=min(len(solvers), 16),
            description="solvers",
            tooltip="Several run side by side, each as long as the others, by the solver's clock",
            **WIDE,
        )
        budgets = sorted({*BUDGETS, seconds})
        self.budget = choice("seconds", [(f"{s:g}", s) for s in budgets], seconds)
        self.speed = choice("rounds", list(SPEEDS.items()), 0.0)
        self.watched = widgets.Dropdown(description="inside of", **WIDE)
        self.answer = widgets.HTML(layout={"max_width": "60em"})
        self.chart, self.inside = Chart(self._pending), Inside()
        self.player = Player(self._hear)
        self._curves: dict[Lane, Curve] = {}
        self._specs: dict[Lane, str | None] = {}
        self._portrait = Spare(SHARE, REST)
        self._loaded: tuple[str | None, Problem] | None = None
        # What is to run, as far as it was asked for: data, and parameters by solver.
        self._target: tuple[str | None, dict[str, dict[str, Any]]] = None, {}
        self._resets = 0
        self._registering = threading.Lock()  # of lanes in their thread, or a reset

        acts = {
            "run": ("play", self.run, "Start, or go on"),
            "pause": ("pause", self.player.pause, "Pause when the round in progress ends"),
            "step": ("step-forward", self.step, "One round of each solver, then pause"),
            "back": ("step-backward", self.player.back, "Turn back by one round, then pause"),
            "stop": ("stop", self.player.stop, "End these runs; their curves stay"),
            "reset": ("refresh", self.reset, "End these runs and remove all curves"),
            "keep": ("save", self.keep, "Write the trace of each run, and show the code for it"),
            "sweep": ("table", self.send_to_sweep, "Write a grid over all values tried"),
        }
        self.buttons = {name: button(name, *act) for name, act in acts.items()}
        self.buttons["keep"].description = "keep this run"
        self.buttons["sweep"].description = "send to sweep"
        for name in ("keep", "sweep"):
            self.buttons[name].layout.width = "11em"
        self.solvers.observe(lambda _: self._choose(), "value")
        self.watched.observe(lambda _: self._look(), "value")
        self.budget.observe(lambda _: self._pace(), "value")
        self.speed.observe(lambda _: self._pace(), "value")
        for key, slider in self.sliders.widgets.items():
            slider.observe(lambda _, key=key: self._moved(key), "value")
        self._choose()
        self._pace()
        for control in (self.data, self.fourier, self.solvers):
            control.observe(lambda _: self.chart.say(), "value")
        super().__init__([*self._layout(), self.answer, self.inside])
        self.add_class("live-page")

    def run(self) -> None:
        """Start, or go on; branch or begin anew where the controls have changed."""
        self.player.run(self._arrangement())

    def step(self) -> None:
        """Go on by one round of each solver, then pause."""
        self._portrait.now()
        self.player.step(self._arrangement())

    def reset(self) -> None:
        """End the runs and remove all curves; the controls stay as they are."""
        self.player.reset()
        with self._registering:
            self._resets += 1
            self._forget()
        self.inside.show("", [])
        self.answer.value = ""

    def keep(self) -> None:
        """Write the trace of each solver's latest run, and show the code that repeats it."""
        lanes = {lane.solver: lane for lane in self._runs() if lane.last}.values()
        if not lanes:
            return self._tell("There is no run to keep yet: press run or step.")
        if not self.player.at_rest():
            return self._tell("Press pause first: a run is kept as it stands.")
        said = []
        try:
            for lane in lanes:
                path, program = keep(lane, self._specs[lane]), code(lane, self._specs[lane])
                said.append(f"# {path.name}, which make report shows\n{program}")
        except OSError as error:
            return self._tell(f"It could not be written: {error}")
        self._tell("Kept in " + str(path.parent), "\n".join(said))

    def send_to_sweep(self) -> None:
        """Write a grid over all values that the runs on the canvas have tried, and show it."""
        try:
            path = send_to_sweep(self._runs(), [*self._specs.values()], self.budget.value)
        except (OSError, ValueError) as error:
            return self._tell(str(error))
        self._tell(f"workbench sweep {path}", path.read_text(encoding="utf-8"))

    @property
    def spec(self) -> str | None:
        """The chosen data in words that :func:`workbench.data.panels.panel` reads."""
        if self.problem:
            return None
        return self.data.value + (f" + {FOURIER} fourier" if self.fourier.value else "")

    def retire(self) -> None:
        """Stop for good, and let go of the data and the states; the canvas stays as it is."""
        self.player.stop()
        self._resets += 1
        self._curves.clear()
        self._specs.clear()
        self._loaded = None

    def _arrangement(self) -> Callable[[list[Lane]], list[Lane]]:
        """Ask for all that the controls say, and return what makes lanes of it, in their thread."""
        wanted = {name: self.sliders.parameters(name) for name in self.solvers.value}
        self._target = self.spec, wanted
        self.chart.say(note="")
        return partial(self._arrange, self._resets)

    def _arrange(self, resets: int, lanes: list[Lane]) -> list[Lane]:
        """Return the lanes of all that was asked for since this reset, made from `lanes`."""
        spec, wanted = self._target
        if not wanted:
            raise ValueError("solvers: choose at least one")
        loaded = self._loaded
        if loaded is None or loaded[0] != spec:
            loaded, lanes = (spec, self.problem or panel(spec)), []
        made = [self._lane(lanes, *each, loaded[1]) for each in wanted.items()]
        with self._registering:
            if resets != self._resets:
                return []
            if self._loaded not in (None, loaded):
                self._forget()
            self._loaded = loaded
            return self._register(made, spec)

    def _lane(self, lanes: list[Lane], name: str, values: dict[str, Any], problem) -> Lane:
        """Return the lane that goes on, a branch of it, or a new one."""
        old = next((lane for lane in lanes if lane.solver == name and not lane.error), None)
        differ = changed(old, values) if old else []
        if old and not differ:
            return old
        if old and old.last and not old.ended and all(can_change(old, d) for d in differ):
            return old.branch(old.parameters | values)
        return Lane(name, problem, values, nothing if problem.X_test is None else held_out(problem))

    def _register(self, lanes: list[Lane], spec: str | None) -> list[Lane]:
        """Give each new lane its curve, and forget the lanes whose curves are off the canvas."""
        for lane, curve in self._curves.items():
            curve.live = lane in lanes
        for lane in lanes:
            if lane not in self._curves:
                self._curves[lane] = self.chart.begin(*legend(lane, spec))
                self._specs[lane] = spec
                self.chart.add(self._curves[lane], lane.rows)
        for lane, curve in [*self._curves.items()]:
            if curve not in self.chart.curves:
                del self._curves[lane], self._specs[lane]
        return lanes

    def _runs(self) -> list[Lane]:
        """Return the runs on the canvas, oldest first."""
        return [*self._curves]

    def _forget(self) -> None:
        """Remove all curves: bounds on other data do not compare."""
        self._curves.clear()
        self._specs.clear()
        self.chart.clear()

    def _hear(self, lane: Lane | None, rows: list[Row] | None) -> None:
        if lane is None:
            return self._status()
        curve = self._curves.get(lane)
        if curve is None:
            return
        curve.ended = lane.ended or ("out of time" if lane.seconds >= self.player.budget else "")
        if rows is None:
            self.chart.again(curve, lane.rows)
            self.chart.say(note="this is where the run began" if len(lane.rows) < 2 else "")
        else:
            self.chart.add(curve, rows)
        if not rows or lane.ended:
            self._portrait.now()
        if lane.solver == self.watched.value and self._portrait.due():
            self._portrait.spend(self._show, lane)

    def _status(self) -> None:
        error = self.player.error
        said = f"{type(error).__name__}: {error}" if error else ""
        self.chart.say(status=self.player.status, error=said)
        if self.player.status == "stopped":
            for curve in [*self._curves.values()]:
                curve.live = False

    def _look(self) -> None:
        """Show the inside of the chosen solver's run, where no round is in progress."""
        lanes = [lane for lane in self._runs() if lane.solver == self.watched.value]
        if lanes and self.player.at_rest():
            self._show(lanes[-1])

    def _show(self, lane: Lane) -> None:
        if lane.state is None or lane.error:  # what failed in mid-round is nothing to look at
            return
        where = f"{look(lane.solver).label}, {lane.problem.name}: round {lane.state.round}"
        try:
            self.inside.show(where, portrait(lane.state, lane.problem, lane.parameters))
        except Exception as error:  # a picture is not worth a run
            self.inside.show(where, [])
            self.chart.say(note=f"the inside cannot be shown: {type(error).__name__}: {error}")

    def _choose(self) -> None:
        chosen = self.solvers.value
        self.sliders.show(chosen)
        watched = self.watched.value
        self.watched.options = [(look(name).label, name) for name in chosen]
        self.watched.value = watched if watched in chosen else next(iter(chosen), None)
        self.watched.layout.display = None if len(chosen) > 1 else "none"

    def _pace(self) -> None:
        self.player.budget = self.budget.value
        self.player.pause_between = self.speed.value

    def _moved(self, key: str) -> None:
        """Go on under the new value at once where a run is in progress and can."""
        spec, wanted = self._target
        moved = {name: values | self.sliders.one(key, name) for name, values in wanted.items()}
        if moved != wanted and self.sliders.live(key, wanted):
            self._target = spec, moved
            self.player.rearrange(partial(self._arrange, self._resets))
        self.chart.say()

    def _pending(self) -> str:
        """Return which controls say something else than what runs, and when they will count."""
        running = {lane.solver: lane.parameters for lane in self.player.lanes}
        waiting = self._differ(self._loaded and self._loaded[0], running)
        playing = self.player.status in PLAYING
        later = self._differ(*self._target) if playing else waiting
        soon = [name for name in waiting if name not in later]
        said = [f"{', '.join(soon)} (from the next round on)"] * bool(soon)
        said += [f"{', '.join(later)} (when run or step is pressed)"] * bool(later)
        return f"pending: {'; '.join(said)}" if said else ""

    def _differ(self, spec: str | None, wanted: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Return the controls that differ from these data and these parameters by solver."""
        if not wanted:
            return []
        chosen = self.solvers.value
        names = ["data"] * (spec != self.spec) + ["solvers"] * (set(wanted) != set(chosen))
        for solver in chosen:
            names += self.sliders.differ(solver, wanted[solver]) if solver in wanted else []
        return [*dict.fromkeys(names)]

    def _tell(self, line: str, program: str = "") -> None:
        pre = f"<pre style='user-select: all'>{escape(program)}</pre>" if program else ""
        self.answer.value = f"<p role='status'>{escape(line)}</p>{pre}"

    def _layout(self) -> list[widgets.Box]:
        row = {"flex_flow": "row wrap"}
        names = ("run", "pause", "step", "back", "stop", "reset", "keep", "sweep")
        buttons = widgets.HBox([self.buttons[name] for name in names], layout=row)
        data = [self.data] if self.problem else [self.data, self.fourier]
        sliders = self.sliders.widgets.values()
        controls = [*data, self.solvers, *sliders, self.budget, self.speed, self.watched]
        column = widgets.VBox(controls, layout={"flex": "0 1 25em"})
        for part in (buttons, column):
            part.add_class("live-controls")  # which the page disables without a kernel
        self.chart.layout.flex = "1 1 30em"
        return [buttons, widgets.HBox([column, self.chart], layout=row)]


def button(name: str, icon: str, act: Callable[[], None], tooltip: str) -> widgets.Button:
    """Return a button that calls `act`."""
    press = widgets.Button(description=name, icon=icon, tooltip=tooltip, layout={"width": "6em"})
    press.on_click(lambda _: act())
    return press


def choice(name: str, options: list[tuple[str, float]], value: float) -> widgets.SelectionSlider:
    """Return a slider over these options."""
    return widgets.SelectionSlider(
        options=options, value=value, description=name, continuous_update=False, **WIDE
    )


def legend(lane: Lane, spec: str | None) -> tuple[str, str]:
    """Return a run's label, with the parameters that are not at their defaults, and colour."""
    name, colour, _ = look(lane.solver)
    own = own_parameters(lane.solver, lane.parameters)
    settings = [f"{key} = {text(value)}" for key, value in own.items()]
    branch = [f"from round {lane.past[-1][1]}"] if lane.past else []
    return ", ".join([name, spec or lane.problem.name, *settings, *branch]), colour
