"""How an epoch goes, for whoever watches."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Snapshot:
    """An epoch under way or done; loss and accuracy are of the mini-batches known so far."""

    method: str
    seed: int
    epoch: int  # from 1
    num_epochs: int
    step: int  # mini-batches given
    num_steps: int
    loss: float
    accuracy: float  # of training, 0 .. 1
    images_per_s: float
    staleness: tuple[float, ...]  # mean updates between forward pass and update, per part
    test_accuracy: float | None = None  # once the epoch is done

    def __str__(self) -> str:
        parts = [
            f"loss {self.loss:.4f}",
            f"train {100 * self.accuracy:.1f}%",
            *([f"test {100 * self.test_accuracy:.2f}%"] if self.test_accuracy is not None else []),
            f"{self.images_per_s:,.0f} images/s",
            *([f"staleness {self.shown_staleness}"] if self.staleness else []),
        ]
        return "  ".join(parts)

    @property
    def shown_staleness(self) -> str:
        """Every part's while they are few, the most of any otherwise."""
        if len(self.staleness) > 4:
            return f"up to {max(self.staleness):.1f}"
        return " ".join(f"{mean:.1f}" for mean in self.staleness)
