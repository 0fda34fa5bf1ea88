"""Every bug that plan files had, and what it did to a user: each edit is now refused by name when the file is read."""

import json
import time
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hyperplace
from hyperplace.api import check_plan
from hyperplace.errors import FileError, UsageError
from hyperplace.files.plan import parse_draft, parse_plan, plan_text


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(16, 5)

    def forward(self, x):
        return self.b(F.relu(self.norm(self.a(x))).flatten(1))


@cache
def made(grain, partitioner):
    torch.manual_seed(0)
    words = {"grain": grain, "partitioner": partitioner, "batch": 4, "blocks": 2, "row_blocks": 2}
    return plan_text(hyperplace.place(Net(), torch.randn(4, 3, 4, 4), k=2, imbalance=9, **words))


def plan_data(grain="hybrid", partitioner="dataparallel"):
    return json.loads(made(grain, partitioner))


def assert_refused(data, match):
    with pytest.raises(FileError, match=match):
        parse_plan(json.dumps(data), "plan.json")


def test_all_replicas_removed():
    """Only layers that still had one were looked at: the parts' copies drifted apart, without a word."""
    data = plan_data()
    assert data["replicas"]
    data["replicas"] = []
    data["metrics"]["training_volume_bytes"] = data["metrics"]["volume_bytes"]
    assert_refused(data, r"the replica of a on part 0 with owner 1 \(filters 2:4\) is missing")


def test_a_gradient_that_does_not_come_back():
    """A layer before the message was never trained."""
    data = plan_data("coarse", "layerwise")
    (transfer,) = [one for one in data["transfers"] if one["learns"]]
    transfer["learns"] = False
    data["metrics"]["training_volume_bytes"] -= transfer["num_bytes"]
    assert_refused(data, r"the transfer of a from part \d to \d .*: learns is False instead of True")


def test_statistics_of_no_bytes():
    """Batch norms over split rows were normalised by each part's own rows, though they were to be exact."""
    data = plan_data()
    for replica in data["replicas"]:
        data["metrics"]["training_volume_bytes"] -= 4 * replica["statistics_bytes"]
        replica["statistics_bytes"] = 0
    assert_refused(data, r"the replica of a .*: statistics_bytes is 0 instead of \d+")


def test_two_shards_of_one_part_with_the_same_filters():
    """Both had one name, and the partial sums of the first were dropped."""
    data = plan_data("fine", "layerwise")
    layer = data["layers"][-1]
    (shard,) = layer["shards"]
    layer["shards"] = [{**shard, "channels": channels} for channels in ([[0, 8]], [[8, 16]])]
    assert_refused(data, r"b is computed by part 1 \(.*channels 0:8, .* instead of part 1 \(.*channels 0:16")


def test_replica_ranges_out_of_order():
    """The weights of one filter were given to another."""
    data = plan_data()
    data["replicas"][0]["filters"] = [[2, 4], [0, 2]]
    assert_refused(data, r"the replica of a .* \(filters 2:4 0:2\) must not be there")


@pytest.mark.parametrize(("grain", "partitioner"), [("coarse", "layerwise"), ("hybrid", "horizontal")])
def test_any_number_of_bytes(grain, partitioner):
    """What was moved was not what was planned, and nobody noticed."""
    data = plan_data(grain, partitioner)
    data["transfers"][0]["num_bytes"] += 4
    data["metrics"]["volume_bytes"] += 4
    data["metrics"]["training_volume_bytes"] += 4 * (1 + data["transfers"][0]["learns"])
    assert_refused(data, r"num_bytes is \d+ instead of \d+")


def test_a_transfer_listed_twice():
    """Both had one mailbox, so that training waited for ever."""
    data = plan_data("coarse", "layerwise")
    data["transfers"].append(data["transfers"][0])
    assert_refused(data, r"the transfer of \w+ from part \d to \d .* is there twice")


def test_a_transfer_split_by_filters():
    """Both halves had one mailbox, so that training waited for ever."""
    data = plan_data("coarse", "layerwise")
    whole = data["transfers"][0]
    (start, stop), half = whole["filters"][0], whole["num_bytes"] // 2
    middle = (start + stop) // 2
    pieces = [{**whole, "filters": [span], "num_bytes": half} for span in ([start, middle], [middle, stop])]
    data["transfers"] = [*pieces, *data["transfers"][1:]]
    assert_refused(data, r"the transfer of \w+ from part \d to \d .* must not be there")


def test_an_owner_listed_twice():
    """Sync waited for ever."""
    data = plan_data("coarse", "layerwise")
    data["layers"][1]["owners"] *= 2
    assert_refused(data, "filter 0 of a has 2 owners instead of 1")


@pytest.mark.parametrize("size", [2**28, 2**40, 2**62])
def test_a_layer_of_many_filters(size):
    """Ended in MemoryError, or took gigabytes and minutes first."""
    data = json.loads(made("coarse", "layerwise").replace("[\n       0,\n       4\n      ]", f"[0, {size}]"))
    data["layers"][1]["num_filters"] = size
    data["layers"][1]["owners"][0]["filters"] = [[0, size]]
    start = time.process_time()
    assert_refused(data, "filters, more than 16777216")
    assert time.process_time() - start < 1


def test_a_replica_of_many_filters():
    """Its filters were written out one by one until memory was full."""
    data = plan_data()
    data["replicas"][0]["filters"] = [[0, 2**62]]
    assert_refused(data, "must not be there")


@pytest.mark.parametrize("number", ["1" * 4300, "-" + "9" * 4299])
def test_a_number_too_long_to_be_printed(number):
    """Ended in ValueError: Exceeds the limit for integer string conversion."""
    text = made("coarse", "layerwise").replace('"num_filters": 4', f'"num_filters": {number}')
    assert number in text
    with pytest.raises(FileError, match=r"num_filters is -?\d{36,}\.\.\., more than any count"):
        parse_plan(text, "plan.json")


def test_a_name_that_no_text_can_hold():
    """Ended in UnicodeEncodeError when the program was written."""
    data = plan_data("coarse", "layerwise")
    data["settings"]["model"] = "\ud800"
    assert_refused(data, r"the model is '\\ud800', which is not text")


def test_a_value_nested_too_deep_to_be_shown():
    """Ended in RecursionError while its own error message was made."""
    text = made("coarse", "layerwise").replace('"num_filters": 4', '"num_filters": ' + "[" * 900 + "]" * 900)
    with pytest.raises(FileError, match=r"num_filters must be int, not|cut short"):
        parse_plan(text, "plan.json")


def test_a_plan_for_another_precision():
    """A plan made in float32 and trained in float64 moved twice the bytes it named."""
    plan = parse_plan(made("coarse", "layerwise"), "plan.json")
    with pytest.raises(UsageError, match=r"has parameter_bytes \d+, the model \d+"):
        hyperplace.generate(Net().double(), plan)


def test_bytes_that_no_precision_explains():
    """Half the bytes of one layer were taken for those of autocast: the run moved more than the plan said."""
    data = plan_data("coarse", "layerwise")
    layer = next(one for one in data["layers"] if one["name"] == data["transfers"][-1]["layer"])
    layer["facts"]["map_bytes"] //= 4
    plan, _ = check_plan(parse_draft(json.dumps(data), "plan.json"))
    with pytest.raises(UsageError, match=r"has map_bytes \d+, the model \d+, and torch.autocast is not why"):
        hyperplace.generate(Net(), plan)
