"""What every part does, as data: its weights, its segments with their code, every message, and what it all costs.

A program is what a plan is lowered to. Schedules, timelines and the runtime read it; `emit` prints it as Python, and
`load_program` reads that back without running it.

A segment takes tensors in the order of its method's arguments and gives them in the order of its results. Rows of the
batch are numbered as planned; a mini-batch of another size is cut at the same shares.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any

from hyperplace.errors import UsageError
from hyperplace.values.call import Rows
from hyperplace.values.ranges import Range, Ranges, parse_ranges

ITEM_BYTES = {"float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "complex128": 16}
ITEM_BYTES |= {"float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
ITEM_BYTES |= {"uint16": 2, "uint32": 4, "uint64": 8, "complex32": 4}
ITEM_BYTES |= {f"float8_{kind}": 1 for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")}

MOST_BYTES = 2**63

ATTRIBUTE = re.compile(r"\bself\.(\w+)")  # of a part, in the code of a step


@dataclass(frozen=True)
class Message:
    """One tensor from part to part per mini-batch, forward; its gradient comes back where it `learns`.

    Dimension 0 of its shape is as many rows as stand for the planned ones, where it has `rows`; any other size may
    follow the rows of the mini-batch too. What is not `planned` brings outputs to the loss, which no plan counts.
    """

    number: int
    name: str
    source: int
    target: int
    shape: tuple[int | Rows, ...]
    dtype: str = "float32"
    rows: Range | None = None
    learns: bool = True
    planned: bool = True

    def sizes(self, num_rows: int, batch: int) -> tuple[int, ...]:
        """Return the shape in a mini-batch of so many rows, of a program planned for `batch`."""
        sizes = [int(side.at(num_rows)) if isinstance(side, Rows) else side for side in self.shape]
        if self.rows is not None:
            sizes[0] = rows_at(self.rows, num_rows, batch)
        return tuple(sizes)

    def num_bytes(self, num_rows: int, batch: int) -> int:
        return prod(self.sizes(num_rows, batch)) * ITEM_BYTES[self.dtype]


def rows_at(rows: Range, num_rows: int, batch: int) -> int:
    """Return how many rows of a mini-batch stand for planned ones."""
    return rows[1] * num_rows // batch - rows[0] * num_rows // batch


def piece_rows(rows: int, pieces: int) -> tuple[int, ...]:
    """Return the rows of the micro-batches that so many rows are cut into: as torch.chunk does, perhaps in fewer."""
    size = -(-rows // pieces)
    return tuple(min(size, rows - begin) for begin in range(0, rows, size))


@dataclass(frozen=True)
class Feed:
    """Channels of one of the model's inputs, such as `0:3`; of all rows, or of some of those planned for."""

    number: int
    channels: str
    rows: Range | None = None


@dataclass(frozen=True)
class Keep:
    """A tensor that stays on the part: made by one segment, taken by later ones."""

    name: str


@dataclass(frozen=True)
class Receive:
    """The tensor of a message from another part."""

    message: int


@dataclass(frozen=True)
class Send:
    """The tensor of a message to another part."""

    message: int


@dataclass(frozen=True)
class Output:
    """One of the model's outputs, whole, on the part that computes the loss."""

    number: int


@dataclass(frozen=True)
class Slot:
    """Where the tensor of this number stands in what a model takes or returns."""

    number: int


@dataclass(frozen=True)
class Piece:
    """A parameter or buffer of the model, or the slice of it that the index says: `0:32, 3:6+8:9`."""

    name: str
    shape: tuple[int, ...]
    index: str = ""
    dtype: str = "float32"

    @cached_property
    def spans(self) -> tuple[Ranges, ...]:
        """The ranges of every dimension."""
        texts = [text.strip() for text in self.index.split(",")] if self.index else []
        if len(texts) > len(self.shape):
            raise UsageError(f"index {self.index!r} has more dimensions than the shape {self.shape}")
        texts += [":"] * (len(self.shape) - len(texts))
        return tuple(parse_ranges(text, size) for text, size in zip(texts, self.shape, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of the slice."""
        return tuple(sum(stop - start for start, stop in ranges) for ranges in self.spans)

    @cached_property
    def num_bytes(self) -> int:
        return prod(self.sizes) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Copy(Piece):
    """A piece that another part owns: its gradients go there, and its values come from there after every update.

    Where they go `via` another part, that has the same copy, adds the gradients to its own and hands the values on.
    """

    owner: int = field(kw_only=True)
    via: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Step:
    """One layer's share of a segment: which filters and rows, and its statements, each as `ast.unparse` writes it."""

    layer: str
    note: str
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """The code of a segment."""

    arguments: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Segment:
    """A run of steps that a part computes without waiting for anyone.

    `forward`, `backward` and `update` (of the weights it is the first to use and its part owns) are its work in the
    program's unit, and `half_rows` is what its passes cost with half the rows, as a share; `saved_bytes` is what it
    keeps in between, `kept_bytes` what of it later segments take, and `largest_bytes` the largest tensor that a layer
    makes; all for a mini-batch as planned. One that `recomputes` keeps only what it takes and what later segments take,
    and runs forward once more before it runs backward; one that `offloads` keeps no more on its device, and the rest in
    the host's memory. The code is known to a program that was lowered or read; one made of classes has methods.
    """

    name: str
    takes: tuple[Feed | Receive | Keep, ...]
    gives: tuple[Keep | Send | Output, ...]
    layers: tuple[str, ...] = ()
    weights: tuple[str, ...] | None = None  # those it uses; None where that is not known
    forward: float = 0.0
    backward: float = 0.0
    update: float = 0.0
    half_rows: float = 0.5
    saved_bytes: int = 0
    kept_bytes: int = 0
    largest_bytes: int = 0
    recomputes: bool = False
    offloads: bool = False
    method: Method | None = field(default=None, repr=False)

    @property
    def is_lean(self) -> bool:
        """Whether its device holds next to nothing for it between its passes."""
        return self.recomputes or self.offloads


@dataclass(frozen=True)
class PartProgram:
    """What one part has and does; `holds` says which filters and rows of which layers are its own."""

    weights: Mapping[str, Piece] = field(default_factory=dict)
    buffers: Mapping[str, Piece] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    holds: Mapping[str, str] = field(default_factory=dict)

    @property
    def owned(self) -> dict[str, Piece]:
        """The weights that this part updates."""
        return {name: piece for name, piece in self.weights.items() if not isinstance(piece, Copy)}

    @property
    def update(self) -> float:
        """The work of updating all weights that it owns."""
        return sum(segment.update for segment in self.segments)

    @property
    def held(self) -> dict[str, Piece]:
        """The weights that this part updates, and the buffers that are its own: what a state is put together from."""
        return self.owned | {name: piece for name, piece in self.buffers.items() if not isinstance(piece, Copy)}

    @property
    def work(self) -> float:
        return sum(segment.forward + segment.backward + segment.update for segment in self.segments)

    @cached_property
    def first_takers(self) -> dict[int, int]:
        """The first segment that takes each message, which also sends its gradient back."""
        first: dict[int, int] = {}
        for index, segment in enumerate(self.segments):
            for take in segment.takes:
                if isinstance(take, Receive):
                    first.setdefault(take.message, index)
        return first

    @cached_property
    def users(self) -> dict[str, tuple[int, ...]]:
        """The segments that use each weight, in order; none for a weight that no segment uses."""
        found: dict[str, list[int]] = {name: [] for name in self.weights}
        for index in range(len(self.segments)):
            for name in dict.fromkeys(self.weights_of(index)):
                found.setdefault(name, []).append(index)
        return {name: tuple(segments) for name, segments in found.items()}

    def weights_of(self, segment: int) -> tuple[str, ...]:
        """Return the weights a segment uses: all, where that is not known."""
        used = self.segments[segment].weights
        return tuple(self.weights) if used is None else used

    def buffers_of(self, segment: int) -> tuple[str, ...]:
        """Return the buffers a segment reads or writes: all, where its code is not known."""
        if (method := self.segments[segment].method) is None:
            return tuple(self.buffers)
        used = {name for step in method.steps for code in step.code for name in ATTRIBUTE.findall(code)}
        return tuple(name for name in self.buffers if name in used)


@dataclass(frozen=True)
class Program:
    """A model on several parts.

    `inputs` are the shapes of the model's inputs without rows. `takes` are its positional and keyword arguments and
    `returns` is what it returns, both with a Slot for every tensor. `rows` are the fewest and the most that the model's
    code takes the same way. Work is in `unit`: microseconds or FLOPs.
    """

    name: str
    inputs: tuple[tuple[int, ...], ...]
    parts: tuple[PartProgram, ...]
    batch: int
    messages: tuple[Message, ...] = ()
    grain: str = ""
    unit: str = "flops"
    takes: Any = None  # all positional
    returns: Any = None  # a tensor, or a tuple of them
    rows: tuple[int, int | None] = (1, None)
    predicts: bool = True  # the model does the same in evaluation mode

    def __post_init__(self) -> None:
        if faults := list(self._faults()) or list(_circle_faults(self.parts)):
            raise UsageError("not a program: " + "; ".join(faults))

    def __repr__(self) -> str:
        segments = sum(len(part.segments) for part in self.parts)
        return f"Program({self.name}, {len(self.parts)} parts, {segments} segments, {len(self.messages)} messages)"

    def _faults(self) -> Iterator[str]:
        if not 1 <= self.batch <= MOST_BYTES:
            yield f"batch {self.batch} has no rows, or more than there can be"
            return
        for number, message in enumerate(self.messages):
            if message.number != number:
                yield f"message {message.name} has the number {message.number} in place {number}"
            if not {message.source, message.target} <= set(range(len(self.parts))) or message.source == message.target:
                yield f"message {message.name} goes from part {message.source} to {message.target}"
            if message.dtype not in ITEM_BYTES:
                yield f"message {message.name} has the unknown dtype {message.dtype}"
            elif message.num_bytes(self.batch, self.batch) >= MOST_BYTES:
                yield f"message {message.name} is larger than any memory"
            if message.rows is not None and not 0 <= message.rows[0] < message.rows[1] <= self.batch:
                yield f"message {message.name} has rows {message.rows[0]}:{message.rows[1]}, outside 0:{self.batch}"
        sent = [(p, give.message) for p, part in enumerate(self.parts) for give in _sends(part)]
        if sorted(sent) != sorted((message.source, message.number) for message in self.messages):
            yield "not every message is sent once, by its source"
        taken = {(p, take.message) for p, part in enumerate(self.parts) for take in _receives(part)}
        if taken != {(message.target, message.number) for message in self.messages}:
            yield "not every message is received, by its target"
        for p, part in enumerate(self.parts):
            yield from _part_faults(p, part, len(self.parts))
        yield from _tensor_faults(self.parts)

    @property
    def total_work(self) -> float:
        return sum(part.work for part in self.parts)

    def label(self, part: int, kind: str, segment: int) -> str:
        """Return what a timeline calls a segment's run: its layers, or what kind of action it is."""
        segments = self.parts[part].segments
        layers = segments[segment].layers if segments else ()
        if kind == "update" or not layers:
            return kind
        return layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]}"


def _sends(part: PartProgram) -> Iterator[Send]:
    return (give for segment in part.segments for give in segment.gives if isinstance(give, Send))


def _receives(part: PartProgram) -> Iterator[Receive]:
    return (take for segment in part.segments for take in segment.takes if isinstance(take, Receive))


def _tensor_faults(parts: tuple[PartProgram, ...]) -> Iterator[str]:
    """Say which tensor of the model has two shapes or dtypes: all pieces are of one."""
    known: dict[str, Piece] = {}
    for part in parts:
        for piece in (*part.weights.values(), *part.buffers.values()):
            first = known.setdefault(piece.name, piece)
            if (first.shape, first.dtype) != (piece.shape, piece.dtype):
                yield f"{piece.name} is {first.dtype} of {first.shape} and {piece.dtype} of {piece.shape}"


def _circle_faults(parts: tuple[PartProgram, ...]) -> Iterator[str]:
    """Say where segments wait for each other in a circle, through messages that are all sent and received."""
    segments = {(p, s): segment for p, part in enumerate(parts) for s, segment in enumerate(part.segments)}
    maker: dict[tuple[int, str] | int, tuple[int, int]] = {}  # who makes what a part keeps, and every message
    for (p, s), segment in segments.items():
        for give in segment.gives:
            if isinstance(give, Keep | Send):
                maker[(p, give.name) if isinstance(give, Keep) else give.message] = (p, s)
    needs = {
        (p, s): {
            maker[(p, take.name) if isinstance(take, Keep) else take.message]
            for take in segment.takes
            if isinstance(take, Keep | Receive)
        }
        for (p, s), segment in segments.items()
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as circle:
        shown = " -> ".join(f"{segments[node].name} of part {node[0]}" for node in circle.args[1])
        yield f"segments wait for each other in a circle: {shown}"


def _part_faults(number: int, part: PartProgram, num_parts: int) -> Iterator[str]:
    made: set[str] = set()
    for segment in part.segments:
        for take in segment.takes:
            if isinstance(take, Keep) and take.name not in made:
                yield f"part {number} takes {take.name} in {segment.name} before it is made"
        made |= {give.name for give in segment.gives if isinstance(give, Keep)}
        if unknown := set(segment.weights or ()) - set(part.weights):
            yield f"part {number} uses {min(unknown)} in {segment.name}, which it has not"
        if segment.recomputes and segment.offloads:
            yield f"part {number} both recomputes and offloads {segment.name}"
        if (method := segment.method) is not None:
            counts = len(segment.takes), len(segment.gives)
            if counts != (len(method.arguments), len(method.results)):
                code = f"{len(method.arguments)} arguments and {len(method.results)} results"
                has = f"takes {counts[0]} and gives {counts[1]} tensors"
                yield f"part {number} {has} in {segment.name}, whose method has {code}"
    for name, piece in part.weights.items():
        if "int" in piece.dtype or piece.dtype == "bool":
            yield f"part {number} has the weight {name} of dtype {piece.dtype}, which has no gradient"
    for name, piece in (*part.weights.items(), *part.buffers.items()):
        if piece.dtype not in ITEM_BYTES:
            yield f"part {number} has {name} of the unknown dtype {piece.dtype}"
        if isinstance(piece, Copy) and not (0 <= piece.owner < num_parts and piece.owner != number):
            yield f"part {number} has a copy of {name} from part {piece.owner}"
