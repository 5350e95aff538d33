"""The values that a dashboard offers for each parameter, by the parameter's name."""

import re
from collections.abc import Sequence
from pathlib import Path

import anywidget
import ipywidgets as widgets
import traitlets

from workbench.core.kinds import Record, Values
from workbench.data import synthetic
from workbench.least_squares.links import LINKS
from workbench.memoir.mips import MIPS
from workbench.registry import SOLVERS
from workbench.runs.parameters import explained
from workbench.runs.run import resolve


def series(first: int, last: int, *digits: int) -> list[float]:
    """Return these digits times ten to each power from `first` to `last` - 1."""
    return [float(f"{m}e{e}") for e in range(first, last) for m in digits]


SERIES = *series(-6, 0, 1, 2, 5), 1.0
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 400, 1000, 2000)
SLIDERS = {
    **dict.fromkeys(("lambda0", "eps1", "eps2", "eps"), SERIES),
    **dict.fromkeys(("n_max", "m_max", "r", "landmarks", "batch_size"), COUNTS),
    "C": [2.0**e for e in range(-10, 11)],
    "alpha": series(-8, 1, 1),
    "link": tuple(LINKS),
    "basis": tuple(range(1, 7)),
    "n_features": [2**e for e in range(6, 15)],
    "block": [2**e for e in range(5, 12)],
    **dict.fromkeys(("passes", "inner", "p"), (1, 2, 3, 4, 5, 8, 10, 16, 20, 50)),
    "bandwidth": series(-2, 3, 1, 2, 3, 5, 7),
    "gamma": series(-8, 3, 1, 3),
    "lam": (0.0, *series(-6, 0, 1, 3), 1.0),
    "eta0": series(-3, 3, 1, 3),
    "mips": MIPS,
    "l1": (0.0, *series(-3, 0, 1, 2, 5)),
    "working_set": (2, 4, 8, 16, 32, 64),
}
# A slider shows this word for None, which means that the value depends on the data.
DEFAULT = "default"


class Sliders:
    """One control per parameter, or one per solver if the solvers' defaults differ.

    A parameter with an initial value always has one control.

    Parameters
    ----------
    solvers : the names of solvers in the registry
    starts : initial values by the parameter's name (default: the solvers' defaults)

    Attributes
    ----------
    widgets : the controls by name; controls of one solver are called ``name (label of
        the solver)``

    Raises
    ------
    ValueError
        If an initial value is for a parameter that no solver or no slider has, or a
        solver refuses it.
    """

    def __init__(self, solvers: Sequence[str], starts: Values):
        self.widgets: dict[str, widgets.DOMWidget] = {}
        self._keys: dict[str, dict[str, str]] = {}  # solver -> parameter -> control
        defaults = {solver: resolve(solver, {})[1] for solver in solvers}
        _check_starts(starts, defaults)
        for solver, values in defaults.items():
            self._keys[solver] = {}
            for name in filter(SLIDERS.get, values):
                usual = {other[name] for other in defaults.values() if name in other}
                shared = name in starts or len(usual) == 1
                label = SOLVERS[solver].label
                key = name if shared else f"{name} ({label})"
                self._keys[solver][name] = key
                if key not in self.widgets:
                    start = starts.get(name, values[name])
                    words = described(name, solver)
                    control = control_for(name, SLIDERS[name], start, words)
                    self.widgets[key] = control

    def groups(self) -> list[widgets.VBox]:
        """Return the shared controls, and those of each single solver below its
        label."""
        groups: dict[str, list[widgets.DOMWidget]] = {"": []}
        for key, control in self.widgets.items():
            label = key.partition(" (")[2][:-1]
            groups.setdefault(label, [widgets.HTML(f"<b>{label}</b>")]).append(control)
        return [*map(widgets.VBox, groups.values())]

    def parameters(self, solver: str) -> Record:
        """Return the values of the solver's sliders by parameter."""
        values = {}
        for name, key in self._keys[solver].items():
            value = self.widgets[key].value
            values[name] = None if value == DEFAULT else value
        return values

    def differ(self, solver: str, old: Values, new: Values) -> list[str]:
        """Return the controls of the parameters whose values differ."""
        return [
            key for name, key in self._keys[solver].items() if old[name] != new[name]
        ]

    def set(self, values: Values) -> None:
        """Set every control of these parameters, whichever solver it belongs to."""
        for key, control in self.widgets.items():
            name = key.split()[0]
            control.value = values.get(name, control.value)

    def show(self, solvers: Sequence[str]) -> None:
        """Show the controls of these solvers and no others."""
        shown = {key for solver in solvers for key in self._keys[solver].values()}
        for key, control in self.widgets.items():
            control.layout.display = None if key in shown else "none"


def _check_starts(starts: Values, defaults: dict[str, Record]) -> None:
    """Refuse initial values of parameters without a slider.

    Each solver that has some of the given parameters begins to solve a tiny problem,
    and so refuses values out of range.
    """
    for name in starts:
        declared = any(name in values for values in defaults.values())
        if name not in SLIDERS or not declared:
            raise ValueError(
                f"parameters: no slider is called {name!r} for {', '.join(defaults)}"
            )
    for solver, values in defaults.items():
        given = {name: starts[name] for name in values if name in starts}
        try:
            for _ in given and SOLVERS[solver].steps(synthetic(9, 2, 2), **given):
                break
        except ValueError as error:
            if str(error).split(":")[0] in given:
                raise


class Knob(anywidget.AnyWidget):
    """A slider over some values, with a field for any other number.

    Attributes
    ----------
    description : the name
    options : the numbers in ascending order, and possibly words
    value : one of the options, or another number; it becomes a float if any option is
        a float, otherwise an int
    tooltip : the help text, in one line
    """

    _esm = Path(__file__).with_name("knob.js").read_text(encoding="utf-8")
    description = traitlets.Unicode().tag(sync=True)
    options = traitlets.Tuple().tag(sync=True)
    value = traitlets.Any(0).tag(sync=True)
    tooltip = traitlets.Unicode().tag(sync=True)

    @traitlets.validate("value")
    def _check(self, proposal: Record) -> object:
        value = proposal["value"]
        kind = float if float in map(type, self.options) else int
        return value if isinstance(value, str) else kind(value)


def control_for(
    name: str, values: Sequence, value: object, words: str
) -> widgets.DOMWidget:
    """Return a check box for a switch, a menu for words, or a slider for numbers."""
    about = {"description": name, "tooltip": words}
    if isinstance(value, bool):
        return widgets.Checkbox(value=value, **about)
    if isinstance(values[0], str):
        return widgets.Dropdown(options=values, value=value, **about)
    if value is None:
        value = DEFAULT
        values = (DEFAULT, *values)
    return Knob(options=values, value=value, **about)


def described(name: str, solver: str) -> str:
    """Return the first sentence of the help on a parameter of a solver.

    A docstring may refer to another solver, such as "as in cuts_exact".
    """
    words = explained(SOLVERS[solver].steps)[name].help
    refers = re.match(r"(?:as (?:in|of)|see) `?(\w+)", words)
    if refers and refers[1] in SOLVERS:
        return described(name, refers[1])
    return re.sub(r"^(int|float)[^,]*, |\. .*|[,;] see .*", "", words)


def in_words(value: object) -> str:
    """Return a parameter's value in words."""
    return str(value) if isinstance(value, bool | str) else f"{value:g}"
