"""`hyperplace partition`: what it prints and writes, judged by a stranger who has only the files."""

import json
from pathlib import Path

import pytest

import hyperplace

KEYS = (
    *("model", "k", "imbalance", "grain", "partitioner", "costs", "batch", "num_vertices", "num_nets", "num_pins"),
    *("work_per_part", "max_over_avg", "volume_bytes", "training_volume_bytes", "feasible", "seconds"),
    *("plan", "partition", "hypergraph"),
)

QUICK = ("--costs", "flops", "--time-limit", 2)


def stranger(hypergraph: Path, vector: Path) -> tuple[int, list[int]]:
    """Compute volume and work (in its own unit) from a PaToH file and a vector, with nothing of ours."""
    lines = [line for line in hypergraph.read_text().splitlines() if not line.startswith("%")]
    _, num_cells, num_nets, _, _ = map(int, lines[0].split())
    part_of = [int(word) for word in vector.read_text().split()]
    unit = work_unit = 1
    for line in hypergraph.read_text().splitlines():
        if line.startswith("% net costs are in units of "):
            unit = int(line.split()[7])
        if line.startswith("% vertex weights are in units of "):
            work_unit = int(line.split()[7])
    volume = 0
    for line in lines[1 : num_nets + 1]:
        cost, *pins = map(int, line.split())
        volume += (len({part_of[pin] for pin in pins}) - 1) * cost * unit
    weights = [int(word) for line in lines[num_nets + 1 :] for word in line.split()]
    assert len(weights) == len(part_of) == num_cells
    work = [0] * (max(part_of) + 1)
    for part, weight in zip(part_of, weights, strict=True):
        work[part] += weight * work_unit
    return volume, work


@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("model", ["lenet5", "blocksnet", "resnet18"])
def test_a_stranger_finds_the_same_volume_and_balance(run, tmp_path, model, grain) -> None:
    out = tmp_path / "plan"
    ran = run("partition", model, "--k", 3, "--grain", grain, "--blocks", 8, *QUICK, "--json", "--out", out)
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert set(KEYS) <= set(summary)
    volume, work = stranger(Path(summary["hypergraph"]), Path(summary["partition"]))
    assert volume == summary["volume_bytes"]
    unit = int(summary["work_unit"].split()[0])
    assert work == [part * unit for part in summary["work_per_part"]]
    assert summary["max_over_avg"] == max(work) * 3 / sum(work)
    assert summary["feasible"] == (summary["max_over_avg"] <= 1.1)
    plan = hyperplace.load_plan(summary["plan"])
    assert plan.metrics.volume_bytes == volume


def test_a_vector_from_a_file_gives_the_plan_it_came_from(run, tmp_path) -> None:
    options = ("partition", "lenet5", "--k", 3, "--costs", "flops", "--partitioner", "kahypar", "--json")
    first = json.loads(run(*options, "--out", tmp_path / "a").out)
    again = json.loads(run(*options, "--from-partition", first["partition"], "--out", tmp_path / "b").out)
    assert again["partitioner"] == "file"
    assert (again["volume_bytes"], again["work_per_part"]) == (first["volume_bytes"], first["work_per_part"])


def test_same_seed_same_files(run, tmp_path) -> None:
    for folder in ("a", "b"):
        run("partition", "lenet5", "--k", 2, "--costs", "flops", "--seed", 5, "--out", tmp_path / folder)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_measured_costs_are_remembered(run, tmp_path) -> None:
    options = ("partition", "lenet5", "--k", 2, "--grain", "coarse", "--costs", "measured", "--json")
    first = json.loads(run(*options, "--out", tmp_path / "a").out)
    again = json.loads(run(*options, "--out", tmp_path / "b").out)
    assert first["costs"] == "measured"
    assert first["work_per_part"] == again["work_per_part"], "the second run reads the first one's profile"


def test_the_picture_names_layers_parts_and_rivals(run, tmp_path) -> None:
    ran = run("partition", "lenet5", "--k", 2, "--costs", "flops", "--out", tmp_path)
    for word in ("Plan(lenet5, k=2", "data parallelism", "layer-wise", "max/avg"):
        assert word in ran.out


def test_a_model_from_a_file(run, tmp_path) -> None:
    layers = "nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)"
    source = f"from torch import nn\ndef net():\n    return nn.Sequential({layers})\n"
    (tmp_path / "mine.py").write_text(source)
    options = ("--input", "3x16x16", "--k", 2, *QUICK, "--grain", "coarse", "--blocks", "all", "--json")
    ran = run("partition", f"{tmp_path / 'mine.py'}:net", *options, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["num_vertices"] == 3 + 8 + 8


def test_batch_norms_per_shard_are_asked_for_and_kept(run, tmp_path) -> None:
    options = ("partition", "blocksnet", "--k", 2, "--partitioner", "dataparallel", *QUICK, "--json")
    exact = json.loads(run(*options, "--out", tmp_path / "exact").out)
    own = json.loads(run(*options, "--batch-norm", "per-shard", "--out", tmp_path / "own").out)
    assert own["training_volume_bytes"] == own["data_parallel_bytes"] < exact["training_volume_bytes"]
    assert hyperplace.load_plan(tmp_path / "own/plan.json").settings.batch_norm == "per-shard"
    assert "own rows" in run(*options[:-1], "--batch-norm", "per-shard", "--out", tmp_path / "own").out
    wrong = run("train", tmp_path / "own/plan.json", "--batch-norm", "exact")
    assert "was planned with other than --batch-norm exact" in wrong.err


@pytest.mark.parametrize("asked", [("--grain", "hybrid"), ()])
def test_hybrid_and_all_grains_say_how_layers_are_split(run, tmp_path, asked) -> None:
    ran = run("partition", "lenet5", "--k", 2, *asked, *QUICK, "--out", tmp_path / "out")
    assert ran.code == 0
    assert "by rows" in ran.out
    assert all(f"\n{grain} " in ran.out for grain in ("coarse", "fine") if not asked)
    assert "data parallelism" in ran.out
    assert hyperplace.load_plan(tmp_path / "out" / "plan.json").settings.grain == "hybrid"


def test_a_vector_or_a_partitioner_by_name_is_for_one_grain_and_that_is_said(run, tmp_path) -> None:
    options = ("partition", "lenet5", "--k", 2, *QUICK)
    ran = run(*options, "--partitioner", "incremental", "--out", tmp_path / "a")
    assert "--partitioner incremental is for one grain, coarse unless --grain says otherwise" in ran.err
    assert hyperplace.load_plan(tmp_path / "a/plan.json").settings.grain == "coarse"
    ran = run(*options, "--from-partition", tmp_path / "a/partition.txt", "--out", tmp_path / "b")
    assert "a partition vector is for one grain, coarse" in ran.err
    assert ran.code == 0
    assert "is for one grain" not in run(*options, "--grain", "coarse", "--out", tmp_path / "c").err
