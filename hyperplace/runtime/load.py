"""A program's text as a Program: for text that our own generator has just made."""

import itertools
import linecache
import sys
from types import ModuleType

from hyperplace.runtime.table import Program

_numbers = itertools.count()


def load_program(text: str) -> Program:
    """Run the text as a module of its own and return its PROGRAM; tracebacks show its lines."""
    name = f"hyperplace_program_{next(_numbers)}"
    path = f"<{name}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(text, path, "exec"), module.__dict__)
    program = module.__dict__["PROGRAM"]
    assert isinstance(program, Program)
    return program
