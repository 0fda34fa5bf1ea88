"""What training keeps for the backward pass, seen by running the program once on tensors without memory.

Autograd says which tensors it saves. One that is some call's result counts for that call, however many save it; one
that is nobody's result (the indices of a pooling) counts for the call that saved it. Parameters and inputs are not
counted.
"""

from contextlib import suppress
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node

from hyperplace.steps.capture.export import Exported


def saved_bytes(exported: Exported, rows: int) -> dict[str, int]:
    """Return the bytes kept on behalf of every call, by its name, for one row."""
    if exported.runnable:
        program, number = exported.runnable
        return {name: -(-size // number) for name, size in _saved(program, number).items()}
    here, there = (_saved(exported.program, number) for number in (rows, rows + 1))
    return {name: max(0, size - here.get(name, 0)) for name, size in there.items()}


def _saved(program: ExportedProgram, rows: int) -> dict[str, int]:
    """Return the bytes that so many rows keep."""
    watch = _Watch(program.graph_module)
    hooks = torch.autograd.graph.saved_tensors_hooks(watch.pack, lambda kept: kept)  # never unpacked
    # An operation may need real memory, or autograd may refuse one: what was seen until then counts.
    with suppress(Exception), torch.enable_grad(), hooks:
        watch.run(*(_without_memory(node, rows) for node in program.graph.nodes if node.op == "placeholder"))
    watch.env.clear()  # its tensors' history keeps the hooks, and they would keep it: never freed
    return watch.kept()


def _without_memory(node: Node, rows: int) -> Any:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return value
    shape = tuple(rows if isinstance(side, torch.SymInt) else side for side in value.shape)
    made = torch.empty(shape, dtype=value.dtype, device="meta")
    return made.requires_grad_(value.requires_grad)


class _Watch(Interpreter):
    """Run a program and remember whose storage is saved."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._node = ""
        self._maker: dict[int, str] = {}  # of a storage
        self._size: dict[int, int] = {}  # of a saved storage
        self._alive: list[Any] = []  # a storage that is freed would give its number to another

    def run_node(self, n: Node) -> Any:
        self._node = n.name
        result = super().run_node(n)
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, torch.Tensor):
                maker = "" if n.op == "placeholder" else n.name
                self._maker.setdefault(self._number(tensor), maker)
        return result

    def pack(self, tensor: torch.Tensor) -> int:
        """Note what is saved, and keep a number in its place: a tensor that keeps itself is never freed."""
        number = self._number(tensor)
        self._maker.setdefault(number, self._node)
        self._size[number] = tensor.untyped_storage().nbytes()
        return number

    def _number(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        self._alive.append(storage)
        return int(storage._cdata)

    def kept(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for number, size in self._size.items():
            found[self._maker[number]] = found.get(self._maker[number], 0) + size
        found.pop("", None)
        return found
