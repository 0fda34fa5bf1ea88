"""Frozen dataclasses to JSON and back, strictly: a file with a missing, unknown or wrong entry is refused.

Reading follows the dataclasses' own types, so a format has no description besides the value it stores. Nothing in a
file is ever executed or imported. A field that came `later`, as its metadata says, is left out where it says nothing:
files from before it are read, and those that do not need it are what they were.
"""

import json
import types
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from functools import cache, partial
from itertools import repeat
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from hyperplace.errors import FileError, HyperplaceError

T = TypeVar("T")
Reader = Callable[[Any], Any]  # from plain data to a value
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
        return cast(T, _reader(cls)(data))  # type: ignore[arg-type]
    except _Misfit as misfit:
        raise FileError(f"{name}: {kind}{misfit.said}") from None
    except FileError as fault:
        raise FileError(f"{name}: {fault}") from None
    except HyperplaceError as fault:
        raise FileError(f"{name}: {fault}; {remedy}") from None


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


class _Misfit(Exception):
    """What is wrong with an entry; whoever it passes on its way out says where."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said

    def at(self, place: str) -> "_Misfit":
        """Return the same as seen from one further out."""
        return _Misfit(place + self.said)


@cache
def _reader(hint: Any) -> Reader:
    """Return what makes a value of a type from plain data: found once, for a file may have many thousands of them."""
    if is_dataclass(hint):
        return _record_reader(hint)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        return _tuple_reader(get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        inner = _reader(next(one for one in get_args(hint) if one is not type(None)))
        return lambda data: None if data is None else inner(data)
    return {float: _float, int: _int}.get(hint) or partial(_simple, hint)


def _record_reader(cls: type) -> Reader:
    hints = get_type_hints(cls)
    readers = {one.name: _reader(hints[one.name]) for one in fields(cls)}
    required = [one.name for one in fields(cls) if not _is_later(one)]

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _Misfit(f" must be an object, not {_shown(data)}")
        if missing := [name for name in required if name not in data]:
            raise _Misfit(f" has no {missing[0]!r}")
        values = {}
        for name, entry in data.items():
            if name not in readers:
                raise _Misfit(f" has an unknown entry {name!r}")
            try:
                values[name] = readers[name](entry)
            except _Misfit as misfit:
                raise misfit.at(f".{name}") from None
        return cls(**values)

    return read


def _tuple_reader(hints: tuple[Any, ...]) -> Reader:
    of_any_length = hints[-1] is Ellipsis
    readers = [_reader(hint) for hint in hints if hint is not Ellipsis]

    def read(data: Any) -> Any:
        if not isinstance(data, list):
            raise _Misfit(f" must be a list, not {_shown(data)}")
        if not of_any_length and len(readers) != len(data):
            raise _Misfit(f" must have {len(readers)} entries, not {len(data)}")
        values: list[Any] = []
        try:
            for reader, item in zip(repeat(readers[0]) if of_any_length else readers, data, strict=False):
                values.append(reader(item))
        except _Misfit as misfit:
            raise misfit.at(f"[{len(values)}]") from None
        return tuple(values)

    return read


def _float(data: Any) -> float:
    if isinstance(data, int | float) and not isinstance(data, bool) and abs(data) < _HUGE:
        return float(data)
    raise _Misfit(f" must be float, not {_shown(data)}")


def _int(data: Any) -> int:
    if type(data) is not int:
        raise _Misfit(f" must be int, not {_shown(data)}")
    if abs(data) >= _LONG:
        raise _Misfit(f" is {_shown(data)}, more than any count of ours")
    return data


def _simple(kind: type, data: Any) -> Any:
    if type(data) is not kind:
        raise _Misfit(f" must be {kind.__name__}, not {_shown(data)}")
    return data


def _shown(data: Any) -> str:
    try:
        text = json.dumps(data)
    except RecursionError:
        return "something nested too deep"
    return text if len(text) <= 40 else text[:37] + "..."
