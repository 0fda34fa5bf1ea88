"""Factories in the user's own code: `package.module:factory` or `path/to/file.py:factory`.

A factory is a function or nn.Module class that works without arguments. The user's code runs here, so
whatever it raises becomes a ModelError with the original as its cause.
"""

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from hyperplace.errors import ModelError, UsageError

MAX_LISTED = 10

Factory = Callable[[], object]


@dataclass(frozen=True)
class Source:
    """The two halves of `where:factory`."""

    where: str
    factory: str

    @property
    def is_file(self) -> bool:
        return self.where.endswith(".py") or os.sep in self.where

    @property
    def path(self) -> Path:
        return Path(self.where).expanduser()

    @property
    def name(self) -> str:
        """A short name, safe in file names."""
        stem = self.path.stem if self.is_file else self.where.rpartition(".")[2]
        return _safe(f"{stem}_{self.factory}")


def parse_source(spec: str) -> Source:
    """Split `where:factory`."""
    where, _, factory = spec.rpartition(":")
    if not where or not factory:
        raise UsageError(f"{spec!r} is not a model; write package.module:factory or path/to/file.py:factory")
    return Source(where, factory)


@contextmanager
def open_source(source: Source) -> Iterator[Factory]:
    """Import the code and hand out its factory; inside the block the code can import its neighbours."""
    # As `python file.py` and `python -m module` do.
    folder = str(source.path.resolve().parent if source.is_file else Path.cwd())
    sys.path.insert(0, folder)
    try:
        module = _import_file(source.path) if source.is_file else _import_module(source.where)
        yield _find_factory(module, source)
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ModelError(f"no such file: {path}; check the path before the colon")
    module = ModuleType(f"hyperplace_user_{_safe(path.stem)}")
    module.__file__ = str(path)
    # Dataclasses and pickle look a class's module up by name, so it has to be known while it runs.
    sys.modules[module.__name__] = module
    try:
        SourceFileLoader(module.__name__, str(path)).exec_module(module)
    except (Exception, SystemExit) as fault:  # the user's code: anything can come
        del sys.modules[module.__name__]
        raise ModelError(f"cannot import {path}: {one_line(fault)}; does python run it alone?") from fault
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as fault:  # the user's code: anything can come
        if isinstance(fault, ModuleNotFoundError) and fault.name and f"{name}.".startswith(f"{fault.name}."):
            raise ModelError(f"no such module: {name}; install it, or start in the folder it is in") from fault
        raise ModelError(f"cannot import {name}: {one_line(fault)}; does python import it alone?") from fault


def _find_factory(module: ModuleType, source: Source) -> Factory:
    from torch import nn

    found = getattr(module, source.factory, None)
    if found is None:
        raise ModelError(f"{source.where} has no {source.factory}; {_listing(module)}")
    if isinstance(found, nn.Module) or not callable(found):
        kind = type(found).__name__
        raise ModelError(f"{source.where}:{source.factory} is a {kind}, not a factory; {_listing(module)}")
    factory: Factory = found
    return factory


def _listing(module: ModuleType) -> str:
    """Say which callables the module or its submodules define, not what they import from elsewhere."""
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and f"{getattr(value, '__module__', '')}.".startswith(f"{module.__name__}.")
    ]
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"it has {', '.join(names[:MAX_LISTED])}{more}" if names else "it defines no function or class"


def _safe(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII)


def one_line(fault: BaseException) -> str:
    """Name the fault's type and message without line breaks."""
    return f"{type(fault).__name__}: {' '.join(str(fault).split())}"
