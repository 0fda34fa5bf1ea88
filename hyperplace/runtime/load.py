"""A program's text as a Program: for text that our own generator has just made."""

import itertools
import linecache
import weakref
from typing import Any

from hyperplace.runtime.table import Program

_numbers = itertools.count()


def load_program(text: str) -> Program:
    """Run the text as a module of its own and return its PROGRAM; tracebacks show its lines while there is one."""
    name = f"hyperplace_program_{next(_numbers)}"
    path = f"<{name}>"
    # Not in sys.modules, which would keep it for ever.
    module: dict[str, Any] = {"__name__": name, "__file__": path}
    exec(compile(text, path, "exec"), module)
    program = module["PROGRAM"]
    assert isinstance(program, Program)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    weakref.finalize(program, linecache.cache.pop, path, None)
    return program
