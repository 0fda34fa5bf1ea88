"""The text of a program: as promised, the same each time, harmless whatever names are in it, and runnable by itself."""

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from capture_models import MODELS, captured
from program_cases import planned, sgd, trainer_of
from torch import nn

from hyperplace.errors import UsageError
from hyperplace.models import load_model
from hyperplace.runtime import Part, load_program
from hyperplace.steps.capture import capture
from hyperplace.steps.lower import generate
from hyperplace.steps.lower.names import ATTRIBUTES, Names, literal, words
from hyperplace.steps.lower.text import fold

GOLDEN = Path(__file__).parent / "golden"


def lenet_text(grain, k):
    loaded = load_model("lenet5")
    graph = capture(loaded.module, loaded.sample)
    how, blocks = ("dataparallel", 1) if grain == "hybrid" else ("incremental", 64)
    return generate(graph, planned(graph, grain, k, how, blocks=blocks, batch=16, row_blocks=k))


@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
def test_the_program_as_promised(grain):
    text, path = lenet_text(grain, 2), GOLDEN / f"lenet5_{grain}.py.txt"
    if os.environ.get("HYPERPLACE_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert text == lenet_text(grain, 2)


@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_programs_are_formatted_and_import_only_torch_and_the_runtime(name, grain):
    text = generate(captured(name), planned(captured(name), grain, 3, "scattered"))
    imported = [
        ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    plain = [
        line.replace("import torch.nn.functional as F", "import torch").replace("Copy, ", "").removesuffix(", Slot")
        for line in imported
    ]
    assert set(plain) == {
        "import torch",
        "from hyperplace import runtime",
        "from hyperplace.runtime import Feed, Keep, Output, Piece, Receive, Segment, Send",
    }
    assert max(map(len, text.splitlines())) <= 120
    assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(("grain", "segments"), [("coarse", 4), ("hybrid", 3)])
def test_a_program_runs_by_itself(tmp_path, grain, segments):
    path = tmp_path / "lenet.py"
    path.write_text(lenet_text(grain, 2))
    command = [sys.executable, str(path), "--steps", "3", "--save", str(tmp_path / "state.pt")]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert out.startswith(f"Program(net, 2 parts, {segments} segments)")
    assert "in 3 mini-batches" in out
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    model = load_model("lenet5", device="cpu").module
    model.load_state_dict(state)
    again = subprocess.run([*command[:4], "--weights", "none.pt"], capture_output=True, text=True, timeout=120)
    assert again.returncode == 1
    assert again.stderr.startswith("error: ")


EVIL = [
    'a"""\nimport os\nabort()\n"""',
    "b\\",
    "c#\rraise SystemExit",
    "d\u2028raise SystemExit",
    "{e}",
    "class",
    "self",
    "torch",
    "weights",
    "1",
    "segment_0",
    "'",
]


def test_no_name_becomes_code():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            for name in EVIL:
                self.add_module(name, nn.Conv2d(4, 4, 1))

        def forward(self, x):
            for name in EVIL:
                x = self.get_submodule(name)(x)
            return x

    net, x = Odd().double(), torch.randn(2, 4, 3, 3, dtype=torch.float64)
    graph = capture(net, x)
    for grain in ("coarse", "fine"):
        plan = planned(graph, grain, 2, "scattered")
        plan = replace(plan, settings=replace(plan.settings, model='evil"""\nraise SystemExit'))
        text = generate(graph, plan)
        calls = {
            node.func.id
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert calls <= {"Feed", "Keep", "Output", "Piece", "Receive", "Segment", "Send"}
        assert "raise" not in {type(node).__name__.lower() for node in ast.walk(ast.parse(text))}
        assert load_program(text).name == plan.settings.model
        with trainer_of(graph, plan, net, lambda o, t: (o**2).mean(), optimizer=sgd) as trainer:
            assert trainer.step(x, None).item() == pytest.approx((net(x) ** 2).mean().item(), rel=1e-9)


def test_a_plan_of_another_model_is_refused():
    plan = planned(captured("plain"), "coarse", 2, "contiguous")
    with pytest.raises(UsageError, match="the plan has 3 layers, the model"):
        generate(captured("linear_after_flatten"), plan)
    changed = replace(plan, layers=(plan.layers[0], replace(plan.layers[1], name="z"), plan.layers[2]))
    with pytest.raises(UsageError, match="the plan's layer 'z'"):
        generate(captured("plain"), changed)


def test_a_plan_that_forgets_a_message_is_refused():
    graph = captured("plain")
    plan = planned(graph, "coarse", 3, "scattered")
    with pytest.raises(UsageError, match=r"the transfer of inputs_0 from part .* is missing"):
        generate(graph, replace(plan, transfers=plan.transfers[1:]))


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
                    generate(graph, replace(plan, layers=tuple(layers)))


def test_a_plan_from_a_sample_of_other_rows_is_taken():
    """Also where there is a tensor without rows."""

    class Peaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 6)

        def forward(self, x):
            return self.a(x - x.amax(0))

    two, six = (capture(Peaks(), torch.randn(rows, 4)) for rows in (2, 6))
    assert generate(six, planned(two, "coarse", 2, "horizontal", batch=6))


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
        generate(graph, replace(plan, layers=layers))


def test_a_plan_with_pieces_of_the_same_rows_on_a_part_is_refused():
    graph = captured("plain")
    plan = planned(graph, "coarse", 2, "horizontal")
    layer = plan.layers[graph.index_of["a"]]
    bad = replace(layer, owners=tuple(replace(owner, part=0) for owner in layer.owners))
    with pytest.raises(UsageError, match=r"a is owned by part 0 .*, part 0 .* instead of part 0 \(filters 0:6"):
        generate(graph, replace(plan, layers=tuple(bad if one is layer else one for one in plan.layers)))


def test_no_weight_hides_an_attribute_of_its_part():
    assert {name for name in dir(Part) if not name.startswith("_")} | set(vars(Part())) <= ATTRIBUTES


def test_names_are_unique_identifiers():
    names = Names()
    made = [names(text) for text in (*EVIL, "a.b", "a_b", "a b", "", "é")]
    assert len(set(made)) == len(made)
    assert all(name.isidentifier() for name in made)
    assert names("a.b") == made[len(EVIL)]


@pytest.mark.parametrize("text", EVIL)
def test_literals_and_comments_are_harmless(text):
    assert ast.literal_eval(literal(text)) == text
    assert len(words(text).splitlines()) <= 1
    assert not set(words(text)) & set('"\\')


def test_long_statements_are_folded_at_their_brackets():
    text = f"x = f({', '.join(f'argument_{n}' for n in range(20))}, g({', '.join(map(str, range(60)))}))"
    lines = fold(text)
    assert max(map(len, lines)) <= 110
    assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(text))
    assert fold("x = 1") == ["x = 1"]


def test_folding_makes_no_tuple_of_what_is_in_brackets():
    text = f"x = ({' * '.join(f'argument_{n}' for n in range(20))}) * 2"
    assert ast.dump(ast.parse("\n".join(fold(text)))) == ast.dump(ast.parse(text))
