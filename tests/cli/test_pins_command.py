"""Pins on the command line, kept by partition, replan and explain."""

import json

import pytest

import hyperplace

LENET = ("lenet5", "--batch", 4, "--time-limit", 4)


def parts(path):
    return {layer.name: set(layer.parts) for layer in hyperplace.load_plan(path).layers}


def test_partition_keeps_pins_and_says_what_is_proven_without_them(run, tmp_path):
    pins = ("--pin", "features.0=1", "--keep-together", "features.3,classifier.2", "--at-most", "features.6=1 part")
    options = ("--costs", "flops", "--k", 2, "--imbalance", 0.9, "--out", tmp_path)
    ran = run("partition", *LENET, *pins, *options)
    assert ran.code == 0, ran.err
    assert "pinned: features.0=1, features.3+classifier.2 together, features.6 on at most 1 part" in ran.out
    found = parts(tmp_path / "plan.json")
    assert found["features.0"] == {1}
    assert len(found["features.3"] | found["classifier.2"]) == 1
    assert len(found["features.6"]) == 1
    ran = run("check", tmp_path / "plan.json")
    assert ran.out == "right\n"


def test_partition_by_time_replan_and_explain_keep_pins(run, tmp_path):
    options = ("--pin", "classifier.0=1", "--cluster", "2x1@1gbit", "--json", "--out", tmp_path / "plan")
    made = run("partition", *LENET, *options)
    assert made.code == 0, made.err
    planned = json.loads(made.out)
    assert planned["pins"] == "classifier.0=1"
    assert parts(planned["plan"])["classifier.0"] == {1}
    data = ("--data", "synthetic", "--images", 16, "--epochs", 1)
    ran = run("train", planned["plan"], "--cluster", planned["cluster"], "--timeline", "--out", tmp_path / "run", *data)
    assert ran.code == 0, ran.err
    options = ("--timeline", tmp_path / "run" / "trace.json", "--cluster", planned["cluster"], "--time-limit", 3)
    ran = run("replan", planned["plan"], *options, "--out", tmp_path / "again")
    assert ran.code == 0, ran.err
    assert parts(tmp_path / "again" / "plan.json")["classifier.0"] == {1}
    ran = run("explain", planned["plan"], "classifier.0", "--cluster", planned["cluster"], "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["here"]["seconds_per_batch"] > 0
    assert found["others"][0]["breaks"] == ["classifier.0 is on parts [0], but pinned to part 1"]


def test_explain_needs_no_model_without_a_cluster(run, tmp_path):
    run("partition", *LENET, "--costs", "flops", "--k", 2, "--out", tmp_path)
    ran = run("explain", tmp_path / "plan.json", "features.3")
    assert ran.code == 0, ran.err
    for word in ("features.3 of lenet5: conv", "per mini-batch", "other places", "as it is", "max/avg"):
        assert word in ran.out
    ran = run("explain", tmp_path / "plan.json", "features.33")
    assert ran.code == 2
    assert "the plan has no layer 'features.33'; did you mean 'features.3'?" in ran.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pin", "features.9=0"), "there is no layer 'features.9' to pin; did you mean 'features."),
        (("--pin", "features.0=7"), "features.0 is pinned to part 7, outside 0..1"),
        (("--pin", "features.0"), "--pin features.0 is not of the form LAYER=PART"),
        (("--pin", "features.0=1", "--pin", "features.0=0"), "features.0 is pinned to part 1 and to part 0"),
        (
            ("--pin", "features.0=0", "--pin", "features.3=1", "--keep-together", "features.0,features.3"),
            "features.0 is pinned to part 0 and features.3 to part 1, but they are kept together",
        ),
        (("--keep-together", "features.0"), "features.0 cannot be kept together with itself"),
        (("--at-most", "features.0=0"), "0 is no number of parts for features.0"),
        (("--at-most", "features.0=some"), "--at-most features.0=some is not of the form LAYER=2"),
        (("--pin", "features.3=0", "--imbalance", 0.1, "--pin", "features.0=0"), "the layers pinned to part 0 weigh"),
    ],
)
def test_pins_that_cannot_hold_are_one_line_and_nothing_is_written(run, tmp_path, options, said):
    ran = run("partition", *LENET, "--costs", "flops", "--k", 2, *options, "--out", tmp_path / "plan")
    assert ran.code in (1, 2)
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert not (tmp_path / "plan" / "plan.json").exists()
