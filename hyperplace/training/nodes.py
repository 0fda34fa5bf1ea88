"""Data split over nodes that average their weights after every epoch: real accuracy, predicted time.

Graph + Profile + images + Cluster -> an Averaged for every number of nodes
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from hyperplace import api
from hyperplace.training.averaging import folds, split_images, train_averaged
from hyperplace.training.sets import Sets
from hyperplace.training.settings import TrainSettings
from hyperplace.values.averaging import Averaged
from hyperplace.values.cluster import Cluster
from hyperplace.values.graph import Graph
from hyperplace.values.profile import Profile


@dataclass(frozen=True)
class AverageWish:
    """Over how many nodes, and how many folds for cross-validation, if any."""

    nodes: tuple[int, ...] = (1, 2, 4, 8)
    folds: int | None = None


def average_over_nodes(
    graph: Graph,
    costs: Profile,
    make: Callable[[int], nn.Module],
    settings: TrainSettings,
    sets: Sets,
    cluster: Cluster,
    wish: AverageWish,
    on_progress: Callable[[str], None] = lambda text: None,
) -> list[Averaged]:
    """Train with every number of nodes; node n is on device n of the cluster."""
    parts = list(folds(sets, wish.folds, settings.seed)) if wish.folds else [sets]
    found = []
    for number in wish.nodes:
        accuracies = []
        for fold, own in enumerate(parts):
            on_progress(f"{number} nodes" + (f", fold {fold + 1}" if wish.folds else ""))
            accuracies.append(train_averaged(make, settings, own, number))
        shares = [len(share) for share in split_images(parts[0].train, number, settings.seed)]
        work_s = _work_s(graph, costs, cluster, shares)
        epoch_s = api.averaged_epoch_s(work_s, graph.parameter_bytes, cluster)
        found.append(Averaged(number, tuple(accuracies), max(work_s), epoch_s, settings.epochs))
    return found


def _work_s(graph: Graph, costs: Profile, cluster: Cluster, shares: Sequence[int]) -> list[float]:
    """Return how long every node computes on its share of the images."""
    work = sum(costs[layer.name].filter_work * layer.num_filters for layer in graph.layers) / costs.batch
    return [cluster.devices[p].seconds(work * share, costs.unit) for p, share in enumerate(shares)]
