"""The values that a dashboard offers for each parameter, by the parameter's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

import ipywidgets as widgets

from workbench.core.kinds import Record, Values
from workbench.least_squares.links import LINKS
from workbench.memoir.mips import MIPS
from workbench.registry import SOLVERS
from workbench.runs.parameters import explained
from workbench.runs.run import resolve

SERIES = (*(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)), 1.0)
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 400, 1000, 2000)
SLIDERS = {
    **dict.fromkeys(("lambda0", "eps1", "eps2", "eps"), SERIES),
    **dict.fromkeys(("n_max", "m_max", "r", "landmarks", "batch_size"), COUNTS),
    "C": tuple(2.0**e for e in range(-10, 11)),
    "alpha": tuple(float(f"1e{e}") for e in range(-8, 1)),
    "link": tuple(LINKS),
    "basis": tuple(range(1, 7)),
    "n_features": tuple(2**e for e in range(6, 15)),
    "block": tuple(2**e for e in range(5, 12)),
    **dict.fromkeys(("passes", "inner", "p"), (1, 2, 3, 4, 5, 8, 10, 16, 20, 50)),
    "bandwidth": (
        0.01,
        0.03,
        0.1,
        0.2,
        0.3,
        0.5,
        0.7,
        1.0,
        1.5,
        2.0,
        3.0,
        5.0,
        10.0,
        30.0,
        100.0,
    ),
    "gamma": tuple(float(f"{m}e{e}") for e in range(-8, 3) for m in (1, 3)),
    "lam": (0.0, *(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 3)), 1.0),
    "eta0": tuple(float(f"{m}e{e}") for e in range(-3, 3) for m in (1, 3)),
    "mips": MIPS,
    "l1": (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    "working_set": (2, 4, 8, 16, 32, 64),
}
WIDE = {"style": {"description_width": "8em"}, "layout": {"width": "auto"}}
# Instead of None, which a slider cannot hold: the value depends on the data.
DEFAULT = "default"


class Sliders:
    """One control per parameter, or one per solver and parameter if the solvers'
    defaults differ.

    Parameters
    ----------
    solvers : names of the registry
    starts : initial values by the parameter's name (default: the solvers' defaults)

    Attributes
    ----------
    widgets : the controls by name; a control of a single solver is called ``name
        (solver)``
    rows : each of them above its line of help

    Raises
    ------
    ValueError
        For a start that no solver has a parameter or a slider for, or that is a word
        instead of a number.
    """

    def __init__(self, solvers: Sequence[str], starts: Values):
        self.widgets: dict[str, widgets.DOMWidget] = {}
        self.rows: dict[str, widgets.DOMWidget] = {}
        self._keys: dict[str, dict[str, str]] = {}  # solver -> parameter -> control
        defaults = {solver: resolve(solver, {})[1] for solver in solvers}
        _check_starts(starts, defaults)
        for solver, values in defaults.items():
            self._keys[solver] = {}
            for name in filter(SLIDERS.get, values):
                usual = {other[name] for other in defaults.values() if name in other}
                shared = name in starts or len(usual) == 1
                key = name if shared else f"{name} ({solver})"
                self._keys[solver][name] = key
                if key not in self.widgets:
                    start = starts.get(name, values[name])
                    control = control_for(key, SLIDERS[name], start)
                    self.widgets[key] = control
                    self.rows[key] = captioned(control, described(name, solver))

    def parameters(self, solver: str) -> Record:
        """Return the values of the solver's sliders by parameter."""
        values = {}
        for name, key in self._keys[solver].items():
            value = self.widgets[key].value
            values[name] = None if value == DEFAULT else value
        return values

    def differ(self, solver: str, old: Values, new: Values) -> list[str]:
        """Return the controls of the parameters whose value in `new` is another one."""
        keys = self._keys[solver].items()
        return [key for name, key in keys if old[name] != new[name]]

    def set(self, values: Values) -> None:
        """Set every control of these parameters, whichever solver it belongs to."""
        for key, control in self.widgets.items():
            name, _, _ = key.partition(" ")
            control.value = values.get(name, control.value)

    def show(self, solvers: Sequence[str]) -> None:
        """Show the controls of these solvers and no others."""
        shown = {key for solver in solvers for key in self._keys[solver].values()}
        for key, row in self.rows.items():
            row.layout.display = None if key in shown else "none"


def _check_starts(starts: Values, defaults: dict[str, Record]) -> None:
    """Refuse initial values of parameters without a slider, and of another type."""
    for name, value in starts.items():
        declared = any(name in values for values in defaults.values())
        if name not in SLIDERS or not declared:
            raise ValueError(
                f"parameters: {', '.join(defaults)}: no slider is called {name!r}"
            )
        example = SLIDERS[name][-1]
        if value is not None and isinstance(value, str) != isinstance(example, str):
            raise ValueError(
                f"parameters: {name} must be like {example!r}, got {value!r}"
            )


def control_for(name: str, values: Sequence, value: object) -> widgets.DOMWidget:
    """Return a check box for a switch, a menu for words, a slider for numbers."""
    value = DEFAULT if value is None else value
    if value not in values:
        values = [value, *values]
        if not isinstance(value, str):
            values.sort()
    if isinstance(value, bool):
        control = widgets.Checkbox(value=value, description=name, **WIDE)
    elif isinstance(values[-1], str):
        control = widgets.Dropdown(
            options=values, value=value, description=name, **WIDE
        )
    else:
        control = slider(name, [(in_words(v), v) for v in values], value)
    if " " in name:
        control.style.description_width = "initial"
    return control


def captioned(control: widgets.DOMWidget, words: str) -> widgets.VBox:
    """Return the control above a line of help, which is also its tooltip."""
    control.tooltip = words
    return widgets.VBox([control, widgets.HTML(escape(words)).add_class("live-help")])


def described(name: str, solver: str) -> str:
    """Return the first sentence of the help on a parameter of a solver.

    A docstring may refer to another solver, such as "as in cuts_exact".
    """
    words = explained(SOLVERS[solver].steps)[name].help
    refers = re.match(r"(?:as (?:in|of)|see) `?(\w+)", words)
    if refers and refers[1] in SOLVERS:
        return described(name, refers[1])
    return re.sub(r"\. .*|[,;] see .*", "", words)


def slider(
    name: str, options: list[tuple[str, object]], value: object
) -> widgets.SelectionSlider:
    """Return a slider over these options that reports its value when it is released."""
    return widgets.SelectionSlider(
        options=options, value=value, description=name, continuous_update=False, **WIDE
    )


def in_words(value: object) -> str:
    """Return a parameter's value in words."""
    return str(value) if isinstance(value, bool | str) else f"{value:g}"
