"""What plans are predicted to take on a cluster: a table of methods, and one of parts and cards."""

from collections.abc import Sequence

from hyperplace.report.document import Column, Document, Section, Table, Text, notes
from hyperplace.report.timeline import timeline_section
from hyperplace.values.cluster import Cluster
from hyperplace.values.forecast import Forecast
from hyperplace.values.prediction import WAYS
from hyperplace.values.relief import chosen_text
from hyperplace.values.sizes import MIB
from hyperplace.values.surviving import survive_cost
from hyperplace.values.time_bound import TimeBound


def forecast_document(
    forecasts: Sequence[Forecast],
    cluster: Cluster,
    bound: TimeBound | None = None,
    survive_every: int | None = None,
) -> Document:
    """Return a row per method, and of the first one who is busy how long, what copies cost, and its timeline."""
    best = forecasts[0]
    table = forecast_table(forecasts)
    head = [Text(f"{best.plan.settings.model}, batch {best.plan.settings.batch}, on {cluster}", "fact")]
    if bound is not None:
        head.append(Text(verdict(best, bound)))
    return Document(
        tuple(head),
        (
            Section((table, *notes(_notes(cluster)))),
            Section(
                (busy_table(best), *_relieved(best), *_survived(best, cluster, survive_every)),
                f"{best.name}, {best.schedule}: {best.binds}",
            ),
            timeline_section(best.prediction.timeline),
        ),
        table,
    )


def verdict(best: Forecast, bound: TimeBound) -> str:
    """Say how far a plan is from the least possible, and what stands in the way of both."""
    gap = best.seconds / bound.seconds - 1 if bound.seconds else 0.0
    return (
        f"{best.name}: within {100 * max(gap, 0.0):.1f} % of the least possible, {1e3 * bound.seconds:,.1f} ms "
        f"({bound.binds}); what binds it: {best.binds}"
    )


def forecast_table(forecasts: Sequence[Forecast]) -> Table:
    """Return a row per forecast."""
    return Table(
        (
            Column.words("method", [one.name for one in forecasts]),
            Column.words("schedule", [one.schedule for one in forecasts]),
            Column.numbers(
                "in flight", [one.in_flight if one.micro_batches == 1 else None for one in forecasts], spare=3
            ),
            Column.numbers("micro-batches", [one.micro_batches for one in forecasts], spare=1),
            Column.numbers("mini-batch", [1e3 * one.seconds for one in forecasts], "ms"),
            Column.numbers("images/s", [one.images_per_s for one in forecasts]),
            Column.numbers("speed-up", [one.speed_up for one in forecasts], form=".2f"),
            Column.numbers("moved", [one.moved_bytes / MIB for one in forecasts], "MiB", spare=2),
            Column.words("what binds", [one.lacks or one.binds for one in forecasts]),
        )
    )


def busy_table(one: Forecast) -> Table:
    """Return how much of the time every part and card is busy, and what a part needs of memory."""
    names = [f"part {part}" for part in range(len(one.prediction.busy))]
    shares = list(one.prediction.busy)
    memory: list[float | None] = [part.total / MIB for part in one.memory]
    copied: list[float | None] = [part.copied / MIB for part in one.memory]
    for (host, way), share in one.prediction.cards.items():
        names.append(f"card of {host}, {WAYS[way]}")
        shares.append(share)
        memory.append(None)
        copied.append(None)
    return Table(
        (
            Column.words("who", names),
            Column.numbers("busy", [100 * share for share in shares], "%"),
            Column.numbers("memory", memory, "MiB"),
            Column.numbers("copy", copied, "MiB"),
        )
    )


def _relieved(one: Forecast) -> tuple[Text, ...]:
    """Say which segments run forward again, or keep in the host's memory what they need, where some do."""
    chosen = {
        "recomputed for their backward pass": one.recompute,
        "offloaded to the host until their backward pass": one.offload,
    }
    return tuple(
        Text(f"{what}, to fit into memory: segments {chosen_text(some)}") for what, some in chosen.items() if some
    )


def _survived(one: Forecast, cluster: Cluster, every: int | None) -> tuple[Text, ...]:
    """Say what it costs to be able to lose a host, where that is asked for."""
    if every is None:
        return ()
    cost = survive_cost(one, cluster, every)
    return (
        Text(
            f"with --survive 1 --survive-every {every} a mini-batch takes {1e3 * cost.seconds:,.1f} ms, "
            f"{100 * cost.share:.1f} % longer; copies put {cost.card_bytes / MIB:,.1f} MiB of it on a card"
        ),
    )


def _notes(cluster: Cluster) -> list[str]:
    found = [
        "speed-up: over the fastest device alone; in flight: the fewest that are about as fast as any number",
        "what binds: who is busy all the time, or that parts wait for each other",
    ]
    if kinds := cluster.scaled_kinds:
        found.append(
            f"{', '.join(kinds)}: without a profile of its own; every layer is taken to take there what it takes on "
            f"{cluster.devices[0].kind}, divided by the speed"
        )
    return found
