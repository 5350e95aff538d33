"""Parameters of solvers and of notebooks: their names, types and values, and YAML."""

from __future__ import annotations

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

TYPES = {kind.__name__: kind for kind in (bool, int, float, str, list, tuple, dict)}
BOOLEANS = yaml.SafeLoader.bool_values  # yes, no, on, off, true, false
MAX_POINTS = 100_000
TAG = "tag:yaml.org,2002:"
# Patterns of YAML 1.2 with the first letters of what they match: 010 is ten, no is a
# text. Dates are recognised to be refused.
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
    """Reads plain values as YAML 1.2, and refuses a key that appears twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if (name := repr(key.value)) in seen:
                self.refuse(f"{name} appears twice", key)
            seen.add(name)
        return node

    def construct_yaml_int(self, node: Any) -> int:
        text = self.construct_scalar(node).replace("_", "")
        return int(text, 0 if re.match("[-+]?0[xo]", text) else 10)

    def construct_undefined(self, node: Any) -> None:
        self.refuse(
            f"a {node.tag.removeprefix(TAG)} is not accepted, put a text in quotes",
            node,
        )

    def refuse(self, reason: str, node: Any) -> None:
        raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark)


for _kind, (_pattern, _first) in SCALARS.items():
    _Loader.add_implicit_resolver(TAG + _kind, re.compile(f"({_pattern})$"), _first)
_Loader.yaml_constructors = {
    TAG + kind: getattr(_Loader, f"construct_yaml_{kind}")
    for kind in ("null", "bool", "int", "float", "str", "seq", "map")
} | {None: _Loader.construct_undefined}


def _loaded(text: str, kind: Any = _Loader) -> Any:
    """Return the one value of a YAML text, made by one of the two loaders that make
    plain data."""
    loader = kind(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


class Parameter(NamedTuple):
    """A parameter; `type` is None if neither an annotation nor the default says it."""

    name: str
    type: type | None
    default: object
    help: str = ""

    def typed(self, value: Given) -> Given:
        """Return a value in the parameter's type.

        Texts become numbers, booleans and lists: values from a command line are texts.
        Lists and numbers become a text's items. The items of a list have the type of
        the default's.

        Raises
        ------
        ValueError
            If it is not a value of this type.
        """
        kind = self.type
        if self.default is None and value in (None, "None", "none", "null"):
            return None
        if kind in (list, tuple, dict):
            return self._collection(value)
        if type(value) is kind or (
            kind is None and isinstance(value, (bool, int, float, str))
        ):
            return value
        text = isinstance(value, str)
        if kind is bool and text and value.lower() in BOOLEANS:
            return BOOLEANS[value.lower()]
        if kind is str and type(value) in (int, float, list, tuple):
            return (
                ",".join(map(str, value))
                if isinstance(value, (list, tuple))
                else str(value)
            )
        if kind in (int, float) and (text or type(value) in (int, float)):
            with suppress(ValueError, OverflowError):
                if kind is int and text and value.strip().lstrip("+-").isdigit():
                    return int(value)  # exactly, however large it is
                if kind is float or float(value) == int(float(value)):
                    return kind(float(value))
        kind = "a single value" if kind is None else f"of type {kind.__name__}"
        raise ValueError(f"{self.name}: must be {kind}, got {value!r}")

    def read(self, text: str) -> Given:
        """Return the value of a command line's text; without a type, as YAML reads
        it."""
        if self.type is None:
            with suppress(yaml.YAMLError, ValueError, LookupError):
                if type(value := _loaded(text)) in TYPES.values():
                    return value
        return self.typed(text)

    def _collection(self, given: Given) -> Given:
        """Return a list, a tuple or a dictionary, which may be YAML."""
        kind, value, why = self.type or list, given, ""
        default: Any = self.default or ()
        if isinstance(given, str):
            texts = kind is not dict and {*map(type, default)} == {str}
            try:
                value = _loaded(given, yaml.BaseLoader if texts else _Loader)
            except (yaml.YAMLError, ValueError, LookupError) as error:
                why = f"; {error}"
        if kind is dict and isinstance(value, dict):
            known = dict(default)
            return {
                n: self._item(v, [known[n]] if n in known else [])
                for n, v in value.items()
            }
        if kind is not dict and isinstance(value, (list, tuple)):
            return kind(self._item(item, default) for item in value)
        example = "{a: 1}" if kind is dict else "[1, 2]"
        raise ValueError(
            f"{self.name}: must be of type {kind.__name__}, such as {example}, got "
            f"{given!r}{why}"
        )

    def _item(self, value: Given, like: Iterable[object]) -> Given:
        """Return an item of a collection in the type of the default's items, if they
        have one."""
        kinds = {float if type(item) is int else type(item) for item in like}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind not in (bool, float, str) or (kind is float and type(value) is int):
            return value
        return Parameter(self.name, kind, kind()).typed(
            value
        )  # not None: a text may be "none"


def type_of(annotation: object, default: object) -> type | None:
    """Return the type that an annotation such as ``float | None`` names, or the
    default's."""
    name = re.split(r" \||\[", getattr(annotation, "__name__", str(annotation)))[0]
    return TYPES.get(name, None if default is None else type(default))


def parameters_of(solver: Steps) -> dict[str, Parameter]:
    """Return the parameters that a solver declares, by name."""
    return {
        name: Parameter(name, type_of(p.annotation, p.default), p.default)
        for name, p in inspect.signature(solver).parameters.items()
        if p.kind is p.KEYWORD_ONLY and name != "state"
    }


def explained(solver: Steps) -> dict[str, Parameter]:
    """Return the parameters of a solver with the help that docstrings have for them.

    That is its own docstring, its module's, or that of another function of the module.
    """
    module = inspect.getmodule(solver)
    functions = [f for _, f in inspect.getmembers(module, inspect.isfunction)]
    docs = [
        solver,
        module,
        *(f for f in functions if f.__module__ == solver.__module__),
    ]
    helps: dict[str, str] = {}
    for part in docs:
        helps = described(inspect.getdoc(part) or "") | helps
    return {
        n: p._replace(help=helps.get(n, "")) for n, p in parameters_of(solver).items()
    }


def described(doc: str) -> dict[str, str]:
    """Return what the section Parameters of a docstring says of each name, on one
    line."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=\n\n\w[\w ]*\n---|\Z)", doc, re.M | re.S
    )
    helps = {}
    for entry in re.split(r"^(?=\S)", section[1], flags=re.M) if section else ():
        names, colon, text = entry.partition(" : ")
        text = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"\1", " ".join(text.split()))
        for name in names.split(",") if colon else ():
            helps[name.strip("* \n")] = text.replace("``", "")
    return helps


def check_names(names: Values, declared: Mapping[str, Parameter], owner: str) -> None:
    """Raise a ValueError that names the first parameter that its owner does not
    declare."""
    for name in sorted(set(names) - set(declared), key=str):
        known = near(str(name), declared) or f"it takes {', '.join(declared)}"
        raise ValueError(f"parameters: {owner} has no {name!r}; {known}")


def combinations(*axes: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Return the product of some axes; a ValueError if it is too long."""
    if (number := prod(map(len, axes))) > MAX_POINTS:
        raise ValueError(
            f"a grid must have at most {MAX_POINTS:,} points, got {number:,}"
        )
    return product(*axes)


def read_entries(path: PathLike, need: str) -> Record:
    """Return the entries of a YAML file.

    Raises
    ------
    ValueError
        Naming the file: not YAML, or not the entries that it needs.
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
