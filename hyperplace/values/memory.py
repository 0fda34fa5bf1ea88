"""What a part needs of its device's memory while it trains, by what for."""

from dataclasses import dataclass

# Tensors of a parameter's size that an optimizer keeps for each.
OPTIMIZER_STATES = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adagrad": 1, "adam": 2, "adamw": 2}


@dataclass(frozen=True)
class PartMemory:
    """Bytes of one part at its peak, for mini-batches as planned."""

    weights: int  # parameters, copies and buffers
    gradients: int
    optimizer: int
    stashed: int  # older versions of weights, which mini-batches in flight still see, and newer ones not yet wanted
    activations: int  # kept for backward passes, with what was received, and weights joined from several owners
    messages: int  # come, and not yet taken
    working: int  # gradients of what a layer makes and of what it reads, while it runs backward, or that are added up
    copied: int = 0  # sent to another host each time where one may be lost (--survive); not part of the total

    @property
    def total(self) -> int:
        """What a device must have; with --survive up to three copies, here and of another part, beside it."""
        trained = self.weights + self.gradients + self.optimizer + self.stashed
        return trained + self.activations + self.messages + self.working


@dataclass(frozen=True)
class RunMemory:
    """The memory of all parts where at most so many mini-batches are in flight; `optimizer` as in OPTIMIZER_STATES."""

    parts: tuple[PartMemory, ...]
    in_flight: int
    optimizer: str
