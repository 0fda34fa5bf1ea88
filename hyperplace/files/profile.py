"""Profiles as files, and where measured ones are kept so that a model is measured once."""

import hashlib
from pathlib import Path

from hyperplace.files.cache import cache_folder
from hyperplace.files.records import parse_record, record_text
from hyperplace.values.graph import Graph
from hyperplace.values.profile import Profile, machine_line

VERSION = 4  # 2: the mark of the model; 3: passes apart, of tails and halves too; 4: what fewer rows do not save


def profile_text(profile: Profile) -> str:
    """Return the profile as JSON."""
    return record_text(profile, "profile", VERSION)


def parse_profile(text: str, name: str) -> Profile:
    """Return the profile a text holds; a bad, old or hand-broken one gives a FileError that says where."""
    return parse_record(text, name, Profile, "profile", VERSION, remedy="measure again with hyperplace profile")


def graph_mark(graph: Graph) -> str:
    """Return a mark of the layers with their sizes: profiles of two models differ in it even where names coincide."""
    layers = [
        (layer.name, layer.kind, layer.num_filters, layer.map_bytes, layer.macs, layer.parameter_bytes)
        for layer in graph.layers
    ]
    return hashlib.sha256(repr(layers).encode()).hexdigest()[:16]


def cache_path(graph: Graph, batch: int, device: str = "cpu", threads: int | None = None) -> Path | None:
    """Return where this measurement is kept, if there is a place.

    The name is a hash of all it depends on: the layers with their calls and shapes, the batch, and the processor,
    threads, device and torch version.
    """
    key = repr((VERSION, graph.layers, graph.rows, batch, machine_line(device, threads)))
    folder = cache_folder()
    return folder and folder / "profiles" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
