"""Gradients clipped by the norm of all parts' together, as torch's clip_grad_norm_ does it for a whole model.

Every part tells all others the norm of what it owns, copies' gradients included, and each scales its own by the same
number. Between telling and scaling the gradients of a mini-batch are kept here: the next one's may come before all
others have told theirs.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from hyperplace.runtime.transport import NORMS, Endpoint
from hyperplace.runtime.weights import Weights

EPSILON = 1e-6  # what clip_grad_norm_ adds to the norm


class SharedNorm:
    """One part's side of the norm of all; `parts` are those with weights, this one among them."""

    def __init__(self, endpoint: Endpoint, parts: Collection[int], weights: Weights, *, most: float) -> None:
        self._endpoint, self._parts, self._weights, self._most = endpoint, sorted(parts), weights, most
        self._told: dict[int, tuple[Tensor, dict[str, Tensor]]] = {}  # by mini-batch: the norm, the gradients

    def tell(self, batch: int) -> None:
        """Take the gradients of a mini-batch, and tell their norm to all others."""
        gradients = self._weights.take_gradients()
        norm = torch.nn.utils.get_total_norm(gradients.values()).double()  # of one dtype, whatever the gradients have
        self._told[batch] = (norm, gradients)
        for part in self._parts:
            if part != self._endpoint.part:
                self._endpoint.send(batch, NORMS, "norm", part, norm, planned=False)

    def clip(self, batch: int) -> None:
        """Wait for the norms of all others, and give the gradients back, scaled."""
        own, gradients = self._told.pop(batch)
        # In the order of parts everywhere: then all scale by the same number to the last bit.
        norms = [self._norm(batch, part, own).to(own.device) for part in self._parts]
        total = torch.linalg.vector_norm(torch.stack(norms))
        scale = torch.clamp(self._most / (total + EPSILON), max=1.0)  # NaN stays NaN, as in torch
        for gradient in gradients.values():
            gradient.mul_(scale.to(gradient.device))
        self._weights.put_gradients(gradients)

    def _norm(self, batch: int, part: int, own: Tensor) -> Tensor:
        if part == self._endpoint.part:
            return own
        told = self._endpoint.receive(batch, NORMS, "norm", part)
        assert told is not None
        return told
