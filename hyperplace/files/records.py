"""Frozen dataclasses to JSON and back, strictly: a file with a missing, unknown or wrong entry is refused.

Reading follows the dataclasses' own types, so a format has no description besides the value it stores. Nothing in a
file is ever executed or imported. A field that came `later`, as its metadata says, is left out where it says nothing:
files from before it are read, and those that do not need it are what they were.
"""

import json
import types
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hyperplace.errors import FileError, HyperplaceError

T = TypeVar("T")
_HUGE = 1e300  # JSON knows no limit; a number past this is no measurement of ours
_LONG = 2**63  # nor is a whole number past this a count; Python's may be too long even to be printed


def record_text(value: Any, kind: str, version: int) -> str:
    """Return the dataclass as JSON, marked with its kind and version; equal values give equal text."""
    head = {"hyperplace": kind, "version": version}
    return json.dumps(head | _plain(value), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Return a dataclass as dicts and lists."""
    if is_dataclass(value):
        found = [(one, getattr(value, one.name)) for one in fields(value)]
        return {one.name: _plain(held) for one, held in found if not (_is_later(one) and held == one.default)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _is_later(one: "Field[Any]") -> bool:
    return bool(one.metadata.get("later"))


def parse_record(text: str, name: str, cls: type[T], kind: str, version: int, *, remedy: str = "make it again") -> T:
    """Return the dataclass a text holds; `name` is the file's, for messages, which end with the `remedy`."""
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as fault:
        raise FileError(f"{name}: not a {kind} file, or cut short: {fault}; {remedy}") from None
    if not isinstance(data, dict) or data.pop("hyperplace", None) != kind:
        raise FileError(f'{name}: not a {kind} file: it does not begin with "hyperplace": "{kind}"')
    found = data.pop("version", None)
    if found != version:
        raise FileError(f"{name}: {kind} version {found!r} cannot be read, only {version}; {remedy}")
    try:
        return _record(cls, data, kind)
    except FileError as fault:
        raise FileError(f"{name}: {fault}") from None
    except HyperplaceError as fault:
        raise FileError(f"{name}: {fault}; {remedy}") from None


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _record(cls: type[T], data: Any, where: str) -> T:
    if not isinstance(data, dict):
        raise FileError(f"{where} must be an object, not {_shown(data)}")
    hints = _hints(cls)  # type: ignore[arg-type]
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    later = {one.name for one in fields(cls) if _is_later(one) and one.name not in data}  # type: ignore[arg-type]
    if missing := [name for name in names if name not in data and name not in later]:
        raise FileError(f"{where} has no {missing[0]!r}")
    if unknown := [name for name in data if name not in names]:
        raise FileError(f"{where} has an unknown entry {unknown[0]!r}")
    return cls(**{name: _value(hints[name], data[name], f"{where}.{name}") for name in names if name in data})


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _value(hint: Any, data: Any, where: str) -> Any:
    if is_dataclass(hint):
        return _record(hint, data, where)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        return _tuple(get_args(hint), data, where)
    if get_origin(hint) in (Union, types.UnionType):
        return None if data is None else _value(next(h for h in get_args(hint) if h is not type(None)), data, where)
    if hint is float and isinstance(data, int | float) and not isinstance(data, bool) and abs(data) < _HUGE:
        return float(data)
    if hint is int and type(data) is int and abs(data) >= _LONG:
        raise FileError(f"{where} is {_shown(data)}, more than any count of ours")
    if type(data) is not hint or hint is float:
        raise FileError(f"{where} must be {hint.__name__}, not {_shown(data)}")
    return data


def _tuple(hints: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise FileError(f"{where} must be a list, not {_shown(data)}")
    if hints[-1] is Ellipsis:
        return tuple(_value(hints[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(hints) != len(data):
        raise FileError(f"{where} must have {len(hints)} entries, not {len(data)}")
    return tuple(_value(hint, item, f"{where}[{i}]") for i, (hint, item) in enumerate(zip(hints, data, strict=True)))


def _shown(data: Any) -> str:
    try:
        text = json.dumps(data)
    except RecursionError:
        return "something nested too deep"
    return text if len(text) <= 40 else text[:37] + "..."
