"""The changes: every place of a module's functions at which one small change makes a mutant.

A mutant is known by its module, its function and the text before and after, not by its line, so that the
list of accepted survivors outlives edits elsewhere in the module. Left out is what no test should notice:
docstrings, log lines, the text of messages, annotations; and what runs once at import, because a mutant
replaces the code of functions that are already imported (`pytest_plugin`).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

Function = ast.FunctionDef | ast.AsyncFunctionDef
SILENT = {"log", "_log", "logger", "_logger", "LOG", "_LOG", "warnings", "reached"}
"""Loggers, and the failpoints that crash tests set in programs of their own."""
KEY_METHODS = {"get", "pop", "startswith", "endswith", "partition", "rpartition", "split", "removeprefix"}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True)
class Mutant:
    """One change; `lines` are those of which a test must run one to notice it."""

    module: str
    function: str
    before: str
    after: str
    number: int
    lines: range
    code: CodeType

    @property
    def name(self) -> str:
        place = f" #{self.number}" if self.number > 1 else ""
        return f"{self.module} {self.function}: {self.before} -> {self.after}{place}"


@dataclass(frozen=True)
class Change:
    """A node and what replaces it, in the statement of a function."""

    function: str
    statement: ast.stmt
    node: ast.AST
    new: ast.AST


def mutants(path: Path, module: str) -> Iterator[Mutant]:
    """All mutants of a source file, in its order; of those that compile to the same code none."""
    tree = ast.parse(path.read_text())
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    original = compile(tree, str(path), "exec", dont_inherit=True)
    seen: Counter[tuple[str, str, str]] = Counter()
    for change in _changes(tree):
        before, after = _text(change.node), _text(change.new)
        seen[change.function, before, after] += 1
        with_change = _Replace(parents[change.node], change.node, change.new)
        with with_change:
            code = compile(tree, str(path), "exec", dont_inherit=True)
        if code == original:
            continue
        number = seen[change.function, before, after]
        yield Mutant(module, change.function, before, after, number, _lines(change), code)


class _Replace:
    """Puts a node in another's place in its parent, and back."""

    def __init__(self, parent: ast.AST, node: ast.AST, new: ast.AST) -> None:
        self._parent, self._node, self._new = parent, node, new

    def __enter__(self) -> None:
        self._put(self._node, ast.fix_missing_locations(ast.copy_location(self._new, self._node)))

    def __exit__(self, *_: object) -> None:
        self._put(self._new, self._node)

    def _put(self, old: ast.AST, new: ast.AST) -> None:
        for field, value in ast.iter_fields(self._parent):
            if value is old:
                setattr(self._parent, field, new)
            elif isinstance(value, list):
                value[:] = [new if item is old else item for item in value]


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 90 else text[:70] + "…" + text[-19:]


def _lines(change: Change) -> range:
    """Of a compound statement only the changed expression; of a simple one all its lines."""
    statement, node = change.statement, change.node
    of = node if isinstance(statement, _COMPOUND) and isinstance(node, ast.expr) else statement
    return range(of.lineno, (of.end_lineno or of.lineno) + 1)


_COMPOUND = (ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def _changes(tree: ast.Module) -> Iterator[Change]:
    for function, name in _functions(tree, ""):
        for statement in function.body:
            yield from _of_statement(statement, name)


def _functions(parent: ast.AST, prefix: str) -> Iterator[tuple[Function, str]]:
    """Functions of the module and of its classes; what they define themselves is part of them."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Function):
            if node.name not in {"__repr__", "__str__"}:
                yield node, prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If):
            yield from _functions(node, prefix)


def _of_statement(statement: ast.stmt, name: str) -> Iterator[Change]:
    if _is_silent(statement):
        return
    for new in _without(statement):
        yield Change(name, statement, statement, new)
    for child in ast.iter_child_nodes(statement):
        yield from _inside(child, statement, name)


def _inside(node: ast.AST, statement: ast.stmt, name: str) -> Iterator[Change]:
    if isinstance(node, ast.stmt):
        yield from _of_statement(node, name)
        return
    if isinstance(node, ast.arguments | ast.JoinedStr) or (
        isinstance(statement, ast.AnnAssign) and node is statement.annotation
    ):
        return
    if isinstance(node, ast.expr):
        for new in _instead(node):
            yield Change(name, statement, node, new)
        if _is_condition(node, statement):
            yield Change(name, statement, node, ast.UnaryOp(ast.Not(), node))
        for key in _keys(node):
            yield Change(
                name, statement, key, ast.Constant(f"{key.value}X" if isinstance(key.value, str) else b"X")
            )
    for child in ast.iter_child_nodes(node):
        yield from _inside(child, statement, name)


def _is_silent(statement: ast.stmt) -> bool:
    """Docstrings, log lines and failpoints."""
    if not isinstance(statement, ast.Expr):
        return False
    if isinstance(statement.value, ast.Constant):
        return True
    call = statement.value
    target = call.func if isinstance(call, ast.Call) else None
    while isinstance(target, ast.Attribute):
        if target.attr in SILENT:
            return True
        target = target.value
    return isinstance(target, ast.Name) and target.id in SILENT


def _without(statement: ast.stmt) -> Iterator[ast.stmt]:
    match statement:
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            return
        case ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Return(value=ast.expr() as value) if not _is_falsy(value):
            yield ast.Return(ast.Constant(None))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _instead(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=ops):
            for at, operator in enumerate(ops):
                changed = copy.copy(node)
                changed.ops = [*ops[:at], COMPARISONS[type(operator)](), *ops[at + 1 :]]
                yield changed
        case ast.BoolOp(op=ast.And(), values=values):
            yield ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(op=ast.Or(), values=values):
            yield ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=operator) if type(operator) in ARITHMETIC and not _is_text(node):
            yield ast.BinOp(node.left, ARITHMETIC[type(operator)](), node.right)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)


def _is_condition(node: ast.expr, statement: ast.stmt) -> bool:
    """A condition without an operator of its own, which is changed already."""
    plain = not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp)
    return plain and isinstance(statement, ast.If | ast.While) and node is statement.test


def _keys(node: ast.expr) -> list[ast.Constant]:
    """Texts that decide: keys and what a value is compared with; not the text of messages."""
    match node:
        case ast.Compare(left=left, comparators=comparators):
            among = [left, *comparators]
        case ast.Subscript(slice=key):
            among = [key]
        case ast.Dict(keys=keys):
            among = [key for key in keys if key is not None]
        case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in KEY_METHODS:
            among = args[:1]
        case _:
            return []
    return [key for key in among if isinstance(key, ast.Constant) and isinstance(key.value, str | bytes)]


def _is_falsy(node: ast.expr) -> bool:
    """Callers ask whether it is true, so that None in its place is the same."""
    return isinstance(node, ast.Constant) and not node.value


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right))
