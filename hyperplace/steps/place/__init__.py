"""Place: Graph + Profile + Layout -> Plan."""

from hyperplace.steps.place.owners import reowned
from hyperplace.steps.place.place import check_volume, place

__all__ = ["check_volume", "place", "reowned"]
