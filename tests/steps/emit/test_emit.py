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

from hyperplace.files.program import parse_program
from hyperplace.models import load_model
from hyperplace.steps.capture import capture
from hyperplace.steps.emit import emit
from hyperplace.steps.emit.emit import fold, literal, words
from hyperplace.steps.lower import lower

GOLDEN = Path(__file__).parent / "golden"
TABLES = {"Copy", "Feed", "Keep", "Message", "Output", "Piece", "Receive", "Rows", "Segment", "Send", "Slot"}


def text_of(graph, plan):
    return emit(lower(graph, plan))


def lenet_text(grain, k):
    loaded = load_model("lenet5")
    graph = capture(loaded.module, loaded.sample)
    how, blocks = ("dataparallel", 1) if grain == "hybrid" else ("incremental", 64)
    return text_of(graph, planned(graph, grain, k, how, blocks=blocks, batch=16, row_blocks=k))


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
    text = text_of(captured(name), planned(captured(name), grain, 3, "scattered"))
    imported = [
        ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    frame = {"import torch", "import torch.nn.functional as F", "from hyperplace import runtime"}
    (tables,) = set(imported) - frame
    names = tables.removeprefix("from hyperplace.runtime import ").split(", ")
    assert set(names) <= TABLES
    assert all(f"{name}(" in text for name in names), "and nothing that is not used"
    assert ("import torch.nn.functional as F" in imported) == ("F." in text)
    assert max(map(len, text.splitlines())) <= 120
    assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(("grain", "segments"), [("coarse", 4), ("hybrid", 3)])
def test_a_program_runs_by_itself(tmp_path, grain, segments):
    path = tmp_path / "lenet.py"
    path.write_text(lenet_text(grain, 2))
    command = [sys.executable, str(path), "--steps", "3", "--save", str(tmp_path / "state.pt")]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert out.startswith(f"Program(net, 2 parts, {segments} segments, ")
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
        text = text_of(graph, plan)
        calls = {
            node.func.id
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert calls <= TABLES
        assert "raise" not in {type(node).__name__.lower() for node in ast.walk(ast.parse(text))}
        assert parse_program(text).name == plan.settings.model
        with trainer_of(graph, plan, net, lambda o, t: (o**2).mean(), optimizer=sgd) as trainer:
            assert trainer.step(x, None).item() == pytest.approx((net(x) ** 2).mean().item(), rel=1e-9)


@pytest.mark.parametrize("text", EVIL)
def test_literals_and_docstrings_are_harmless(text):
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
