"""plan.json: reads back what was written, and says precisely what is wrong with anything else."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hyperplace.errors import FileError
from hyperplace.files.plan import parse_draft, parse_plan, plan_text
from hyperplace.values.facts import Facts, FilterRun, Reading
from hyperplace.values.plan import (
    Metrics,
    Owner,
    PartMetrics,
    Plan,
    PlannedLayer,
    PlannedWork,
    Settings,
    Shard,
    Transfer,
)

ROWS = (0, 4)


def small_plan() -> Plan:
    part = PartMetrics(0, 0, 0, 0, 8, 0, 1, 0)
    return Plan(
        Settings(model="net", k=2, imbalance=0.1, grain="coarse", partitioner="kahypar", costs="flops", batch=4),
        (
            PlannedLayer("x", "input", "input", 2, 0, (Owner(0, ((0, 2),), ROWS),), (), facts=Facts(map_bytes=1)),
            PlannedLayer(
                "conv",
                "conv2d",
                "mixing",
                3,
                2,
                (Owner(1, ((0, 3),), ROWS),),
                (Shard(1, ((0, 3),), ((0, 2),), (0, 4)),),
                facts=Facts((Reading((FilterRun("x", 0, 2, 1),), "all"),), parameter_bytes=24, sums_channels=True),
                work=PlannedWork(3, 6, 1),
            ),
        ),
        (Transfer("x", 0, 1, ((0, 2),), ROWS, 8, learns=False),),
        (),
        Metrics("1 flops", (part, PartMetrics(10, 24, 8, 56, 0, 8, 0, 1)), 8, 8, 48, feasible=False),
        inputs=((2,),),
        parameter_bytes=24,
    )


def test_reads_back_what_it_wrote() -> None:
    plan = small_plan()
    assert parse_plan(plan_text(plan), "plan.json") == plan
    assert plan_text(parse_plan(plan_text(plan), "plan.json")) == plan_text(plan)
    per_shard = replace(plan, settings=replace(plan.settings, batch_norm="per-shard"))
    assert parse_plan(plan_text(per_shard), "p.json") == per_shard


def test_a_draft_need_not_follow_from_its_owners() -> None:
    edited = plan_text(small_plan()).replace('"num_bytes": 8', '"num_bytes": 7')
    assert parse_draft(edited, "p.json").transfers[0].num_bytes == 7
    with pytest.raises(
        FileError, match=r"num_bytes is 7 instead of 8; make it again, or run hyperplace check p.json --fix"
    ):
        parse_plan(edited, "p.json")


@pytest.mark.parametrize("length", [0, 1, 20, 200, 700])
def test_a_truncated_plan_is_refused(length: int) -> None:
    with pytest.raises(FileError, match=r"^p\.json: not a plan file, or cut short"):
        parse_plan(plan_text(small_plan())[:length], "p.json")


def _set(*path: Any, to: Any) -> Callable[[Any], None]:
    def edit(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = to

    return edit


def _delete(*path: Any) -> Callable[[Any], None]:
    def edit(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        del data[path[-1]]

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_set("hyperplace", to="profile"), "not a plan file"),
        (_set("version", to=0), "plan version 0 cannot be read, only 5"),
        (_set("version", to=4), "plan version 4 cannot be read, only 5; make it again"),
        (_set("layers", 1, "work", to=10), r"plan.layers\[1\].work must be an object, not 10"),
        (_delete("layers", 1, "work", "update"), r"plan.layers\[1\].work has no 'update'"),
        (_set("layers", 1, "work", "forward", to=4), "part 1: work is 10 instead of 11"),
        (_delete("layers"), "plan has no 'layers'"),
        (_delete("settings", "seed"), "plan.settings has no 'seed'"),
        (_set("settings", "batch_norm", to="odd"), "batch norm 'odd' is unknown; choose one of exact, per-shard"),
        (_set("surprise", to=1), "plan has an unknown entry 'surprise'"),
        (_set("settings", "k", to="2"), 'plan.settings.k must be int, not "2"'),
        (_set("settings", "k", to=True), "plan.settings.k must be int, not true"),
        (_set("settings", "imbalance", to=None), "plan.settings.imbalance must be float, not null"),
        (
            _set("layers", 1, "owners", 0, "filters", 0, to=[0]),
            r"plan.layers\[1\].owners\[0\].filters\[0\] must have 2 ent",
        ),
        (_set("layers", 1, "owners", 0, "filters", 0, to=[0, 2]), "filter 2 of conv has 0 owners"),
        (_set("layers", 1, "owners", 0, "filters", 0, to=[-1, 3]), "conv has filters -1:3, outside 0:3"),
        (_set("layers", 1, "owners", 0, "part", to=2), r"conv names part 2, outside 0\.\.1"),
        (_set("layers", 1, "shards", 0, "rows", to=[0, 5]), "conv has rows 0:5, outside 0:4"),
        (_set("transfers", 0, "num_bytes", to=7), "the transfer of x from part 0 to 1 .* num_bytes is 7 instead of 8"),
        (_set("transfers", 0, "layer", to="y"), "the transfer of y from part 0 to 1 .* must not be there"),
        (_set("transfers", 0, "target", to=0), "the transfer of x from part 0 to 0 .* must not be there"),
        (_delete("metrics", "parts", 1), "metrics of 1 parts instead of 2"),
        (_set("layers", 0, "facts", "map_bytes", to=2), "num_bytes is 8 instead of 16"),
        (_set("layers", 1, "facts", "map_bytes", to=-1), "conv: map_bytes is -1"),
        (_delete("settings", "batch_norm"), "plan.settings has no 'batch_norm'"),
    ],
)
def test_a_broken_plan_is_refused_with_the_place(edit: Callable[[Any], None], message: str) -> None:
    data = json.loads(plan_text(small_plan()))
    edit(data)
    with pytest.raises(FileError, match=message):
        parse_plan(json.dumps(data), "p.json")


def test_numbers_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(FileError, match="NaN is not a number"):
        parse_plan(plan_text(small_plan()).replace("0.1", "NaN"), "p.json")
