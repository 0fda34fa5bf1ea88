"""What generated text becomes: classes of parts, and with its program what a trainer runs."""

import itertools
import linecache
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from hyperplace.errors import UsageError
from hyperplace.values.program import PartProgram, Piece, Program, Segment, rows_at

_numbers = itertools.count()


class Part:
    """Tables of what a part has and does; generated classes fill them and add a method per segment.

    While a segment runs, every name in `weights` and `buffers` is an attribute with the part's slice, as the
    mini-batch at hand sees it, and `step` says which layer is being computed. Rows of the batch are numbered as
    planned; a mini-batch of another size is cut at the same shares.
    """

    holds: ClassVar[dict[str, str]] = {}
    weights: ClassVar[dict[str, Piece]] = {}
    buffers: ClassVar[dict[str, Piece]] = {}
    segments: ClassVar[tuple[Segment, ...]] = ()

    def __init__(self, device: str = "cpu", batch: int = 1) -> None:
        self.device = torch.device(device)
        self.batch = batch  # rows that the program was planned for
        self.num_rows = batch  # rows of the mini-batch at hand
        self.training = True
        self.generator = torch.Generator(device=self.device)  # for dropout
        self.step: tuple[str, str] = ("", "")  # the layer at hand, and which of its filters and rows
        self._fetch: Callable[[str], Tensor] | None = None

    @classmethod
    def table(cls) -> PartProgram:
        """Return the tables as a value."""
        return PartProgram(cls.weights, cls.buffers, cls.segments, cls.holds)

    def rows(self, start: int, stop: int, of: int = 0) -> slice:
        """Return where planned rows of the mini-batch at hand are in a tensor that begins with row `of`."""
        return slice(self.count(of, start), self.count(of, stop))

    def count(self, start: int, stop: int) -> int:
        """Return how many rows of the mini-batch at hand stand for planned rows."""
        return rows_at((start, stop), self.num_rows, self.batch)

    def see(self, tensors: dict[str, Tensor]) -> None:
        """Make the tensors attributes."""
        self.__dict__.update(tensors)

    def expect(self, names: Iterable[str], fetch: Callable[[str], Tensor] | None) -> None:
        """Let weights be fetched when they are first asked for, instead of what they were before."""
        for name in names:
            self.__dict__.pop(name, None)
        self._fetch = fetch

    def __getattr__(self, name: str) -> Tensor:
        """Return a weight that is not here yet: the layers before it need not wait for it."""
        fetch = self.__dict__.get("_fetch")
        if fetch is None or name not in type(self).weights:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        tensor: Tensor = fetch(name)
        self.__dict__[name] = tensor
        return tensor


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
