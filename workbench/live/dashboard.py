"""The controls of the live view.

New data, solvers and parameters take effect at the next run or step, a new pace at
once.
"""

import asyncio
import re
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
from workbench.live.sliders import Sliders, control_for, in_words
from workbench.registry import SOLVERS
from workbench.runs.run import resolve

# Choices of solver seconds.
BUDGETS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)
FULL = "full"
SPEEDS = (1.0, 3.0, 10.0, FULL)  # rounds per second
# Solvers whose names begin alike, as matched here, have the same objective, a function
# of the problem and of shared parameters. Any other solver has its own objective.
SAME = re.compile("mrc_|svm_|ww_|cuts_|ls_(?=generalized|accelerated)")
PING_S = 4.0  # seconds between two checks that a page is open
MAX_UNANSWERED = 8  # checks without an answer, after which the run pauses
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
        self._suited = problem if isinstance(problem, Mapping) else {}
        suited = [*self._suited.values()] or [{}]
        # Sliders for the other data sets are made only to refuse values out of range.
        self.sliders, *_ = [Sliders(solvers, {**parameters, **own}) for own in suited]
        self.data = widgets.Dropdown(options=names, description="data")
        self.data.tooltip = "Rows to train on; test rows serve for evaluation only."
        self.solvers = widgets.SelectMultiple(
            options=_labelled(solvers), value=tuple(chosen), description="solvers"
        )
        self.budget = control_for(
            "seconds", BUDGETS_S, seconds, "limit of each run; only solver time counts"
        )
        self.speed = control_for(
            "rounds/s", SPEEDS, FULL, "slow rates let you watch and evaluate each round"
        )
        self.watched = widgets.Dropdown(description="inside of")
        self.watched.tooltip = "The solver whose state is drawn below the chart."
        self.inside = Inside()
        self.player = player = Player(self._on_rows)
        acts = self.run, player.pause, self.step, player.back, player.stop, self.reset
        self._acts = {act.__name__: act for act in acts}
        self.chart = Chart(self._pending, self._release, self._asked)
        self._portrait = Spare(TIME_FRACTION, MIN_PAUSE_S)
        self._loaded: tuple[str | None, Problem] | None = None
        self._target: Wanted = None, {}  # requested by the last run or step
        self._arranged: Wanted = None, {}  # in play now
        self._watching = False
        self._loop = None
        with suppress(RuntimeError):  # without a kernel
            self._loop = asyncio.get_running_loop()
        self._connect()
        self._choose()
        self._pace()
        super().__init__([widgets.HBox(self._page()).add_class("live-body")])
        self.add_class("live-page")

    def _connect(self) -> None:
        """Let every control call the method that acts on it."""
        self.data.observe(lambda _: self._suit(), "value")
        self.solvers.observe(lambda _: self._choose(), "value")
        self.watched.observe(lambda _: self._look(), "value")
        for control in (self.budget, self.speed):
            control.observe(lambda _: self._pace(), "value")
        for control in (self.data, self.solvers, *self.sliders.widgets.values()):
            control.observe(lambda _: self.chart.say(), "value")

    def _page(self) -> list[widgets.DOMWidget]:
        """Return the parts of the page; without a kernel, ``live-controls`` are
        disabled."""
        column = widgets.VBox(
            [
                widgets.HTML("<b>Problem and parameters</b>, at the next run or step"),
                self.data,
                self.solvers,
                *self.sliders.groups(),
                widgets.HTML("<b>Pace</b>, at once"),
                self.budget,
                self.speed,
                self.watched,
            ]
        )
        return [column.add_class("live-controls"), self.chart, self.inside]

    def _suit(self) -> None:
        """Set the sliders to the values that suit the chosen data."""
        self.sliders.set(self._suited.get(self.data.value, {}))

    def run(self) -> None:
        """Start or resume.

        A run branches or starts again if its data or parameters have changed. If all
        runs have ended, they start again.
        """
        self._ask()
        self.player.run(self._arrange)
        if self._loop and not self._watching:
            self._watching = True
            self.chart.unanswered = 0
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
        self._target = self._arranged = None, {}
        self._loaded = None

    def _shown(self) -> Wanted:
        """Return the data, None for a Problem, and the parameters on the controls."""
        values = {name: self.sliders.parameters(name) for name in self.solvers.value}
        data = None if self.problem else self.data.value
        return data, values

    def _ask(self) -> None:
        """Store what the controls show as the requested runs."""
        self._target = self._shown()
        self.chart.say(note="")

    def _watch(self) -> None:
        """Pause a run that no page shows.

        This runs on the kernel's loop, so a busy cell delays it.
        """
        self._watching = self.player.status in PLAYING
        if self._watching:
            if self.chart.unanswered >= MAX_UNANSWERED:
                self.player.pause()
                self.chart.say(note="paused: no page showed this; press run to resume")
            self.chart.unanswered += 1
            self.chart.say(ping=self._loop.time())  # a page answers each ping once
            self._loop.call_later(PING_S, self._watch)

    def _arrange(self, lanes: list[Lane]) -> list[Lane]:
        """Return the requested lanes, made from `lanes`, in the player's thread."""
        target = self._target
        spec, wanted = target
        if not wanted:
            raise ValueError("choose at least one solver")
        loaded = self._loaded
        if loaded is None or loaded[0] != spec:
            self.chart.say(doing="loading the data")
            loaded = spec, self.problem or load(spec)
        _, problem = loaded
        arranged = [
            self._lane(lanes, solver, values, problem)
            for solver, values in wanted.items()
        ]
        self._loaded = loaded
        self._arranged = target
        return arranged

    def _over(self, lane: Lane) -> bool:
        return bool(lane.ended) or lane.seconds >= self.player.budget

    def _lane(
        self, lanes: list[Lane], solver: str, values: Record, problem: Problem
    ) -> Lane:
        """Return the solver's lane if it can go on unchanged, else a branch of it or a
        new lane."""
        for lane in lanes:
            if lane.solver != solver or lane.problem is not problem or lane.error:
                continue
            changed = {n for n, value in values.items() if lane.parameters[n] != value}
            if not changed and not all(map(self._over, lanes)):
                return lane
            live = changed <= {*SOLVERS[solver].live}
            if live and lane.last and not self._over(lane):
                return lane.branch(lane.parameters | values)
            break
        measure = nothing if problem.X_test is None else held_out(problem)
        return Lane(solver, problem, values, measure)

    def _asked(self, words: Record) -> None:
        """Carry out the button pressed on a page, or send the runs that it saves."""
        act = self._acts.get(words.get("press", ""))
        if act:
            act()
        if "save" in words:
            data, _ = self._loaded or (None, None)
            runs = [
                (c.number, c.lane.solver, c.lane.trace.text, c.lane.code)
                for c in self.chart.curves
                if c.lane and c.seen
            ]
            self.chart.send({"data": data, "runs": runs})

    def _release(self, curve: Curve) -> None:
        """Release a removed run, with its states and the pictures of its inside."""
        lane = curve.lane
        curve.lane = None
        curve.live = False
        self.player.lanes = [other for other in self.player.lanes if other is not lane]
        if lane and lane.solver == self.watched.value:
            self.inside.show("", [])
            self._look()

    def _on_rows(self, lane: Lane | None, rows: list[Row] | None) -> None:
        """Draw what the player reports (see :class:`Player`)."""
        if lane is None:
            self._status()
            return
        curve = self._curve(lane)
        if curve is None:
            return
        out_of_time = lane.seconds >= self.player.budget
        curve.ended = lane.ended or ("out of time" if out_of_time else "")
        gone_back = rows is None
        self.chart.add(curve, lane.rows if gone_back else rows, gone_back)
        if not rows or lane.ended:
            self._portrait.now()
        if lane.solver == self.watched.value and self._portrait.due():
            self._portrait.run_and_rest(self._show, lane)

    def _status(self) -> None:
        """Show the player's status, and give each new lane its curve."""
        lanes = self.player.lanes
        error = _in_one_line(self.player.error)
        self.chart.say(status=self.player.status, error=error, doing="")
        for curve in self.chart.curves:
            curve.live = curve.lane in lanes
            if curve.lane and any(curve.lane.problem is not x.problem for x in lanes):
                curve.colour = GREY  # bounds on other data are not comparable
                curve.lane = None
        for lane in lanes:
            if not self._curve(lane):
                spec, _ = self._loaded or (None, None)
                data = spec or lane.problem.name
                words = legend(lane.solver, lane.parameters, data, lane.since)
                curve = self.chart.begin(*words)
                curve.lane = lane
                self.chart.add(curve, lane.rows)
        self._set_main()

    def _curve(self, lane: Lane) -> Curve | None:
        return next((curve for curve in self.chart.curves if curve.lane is lane), None)

    def _look(self) -> None:
        """Show the inside of the chosen solver's run, if no round is in progress."""
        lanes = [curve.lane for curve in self.chart.curves if curve.lane]
        lanes = [lane for lane in lanes if lane.solver == self.watched.value]
        if lanes and self.player.status in AT_REST:
            self._show(lanes[-1])

    def _show(self, lane: Lane) -> None:
        """Show the inside of a run, unless it has no state yet or has failed."""
        if lane.state is None or lane.error:
            return
        title = f"{SOLVERS[lane.solver].label}, {lane.problem.name}"
        title += f": round {lane.state.round}"
        try:
            pictures = portrait(lane.state, lane.problem)
            self.inside.show(title, pictures)
        except Exception as error:  # a picture that fails does not end the run
            self.inside.show(title, [])
            reason = f"{type(error).__name__}: {error}"
            self.chart.say(note=f"the inside cannot be shown: {reason}")

    def _choose(self) -> None:
        """Show the controls of the chosen solvers."""
        chosen = self.solvers.value
        watched = self.watched.value
        self.sliders.show(chosen)
        self.watched.options = _labelled(chosen)
        self.watched.value = watched if watched in chosen else (*chosen, None)[0]
        self._set_main()

    def _set_main(self) -> None:
        """Put the test error at the top unless all objectives are the same function."""
        lanes = [curve.lane for curve in self.chart.curves if curve.lane]
        solvers = [*self.solvers.value, *(lane.solver for lane in lanes)]
        functions = {(SAME.match(name) or [name])[0] for name in solvers}
        self.chart.say(main="objective" if len(functions) < 2 else "test error")

    def _pace(self) -> None:
        self.player.budget = self.budget.value
        speed = self.speed.value
        self.player.pause_between = 0.0 if speed == FULL else 1 / speed
        self.chart.say(budget=self.budget.value)

    def _pending(self) -> str:
        """Return the changes that have no effect yet, and what each waits for."""
        waiting = [(self._target, self._shown(), "run or step is pressed")]
        if self.player.status in PLAYING:
            waiting.append((self._arranged, self._target, "the round in progress ends"))
        for (data, old), (spec, new), event in waiting:
            names = []
            if data != spec:
                names.append("data")
            if set(old) != set(new):
                names.append("solvers")
            for solver in set(old) & set(new):
                names += self.sliders.differ(solver, old[solver], new[solver])
            if old and names:
                return f"pending until {event}: {', '.join(dict.fromkeys(names))}"
        return ""


def _labelled(solvers: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options of a menu of solvers."""
    return [(SOLVERS[name].label, name) for name in solvers]


def _in_one_line(error: Exception | None) -> str:
    """Return the message of an error, with its type unless it is a ValueError."""
    if isinstance(error, ValueError | None):
        return str(error or "")
    return f"{type(error).__name__}: {error}"


def legend(
    solver: str, parameters: Values, data: str, since: int | None = None
) -> tuple[str, str, list[str]]:
    """Return a run's label, colour and settings.

    The settings are its data, the parameters that are not at their defaults, and the
    round that it branched from.
    """
    _, defaults = resolve(solver, {})
    settings = [data]
    for name, value in parameters.items():
        if value != defaults.get(name):
            settings.append(f"{name} = {in_words(value)}")
    if since is not None:
        settings.append(f"from round {since}")
    return SOLVERS[solver].label, SOLVERS[solver].colour, settings
