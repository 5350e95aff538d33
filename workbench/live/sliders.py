"""The values that a dashboard offers for each parameter, by the parameter's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from workbench.least_squares.links import LINKS
from workbench.memoir.mips import MIPS
from workbench.memoir.solvers import SAMPLINGS
from workbench.registry import SOLVERS
from workbench.runs.run import resolve

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
    "batch_size": COUNTS,
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
DEFAULT = "default"  # in the place of None, which no slider can hold: it depends on the data


class Sliders:
    """One slider a parameter; two where solvers that share its name start it elsewhere.

    Parameters
    ----------
    solvers : names of the registry
    starts : values to start from, by the parameter's name

    Attributes
    ----------
    widgets : the sliders by name; a second one of a name is called ``name (solver)``

    Raises
    ------
    ValueError
        For a start that no solver has a parameter for, or no slider.
    """

    def __init__(self, solvers: Sequence[str], starts: Mapping[str, Any]):
        self.widgets: dict[str, widgets.SelectionSlider] = {}
        self._of: dict[str, dict[str, str]] = {}  # solver -> parameter -> slider
        defaults = {solver: resolve(solver, {})[1] for solver in solvers}
        starts = {name: getattr(v, "item", lambda v=v: v)() for name, v in starts.items()}
        for name, value in starts.items():
            if name not in SLIDERS or not any(name in values for values in defaults.values()):
                raise ValueError(f"parameters: {', '.join(solvers)}: no slider is called {name!r}")
            if value is not None and isinstance(value, str) != isinstance(SLIDERS[name][-1], str):
                raise ValueError(
                    f"parameters: {name} must be like {SLIDERS[name][-1]!r}, got {value!r}"
                )
        for solver, values in defaults.items():
            shown = {name: starts.get(name, v) for name, v in values.items() if name in SLIDERS}
            self._of[solver] = {name: self._find(solver, name, v) for name, v in shown.items()}
        for key, slider in self.widgets.items():
            slider.tooltip = self._tooltip(key)

    def parameters(self, solver: str) -> dict[str, Any]:
        """Return the sliders' values of those that the solver has a parameter for."""
        values = {name: self.widgets[key].value for name, key in self._of[solver].items()}
        return {name: None if v == DEFAULT else v for name, v in values.items()}

    def one(self, key: str, solver: str) -> dict[str, Any]:
        """Return the value of one slider, by the name of the solver's parameter, if it has it."""
        names = [name for name, own in self._of[solver].items() if own == key]
        return {name: self.parameters(solver)[name] for name in names}

    def differ(self, solver: str, parameters: Mapping[str, Any]) -> list[str]:
        """Return the sliders of this solver whose values are not among its `parameters`."""
        shown = self.parameters(solver)
        return [key for name, key in self._of[solver].items() if parameters[name] != shown[name]]

    def show(self, solvers: Sequence[str]) -> None:
        """Show the sliders of these solvers and no others; a name alone where that is plain."""
        shown = {key for solver in solvers for key in self._of[solver].values()}
        names = [key.split(" ")[0] for key in shown]
        for key, slider in self.widgets.items():
            slider.layout.display = None if key in shown else "none"
            alone = names.count(key.split(" ")[0]) < 2
            slider.description = key.split(" ")[0] if alone else key
            slider.style.description_width = "8em" if alone else "initial"

    def live(self, key: str, solvers: Sequence[str]) -> bool:
        """Whether all of these solvers that have this slider can change it in mid-run."""
        names = [(s, name) for s in solvers for name, k in self._of[s].items() if k == key]
        return all(name in SOLVERS[solver].live for solver, name in names)

    def _find(self, solver: str, name: str, value: Any) -> str:
        """Return the slider of this name that starts at this value, made if there was none."""
        value = DEFAULT if value is None else value
        for key, slider in self.widgets.items():
            if key.split(" ")[0] == name and slider.value == value:
                return key
        key = f"{name} ({solver})" if name in self.widgets else name
        self.widgets[key] = new_slider(key, with_value(SLIDERS[name], value), value)
        return key

    def _tooltip(self, key: str) -> str:
        live = [s for s, names in self._of.items() if key in names.values() and self.live(key, [s])]
        if not live:
            return "Another value begins the run anew"
        return f"Another value goes on from the same iterate: {', '.join(live)}"


def new_slider(key: str, values: Sequence, value: Any) -> widgets.SelectionSlider:
    """Return a slider over these values that speaks when it is let go."""
    return widgets.SelectionSlider(
        options=[(text(v), v) for v in values],
        value=value,
        description=key,
        continuous_update=False,
        layout={"width": "auto"},
    )


def with_value(values: Sequence, value: Any) -> list:
    """Return the values in order with this one among them, a word first."""
    if value in values:
        return list(values)
    return [value, *values] if isinstance(value, str) else sorted([*values, value])


def text(value: float | int | bool | str) -> str:
    """Return a slider's value in words."""
    return str(value) if isinstance(value, bool | str) else f"{value:g}"
