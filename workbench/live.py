"""The live view: a solver's certified band drawn while it runs, with run, pause, step and stop.

>>> explore()                                                              # doctest: +SKIP

:class:`LiveView` is the canvas of ``live.js``, :class:`Dashboard` the controls around it; the
solver runs in the thread of a :class:`workbench.player.Player`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets

from workbench.least_squares.links import LINKS
from workbench.measures import error
from workbench.memoir.descent import SAMPLINGS
from workbench.mips import MIPS
from workbench.panels import panel
from workbench.player import Curve, Player, Stream
from workbench.problem import Problem
from workbench.run import resolve, warm
from workbench.stream import Row, State, geometric, nothing, until, watch
from workbench.style import look

FOURIER = 400  # random features that the checkbox appends, as the paper does
TOLERANCE = 1e-9  # certified gap at which a run ends, against an upper bound above 1
UPDATES = 10  # drawn a second, at most
KEPT = 6  # curves on the canvas

SERIES = (*(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)), 1.0)
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 400, 1000, 2000)
SLIDERS = {
    "lambda0": SERIES,
    "eps1": SERIES,
    "eps2": SERIES,
    "n_max": COUNTS,
    "m_max": COUNTS,
    "C": tuple(2.0**e for e in range(-10, 11)),
    "alpha": tuple(float(f"1e{e}") for e in range(-8, 1)),
    "link": tuple(LINKS),
    "basis": tuple(range(1, 7)),
    "n_features": tuple(2**e for e in range(6, 15)),
    "block": tuple(2**e for e in range(5, 12)),
    "passes": (1, 2, 3, 5, 10, 20, 50),
    "inner": (1, 2, 4, 8, 16, 50),
    "bandwidth": (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0),
    "r": COUNTS,
    "landmarks": COUNTS,
    "p": (1, 2, 5, 10, 20, 50),
    "eps": SERIES,
    "gamma": tuple(float(f"{m}e{e}") for e in range(-8, 3) for m in (1, 3)),
    "stabilised": (False, True),
    "lam": (0.0, *(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 3)), 1.0),
    "eta0": tuple(float(f"{m}e{e}") for e in range(-3, 3) for m in (1, 3)),
    "sampling": SAMPLINGS,
    "in_batch": ("sequential", "frozen"),
    "hinge": (False, True),
    "div_by_batch": (False, True),
    "average": (False, True),
    "predict_metric": ("dot", "cosine"),
    "mips": MIPS,
    "l1": (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    "working_set": (2, 4, 8, 16, 32, 64),
}
STARTS = {"gamma": 1.0}  # of sliders whose default depends on the data


def explore(
    problem_names: Sequence[str] = ("digits", "wine", "breast_cancer", "iris"),
    solvers: Sequence[str] = ("mrc_ccg", "mrc_subgradient", "mrc_splitting", "mrc_interior_point"),
    judged: bool = False,
) -> Dashboard:
    """Return a dashboard on which a solver runs live; show it as the last line of a cell.

    The dashboard returned before is stopped: two solvers at once would spoil both clocks.

    Parameters
    ----------
    problem_names : data as :func:`workbench.panels.panel` reads them; it trains on 70 % of the rows
    solvers : names of the registry
    judged : draw the test error, measured off the clock, in the place of the gap; for solvers
        of which not all have a certificate

    Raises
    ------
    ValueError
        For a name that is no solver.
    """
    global _shown
    dashboard = Dashboard(problem_names, solvers, judged)
    if _shown is not None:
        _shown.player.stop()
    _shown = dashboard
    return dashboard


_shown: Dashboard | None = None


class LiveView(anywidget.AnyWidget):
    """The canvas: takes rows from any thread and sends the news, ten times a second at most.

    Points go as binary appends that say where they belong, so that none is drawn twice. A page
    that is opened later asks for all of them.
    """

    _esm = Path(__file__).with_name("live.js")

    def __init__(self):
        super().__init__()
        self.curves: list[Curve] = []
        self.words = {"status": "ready", "numbers": "", "error": ""}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self.on_msg(self._answer)

    def begin(self, label: str, colour: str) -> None:
        """Start a new curve; of the older ones the latest are kept."""
        with self._lock:
            number = self.curves[-1].number + 1 if self.curves else 1
            self.curves = [*self.curves, Curve(number, label, colour)][-KEPT:]

    def add(self, row: Row, keep: bool = True) -> None:
        """Draw a row of the newest curve."""
        with self._lock:
            self.curves[-1].add(row, keep)
        self.say(numbers=numbers(row))

    def say(self, **words: str) -> None:
        """Show a ``status``, ``numbers`` or an ``error``."""
        with self._lock:
            self.words |= words
            if self._timer is None:
                self._timer = threading.Timer(1 / UPDATES, self._flush)
                self._timer.daemon = True
                self._timer.start()

    def clear(self) -> None:
        """Remove all curves, numbers and errors."""
        with self._lock:
            self.curves = []
        self.say(numbers="", error="")

    def _flush(self) -> None:
        with self._lock:
            self._timer = None
            news = [curve.news() for curve in self.curves]
            content = self.words | {"curves": [words for words, _ in news]}
            self.send(content, [points for _, points in news])

    def _answer(self, _, content: Any, buffers: Any) -> None:
        """Send everything to a page that has just been opened."""
        with self._lock:
            for curve in self.curves:
                curve.sent = 0
        self.say()


class Dashboard(widgets.HBox):
    """Controls beside a :class:`LiveView`; what they say counts from the next run on."""

    def __init__(self, problem_names: Sequence[str], solvers: Sequence[str], judged: bool):
        defaults = {name: value for s in solvers[::-1] for name, value in resolve(s, {})[1].items()}
        wide = {"style": {"description_width": "6em"}, "layout": {"width": "auto"}}
        choices = [(look(name).label, name) for name in solvers]
        self.data = widgets.Dropdown(options=problem_names, description="data", **wide)
        self.fourier = widgets.Checkbox(description=f"+ {FOURIER} Fourier features", **wide)
        self.solver = widgets.Dropdown(options=choices, description="solver", **wide)
        self.sliders = {
            name: widgets.SelectionSlider(
                options=[(text(v), v) for v in SLIDERS[name]],
                value=STARTS.get(name, value),
                description=name,
                **wide,
            )
            for name, value in defaults.items()
            if name in SLIDERS
        }
        self.judged = judged
        self.view = LiveView()
        self.player = Player(self._hear)
        self._settings: tuple | None = None  # of the latest run
        self._kept = geometric(1.002)  # the first 500 rounds, later two in a thousand

        self.buttons = {
            "run": button(
                "play", self.run, "Start, or go on; anew where the controls have changed"
            ),
            "pause": button("pause", self.player.pause, "Pause when the round in progress ends"),
            "step": button("step-forward", self.step, "Go on by one round, then pause"),
            "stop": button("stop", self.player.stop, "End this run; its curve stays"),
            "reset": button("refresh", self.reset, "End this run and remove all curves"),
        }
        for name, press in self.buttons.items():
            press.description = name
        self.solver.observe(lambda _: self._show_sliders(), "value")
        self._show_sliders()
        buttons = widgets.HBox([*self.buttons.values()], layout={"flex_flow": "row wrap"})
        controls = [self.data, self.fourier, self.solver, *self.sliders.values(), buttons]
        column = widgets.VBox(controls, layout={"flex": "0 1 21em"})
        self.view.layout.flex = "1 1 30em"
        super().__init__([column, self.view], layout={"flex_flow": "row wrap"})

    def run(self) -> None:
        """Start, or go on; begin anew where the controls have changed."""
        self.player.run(self._prepare())

    def step(self) -> None:
        """Go on by one round, then pause."""
        self.player.step(self._prepare())

    def reset(self) -> None:
        """End this run and remove all curves; the controls stay as they are."""
        self.player.reset()
        self.view.clear()

    @property
    def spec(self) -> str:
        """The chosen data in words that :func:`workbench.panels.panel` reads."""
        return self.data.value + (f" + {FOURIER} fourier" if self.fourier.value else "")

    @property
    def parameters(self) -> dict[str, float | int | bool | str]:
        """The sliders' values, of those that the chosen solver has a parameter for."""
        declared = resolve(self.solver.value, {})[1]
        return {name: slider.value for name, slider in self.sliders.items() if name in declared}

    def _prepare(self) -> partial:
        """Return what starts a run; drop the run and the curves that it cannot go on from."""
        settings = (self.spec, self.solver.value, self.parameters)
        if settings != self._settings:
            self.player.reset()
            if self._settings is not None and settings[0] != self._settings[0]:
                self.view.clear()  # bounds on other data do not compare
            self._settings = settings
        return partial(start, *settings, judged=self.judged)

    def _hear(self, row: Row | None) -> None:
        if row is None:
            error = self.player.error
            words = f"{type(error).__name__}: {error}" if error else ""
            old = {"numbers": ""} if self.player.status == "starting" else {}
            return self.view.say(status=self.player.status, error=words, **old)
        if row["round"] == 0:
            self.view.begin(*legend(*self._settings))
        self.view.add(row, self._kept(row))

    def _show_sliders(self) -> None:
        for name, slider in self.sliders.items():
            slider.layout.display = None if name in self.parameters else "none"


def button(icon: str, act: Callable[[], None], tooltip: str) -> widgets.Button:
    """Return a button that calls `act`."""
    press = widgets.Button(icon=icon, tooltip=tooltip, layout={"width": "6em"})
    press.on_click(lambda _: act())
    return press


def start(spec: str, solver: str, parameters: dict[str, Any], judged: bool) -> Stream:
    """Load the data, compile the kernels off the clock, and return the solver's stream."""
    problem = panel(spec)
    steps, parameters = resolve(solver, parameters)
    warm(steps, problem, parameters)
    measure = judge(problem) if judged else nothing
    return until(watch(steps(problem, **parameters), measure), closed)


def judge(problem: Problem) -> Callable[[State], Row]:
    """Return the measure of the error on the test rows alone: it is taken every round."""
    return lambda state: {"test_error": error(state.scores(problem.X_test), problem.y_test)}


def closed(row: Row) -> str | None:
    """Stop when the bounds, of a solver that has them, have met as far as numbers can."""
    met = "gap" in row and row["gap"] <= TOLERANCE * max(1.0, row["upper"])
    return f"gap <= {TOLERANCE:g}" if met else None


def legend(spec: str, solver: str, parameters: dict[str, Any]) -> tuple[str, str]:
    """Return a run's label, with the parameters that are not at their defaults, and colour."""
    name, colour, _ = look(solver)
    defaults = resolve(solver, {})[1]
    changed = [f"{key} = {text(v)}" for key, v in parameters.items() if v != defaults[key]]
    return ", ".join([name, spec, *changed]), colour


def text(value: float | int | bool | str) -> str:
    """Return a slider's value in words."""
    return str(value) if isinstance(value, bool | str) else f"{value:g}"


def numbers(row: Row) -> str:
    """Return a row in one line of words."""
    words = {key: v if isinstance(v, str) else f"{v:.4g}" for key, v in row.items()}
    return " · ".join(f"{key} {word}" for key, word in words.items() if key != "cpu")
