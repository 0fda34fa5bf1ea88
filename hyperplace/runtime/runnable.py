"""A program with its code: what a trainer runs."""

import itertools
import linecache
import weakref
from dataclasses import dataclass
from typing import Any

from hyperplace.errors import UsageError
from hyperplace.runtime.part import Part
from hyperplace.values.program import Program

_numbers = itertools.count()


@dataclass(frozen=True)
class Runnable:
    """A program, and for each of its parts the class that has its methods."""

    program: Program
    classes: tuple[type[Part], ...]

    def __repr__(self) -> str:
        return repr(self.program)


def program(name: str, *, parts: tuple[type[Part], ...], **words: Any) -> Runnable:
    """Return the program that classes of parts make up; the other arguments are those of Program."""
    return Runnable(Program(name, parts=tuple(part.table() for part in parts), **words), parts)


def runnable(program: Program, text: str) -> Runnable:
    """Return a program with the code of its text, which `emit` made; tracebacks show its lines while it lives."""
    name = f"hyperplace_program_{next(_numbers)}"
    path = f"<{name}>"
    # Not in sys.modules, which would keep it for ever.
    module: dict[str, Any] = {"__name__": name, "__file__": path}
    exec(compile(text, path, "exec"), module)
    found = module["PROGRAM"]
    if not isinstance(found, Runnable):
        raise UsageError("the text is not that of a program; give what emit returns")
    made = Runnable(program, found.classes)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    weakref.finalize(made, linecache.cache.pop, path, None)
    return made
