"""What splitting the data over nodes gives, as a table."""

from collections.abc import Sequence

from hyperplace.report.document import Column, Document, Section, Table, Text, notes
from hyperplace.values.averaging import Averaged


def averaging_document(name: str, rows: Sequence[Averaged]) -> Document:
    """Return a row per number of nodes; improvements are over the first."""
    folds = len(rows[0].accuracies)
    spread = [100 * (max(row.accuracies) - min(row.accuracies)) for row in rows]
    table = Table(
        (
            Column.numbers("nodes", [row.num_nodes for row in rows]),
            Column.numbers("accuracy", [100 * row.accuracy for row in rows], "%", form=".2f"),
            *([Column.numbers("largest - least", spread, "%", form=".2f")] if folds > 1 else []),
            Column.numbers("computing", [row.compute_s for row in rows], "s/epoch", form=".2f"),
            Column.numbers("averaging", [row.epoch_s - row.compute_s for row in rows], "s/epoch", form=".3f"),
            Column.numbers("all epochs", [row.seconds for row in rows], "s"),
            Column.numbers("improvement", [100 * row.improvement(rows[0]) for row in rows], "%"),
            Column.numbers("speed-up", [rows[0].seconds / row.seconds for row in rows], form=".2f"),
        )
    )
    said = ["each node trains on its share of the images; weights are averaged after every epoch"]
    said += [f"accuracy: mean of {folds} folds, each of which was kept from training once"] * (folds > 1)
    said += ["seconds are predicted, from what layers take on one thread here"]
    return Document((Text(name, "fact"),), (Section((table, *notes(said))),), table)
