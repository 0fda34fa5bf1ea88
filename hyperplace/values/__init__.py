"""The finished, frozen values that travel between steps: Graph, Profile, Hypergraph, Partition, Plan, Timeline, ..."""
