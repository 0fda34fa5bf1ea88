"""Who can be asked for a placement, and who is named where several found one of the same volume."""

from hyperplace.steps.partition import PARTITIONERS

SYMMETRIC = ("auto", "local", "exact")
NAMES = (*SYMMETRIC, *PARTITIONERS)
BASELINES = ("incremental", "layerwise", "horizontal")
ORDER = ("exact", "local", "kahypar", "vcycle", *BASELINES, "mtkahypar")
