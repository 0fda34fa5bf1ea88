"""The options that several commands share, and the values behind their words."""

from pathlib import Path
from typing import Annotated

import typer

from hyperplace.errors import UsageError

Model = Annotated[
    str, typer.Argument(help="A zoo model, package.module:factory, or path/to/file.py:factory.", show_default=False)
]
PlannedModel = Annotated[
    str | None, typer.Option("--model", help="The model of the plan, where it is not one of the zoo.")
]
Input = Annotated[
    list[str] | None,
    typer.Option("--input", help="Shape of an input without the batch, such as 3x224x224; once per input."),
]
Batch = Annotated[int, typer.Option(help="Rows of a mini-batch.")]
Costs = Annotated[str, typer.Option(help="What vertices weigh: measured seconds, or counted flops.")]
Grain = Annotated[
    str,
    typer.Option(
        help="coarse: a vertex per filter block; fine: per channel kernel too; hybrid: per block of filters and rows; "
        "auto (partition, train): all three, and the least volume of training wins."
    ),
]
RowBlocks = Annotated[int, typer.Option(help="The most blocks of rows of the batch; for the hybrid grain.")]
BatchNorm = Annotated[
    str,
    typer.Option(
        help="exact: batch norms over split rows exchange their statistics; per-shard: each part has its own, which "
        "costs nothing and is not the unsplit model; for the hybrid grain."
    ),
]
Blocks = Annotated[str, typer.Option(help="The most blocks per layer, or all: one per filter.")]
Fc = Annotated[str, typer.Option(help="neurons: linear layers may be split; whole: not by neurons (by rows they may).")]
Partitioner = Annotated[
    str,
    typer.Option(
        help="auto (all of them, the best wins), exact, local, kahypar, mtkahypar, "
        "or a baseline: single, layerwise, horizontal, incremental, random; of the hybrid grain dataparallel, server, "
        "server-roundrobin, server-greedy."
    ),
]
PlanImbalance = Annotated[float | None, typer.Option("--imbalance", help="As for partition.", show_default="0.1")]
PlanGrain = Annotated[str | None, typer.Option("--grain", help="As for partition.", show_default="auto")]
PlanPartitioner = Annotated[str | None, typer.Option("--partitioner", help="As for partition.", show_default="auto")]
PlanCosts = Annotated[
    str | None,
    typer.Option("--costs", help="What vertices weigh: measured seconds, or counted flops.", show_default="flops"),
]
PlanBatchNorm = Annotated[str | None, typer.Option("--batch-norm", help="As for partition.", show_default="exact")]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="The machines: a file (see probe), or a short form such as 4x1@1gbit or 2x4@10gbit,pcie.",
        show_default="none",
    ),
]
Pin = Annotated[
    list[str] | None, typer.Option("--pin", help="LAYER=PART: all of the layer is on that part; once per layer.")
]
KeepTogether = Annotated[
    list[str] | None, typer.Option("--keep-together", help="LAYER,LAYER: all of them are on one part, whichever.")
]
AtMost = Annotated[
    list[str] | None, typer.Option("--at-most", help="LAYER=2: no more than so many parts have any of the layer.")
]
Recompute = Annotated[
    str,
    typer.Option(
        "--recompute",
        help="What runs forward again for its backward pass, to save memory: none, all, or parts and segments such as "
        "0:1,1:0.",
    ),
]
Offload = Annotated[
    str,
    typer.Option(
        "--offload",
        help="What keeps in the host's memory what it needs for its backward pass, where devices have memory of their "
        "own: none, all, or parts and segments such as 0:1,1:0.",
    ),
]
PlanOffload = Annotated[
    str | None,
    typer.Option(
        "--offload",
        help="What may keep in the host's memory what it needs for its backward pass: auto (as little as the devices' "
        "memory asks for), none.",
        show_default="auto",
    ),
]
PlanRecompute = Annotated[
    str | None,
    typer.Option(
        "--recompute",
        help="What may run forward again for its backward pass: auto (as little as the devices' memory asks for), "
        "none, all.",
        show_default="auto",
    ),
]
SurviveEvery = Annotated[
    int | None,
    typer.Option(
        min=1, help="Say what copies to another host after so many updates cost (train --survive).", show_default=False
    ),
]
Seed = Annotated[int, typer.Option(help="Same seed, same result.")]
TimeLimit = Annotated[
    float,
    typer.Option(help="Seconds for all searches together; 0: to the end. A partitioner asked by name ignores it."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else.")]
Html = Annotated[bool, typer.Option("--html", help="Write the report as one HTML page too.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the files.", show_default=False)]


def number_of_blocks(text: str) -> int | None:
    """Return the number of blocks, or None for all."""
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--blocks {text} is neither a number nor all") from None


def integers(text: str, option: str) -> list[int]:
    """Return 2,4,8 as numbers."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} {text} is not a list of whole numbers such as 2,4,8") from None


def fractions(text: str, option: str) -> list[float]:
    """Return 0.03,0.1 as numbers."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} {text} is not a list of numbers such as 0.03,0.1") from None
