"""Who can be asked for a placement, and who is named where several found one of the same volume."""

from hyperplace.steps.partition import PARTITIONERS

# They split rows, and need just as many blocks of them as there are parts.
DATA_PARALLEL = tuple(name for name, find in PARTITIONERS.items() if find is PARTITIONERS["dataparallel"])
SYMMETRIC = ("auto", "local", "exact")
NAMES = (*SYMMETRIC, *PARTITIONERS)
BASELINES = ("incremental", "layerwise", "horizontal")
ORDER = ("exact", "local", "kahypar", "vcycle", *BASELINES, "mtkahypar")


def only_grain(partitioner: str) -> str | None:
    """Return the one grain that is meant where a partitioner is named and no grain; None where all are searched."""
    if partitioner not in (*PARTITIONERS, "file"):
        return None
    return "hybrid" if partitioner in DATA_PARALLEL else "coarse"
