"""Place: Graph + Profile + Hypergraph + Partition -> Plan."""

from hyperplace.steps.place.place import place

__all__ = ["place"]
