"""What a user has decided beforehand about where layers lie, and what that asks of a graph.

A pin names the one part of a layer; layers kept together are on one part, whichever; a layer may also be kept on a few
parts at most. Layers tied channel by channel (an add and what it adds, a depthwise convolution and what it reads) share
their channels and move together: what is asked of one is asked of all.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.values.arguments import is_whole
from hyperplace.values.graph import Graph
from hyperplace.values.layout import Layout
from hyperplace.values.ranges import Mask
from hyperplace.values.ties import grouped, tied_layers

Places = Mapping[str, Collection[int]]  # the parts that may have any of a layer; all, of a layer that is not named


@dataclass(frozen=True)
class Pins:
    """What was asked for, in the order in which it was."""

    parts: tuple[tuple[str, int], ...] = ()  # layer, the part that has all of it
    together: tuple[tuple[str, ...], ...] = ()  # layers of which one part has all
    at_most: tuple[tuple[str, int], ...] = ()  # layer, how many parts may have some of it

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("; ".join(faults))

    def __bool__(self) -> bool:
        return bool(self.parts or self.together or self.at_most)

    def __str__(self) -> str:
        words = [f"{layer}={part}" for layer, part in self.parts]
        words += [f"{'+'.join(layers)} together" for layers in self.together]
        words += [f"{layer} on at most {number} part{'s' * (number != 1)}" for layer, number in self.at_most]
        return ", ".join(words)

    def _faults(self) -> Iterator[str]:
        for layer in self.layers:
            if not isinstance(layer, str):
                yield f"{layer!r} is no name of a layer"
        for what, pairs in (("part", self.parts), ("number of parts", self.at_most)):
            for layer, number in pairs:
                if not is_whole(number) or number < (what != "part"):
                    yield f"{number!r} is no {what} for {layer}; give a whole number from {int(what != 'part')} up"
        for layers in self.together:
            if len(set(layers)) < 2:
                yield f"{', '.join(layers) or 'nothing'} cannot be kept together with itself; name two layers or more"

    @classmethod
    def of(cls, pin: Any = None, keep_together: Any = None, at_most: Any = None) -> "Pins":
        """Return pins as Python callers give them: {layer: part}, [(layer, layer), ...], {layer: number of parts}."""
        try:
            groups = tuple(tuple(layers) for layers in keep_together or ())
            return cls(_items(pin), groups, _items(at_most))
        except (AttributeError, TypeError):
            raise UsageError(
                'pins are given like pin={"layer": 0}, keep_together=[("a", "b")], at_most={"layer": 2}'
            ) from None

    @classmethod
    def parse(cls, pin: Sequence[str], keep_together: Sequence[str], at_most: Sequence[str]) -> "Pins":
        """Return pins as the command line has them: LAYER=PART, LAYER,LAYER, LAYER=2 or `LAYER=2 parts`."""
        return cls(
            tuple(_assigned(text, "--pin", "PART") for text in pin),
            tuple(tuple(word.strip() for word in text.split(",") if word.strip()) for text in keep_together),
            tuple(_assigned(text, "--at-most", "2") for text in at_most),
        )

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that are named."""
        named = [layer for pairs in (self.parts, self.at_most) for layer, _ in pairs]
        return tuple(dict.fromkeys([*named, *(layer for layers in self.together for layer in layers)]))

    def broken(self, parts_of: Mapping[str, Collection[int]]) -> list[str]:
        """Say which of the pins do not hold where layers lie on these parts, by their names alone."""
        if missing := [layer for layer in self.layers if layer not in parts_of]:
            return [f"{missing[0]} is pinned, and there is no such layer"]
        faults = [
            f"{layer} is on parts {sorted(parts_of[layer])}, but pinned to part {part}"
            for layer, part in self.parts
            if set(parts_of[layer]) != {part}
        ]
        for layers in self.together:
            if len(found := {part for layer in layers for part in parts_of[layer]}) > 1:
                faults.append(f"{', '.join(layers)} are on parts {sorted(found)}, but kept together")
        for layer, number in self.at_most:
            if len(set(parts_of[layer])) > number:
                faults.append(f"{layer} is on {len(set(parts_of[layer]))} parts, more than {number}")
        return faults

    def bonds(self, graph: Graph, num_parts: int) -> "tuple[Bond, ...]":
        """Return what the pins ask of the layers of a graph, and of all that are tied to them."""
        if faults := [*self._unknown(graph), *self._outside(num_parts)]:
            raise UsageError("; ".join(faults))
        names = [layer.name for layer in graph.layers]
        pairs = [pair for layers in self.together for pair in pairwise(layers)]
        group_of = grouped(names, [*tied_layers(graph), *pairs])
        pinned: dict[str, tuple[str, int]] = {}
        for layer, part in self.parts:
            other, there = pinned.setdefault(group_of[layer], (layer, part))
            if there != part:
                raise UsageError(_contradiction((other, there), (layer, part)))
        most = {group_of[layer]: 1 for layer in (*(layer for layer, _ in self.parts), *(one for one, _ in pairs))}
        for layer, number in self.at_most:
            if number < num_parts:
                most[group_of[layer]] = min(number, most.get(group_of[layer], number))
        members = {group: tuple(name for name in names if group_of[name] == group) for group in most}
        return tuple(Bond(members[group], most[group], pinned.get(group, ("", None))[1]) for group in most)

    def _unknown(self, graph: Graph) -> Iterator[str]:
        names = [layer.name for layer in graph.layers]
        for layer in self.layers:
            if layer not in graph.index_of:
                yield f"there is no layer {layer!r} to pin; did you mean {closest(layer, names)!r}?"

    def _outside(self, num_parts: int) -> Iterator[str]:
        for layer, part in self.parts:
            if part >= num_parts:
                yield f"{layer} is pinned to part {part}, outside 0..{num_parts - 1}"


@dataclass(frozen=True)
class Bond:
    """Layers that have the same parts: `most` of them, and which one, where that is told."""

    layers: tuple[str, ...]
    most: int = 1
    part: int | None = None

    def holds(self, parts: Collection[int]) -> bool:
        """Say whether its layers may be on these parts."""
        return len(set(parts)) <= self.most and self.part in (None, *parts)

    def holds_in(self, layout: Layout) -> bool:
        """Say whether its layers may be where a layout has them."""
        return self.holds({part for layer in self.layers for part in layout.owners[layer].parts.ravel().tolist()})


def closest(name: str, names: Sequence[str]) -> str:
    """Return the name that is most like a wrong one."""
    return get_close_matches(name, names, n=1, cutoff=0.0)[0]


def barred(layers: Sequence[str], num_parts: int, places: Places) -> Mask:
    """Return [number in `layers`, part]: whether the part may have none of that layer."""
    found = np.zeros((len(layers), num_parts), bool)
    for number, layer in enumerate(layers):
        if layer in places:
            found[number] = True
            found[number, list(places[layer])] = False
    return found


def _items(given: Any) -> tuple[tuple[str, int], ...]:
    """Return a dict as pairs, with numbers of numpy as Python's own."""
    return tuple((layer, int(number) if is_whole(number) else number) for layer, number in (given or {}).items())


def _assigned(text: str, option: str, what: str) -> tuple[str, int]:
    found = re.fullmatch(r"\s*(.+?)\s*=\s*(\d{1,9})\s*(parts?)?\s*", text, re.ASCII)
    if not found or (found[3] and option == "--pin"):
        raise UsageError(f"{option} {text.strip()} is not of the form LAYER={what}")
    return found[1], int(found[2])


def _contradiction(one: tuple[str, int], other: tuple[str, int]) -> str:
    if one[0] == other[0]:
        return f"{one[0]} is pinned to part {one[1]} and to part {other[1]}; leave one of them out"
    return (
        f"{one[0]} is pinned to part {one[1]} and {other[0]} to part {other[1]}, but they are kept together, or tied "
        "channel by channel; pin them to one part"
    )
