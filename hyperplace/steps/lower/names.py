"""Untrusted text from models and plan files as harmless parts of a program.

Layer and parameter names can be any text. They reach a program's code only as identifiers made here; where a program
is printed they are string literals besides.
"""

import keyword
import re
from collections.abc import Hashable

VARIABLES = frozenset(["self", "torch", "F", "runtime"])  # what a method uses by name
_ATTRIBUTES = "weights buffers segments holds step training device generator batch num_rows rows count see table"
ATTRIBUTES = frozenset(_ATTRIBUTES.split())  # of a part


class Names:
    """Give every key an identifier of its own, and the same one each time it is asked for."""

    def __init__(self, taken: frozenset[str] = VARIABLES) -> None:
        self._of: dict[Hashable, str] = {}
        self._taken = set(taken)

    def __call__(self, *words: str | int) -> str:
        if words not in self._of:
            self._of[words] = self._free(_identifier("_".join(map(str, words))))
        return self._of[words]

    def _free(self, wish: str) -> str:
        name, number = wish, 1
        while name in self._taken:
            number += 1
            name = f"{wish}_{number}"
        self._taken.add(name)
        return name


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "unnamed"
    is_plain = not (name[0].isdigit() or keyword.iskeyword(name) or re.fullmatch(r"segment_\d+", name))
    return name if is_plain else f"_{name}"
