"""Parameters of solvers and of notebooks: their names, types and values, and YAML."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from workbench.core.kinds import Given, PathLike, Record, Steps, Values
from workbench.core.names import near
from workbench.data.words import listed

TYPES = {kind.__name__: kind for kind in (bool, int, float, str, list, tuple, dict)}
BOOLEANS = yaml.SafeLoader.bool_values  # yes, no, on, off, true, false
COLLECTIONS = (list, tuple, dict)
MAX_POINTS = 100_000
TAG = "tag:yaml.org,2002:"
# Patterns of YAML 1.2, with the first letters of the texts that they match: 010 is ten,
# and no is a text. Dates are recognised in order to be refused.
SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"[Tt]rue|TRUE|[Ff]alse|FALSE", "tTfF"),
    "int": (r"[-+]?(\d[\d_]*|0x[\da-fA-F]+|0o[0-7]+)", "-+0123456789"),
    "float": (
        r"[-+]?((\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?|\.(inf|Inf|INF))|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    "timestamp": (r"\d{4}-\d\d?-\d\d?([Tt\s].*)?", "0123456789"),
    "merge": ("<<", "<"),
}


class _Loader(yaml.SafeLoader):
    """Read plain data as in YAML 1.2, and refuse a key that appears twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            name = repr(key.value)
            if name in seen:
                self.refuse(f"{name} appears twice", key)
            seen.add(name)
        return node

    def construct_yaml_int(self, node: Any) -> int:
        text = self.construct_scalar(node).replace("_", "")
        base = 0 if re.match("[-+]?0[xo]", text) else 10
        return int(text, base)

    def construct_undefined(self, node: Any) -> None:
        kind = node.tag.removeprefix(TAG)
        self.refuse(f"a {kind} is not accepted; put a text in quotes", node)

    def refuse(self, reason: str, node: Any) -> None:
        raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark)


for _kind, (_pattern, _first) in SCALARS.items():
    _Loader.add_implicit_resolver(TAG + _kind, re.compile(f"({_pattern})$"), _first)
_Loader.yaml_constructors = {
    TAG + kind: getattr(_Loader, f"construct_yaml_{kind}")
    for kind in ("null", "bool", "int", "float", "str", "seq", "map")
} | {None: _Loader.construct_undefined}


def _loaded(text: str, kind: Any = _Loader) -> Any:
    """Return the single value of a YAML text, from a loader that makes plain data."""
    loader = kind(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _boolean(value: Given) -> bool:
    return BOOLEANS[value.lower()]


def _real(value: Given) -> float:
    if not isinstance(value, str) and type(value) not in (int, float):
        raise ValueError
    return float(value)


def _whole(value: Given) -> int:
    if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
        return int(value)  # exact for any size
    number = _real(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _text(value: Given) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if type(value) not in (int, float):
        raise ValueError
    return str(value)


CONVERTERS = {bool: _boolean, int: _whole, float: _real, str: _text}


class Parameter(NamedTuple):
    """A parameter of a solver or a notebook.

    ``type`` is None if neither an annotation nor the default determines it.
    """

    name: str
    type: type | None
    default: object
    help: str = ""

    def typed(self, value: Given) -> Given:
        """Return a value in the parameter's type.

        Texts become numbers, booleans and lists, because values from a command line are
        texts. For a parameter of type text, a list or a number becomes a text with
        commas. The items of a list get the type of the default's items.

        Raises
        ------
        ValueError
            If `value` is not a value of this type.
        """
        kind = self.type
        if self.default is None and value in (None, "None", "none", "null"):
            return None
        if kind in COLLECTIONS:
            return self._collection(value)
        if type(value) is kind:
            return value
        if kind is None and isinstance(value, tuple(CONVERTERS)):
            return value
        try:
            return CONVERTERS[kind](value)  # type: ignore[index]
        except (AttributeError, LookupError, ValueError, OverflowError):
            accepted = f"of type {kind.__name__}" if kind else "a single value"
        raise ValueError(f"{self.name}: must be {accepted}, got {value!r}")

    def read(self, text: str) -> Given:
        """Return the value of a command line's text, read as YAML if the type is
        None."""
        if self.type is None:
            with suppress(yaml.YAMLError, ValueError, LookupError):
                value = _loaded(text)
                if type(value) in TYPES.values():
                    return value
        return self.typed(text)

    def _collection(self, given: Given) -> Given:
        """Return a list, tuple or dictionary; a text is read as YAML or at its
        commas."""
        kind: Any = self.type
        default: Any = self.default or ()
        value = given
        fault = ""
        if isinstance(given, str):
            try:
                value = self._parsed(given)
            except (yaml.YAMLError, ValueError, LookupError) as error:
                fault = f"; {error}"
        if kind is not dict and isinstance(value, (list, tuple)):
            return kind(self._item(item, default) for item in value)
        if kind is dict and isinstance(value, dict):
            like = {name: [item] for name, item in dict(default).items()}
            return {
                name: self._item(item, like.get(name, []))
                for name, item in value.items()
            }
        example = "{a: 1}" if kind is dict else "[1, 2]"
        raise ValueError(
            f"{self.name}: must be of type {kind.__name__}, such as {example}, got "
            f"{given!r}{fault}"
        )

    def _parsed(self, text: str) -> Given:
        """Return the collection in a YAML text, or the list of items between commas."""
        default: Any = self.default or ()
        texts = self.type is not dict and {*map(type, default)} == {str}
        loader = yaml.BaseLoader if texts else _Loader
        value = _loaded(text, loader)
        if isinstance(value, list | dict):
            return value
        return listed(text) if texts else _loaded(f"[{text}]")

    def _item(self, value: Given, like: Iterable[object]) -> Given:
        """Return an item of a collection in the type of the default's items, if all
        agree."""
        kinds = {float if type(item) is int else type(item) for item in like}
        if len(kinds) != 1:
            return value
        [kind] = kinds
        if kind not in (bool, float, str) or (kind is float and type(value) is int):
            return value
        # The default must not be None here, because a text may be "none".
        return Parameter(self.name, kind, kind()).typed(value)


def type_of(annotation: object, default: object) -> type | None:
    """Return the type in an annotation such as ``float | None``, or the default's
    type."""
    text = getattr(annotation, "__name__", str(annotation))
    name = re.split(r" \||\[", text)[0]
    if name in TYPES:
        return TYPES[name]
    return None if default is None else type(default)


def parameters_of(solver: Steps) -> dict[str, Parameter]:
    """Return the parameters that a solver declares, by name."""
    return {
        name: Parameter(name, type_of(p.annotation, p.default), p.default)
        for name, p in inspect.signature(solver).parameters.items()
        if p.kind is p.KEYWORD_ONLY and name != "state"
    }


def explained(solver: Steps) -> dict[str, Parameter]:
    """Return the parameters of a solver with the help that docstrings give for them.

    The solver's own docstring has priority, then the docstring of its module, and then
    those of the module's other functions in their order.
    """
    module = inspect.getmodule(solver)
    functions = filter(inspect.isfunction, vars(module).values())
    siblings = [f for f in functions if f.__module__ == solver.__module__]
    helps: dict[str, str] = {}
    for part in (solver, module, *siblings):
        helps = described(inspect.getdoc(part) or "") | helps
    return {
        name: parameter._replace(help=helps.get(name, ""))
        for name, parameter in parameters_of(solver).items()
    }


def described(doc: str) -> dict[str, str]:
    """Return the help on each name of a docstring's section Parameters, on one line."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=\n\n\w[\w ]*\n---|\Z)", doc, re.M | re.S
    )
    helps: dict[str, str] = {}
    if section is None:
        return helps
    for entry in re.split(r"^(?=\S)", section[1], flags=re.M):
        names, colon, text = entry.partition(" : ")
        if not colon:
            continue
        text = " ".join(text.split())
        text = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"\1", text).replace("``", "")
        for name in names.split(","):
            helps[name.strip("* \n")] = text
    return helps


def check_names(names: Values, declared: Mapping[str, Parameter], owner: str) -> None:
    """Raise a ValueError that names the first parameter that `owner` does not
    declare."""
    for name in sorted(set(names) - set(declared), key=str):
        known = near(str(name), declared) or f"it takes {', '.join(declared)}"
        raise ValueError(f"parameters: {owner} has no {name!r}; {known}")


def combinations(*axes: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Return the product of some axes; raise a ValueError if it is too long."""
    number = prod(map(len, axes))
    if number > MAX_POINTS:
        raise ValueError(
            f"a grid must have at most {MAX_POINTS:,} points, got {number:,}"
        )
    return product(*axes)


def read_entries(path: PathLike, need: str) -> Record:
    """Return the entries of a YAML file.

    Raises
    ------
    ValueError
        If the file is not YAML, or does not have the entries that it needs. The message
        names the file.
    FileNotFoundError
        If there is no such file.
    """
    path = Path(path)
    try:
        entries = _loaded(path.read_text(encoding="utf-8"))
        if not isinstance(entries, dict) or {*map(type, entries)} != {str}:
            raise ValueError(f"must contain 'name: value' lines of {need}")
    except UnicodeDecodeError:
        raise ValueError(
            f"{path.name}: must be a text in UTF-8; save it as such"
        ) from None
    except (yaml.YAMLError, ValueError, LookupError, RecursionError) as error:
        raise ValueError(f"{path.name}: {error}") from None
    return entries
