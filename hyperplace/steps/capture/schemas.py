"""What torch says of an operation, asked once for each."""

from functools import cache

import torch

from hyperplace.values.call import Schema

# Forms of random operations that take a generator, by the form that does not.
_SEEDED = {"default": "generator", "low": "low_generator", "Tensor": "Tensor_generator"}


@cache
def schema_of(op: str) -> Schema:
    """Return the schema of `aten.conv2d.default`; an empty one for what is no operation of torch's."""
    found = _found(op)
    if found is None:
        return Schema()
    plain = _out_of_place(op)
    draws = torch.Tag.nondeterministic_seeded in found.tags
    return Schema(
        arguments=_arguments(found),
        shares_memory=any(one.alias_info for one in (_found(plain) or found)._schema.returns),
        out_of_place=plain,
        seeded=_seeded(op) if draws else "",
        draws=draws,
    )


def _found(op: str) -> torch._ops.OpOverload | None:
    words = op.split(".")
    if len(words) != 3:
        return None
    library, name, overload = words
    packet = getattr(getattr(torch.ops, library), name, None)
    return getattr(packet, overload) if packet is not None and overload in packet.overloads() else None


def _arguments(found: torch._ops.OpOverload) -> tuple[str, ...]:
    return tuple(argument.name for argument in found._schema.arguments)


def _out_of_place(op: str) -> str:
    library, name, overload = op.split(".")
    if not name.endswith("_") or name.endswith("__"):
        return ""
    plain = f"{library}.{name.rstrip('_')}.{overload}"
    return plain if _found(plain) else ""


def _seeded(op: str) -> str:
    library, name, overload = op.split(".")
    for form in (overload, _SEEDED.get(overload, "low_generator_dtype")):
        found = _found(f"{library}.{name}.{form}")
        if found is not None and "generator" in _arguments(found):
            return f"{library}.{name}.{form}"
    return ""
