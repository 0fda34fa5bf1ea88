"""simulate, probe, and partition and train on a cluster."""

import json

import pytest

from hyperplace.files.cluster import load_cluster

LENET = ("lenet5", "--batch", 4, "--time-limit", 4)


def test_simulate_shows_every_method_and_what_binds(run, tmp_path):
    ran = run("simulate", *LENET, "--cluster", "2x1@1gbit", "--out", tmp_path)
    assert ran.code == 0, ran.err
    for word in ("layer-wise", "data parallelism", "by time", "speed-up", "what binds", "of the least possible"):
        assert word in ran.out
    written = {"simulation.md", "simulation.csv", "timeline.png", "trace.json"}
    assert written <= {path.name for path in tmp_path.iterdir()}


def test_simulate_json_has_seconds_shares_and_what_binds(run):
    found = json.loads(run("simulate", *LENET, "--cluster", "2x1@1gbit", "--schedule", "async", "--json").out)
    assert found["seconds_per_batch"] == min(row["seconds_per_batch"] for row in found["rows"])
    assert found["seconds_per_batch"] >= found["bound_seconds"] > 0
    assert len(found["busy"]) == 2
    assert max(found["busy"]) <= 1 + 1e-9
    assert found["binds"]


def test_a_plan_made_for_a_cluster_is_simulated_and_trained_there(run, tmp_path):
    made = run("partition", *LENET, "--cluster", "2x1@100mbit", "--json", "--out", tmp_path / "plan")
    assert made.code == 0, made.err
    planned = json.loads(made.out)
    assert planned["k"] == 2
    assert load_cluster(planned["cluster"]) == load_cluster("2x1@100mbit")
    options = ("--cluster", planned["cluster"], "--schedule", "async", "--json")
    again = json.loads(run("simulate", planned["plan"], *options).out)
    assert again["seconds_per_batch"] == pytest.approx(planned["seconds_per_batch"], rel=0.05)
    data = ("--data", "synthetic", "--images", 16, "--epochs", 1)
    folder = tmp_path / "run"
    options = ("--cluster", planned["cluster"], "--timeline", "--json", "--out", folder)
    ran = run("train", planned["plan"], *options, *data)
    assert ran.code == 0, ran.err
    options = ("--timeline", folder / "trace.json", "--cluster", planned["cluster"], "--time-limit", 3)
    ran = run("replan", planned["plan"], *options, "--out", tmp_path / "again")
    assert ran.code == 0, ran.err
    assert "with what was seen the old plan takes" in ran.err + ran.out
    assert (tmp_path / "again" / "plan.json").exists()


def test_a_sweep_has_a_column_per_cluster(run, tmp_path):
    sweep = ("--sweep", "hosts=1,2", "bandwidth=0.1,1gbit")
    ran = run("simulate", *LENET, "--cluster", "2x1", "--schedule", "async", "--out", tmp_path, *sweep)
    assert ran.code == 0, ran.err
    assert "2 at 0.1gbit" in (tmp_path / "sweep.csv").read_text()
    assert "![Speed-up over one device" in (tmp_path / "sweep.md").read_text()
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_probe_writes_a_cluster_of_this_machine(run, tmp_path):
    ran = run("probe", "-o", tmp_path / "here.toml")
    assert ran.code == 0, ran.err
    assert load_cluster(tmp_path / "here.toml").num_devices == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster", "2x1@fast"), "1gbit"),
        (("--cluster", "none.toml"), "cannot read none.toml: no such file"),
        (("--cluster", "2x1", "--schedule", "never"), "schedule 'never' is unknown"),
        (("--cluster", "2x1", "--sweep", "speed=1"), "--sweep speed=1 is not of the form"),
        (("--cluster", "2x1", "--costs", "flops"), "flops_per_s"),
        (("--cluster", "2x1", "--in-flight", "0"), "in_flight 0 is less than 1"),
    ],
)
def test_what_cannot_be_simulated_is_said_in_one_line(run, options, said):
    ran = run("simulate", *LENET, *options)
    assert ran.code in (1, 2)
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_more_parts_than_devices_are_refused_and_nothing_is_written(run, tmp_path):
    ran = run("partition", *LENET, "--k", 3, "--cluster", "2x1@1gbit", "--out", tmp_path / "plan")
    assert ran.code == 2
    assert "3 parts need as many devices, and the cluster has 2" in ran.err
    assert not (tmp_path / "plan" / "plan.json").exists()


@pytest.mark.parametrize("option", [("--imbalance", 0.1), ("--grain", "coarse"), ("--partitioner", "local")])
def test_what_would_do_nothing_beside_a_cluster_is_refused(run, tmp_path, option):
    ran = run("partition", *LENET, "--cluster", "2x1@1gbit", *option, "--out", tmp_path)
    assert ran.code == 2
    assert f"{option[0]} would do nothing" in ran.err


def test_what_is_recomputed_or_offloaded_to_fit_into_memory_is_said_and_trained(run, tmp_path):
    made = run(
        "partition", "lenet5", "--k", 2, "--partitioner", "horizontal", "--batch", 4, "--json", "--out", tmp_path
    )
    plan = json.loads(made.out)["plan"]
    common = (plan, "--schedule", "async", "--in-flight", 4, "--json")

    def simulated(cluster, *more):
        ran = run("simulate", *common, "--cluster", cluster, *more)
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    kept, again = (simulated("1x2", "--recompute", word) for word in ("none", "all"))
    assert max(again["memory_bytes"]) < max(kept["memory_bytes"])
    limit = (max(again["memory_bytes"]) + max(kept["memory_bytes"])) // 2
    path = tmp_path / "cluster.toml"
    device = f"[[hosts.devices]]\nmemory_bytes = {limit}\n"
    path.write_text(f'[[hosts]]\nname = "a"\n{2 * device}')
    fitting = simulated(path)
    assert max(fitting["memory_bytes"]) <= limit
    assert fitting["recompute"] not in ("none", again["recompute"])
    assert simulated(path, "--recompute", "none")["lacks"].startswith("part ")
    with_memory = device + 'kind = "gpu"\n'
    path.write_text(f'[[hosts]]\nname = "a"\n{2 * with_memory}')
    moving = simulated(path)
    assert moving["recompute"] == "none", "to move some kilobytes takes less than to compute them"
    assert moving["offload"] != "none"
    there = simulated(path, "--offload", "none")
    assert there["offload"] == "none" != there["recompute"]
    assert simulated(path, "--offload", "none", "--recompute", "none")["lacks"].startswith("part ")
    data = ("--data", "synthetic", "--images", 16, "--epochs", 1, "--json")
    runs = [
        run("train", plan, *data, way, word, "--out", tmp_path / f"run{number}")
        for number, (way, word) in enumerate(
            (("--recompute", "none"), ("--recompute", fitting["recompute"]), ("--offload", moving["offload"]))
        )
    ]
    assert [ran.code for ran in runs] == [0, 0, 0], runs[1].err
    assert len({json.loads(ran.out)["rows"][0]["train_loss"] for ran in runs}) == 1


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("simulate", *LENET, "--cluster", "1x2", "--recompute", "some"), "recompute 'some' is unknown"),
        (("partition", *LENET, "--recompute", "all"), "--recompute is for the memory of a --cluster"),
        (("train", "lenet5", "--recompute", "0"), "recompute '0' is neither none nor all nor parts and segments"),
        (("simulate", *LENET, "--cluster", "1x2", "--offload", "all"), "offload 'all' is unknown; choose one of auto"),
        (("partition", *LENET, "--offload", "auto"), "--offload is for the memory of a --cluster"),
        (("train", "lenet5", "--offload", "0"), "offload '0' is neither none nor all nor parts and segments"),
    ],
)
def test_other_words_of_recompute_and_offload_are_refused(run, words, fault):
    ran = run(*words)
    assert ran.code in (1, 2)
    assert fault in ran.err
