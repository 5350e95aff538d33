"""Mutants of a function: small changes, one at a time, that its tests should notice."""

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import NamedTuple

COMPARISONS = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Mult: ast.Div,
    ast.LShift: ast.RShift,
    ast.And: ast.Or,
    ast.BitAnd: ast.BitOr,
}
OPERATORS |= {other: one for one, other in OPERATORS.items()}
OPERATORS |= dict.fromkeys((ast.FloorDiv, ast.Mod, ast.Pow), ast.Mult)
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "any": "all",
    "all": "any",
}


class Mutant(NamedTuple):
    """A changed function: where it is, what was changed, and the code in place of its
    own."""

    function: Callable
    line: int
    change: str
    code: CodeType


def mutants(function):
    """Yield the mutants of a function of a module, which must not be compiled."""
    lines, first = inspect.getsourcelines(function)
    (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
    assert isinstance(tree, ast.FunctionDef), function
    tree.decorator_list = []
    tree.returns = None
    for argument in (*tree.args.args, *tree.args.kwonlyargs):
        argument.annotation = None
    body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    seen = Counter()
    for statement in statements(body):
        before = header(statement)
        for node, name, value in changes(statement):
            kept = getattr(node, name)
            setattr(node, name, value)
            what = f"{before} -> {header(statement)}"
            code = compiled(tree, function)
            setattr(node, name, kept)
            seen[what] += 1
            number = f" ({seen[what]})" if seen[what] > 1 else ""
            yield Mutant(function, first + statement.lineno - 1, what + number, code)


def statements(body):
    """Yield all statements of a function, those of functions inside of it, too."""
    for statement in body:
        yield statement
        for name in ("body", "orelse"):
            yield from statements(getattr(statement, name, []))


def changes(statement):
    """Yield (node, attribute, new value) for every change of one statement without its
    body."""
    if isinstance(statement, ast.FunctionDef):
        return
    for node in expressions(statement):
        yield from changes_of(node)
    match statement:
        case ast.Break():
            yield statement, "__class__", ast.Continue
        case ast.Continue():
            yield statement, "__class__", ast.Break
        case (
            ast.AugAssign()
            | ast.Expr(value=ast.Call())
            | ast.Assign(targets=[ast.Subscript() | ast.Attribute(), *_])
        ):
            yield statement, "__class__", ast.Pass


def changes_of(node):
    """Yield (node, attribute, new value) for every change of one expression."""
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                for other in COMPARISONS.get(type(op), ()):
                    yield node, "ops", [*ops[:i], other(), *ops[i + 1 :]]
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            if type(op) in OPERATORS:
                yield node, "op", OPERATORS[type(op)]()
        case ast.UnaryOp(op=ast.USub()):
            yield node, "op", ast.UAdd()
        case ast.UnaryOp(op=ast.Not()):
            yield node, "operand", ast.UnaryOp(ast.Not(), node.operand)
        case ast.Constant(value=bool(value)):
            yield node, "value", not value
        case ast.Constant(value=int() | float() as value):
            yield node, "value", value + 1
        case ast.Name(id=name) if name in NAMES:
            yield node, "id", NAMES[name]
        case ast.Attribute(attr=name) if name in NAMES:
            yield node, "attr", NAMES[name]


def expressions(statement):
    """Yield the nodes of a statement, without those of the statements in its body."""
    yield statement
    waiting = [statement]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(child, ast.stmt):
                yield child
                waiting.append(child)


def header(statement):
    """Return the source of a statement, of a compound one its first line."""
    if isinstance(statement, ast.Pass):
        return "nothing"
    return ast.unparse(statement).split("\n")[0]


def compiled(tree, function):
    """Return the code of a function's syntax tree."""
    space = dict(function.__globals__)
    module = ast.fix_missing_locations(ast.Module([tree], []))
    exec(compile(module, "mutant", "exec"), space)
    return space[function.__name__].__code__
