"""What follows from owners: equal to plans counted by hand, and every difference told by name."""

from dataclasses import replace

import pytest
from plan_examples import PLANS, coarse, fine, hybrid

from hyperplace.errors import HyperplaceError
from hyperplace.values.derived import derived, differences
from hyperplace.values.plan import Owner, PlannedWork, Replica, Shard


@pytest.mark.parametrize("grain", PLANS)
def test_what_was_counted_by_hand_is_derived(grain):
    plan = PLANS[grain]()
    assert derived(plan) == plan
    assert differences(plan) == []
    bare = replace(plan, transfers=(), reductions=(), replicas=(), metrics=replace(plan.metrics, parts=()))
    assert derived(bare) == plan


def first(entries, **changes):
    return (replace(entries[0], **changes), *entries[1:])


def with_conv(plan, **changes):
    return replace(plan, layers=(plan.layers[0], replace(plan.layers[1], **changes)))


def with_facts(plan, **changes):
    return with_conv(plan, facts=replace(plan.layers[1].facts, **changes))


def with_metrics(plan, **changes):
    return replace(plan, metrics=replace(plan.metrics, **changes))


C, F, H = coarse(), fine(), hybrid()
DIFFERENT = {
    "a transfer that is missing": (
        replace(C, transfers=()),
        "the transfer of x from part 0 to 1 (filters 0:3, rows 0:8) is missing",
    ),
    "one that nobody reads": (
        replace(C, transfers=(*C.transfers, replace(C.transfers[0], layer="conv"))),
        "the transfer of conv from part 0 to 1 (filters 0:3, rows 0:8) must not be there",
    ),
    "one of no layer": (
        replace(C, transfers=(*C.transfers, replace(C.transfers[0], layer="gone"))),
        "the transfer of gone from part 0 to 1 (filters 0:3, rows 0:8) must not be there",
    ),
    "one that is there twice": (
        replace(C, transfers=C.transfers * 2),
        "the transfer of x from part 0 to 1 (filters 0:3, rows 0:8) is there twice",
    ),
    "one that is split": (
        replace(C, transfers=tuple(replace(C.transfers[0], filters=(f,)) for f in ((0, 1), (1, 3)))),
        "the transfer of x from part 0 to 1 (filters 0:1, rows 0:8) must not be there",
    ),
    "bytes of a message": (
        replace(F, reductions=first(F.reductions, num_bytes=513)),
        "the reduction of conv from part 1 to 0 (filters 0:4, rows 0:8): num_bytes is 513 instead of 512",
    ),
    "a gradient that comes back": (
        replace(C, transfers=first(C.transfers, learns=True)),
        "the transfer of x from part 0 to 1 (filters 0:3, rows 0:8): learns is True instead of False",
    ),
    "a replica that is missing": (
        replace(H, replicas=()),
        "the replica of conv on part 0 with owner 1 (filters 2:4) is missing",
    ),
    "bytes of a replica": (
        replace(H, replicas=first(H.replicas, statistics_bytes=8)),
        "the replica of conv on part 0 with owner 1 (filters 2:4): statistics_bytes is 8 instead of 0",
    ),
    "a replica far outside": (
        replace(H, replicas=first(H.replicas, filters=((0, 10**30),))),
        f"the replica of conv on part 0 with owner 1 (filters 0:{10**30}) must not be there",
    ),
    "a shard elsewhere": (
        with_conv(C, shards=(Shard(0, ((0, 4),), ((0, 3),), (0, 8)),)),
        "conv is computed by part 0 (filters 0:4, channels 0:3, rows 0:8) instead of part 0 (filters 0:1, channels "
        "0:3, rows 0:8), part 1 (filters 1:4, channels 0:3, rows 0:8)",
    ),
    "owners in pieces": (
        with_conv(C, owners=(C.layers[1].owners[0], Owner(1, ((1, 2), (2, 4)), (0, 8)))),
        "conv is owned by part 0 (filters 0:1, rows 0:8), part 1 (filters 1:2 2:4, rows 0:8) instead of part 0 "
        "(filters 0:1, rows 0:8), part 1 (filters 1:4, rows 0:8)",
    ),
    "the volume": (with_metrics(C, volume_bytes=1), "volume_bytes is 1 instead of 384"),
    "the limit": (with_metrics(C, feasible=True), "feasible is True instead of False"),
    "parts without metrics": (
        with_metrics(C, parts=C.metrics.parts[:1]),
        "it has metrics of 1 parts instead of 2",
    ),
    "work of a part": (
        with_metrics(C, parts=first(C.metrics.parts, work=7)),
        "part 0: work is 7 instead of 100",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_difference_is_told_by_name_and_mended(what):
    plan, text = DIFFERENT[what]
    assert text in differences(plan)
    assert derived(plan) in (C, F, H)


def copy(part, owner, *filters):
    return Replica("conv", part, owner, filters, 112 * sum(stop - start for start, stop in filters), 0)


POSSIBLE = {
    "the first part owns all": (copy(1, 0, (0, 4)),),
    "the last part owns all": (copy(0, 1, (0, 4)),),
    "in turns": (copy(0, 1, (1, 2), (3, 4)), copy(1, 0, (0, 1), (2, 3))),
}


@pytest.mark.parametrize("what", POSSIBLE)
def test_owners_of_weights_are_the_choice_of_a_plan(what):
    plan = replace(H, replicas=POSSIBLE[what])
    assert differences(plan) == []
    assert derived(plan) == plan
    assert sum(plan.moved_bytes.values()) == sum(H.moved_bytes.values())


IMPOSSIBLE = {
    "nobody owns a filter": (copy(0, 1, (0, 4)), copy(1, 0, (3, 4))),
    "two own a filter": (copy(0, 1, (0, 3)),),
    "the owner is no part": (copy(0, 7, (0, 4)),),
    "a part is its own owner": (copy(0, 0, (2, 4)), copy(1, 0, (0, 2))),
    "a copy on no part": (*H.replicas, copy(7, 0, (0, 2))),
    "in two pieces": (copy(0, 1, (0, 2)), copy(0, 1, (2, 4))),
    "backwards": (copy(0, 1, (2, 4), (0, 2)),),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_impossible_owners_of_weights_are_refused_and_mended(what):
    plan = replace(H, replicas=IMPOSSIBLE[what])
    assert differences(plan)
    assert differences(derived(plan)) == []


def test_messages_that_changed_places_are_told():
    plan = derived(with_conv(hybrid(), owners=(Owner(1, ((0, 4),), (0, 2)), Owner(0, ((0, 4),), (2, 3)), *rest())))
    assert len(plan.transfers) == 2
    swapped = replace(plan, transfers=plan.transfers[::-1])
    assert differences(swapped) == ["the transfer of x from part 0 to 1 (filters 0:3, rows 3:8) is out of order"]


def rest():
    return hybrid().layers[1].owners[1:]


UNSOUND = {
    "a filter computed never": (
        with_conv(F, shards=F.layers[1].shards[:1]),
        "filter 0 of conv on channel 2 is computed 0 times instead of 1",
    ),
    "a filter computed twice": (
        with_conv(F, shards=(*F.layers[1].shards, replace(F.layers[1].shards[0], part=1))),
        "filter 0 of conv on channel 0 is computed 2 times instead of 1",
    ),
    "a negative size": (with_facts(C, map_bytes=-1), "conv: map_bytes is -1, outside"),
    "a huge size": (with_facts(C, saved_bytes=2**63), f"conv: saved_bytes is {2**63}, outside"),
    "negative work": (with_conv(C, work=PlannedWork(401, -1)), "conv: work.backward is -1, outside"),
    "a layer nobody has": (
        with_facts(C, readings=(replace(C.layers[1].facts.readings[0], runs=()),), sums_channels=False),
        "num_channels is 3, but it reads 0",
    ),
    "a word that says nothing": (
        with_facts(C, readings=(replace(C.layers[1].facts.readings[0], reads="some"),)),
        "conv reads 'some', not one of all, group, same",
    ),
    "rows that must stay together": (with_facts(H, splits_rows=False), "conv has rows 0:3 apart"),
    "a whole layer on two parts": (with_conv(C, rule="whole"), "conv is placed whole, but is on several parts"),
    "an input of another shape": (replace(C, inputs=((3, 2**14, 2**14),)), "cannot have shape 3x16384x16384"),
    "no input": (replace(C, inputs=()), "0 shapes of inputs, but 1 layers"),
    "kernels that are not split": (with_conv(C, kernel_work=PlannedWork(1)), "conv has kernel_work 1"),
    "statistics that are not exchanged": (
        replace(with_facts(H, statistics_bytes=8), settings=replace(H.settings, batch_norm="per-shard")),
        "statistics_bytes 8, but batch norm is per-shard",
    ),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_what_nothing_follows_from_is_refused_by_name(what):
    plan, text = UNSOUND[what]
    with pytest.raises(HyperplaceError) as raised:
        differences(plan)
    assert text in str(raised.value)
