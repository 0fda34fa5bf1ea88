"""`hyperplace check`: a plan edited by hand is refused by name, and put right where that can be done."""

import json

import pytest
import torch
from torch.nn import functional as F

import hyperplace
from hyperplace.errors import FileError
from hyperplace.models import load_model

MADE = ("partition", "lenet5", "--k", 2, "--costs", "flops", "--partitioner", "layerwise")


@pytest.fixture
def plan_file(run, tmp_path):
    assert run(*MADE, "--out", tmp_path / "made").code == 0
    return tmp_path / "made" / "plan.json"


def move(path, name, part):
    """Give a layer to another part, as a user with an editor would."""
    data = json.loads(path.read_text())
    (layer,) = [layer for layer in data["layers"] if layer["name"] == name]
    for owner in layer["owners"]:
        owner["part"] = part
    path.write_text(json.dumps(data))


def test_a_plan_that_was_made_is_right(run, plan_file):
    before = plan_file.read_text()
    for options in ((), ("--fix",), ("--model", "lenet5")):
        ran = run("check", plan_file, *options)
        assert (ran.code, ran.out) == (0, "right\n"), ran.err
    assert plan_file.read_text() == before


def test_a_layer_moved_by_hand_is_refused_then_put_right_and_trains_as_plain_torch(run, plan_file):
    made = hyperplace.load_plan(plan_file)
    layer = made.layers[2]
    move(plan_file, layer.name, part := 1 - layer.owners[0].part)
    edited = plan_file.read_text()
    with pytest.raises(FileError, match=rf"{layer.name} is computed by part .* --fix"):
        hyperplace.load_plan(plan_file)
    ran = run("check", plan_file)
    assert ran.code == 1
    assert f"part {part}: work is {made.metrics.parts[part].work} instead of" in ran.out
    assert plan_file.read_text() == edited
    fixed = run("check", plan_file, "--fix")
    assert (fixed.code, fixed.out) == (0, ran.out)
    plan = hyperplace.load_plan(plan_file)
    assert {owner.part for owner in plan.layers[2].owners} == {part}
    moved = made.layers[2].work.total
    work = [made.metrics.parts[p].work + (moved if p == part else -moved) for p in (0, 1)]
    assert plan.metrics.max_over_avg == 2 * max(work) / sum(work) != made.metrics.max_over_avg
    assert_trains_as_plain_torch(plan)


def assert_trains_as_plain_torch(plan):
    torch.manual_seed(0)
    net = load_model("lenet5", device="cpu").module
    x, y = torch.randn(32, 1, 32, 32), torch.randint(0, 10, (32,))
    with hyperplace.compile(
        net, plan, optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1), loss=F.cross_entropy, in_flight=1
    ) as trainer:
        trainer.step(x, y)
        found = trainer.state_dict()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
    for name, tensor in net.state_dict().items():
        torch.testing.assert_close(found[name], tensor)


def test_facts_are_compared_with_a_model_that_is_given(run, plan_file):
    text = plan_file.read_text()
    data = json.loads(text)
    data["layers"][1]["facts"]["learns"] = False
    plan_file.write_text(json.dumps(data))
    assert "learns is True instead of False" in run("check", plan_file).out
    ran = run("check", plan_file, "--model", "lenet5", "--fix")
    assert ran.code == 0
    assert ran.out == f"the plan's layer '{data['layers'][1]['name']}' has learns False, the model True\n"
    assert plan_file.read_text() == text


def test_what_cannot_be_put_right_is_an_error(run, plan_file):
    before = plan_file.read_text().replace('"num_filters": 16', '"num_filters": 17')
    plan_file.write_text(before)
    ran = run("check", plan_file, "--fix")
    assert ran.code == 1
    assert "filter 16 of" in ran.err
    assert plan_file.read_text() == before
    assert run("check", plan_file.with_name("nowhere.json")).code == 1
    plan_file.write_text("{}")
    assert "not a plan file" in run("check", plan_file).err


def test_a_plan_of_another_model_is_refused(run, plan_file):
    ran = run("check", plan_file, "--model", "smallcnn")
    assert ran.code in (1, 2)
    assert "error: " in ran.err
