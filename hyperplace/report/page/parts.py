"""Parts and cards on a cluster: work, memory against its limit, what comes and goes, and how long each is idle."""

from hyperplace.report.document import Column, Section, Table, Text, notes
from hyperplace.report.maplines import traffic
from hyperplace.report.plan import balance_line, proof_lines
from hyperplace.values.bench import SYNC
from hyperplace.values.forecast import Forecast, Outlook
from hyperplace.values.plan import Plan
from hyperplace.values.prediction import WAYS
from hyperplace.values.sizes import MIB


def parts_section(plan: Plan, outlook: Outlook) -> Section:
    """Return both tables, and what binds."""
    forecast = outlook.forecast
    lines = [
        f"{1e3 * forecast.seconds:,.1f} ms a mini-batch, predicted with {_way(forecast)}: "
        f"{forecast.images_per_s:,.1f} rows a second, {forecast.speed_up:.2f} times one device",
        f"what binds: {forecast.binds}",
    ]
    lacks = [Text(forecast.lacks, "alarm")] if forecast.lacks else []
    balance = Text(balance_line(plan), "plain" if plan.metrics.feasible else "alarm")
    cards = [cards_table(outlook)] if forecast.prediction.cards else []
    said = [f"on {outlook.cluster}; bytes are those of a mini-batch{' in training' * plan.metrics.judges_training}"]
    said += [outlook.assumed] if outlook.assumed else []
    texts = (*map(Text, lines), *lacks, balance, *map(Text, proof_lines(plan)), *notes(said))
    return Section((*texts, parts_table(plan, outlook), *cards), "Parts and cards")


def _way(forecast: Forecast) -> str:
    pieces = f"{forecast.micro_batches} micro-batch{'es' * (forecast.micro_batches > 1)}"
    return f"the sync schedule, {pieces}" if forecast.schedule == SYNC else f"{forecast.in_flight} in flight"


def parts_table(plan: Plan, outlook: Outlook) -> Table:
    """Return a row per part."""
    forecast, cluster = outlook.forecast, outlook.cluster
    parts = range(plan.settings.k)
    seconds = forecast.seconds
    sent, received = traffic(plan)
    limits = [cluster.devices[part].memory_bytes for part in parts]
    total = plan.metrics.total_work
    return Table(
        (
            Column.numbers("part", parts),
            Column.words("host", [cluster.hosts[cluster.home[part]].name for part in parts]),
            Column.numbers("work", [100 * work / total if total else 0.0 for work in plan.metrics.work_per_part], "%"),
            Column.numbers("busy", [1e3 * share * seconds for share in forecast.prediction.busy], "ms"),
            Column.numbers("idle", [100 * max(0.0, 1 - share) for share in forecast.prediction.busy], "%"),
            Column.numbers("memory", [part.total / MIB for part in forecast.memory], "MiB"),
            *(_limits(forecast, limits) if any(limits) else ()),
            Column.numbers("in", [amount / MIB for amount in received], "MiB"),
            Column.numbers("out", [amount / MIB for amount in sent], "MiB"),
        )
    )


def _limits(forecast: Forecast, limits: list[int | None]) -> tuple[Column, Column]:
    """Return what devices have of memory, and whether it is enough."""
    flags = [
        None if limit is None else "met" if part.total <= limit else "over"
        for part, limit in zip(forecast.memory, limits, strict=True)
    ]
    amounts = [None if limit is None else limit / MIB for limit in limits]
    return Column.numbers("limit", amounts, "MiB"), Column.flags("limit", flags)


def cards_table(outlook: Outlook) -> Table:
    """Return a row per card and way that carries anything."""
    cards, seconds = outlook.forecast.prediction.cards, outlook.forecast.seconds
    return Table(
        (
            Column.words("card of", [host for host, _ in cards]),
            Column.words("way", [WAYS[way] for _, way in cards]),
            Column.numbers("busy", [1e3 * share * seconds for share in cards.values()], "ms"),
            Column.numbers("idle", [100 * max(0.0, 1 - share) for share in cards.values()], "%"),
        )
    )
