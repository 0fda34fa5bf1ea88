"""What splitting the data over nodes gives: how well the averaged model does, and what epochs are predicted to take."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Averaged:
    """Training on so many nodes, each on its share of the images, with weights averaged after every epoch."""

    num_nodes: int
    accuracies: tuple[float, ...]  # of the averaged model after the last epoch, 0 .. 1; one for every fold
    compute_s: float  # of the node that takes longest, for an epoch
    epoch_s: float  # with the exchange of weights
    num_epochs: int

    @property
    def accuracy(self) -> float:
        return sum(self.accuracies) / len(self.accuracies)

    @property
    def seconds(self) -> float:
        """All epochs of all folds, one after the other."""
        return self.epoch_s * self.num_epochs * len(self.accuracies)

    def improvement(self, one: "Averaged") -> float:
        """Return by which share it is faster than another, such as one node."""
        return 1 - self.seconds / one.seconds
