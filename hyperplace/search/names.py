"""Who can be asked for a placement, and who is named where several found one of the same volume."""

from hyperplace.steps.partition import PARTITIONERS

SYMMETRIC = ("auto", "local", "exact")
NAMES = (*SYMMETRIC, *PARTITIONERS)
BASELINES = ("incremental", "layerwise", "horizontal")
ORDER = ("exact", "local", "kahypar", "vcycle", *BASELINES, "mtkahypar")


def only_grain(partitioner: str) -> str | None:
    """Return the one grain that is meant where a partitioner is named and no grain; None where all are searched."""
    if partitioner not in (*PARTITIONERS, "file"):
        return None
    return "hybrid" if partitioner == "dataparallel" else "coarse"
