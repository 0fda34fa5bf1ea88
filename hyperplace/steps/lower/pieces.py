"""Which slices of the model's parameters and buffers a part has."""

from dataclasses import dataclass, field

from hyperplace.steps.lower.calls import op_name
from hyperplace.steps.lower.holdings import Held, Slice, pick
from hyperplace.steps.lower.sharing import Sharing
from hyperplace.steps.lower.text import ATTRIBUTES, Names, index_text
from hyperplace.values.channels import filter_axis
from hyperplace.values.graph import Call, Layer, Parameter
from hyperplace.values.plan import Ranges
from hyperplace.values.program import Copy, Piece
from hyperplace.values.ranges import common


@dataclass(frozen=True)
class Entry:
    """A piece of a parameter or buffer under its name on the part, with the layer that was first to use it."""

    attribute: str
    layer: str
    parameter: Parameter
    piece: Piece


@dataclass
class Pieces:
    """The pieces of one part, in order of first use.

    Where the rows of filters are apart, `sharings` has their layer, and a part's slices of its parameters are those of
    the groups of filters with the same owner; what a tile uses is cut out of them. `tied` has the owner of every
    parameter that several layers use.
    """

    part: int = 0
    sharings: dict[str, Sharing] = field(default_factory=dict)
    tied: dict[str, int] = field(default_factory=dict)
    names: Names = field(default_factory=lambda: Names(ATTRIBUTES))
    of: dict[tuple[str, str], Entry] = field(default_factory=dict)  # by the parameter's name and the index
    used: set[str] = field(default_factory=set)  # attributes, since it was last cleared

    def has_copies(self, layer: Layer) -> bool:
        """Say whether the layer's filters have rows on several parts."""
        return layer.name in self.sharings

    def text(self, layer: Layer, name: str, cuts: dict[int, Ranges]) -> str:
        """Return how the part's code names a slice of a parameter; `cuts` has the ranges of each cut dimension."""
        parameter = next(p for p in layer.parameters if p.name == name)
        if not (cuts and self.has_copies(layer)):
            owner = self.tied.get(name, self.part)
            return f"self.{self._piece(layer, parameter, cuts, None if owner == self.part else owner).attribute}"
        ((dim, wanted),) = cuts.items()  # rows are apart only where parameters are cut by filters alone
        width = parameter.shape[dim] // layer.num_filters
        held = []
        for owner, filters in self.sharings[layer.name].groups(self.part):
            own = scaled(filters, width)
            if common(own, wanted):
                piece = self._piece(layer, parameter, {dim: own}, None if owner == self.part else owner)
                held.append(Held(f"self.{piece.attribute}", own, (0, 1)))
        (line,) = pick(layer.name, wanted, (0, 1), held)
        texts = [_narrowed(one, dim) for one in line]
        return texts[0] if len(texts) == 1 else f"torch.cat(({', '.join(texts)}), {dim})"

    def _piece(self, layer: Layer, parameter: Parameter, cuts: dict[int, Ranges], owner: int | None) -> Entry:
        """Return the part's piece of a parameter, entered the first time."""
        name, index = parameter.name, _index(parameter, cuts)
        if (name, index) not in self.of:
            words = (name, parameter.shape, index, parameter.dtype)
            piece = (
                Piece(*words) if owner is None else Copy(*words, owner=owner, via=self._via(layer, parameter, owner))
            )
            self.of[name, index] = Entry(self._attribute(name, index), layer.name, parameter, piece)
        self.used.add(self.of[name, index].attribute)
        return self.of[name, index]

    def _via(self, layer: Layer, parameter: Parameter, owner: int) -> int | None:
        """Return by which other part a copy is exchanged; None where it is not, or with its owner."""
        has_route = parameter.trained and self.has_copies(layer) and parameter.name not in self.tied
        return self.sharings[layer.name].via(self.part, owner) if has_route else None

    def _attribute(self, name: str, index: str) -> str:
        """Return the parameter's own name, with the slice where the part has several of it."""
        return self.names(name, index) if any(known == name for known, _ in self.of) else self.names(name)


def _narrowed(one: Slice, dim: int) -> str:
    if one.has_all_filters:
        return one.variable
    return f"{one.variable}[{':, ' * dim}{one.start}:{one.stop}]"


def _index(parameter: Parameter, cuts: dict[int, Ranges]) -> str:
    texts = [":"] * len(parameter.shape)
    for dim, ranges in cuts.items():
        if ranges != ((0, parameter.shape[dim]),):
            texts[dim] = index_text(ranges)
    while texts and texts[-1] == ":":
        texts.pop()
    return ", ".join(texts)


def filter_cuts(call: Call, argument: str, shape: tuple[int, ...], scaled: Ranges) -> dict[int, Ranges]:
    """Return the dimension of a call's parameter that runs over filters, cut to those given; nothing if none does."""
    axis = filter_axis(op_name(call).rstrip("_"), argument, shape, call.shape)
    return {} if axis is None else {axis: scaled}


def scaled(ranges: Ranges, factor: int) -> Ranges:
    return tuple((start * factor, stop * factor) for start, stop in ranges)
