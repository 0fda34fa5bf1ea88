"""The base thesis's own figures for VGG16, as it printed them: work, volume and the epoch of Table 5.14.

Its ratios are cut, not rounded, to one decimal. Its volumes are for batch 32 and leave out what goes from
the first convolution to the second; its GB are 2**30 bytes.
"""

import csv
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import TypeVar

from hyperplace.values.comparison import ComparisonRow

MODEL = "vgg16"
BATCH = 32
EPOCH_IMBALANCE = 0.1  # Table 5.14 is made from Table 5.10


@dataclass(frozen=True)
class ThesisWork:
    """Work in the thesis's own unit of time."""

    max_work: float
    min_work: float
    avg_work: float
    max_over_min: float
    max_over_avg: float
    max_times_parts: float


@dataclass(frozen=True)
class ThesisVolume:
    """Forward volume; `max_mib` is the largest layer's share, not a part's."""

    volume_mib: float
    max_mib: float
    avg_mib: float


@dataclass(frozen=True)
class ThesisEpoch:
    """Volume of training on 64,000 images once."""

    data_parallel_gib: float
    coarse_gib: float
    reduction_percent: float


Key = tuple[str, ...]
Figures = TypeVar("Figures", ThesisWork, ThesisVolume, ThesisEpoch)


def thesis_work(row: ComparisonRow) -> ThesisWork | None:
    """Return the thesis's work figures for the row's method, imbalance and k."""
    return _work().get(_key(row)) if row.model == MODEL else None


def thesis_volume(row: ComparisonRow, batch: int) -> ThesisVolume | None:
    """Return the thesis's volume for the row; it has one batch size only."""
    return _volume().get(_key(row)) if row.model == MODEL and batch == BATCH else None


def thesis_epoch(row: ComparisonRow, batch: int) -> ThesisEpoch | None:
    """Return the thesis's epoch for the row's k and a batch of data parallelism."""
    comparable = row.model == MODEL and row.method == "coarse" and row.imbalance == EPOCH_IMBALANCE
    return _epoch().get((str(row.k), str(batch))) if comparable else None


def _key(row: ComparisonRow) -> Key:
    return row.method, "" if row.imbalance is None else f"{row.imbalance:g}", str(row.k)


@cache
def _work() -> dict[Key, ThesisWork]:
    return _read("thesis_work.csv", ("method", "imbalance", "parts"), ThesisWork)


@cache
def _volume() -> dict[Key, ThesisVolume]:
    return _read("thesis_volume.csv", ("method", "imbalance", "parts"), ThesisVolume)


@cache
def _epoch() -> dict[Key, ThesisEpoch]:
    return _read("thesis_epoch.csv", ("parts", "batch"), ThesisEpoch)


def _read(name: str, keys: Key, kind: type[Figures]) -> dict[Key, Figures]:
    text = (files("hyperplace.report") / name).read_text(encoding="utf-8")
    return {
        tuple(line[key] for key in keys): kind(**{f.name: float(line[f.name]) for f in fields(kind)})
        for line in csv.DictReader(text.splitlines())
    }
