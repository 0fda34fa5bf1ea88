"""Hypergraphs to and from files, in any of the formats."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hyperplace.errors import FileError, UsageError
from hyperplace.files.hmetis import hmetis_text, parse_hmetis
from hyperplace.files.patoh import parse_patoh, patoh_text
from hyperplace.files.write import Pathlike, read_text, write_text
from hyperplace.values.hypergraph import Hypergraph


@dataclass(frozen=True)
class Format:
    """How a hypergraph becomes text and back, and the suffixes of its files."""

    text: Callable[[Hypergraph], str]
    parse: Callable[[str, str], Hypergraph]
    suffixes: tuple[str, ...]


FORMATS = {
    "patoh": Format(patoh_text, parse_patoh, (".patoh", ".u")),
    "hmetis": Format(hmetis_text, parse_hmetis, (".hgr",)),
}


def write_hypergraph(path: Pathlike, hypergraph: Hypergraph, format: str) -> None:
    """Write the hypergraph in the named format, whatever the path's suffix."""
    write_text(path, format_named(format).text(hypergraph))


def read_hypergraph(path: Pathlike, format: str | None = None) -> Hypergraph:
    """Read a hypergraph in the named format, or in the one the path's suffix tells."""
    chosen = _of_suffix(Path(path)) if format is None else format_named(format)
    return chosen.parse(read_text(path), str(path))


def format_named(name: str) -> Format:
    """Return the format of this name."""
    if name not in FORMATS:
        raise UsageError(f"unknown hypergraph format {name!r}; choose {' or '.join(FORMATS)}")
    return FORMATS[name]


def _of_suffix(path: Path) -> Format:
    for format in FORMATS.values():
        if path.suffix.lower() in format.suffixes:
            return format
    known = ", ".join(suffix for format in FORMATS.values() for suffix in format.suffixes)
    raise FileError(
        f"cannot tell the format of {path} from its suffix; rename it to one of {known}, "
        f"or give --format {' or '.join(FORMATS)}"
    )
