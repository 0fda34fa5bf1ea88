"""What a reader must know beside each comparison table."""

from typing import TYPE_CHECKING

from hyperplace.report.rows import label, ordered_rows
from hyperplace.report.thesis import BATCH, EPOCH_IMBALANCE, MODEL
from hyperplace.values.comparison import Comparison

if TYPE_CHECKING:
    import pandas as pd


def conditions(comparison: Comparison) -> str:
    """Return what all rows have in common."""
    return f"{comparison.model} ({shared_conditions(comparison)}, {comparison.parameter_bytes:,} parameter bytes)"


def shared_conditions(comparison: Comparison) -> str:
    """Return what rows of other models may have in common too."""
    blocks = "all" if comparison.blocks is None else comparison.blocks
    words = f"batch {comparison.batch}, costs {comparison.costs}, blocks {blocks}, fc {comparison.fc}"
    return words + _hybrid_words(comparison)


def _hybrid_words(comparison: Comparison) -> str:
    """Return what is asked of the hybrid grain, where it is not the default."""
    rows = f", row blocks {comparison.row_blocks}" if comparison.row_blocks != Comparison.row_blocks else ""
    norms = f", batch norm {comparison.batch_norm}" if comparison.batch_norm != Comparison.batch_norm else ""
    return rows + norms


def work_notes(comparison: Comparison) -> list[str]:
    """Return the notes under the work table."""
    notes = ["limit: `over` means that the heaviest part exceeds (1 + imbalance) x the average."]
    if comparison.model == MODEL:
        notes.append(
            "The thesis measured work in time of its own machine, so only ratios compare; "
            "it cuts them to one decimal (3177 / 2688 is printed as 1.1), ours are rounded."
        )
    return notes + _row_notes(comparison)


def volume_notes(comparison: Comparison) -> list[str]:
    """Return the notes under the volume table."""
    notes = [
        "mark: `best` is the lowest training volume within the limit for this k and imbalance, "
        "baselines that happen to meet it included; `over` misses its limit.",
        "Most per part is what the busiest part sends and receives forward. "
        "Data parallelism moves 2 (k - 1) x the parameter bytes per iteration; training MiB is compared with it.",
    ]
    if any(row.grain == "hybrid" and row.bound_bytes for row in comparison.rows):
        notes.append("The bound of the hybrid grain holds among placements that split each layer one way.")
    if comparison.model == MODEL and comparison.batch == BATCH:
        notes.append(
            "The thesis's volume leaves out what goes from the first convolution to the second; "
            "ours counts every byte that crosses, so the two are not the same measure."
        )
    elif comparison.model == MODEL:
        notes.append(f"The thesis's volumes are for batch {BATCH} only and are left out here.")
    return notes


def epoch_notes(comparison: Comparison, table: "pd.DataFrame") -> list[str]:
    """Return the notes under the epoch table, with the average reduction over the rows that meet their limit."""
    notes = ["An epoch is 64,000 images. What the parts exchange per image does not depend on the batch."]
    met = table[table["limit"] == "met"]
    if len(met):
        notes.append(f"On average {met['less %'].mean():.1f} % less, over the {len(met)} rows within their limit.")
    if "thesis less %" in met and met["thesis less %"].notna().any():
        theirs = met[met["thesis less %"].notna()]
        notes.append(
            f"Of these, {len(theirs)} are in the thesis (imbalance {EPOCH_IMBALANCE:g}): "
            f"{theirs['less %'].mean():.1f} % less by our count, {theirs['thesis less %'].mean():.1f} % by its own, "
            "which leaves out the first convolution's output. Its GB are 2^30 bytes."
        )
    return notes


def _row_notes(comparison: Comparison) -> list[str]:
    return [
        f"k={row.k}, {label(row, comparison)}"
        + ("" if row.imbalance is None else f" at {row.imbalance:g}")
        + f": {row.note}"
        for row in ordered_rows(comparison)
        if row.note
    ]
