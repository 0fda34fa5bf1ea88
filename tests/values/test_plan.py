"""A plan that exists is valid: each broken field is refused with a message that names it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperplace.errors import HyperplaceError
from hyperplace.values.plan import (
    Metrics,
    Owner,
    PartMetrics,
    Plan,
    PlannedLayer,
    PlannedWork,
    Reduction,
    Settings,
    Shard,
    Transfer,
)
from hyperplace.values.profile import Work

ROWS = (0, 8)
PART = PartMetrics(1, 0, 0, 0, 0, 0, 0, 0)
CONV = PlannedLayer(
    name="conv",
    kind="conv2d",
    rule="mixing",
    num_filters=4,
    num_channels=3,
    owners=(Owner(0, ((0, 2),), ROWS), Owner(1, ((2, 4),), ROWS)),
    shards=(Shard(0, ((0, 2),), ((0, 3),), (0, 8)), Shard(1, ((2, 4),), ((0, 3),), (0, 8))),
)
INPUT = PlannedLayer("x", "input", "input", 3, 0, (Owner(0, ((0, 3),), ROWS),), ())
GOOD = Plan(
    settings=Settings(model="net", k=2, imbalance=0.1, grain="coarse", partitioner="kahypar", costs="flops", batch=8),
    layers=(INPUT, CONV),
    transfers=(Transfer("x", 0, 1, ((0, 3),), ROWS, 96, learns=False),),
    reductions=(Reduction("conv", 0, 1, ((2, 3),), ROWS, 4),),
    metrics=Metrics("1 flops", (PART, PART), 100, 104, 0, True),
)


def with_conv(**changes):
    return {"layers": (INPUT, replace(CONV, **changes))}


BROKEN = {
    "a filter without an owner": (with_conv(owners=CONV.owners[:1]), "filter 2 of conv has 0 owners"),
    "two owners": (with_conv(owners=(Owner(0, ((0, 3),), ROWS), CONV.owners[1])), "filter 2 of conv has 2 owners"),
    "no owners": (with_conv(owners=()), "filter 0 of conv has 0 owners"),
    "an owner outside the filters": (
        with_conv(owners=(CONV.owners[0], Owner(1, ((2, 5),), ROWS))),
        "conv has filters 2:5, outside 0:4",
    ),
    "a layer of no filters": (with_conv(num_filters=-1), "conv has -1 filters"),
    "a negative range": (with_conv(owners=(Owner(0, ((-2, 2),), ROWS), CONV.owners[1])), "conv has filters -2:2"),
    "an empty range": (with_conv(owners=(*CONV.owners, Owner(0, ((1, 1),), ROWS))), "conv has filters 1:1"),
    "an owner on no part": (
        with_conv(owners=(CONV.owners[0], Owner(2, ((2, 4),), ROWS))),
        r"conv names part 2.*0\.\.1",
    ),
    "a shard on no part": (with_conv(shards=(replace(CONV.shards[0], part=-1),)), "conv names part -1"),
    "a shard outside the channels": (
        with_conv(shards=(replace(CONV.shards[0], channels=((0, 4),)),)),
        "conv has channels 0:4, outside 0:3",
    ),
    "a shard outside the filters": (
        with_conv(shards=(replace(CONV.shards[0], filters=((3, 5),)),)),
        "conv has filters 3:5, outside 0:4",
    ),
    "a shard outside the rows": (
        with_conv(shards=(replace(CONV.shards[0], rows=(0, 9)),)),
        "conv has rows 0:9, outside 0:8",
    ),
    "two ranges that overlap": (
        with_conv(owners=(Owner(0, ((0, 2), (1, 2)), ROWS), CONV.owners[1])),
        "conv has filters from 1 after filters up to 2 in one piece",
    ),
    "a piece of no filters": (with_conv(owners=(*CONV.owners, Owner(0, (), ROWS))), "a piece without filters"),
    "two layers of one name": ({"layers": (CONV, CONV)}, "two layers have one name"),
    "rows apart": (with_conv(owners=(Owner(0, ((0, 4),), (0, 4)),)), "only the hybrid grain splits rows"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_plan_is_refused_by_name(what):
    changes, message = BROKEN[what]
    with pytest.raises(HyperplaceError, match=message):
        replace(GOOD, **changes)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [2**28, 2**63, 10**30])
def test_sizes_are_refused_before_anything_is_allocated(size):
    huge = with_conv(num_filters=size, owners=(Owner(0, ((0, size),), ROWS),), shards=())
    for changes in (
        huge,
        {"settings": replace(GOOD.settings, k=size)},
        with_conv(shards=(Shard(0, ((0, size),), ((0, 3),), ROWS),)),
    ):
        with pytest.raises(HyperplaceError, match=str(size) + r"|more than|outside"):
            replace(GOOD, **changes)


@pytest.mark.timeout(20)
def test_a_layer_in_too_many_pieces_is_refused_before_anything_is_allocated():
    size = 2**12
    owners = tuple(Owner(n % 2, ((n, n + 1),), (n, n + 1)) for n in range(size))
    settings = replace(GOOD.settings, grain="hybrid", batch=size)
    with pytest.raises(HyperplaceError, match="cut into 4,097 x 4,097 pieces"):
        replace(GOOD, settings=settings, layers=(replace(CONV, num_filters=size, owners=owners, shards=()),))


def test_all_faults_are_told_at_once_and_many_are_counted():
    bad = replace(CONV, owners=())
    with pytest.raises(HyperplaceError, match=r"conv has 0 owners.*names part 7"):
        replace(GOOD, layers=(INPUT, replace(bad, shards=(replace(CONV.shards[0], part=7),))))
    with pytest.raises(HyperplaceError, match=r"\(and 2 more\)"):
        replace(GOOD, layers=tuple(replace(bad, name=f"conv{n}") for n in range(7)))


def test_a_plan_prints_in_one_line_and_compares_equal():
    assert "\n" not in repr(GOOD)
    assert replace(GOOD) == GOOD
    assert replace(GOOD, settings=replace(GOOD.settings, seed=1)) != GOOD
    assert CONV.owner_of.tolist() == [0, 0, 1, 1]


def test_ratios_of_metrics():
    parts = tuple(replace(PART, work=work) for work in (3, 1, 0))
    metrics = replace(GOOD.metrics, parts=parts)
    assert (metrics.total_work, metrics.max_over_avg, metrics.max_times_k) == (4, 9 / 4, 9)
    assert metrics.max_over_min == float("inf")
    assert replace(metrics, parts=(replace(PART, work=0),)).max_over_avg == 1


@pytest.mark.parametrize(
    ("bound", "is_hybrid", "verdict"),
    [
        (100, False, "optimal (proven)"),
        (80, False, "within 25.0% of the best possible"),
        (104, True, "optimal among placements that split each layer one way (proven)"),
        (80, True, "within 30.0% of the best possible among placements that split each layer one way"),
        (None, True, "no bound"),
    ],
)
def test_a_verdict_claims_no_more_than_is_proven(bound, is_hybrid, verdict):
    metrics = replace(GOOD.metrics, bound_bytes=bound, judges_training=is_hybrid)
    assert metrics.verdict == verdict
    assert replace(metrics, feasible=False).verdict == "over the limit"
    nothing = replace(metrics, volume_bytes=0, training_volume_bytes=0, bound_bytes=0)
    assert nothing.verdict == "optimal (proven)", "whatever the grain"


amounts = st.floats(0, 1e9)


@given(st.integers(0, 2**31), st.builds(Work, st.floats(1e-3, 1e9), amounts, amounts))
def test_work_is_shared_out_between_passes_to_the_last_unit(total, like):
    found = PlannedWork.shared(total, like)
    assert found.total == total
    for name in ("forward", "backward", "update"):
        assert 0 <= getattr(found, name) == pytest.approx(total * getattr(like, name) / like.total, abs=1, rel=1e-9)


@given(st.integers(0, 2**31), st.floats(1e-3, 1e9), amounts)
def test_what_is_not_updated_has_no_update_planned(total, forward, backward):
    assert PlannedWork.shared(total, Work(forward, backward)).update == 0


def test_no_work_is_shared_out_like_anything():
    assert PlannedWork.shared(0, Work()) == PlannedWork()
