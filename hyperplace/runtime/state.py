"""Whole tensors from the pieces that parts hold."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from hyperplace.runtime.part import Part
from hyperplace.runtime.table import Copy


def assembled(base: Mapping[str, Tensor], held: Iterable[tuple[Part, Mapping[str, Tensor]]]) -> dict[str, Tensor]:
    """Return the tensors of `base` with the pieces the parts own written into them."""
    whole = {name: tensor.clone() for name, tensor in base.items()}
    with torch.no_grad():
        for part, tensors in held:
            for attribute, piece in (part.weights | part.buffers).items():
                if not isinstance(piece, Copy):
                    piece.paste_into(whole[piece.name], tensors[attribute])
    return whole
