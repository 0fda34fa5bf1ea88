"""Turn a partition into a plan: owners, shards, every message, and what it all costs."""

from hyperplace.errors import UsageError
from hyperplace.steps.place.assignment import assignments
from hyperplace.steps.place.exchange import exchange
from hyperplace.steps.place.measure import metrics
from hyperplace.steps.place.messages import reductions, transfers
from hyperplace.steps.place.replicas import replicas
from hyperplace.steps.place.shards import planned_layer
from hyperplace.values.graph import Graph, Rule
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Plan, Settings


def place(graph: Graph, hypergraph: Hypergraph, partition: Partition, settings: Settings) -> Plan:
    """Return the plan of a partition of the graph's hypergraph.

    The bytes of its messages are counted from the shards, not from the nets; a Plan checks that both agree.
    """
    if len(partition.part_of) != hypergraph.num_vertices:
        raise UsageError(
            f"the partition has {len(partition.part_of)} vertices, the hypergraph {hypergraph.num_vertices}; "
            "partition this model's own hypergraph (see hyperplace export)"
        )
    if partition.num_parts != settings.k:
        raise UsageError(f"the partition has {partition.num_parts} parts, but k={settings.k}; give --k the same number")
    if hypergraph.labels is None:
        raise UsageError(
            "a hypergraph from a file does not say which filters its vertices are; build it from the model"
        )
    found = assignments(graph, hypergraph.labels, partition, settings.batch)
    exchange(graph, found)
    return Plan(
        settings,
        tuple(planned_layer(layer, found[layer.name], settings.batch) for layer in graph.layers),
        sent := transfers(graph, found, settings.k),
        reduced := reductions(graph, found, settings.batch),
        metrics(graph, hypergraph, partition, found, (*sent, *reduced), settings),
        inputs=tuple(layer.shape[1:] for layer in graph.layers if layer.rule is Rule.INPUT),
        replicas=tuple(replica for layer in graph.layers for replica in replicas(layer, found[layer.name])),
    )
