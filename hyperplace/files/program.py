"""Programs as Python text, read without running any of it.

The text is what `emit` prints, edited or not: classes of parts with their tables and methods, and PROGRAM. Tables are
made of the values named here and of constants; anything else in them is a fault. Statements of methods are kept as
text, and run only by whoever runs the program.
"""

import ast
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hyperplace.errors import FileError, UsageError
from hyperplace.values.call import Rows
from hyperplace.values.program import (
    Copy,
    Feed,
    Keep,
    Message,
    Method,
    Output,
    PartProgram,
    Piece,
    Program,
    Receive,
    Segment,
    Send,
    Slot,
    Step,
)

MAKERS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (Copy, Feed, Keep, Message, Output, Piece, Receive, Rows, Segment, Send, Slot)
}
PART_TABLES = ("holds", "weights", "buffers", "segments")

T = TypeVar("T")


def parse_program(text: str, name: str = "<program>") -> Program:
    """Return the program that a text is; a fault gives a FileError that says where."""
    try:
        return _program(ast.parse(text), name)
    except RecursionError:
        raise FileError(f"{name} is nested too deep") from None
    except (SyntaxError, ValueError, MemoryError) as fault:
        raise FileError(f"{name} is not Python: {fault}") from None


def _program(module: ast.Module, name: str) -> Program:
    reader = _Reader(name)
    parts: dict[str, PartProgram] = {}
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            parts[statement.name] = reader.part(statement)
        elif isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "PROGRAM":
            return reader.program(statement.value, parts)
        elif not _is_frame(statement):
            raise reader.fault(
                statement, "a program has imports, its parts and PROGRAM only; import it to run other code"
            )
    raise FileError(f"{name} has no PROGRAM; give a file that hyperplace generate wrote")


def _is_frame(statement: ast.stmt) -> bool:
    """Say whether a statement is a docstring or an import."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Import | ast.ImportFrom)


class _Reader:
    """Read the tables and methods of one text."""

    def __init__(self, name: str) -> None:
        self._name = name

    def fault(self, node: ast.AST, what: str) -> FileError:
        return FileError(f"{self._name}, line {getattr(node, 'lineno', '?')}: {what}")

    def program(self, node: ast.expr, parts: Mapping[str, PartProgram]) -> Program:
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "runtime.program"):
            raise self.fault(node, "PROGRAM is not made by runtime.program")
        names: list[str] = []
        for keyword in node.keywords:
            if keyword.arg == "parts" and isinstance(keyword.value, ast.Tuple):
                names = [ast.unparse(one) for one in keyword.value.elts]
        if unknown := set(names) - set(parts):
            raise self.fault(node, f"there is no class {min(unknown)}")
        given = [keyword for keyword in node.keywords if keyword.arg != "parts"]
        return self._made(node, Program, node.args, given, parts=tuple(parts[one] for one in names))

    def part(self, node: ast.ClassDef) -> PartProgram:
        tables: dict[str, Any] = {}
        methods: dict[str, Method] = {}
        for statement in node.body:
            if isinstance(statement, ast.Assign) and (table := ast.unparse(statement.targets[0])) in PART_TABLES:
                tables[table] = self._value(statement.value)
            elif isinstance(statement, ast.FunctionDef):
                methods[statement.name] = self._method(statement)
            elif not _is_frame(statement):
                raise self.fault(statement, f"a part has {', '.join(PART_TABLES)} and methods only")
        segments = tables.pop("segments", ())
        if not isinstance(segments, tuple) or not all(isinstance(one, Segment) for one in segments):
            raise self.fault(node, "segments are not a tuple of Segment(...)")
        if missing := [one.name for one in segments if one.name not in methods]:
            raise self.fault(node, f"there is no method {missing[0]}")
        with_code = tuple(replace(one, method=methods[one.name]) for one in segments)
        return self._checked(node, lambda: PartProgram(segments=with_code, **tables))

    def _method(self, node: ast.FunctionDef) -> Method:
        *body, last = node.body
        if not (isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple)):
            raise self.fault(last, f"{node.name} does not end by returning a tuple")
        steps: list[tuple[str, str, list[str]]] = []
        for statement in body:
            mark = _mark(statement)
            if mark:
                steps.append((*mark, []))
            elif steps:
                steps[-1][2].append(ast.unparse(statement))
            else:
                raise self.fault(statement, f"{node.name} does not begin with self.step = layer, note")
        arguments = tuple(one.arg for one in node.args.args)[1:]
        results = tuple(map(ast.unparse, last.value.elts))
        return Method(arguments, tuple(Step(layer, note, tuple(code)) for layer, note, code in steps), results)

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=str() | int() | float() | complex() | None):
                return node.value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() | complex())):
                return -node.operand.value  # type: ignore[attr-defined]
            case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=complex())):
                return self._value(left) + node.right.value  # type: ignore[attr-defined]
            case ast.Tuple():
                return tuple(map(self._value, node.elts))
            case ast.List():
                return list(map(self._value, node.elts))
            case ast.Dict() if all(isinstance(key, ast.Constant) for key in node.keys):
                return {self._value(k): self._value(v) for k, v in zip(node.keys, node.values, strict=True) if k}
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str())], keywords=[]):
                return float(node.args[0].value)  # type: ignore[attr-defined]
            case ast.Call(func=ast.Name(id=name)) if name in MAKERS:
                return self._made(node, MAKERS[name], node.args, node.keywords)
        raise self.fault(node, f"{ast.unparse(node)[:60]} is no constant and no {', '.join(MAKERS)}")

    def _made(
        self, node: ast.AST, make: Callable[..., T], args: list[ast.expr], keywords: list[ast.keyword], **more: Any
    ) -> T:
        named = {keyword.arg: self._value(keyword.value) for keyword in keywords if keyword.arg}
        positional = list(map(self._value, args))
        return self._checked(node, lambda: make(*positional, **named, **more))

    def _checked(self, node: ast.AST, make: Callable[[], T]) -> T:
        """Return a value whose fields have the types that it declares."""
        try:
            made = make()
        except (TypeError, ValueError, LookupError, AttributeError, UsageError) as fault:
            raise self.fault(node, str(fault)) from None
        for name, hint in _hints(type(made)).items():  # type: ignore[arg-type]
            if not _fits(getattr(made, name), hint):
                raise self.fault(node, f"{type(made).__name__} has {name} {str(getattr(made, name))[:60]}")
        return made


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _fits(value: Any, hint: Any) -> bool:
    """Say whether a value is of a declared type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        hints = inner[:1] * len(value) if inner[-1] is Ellipsis and isinstance(value, tuple) else inner
        return isinstance(value, tuple) and len(hints) == len(value) and all(map(_fits, value, hints))
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return hint is Any or (isinstance(value, hint) and (hint is not int or not isinstance(value, bool)))


def _mark(statement: ast.stmt) -> tuple[str, str] | None:
    """Return the layer and the note where a step begins."""
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id="self"), attr="step")],
            value=ast.Tuple(elts=[ast.Constant(value=str(layer)), ast.Constant(value=str(note))]),
        ):
            return layer, note
    return None
