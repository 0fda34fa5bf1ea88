"""What lowering refuses, and the names it gives."""

from dataclasses import replace

import pytest
import torch
from capture_models import captured
from program_cases import planned
from torch import nn

from hyperplace.errors import UsageError
from hyperplace.runtime import Part
from hyperplace.steps.capture import capture
from hyperplace.steps.lower import lower
from hyperplace.steps.lower.text import ATTRIBUTES, Names

ODD = [
    'a"""\nabort()',
    "b\\",
    "c#\rraise",
    "d\u2028raise",
    "{e}",
    "class",
    "self",
    "torch",
    "weights",
    "1",
    "segment_0",
    "'",
]


def test_a_plan_of_another_model_is_refused():
    plan = planned(captured("plain"), "coarse", 2, "contiguous")
    with pytest.raises(UsageError, match="the plan has 3 layers, the model"):
        lower(captured("linear_after_flatten"), plan)
    changed = replace(plan, layers=(plan.layers[0], replace(plan.layers[1], name="z"), plan.layers[2]))
    with pytest.raises(UsageError, match="the plan's layer 'z'"):
        lower(captured("plain"), changed)


def test_a_plan_that_forgets_a_message_is_refused():
    graph = captured("plain")
    plan = planned(graph, "coarse", 3, "scattered")
    with pytest.raises(UsageError, match=r"the transfer of inputs_0 from part .* is missing"):
        lower(graph, replace(plan, transfers=plan.transfers[1:]))


@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
def test_facts_that_are_not_the_models_are_refused(grain):
    """Also where all that follows from them was changed alike, so that only the model can tell."""
    graph = captured("plain")
    plan = planned(graph, grain, 2, "horizontal")
    for number, layer in enumerate(plan.layers):
        for name, value in vars(layer.facts).items():
            if isinstance(value, int) and name != "saved_bytes":  # an estimate of memory
                changed = 3 * value + 1  # no precision makes three of one
                facts = replace(layer.facts, **{name: not value if isinstance(value, bool) else changed})
                layers = [*plan.layers[:number], replace(layer, facts=facts), *plan.layers[number + 1 :]]
                with pytest.raises(
                    UsageError, match=f"the plan's layer '{layer.name}' has {name} {getattr(facts, name)}"
                ):
                    lower(graph, replace(plan, layers=tuple(layers)))


def test_a_plan_from_a_sample_of_other_rows_is_taken():
    """Also where there is a tensor without rows."""

    class Peaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 6)

        def forward(self, x):
            return self.a(x - x.amax(0))

    two, six = (capture(Peaks(), torch.randn(rows, 4)) for rows in (2, 6))
    assert lower(six, planned(two, "coarse", 2, "horizontal", batch=6))


BROKEN_SHARDS = {
    "a channel nobody computes": (0, {"channels": ((0, 3),)}),
    "a filter nobody computes": (1, {"filters": ((4, 6),)}),
    "a row nobody computes": (1, {"rows": (0, 1)}),
    "a shard at nobody who owns it": (1, {"part": 0}),
}


@pytest.mark.parametrize("what", BROKEN_SHARDS)
def test_a_plan_whose_shards_are_not_its_layers_is_refused(what):
    number, changes = BROKEN_SHARDS[what]
    graph = captured("plain")
    plan = planned(graph, "hybrid", 2, "horizontal", row_blocks=1)
    layer = plan.layers[graph.index_of["a"]]
    assert [shard.filters for shard in layer.shards] == [((0, 3),), ((3, 6),)]
    shards = tuple(replace(s, **changes) if n == number else s for n, s in enumerate(layer.shards))
    layers = tuple(replace(layer, shards=shards) if one is layer else one for one in plan.layers)
    with pytest.raises(UsageError, match=r"a is computed by part 0 .* instead of part 0 "):
        lower(graph, replace(plan, layers=layers))


def test_a_plan_with_pieces_of_the_same_rows_on_a_part_is_refused():
    graph = captured("plain")
    plan = planned(graph, "coarse", 2, "horizontal")
    layer = plan.layers[graph.index_of["a"]]
    bad = replace(layer, owners=tuple(replace(owner, part=0) for owner in layer.owners))
    with pytest.raises(UsageError, match=r"a is owned by part 0 .*, part 0 .* instead of part 0 \(filters 0:6"):
        lower(graph, replace(plan, layers=tuple(bad if one is layer else one for one in plan.layers)))


def test_no_weight_hides_an_attribute_of_its_part():
    assert {name for name in dir(Part) if not name.startswith("_")} | set(vars(Part())) <= ATTRIBUTES


def test_names_are_unique_identifiers():
    names = Names()
    made = [names(text) for text in (*ODD, "a.b", "a_b", "a b", "", "é")]
    assert len(set(made)) == len(made)
    assert all(name.isidentifier() for name in made)
    assert names("a.b") == made[len(ODD)]
