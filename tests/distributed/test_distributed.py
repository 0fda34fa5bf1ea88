"""Ranks in processes of their own: the same bits as on threads, and nobody waits for ever for anybody.

Each test starts processes on this machine that talk over loopback.
"""

import json
import signal
import socket
import sys
import time

import pytest
import torch
from ranks import HERE, LIMIT_S, free_port, lines, run, run_each, started, words

import hyperplace
from hyperplace.files.cluster import load_cluster
from hyperplace.runtime.checkpoints.checkpoint import read_checkpoint

sys.path.insert(0, str(HERE))
import scenes

STEPS = 20
CLOCK_ERROR_US = 20_000  # of an answer that waited for a core
EQUAL = {
    2: [
        "lenet5:coarse:horizontal:async",
        "lenet5:fine:random:sync",
        "blocksnet:hybrid:random:async:clip",
        "blocksnet:hybrid:dataparallel:sync",
        "resnet18:hybrid:horizontal:async",
    ],
    3: ["lenet5:hybrid:dataparallel:async", "lenet5:fine:random:sync:clip:all"],
    4: [
        "lenet5:coarse:random:async",
        "lenet5:hybrid:dataparallel:async:hosts",
        "blocksnet:hybrid:dataparallel:sync:clip:hosts",
    ],
}


@pytest.mark.parametrize("k", EQUAL)
def test_processes_and_threads_train_the_same_bits(k):
    found = lines(run(k, "equal_ranks.py", STEPS, *EQUAL[k]))
    assert [one["case"] for one in found] == EQUAL[k]
    assert [one["wrong"] for one in found] == [[]] * len(found)


def test_processes_that_recompute_train_the_bits_of_threads_that_keep():
    cases = ["resnet18:coarse:horizontal:async:all", "blocksnet:hybrid:dataparallel:sync:all"]
    found = lines(run(2, "equal_ranks.py", STEPS, *cases))
    assert [(one["case"], one["wrong"]) for one in found] == [(case, []) for case in cases]


def test_processes_of_several_parts_train_the_same_bits():
    cases = ["lenet5:fine:random:async:clip", "lenet5:hybrid:dataparallel:sync"]
    cases += ["lenet5:hybrid:dataparallel:async:clip:hosts"]
    found = lines(run(2, "equal_ranks.py", STEPS, *cases, PARTS_EACH="2"))
    assert [(one["k"], one["wrong"]) for one in found] == [(4, [])] * len(cases)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return what two ranks say of training, and the folder they saved in."""
    folder = tmp_path_factory.mktemp("told")
    return lines(run(2, "scenes.py", "everything", folder)), folder


def test_checkpoints_go_on_and_load_into_other_plans(told):
    found, tmp_path = told
    resumed = [one for one in found if one["what"] in ("whole.pt", "shards")]
    assert len(resumed) == 4
    assert all(one["same_losses"] and one["same_state"] and one["num_batches"] == 8 for one in resumed)
    assert {(one["rank"], one["num"] > 0) for one in resumed} == {(0, True), (1, False)}, "rank 0 gets the state"
    after = next(one["after"] for one in found if one["what"] == "losses")
    assert sorted(path.name for path in (tmp_path / "shards").iterdir()) == [
        "checkpoint.json",
        "part-0-of-2.4.pt",
        "part-1-of-2.4.pt",
    ]
    for name in ("whole.pt", "shards"):
        with scenes_alone(k=3, grain="coarse") as trainer:
            hyperplace.load_checkpoint(trainer, tmp_path / name)
            assert scenes.steps(trainer, 4, 8) == pytest.approx(after, rel=0.05), "other masks of dropout"
            assert trainer.num_batches == 8


def scenes_alone(**words):
    return scenes.made(partitioner="horizontal", **words)


def test_shards_written_on_threads_load_in_processes_and_say_what_is_missing(tmp_path):
    with scenes_alone(k=2) as trainer:
        before = scenes.steps(trainer, 0, 3)
        hyperplace.save_checkpoint(trainer, tmp_path / "shards", sharded=True)
        after = scenes.steps(trainer, 3, 6)
    assert before != after
    found = lines(run(2, "scenes.py", "go_on", tmp_path))
    assert [one["losses"] for one in found] == [after, after]
    (tmp_path / "shards" / "part-1-of-2.3.pt").unlink()
    found = lines(run(2, "scenes.py", "go_on", tmp_path))
    assert all("part-1-of-2.3.pt is not here" in one["error"] for one in found)


def test_timelines_of_all_processes_are_on_one_clock(told):
    first, second = (one for one in told[0] if one["what"] == "timeline")
    assert first["events"] == second["events"]
    assert first["num_parts"] == 2
    assert first["ahead_us"] == 0
    assert second["ahead_us"] == pytest.approx(scenes.AHEAD_NS / 1e3, abs=CLOCK_ERROR_US)
    # Part 0 has the loss: part 1 sends it what it has made of a mini-batch before, and gets gradients back after.
    for batch in range(6):
        of_batch = [event for event in first["events"] if event[2] == batch]
        ((begin_us, end_us),) = [(start, end) for part, kind, _, start, end in of_batch if (part, kind) == (0, "loss")]
        forward = [end for part, kind, _, _, end in of_batch if (part, kind) == (1, "forward")]
        backward = [start for part, kind, _, start, _ in of_batch if (part, kind) == (1, "backward")]
        assert max(forward) < begin_us + CLOCK_ERROR_US
        assert end_us < min(backward) + CLOCK_ERROR_US


def test_autocast_is_the_same_in_processes_and_on_threads(told):
    found = [one for one in told[0] if one["what"] == "autocast"]
    with scenes_alone(k=2) as trainer:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            losses = [trainer.step(*scenes.rows(number)) for number in range(4)]
            outputs = trainer.predict(scenes.rows(9)[0])
        expected = [loss.item() for loss in losses], str(outputs.dtype), float(outputs.double().sum())
    assert [(one["losses"], one["dtype"], one["total"]) for one in found] == [expected] * 2


def test_a_fault_of_one_rank_is_told_by_all(tmp_path):
    found = words(run(3, "scenes.py", "fault", tmp_path))
    part = "part 2 failed in the update, mini-batch "
    assert len(found) == 6
    assert all(part in one["error"] and "ValueError: no more" in one["error"] for one in found)


@pytest.mark.parametrize(("scene", "lost"), [("kill_first", 0), ("kill_last", 2)])
def test_whoever_is_left_says_who_was_lost(scene, lost, tmp_path):
    found = words(run(3, "scenes.py", scene, tmp_path))
    assert {one["rank"] for one in found} == {0, 1, 2} - {lost}
    assert all(
        f"rank {lost} on host " in one["error"] and "was lost: its process has ended" in one["error"] for one in found
    )


DIFFERENT = {
    "own_fault": "rank 1 ended with KeyError: 'mine'",
    "other_rows": "mini-batch 2 of 6 rows",
    "other_calls": "rank 1 waits for the others in state_dict()",
    "other_collectives": "rank 1 calls state_dict() while rank 0 calls moved_bytes()",
    "other_weights": "do not have the same weights (call torch.manual_seed",
    "other_shapes": "layers.0.weight is (8, 3, 3, 3) torch.float32 at rank 0, (16, 3, 3, 3) torch.float32 at rank 1",
    "other_torch": "at rank 0, 2.12.0 at rank 1",
    "other_k": "the plan has 3 parts, but there are 2 processes; start 3",
    "other_settings": "in_flight is 2 at rank 0, 3 at rank 1",
    "other_plan": "do not have the same plan: part 0 is",
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """Return what each rank says in every scene where they differ."""
    said = {}
    for one in words(run(2, "scenes.py", "refusals", tmp_path_factory.mktemp("refusals"), limit_s=180)):
        if "scene" in one:
            now = said.setdefault(one["scene"], {}).setdefault(one["rank"], [])
        else:
            now.append(one["error"])
    return said


@pytest.mark.parametrize("scene", DIFFERENT)
def test_ranks_that_differ_are_refused_with_the_same_words(scene, refusals):
    first, second = (refusals[scene][rank][0] for rank in (0, 1))
    assert DIFFERENT[scene] in first
    assert DIFFERENT[scene] in second or second == "KeyError: 'mine'"


def test_whoever_makes_a_call_when_another_has_closed_is_told(refusals):
    assert "rank 1 calls close() while rank 0 calls state_dict()" in refusals["other_end"][0][0]


def test_many_steps_hold_no_more_than_some(tmp_path):
    for one in lines(run(2, "scenes.py", "many", tmp_path)):
        if "begin" in one:
            assert one["end"]["threads"] == one["begin"]["threads"]
            assert one["end"]["files"] == one["begin"]["files"]
            assert one["end"]["kib"] < 1.05 * one["begin"]["kib"]
            before = one
        else:
            assert one["closed"]["files"] < before["begin"]["files"]
            assert one["closed"]["threads"] < before["begin"]["threads"]


def test_closed_trainers_are_forgotten(tmp_path):
    for one in lines(run(2, "scenes.py", "reopen", tmp_path)):
        assert one["num_alive"] == 0
        assert one["held"][-1]["kib"] < 1.15 * one["held"][1]["kib"]
        assert one["held"][-1]["files"] <= one["held"][1]["files"]
        assert one["held"][-1]["threads"] <= one["held"][1]["threads"]


def command(*arguments):
    return ("-m", "hyperplace", *map(str, arguments))


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A plan file of LeNet-5 for two parts."""
    folder = tmp_path_factory.mktemp("plan")
    how = ("--k", "2", "--batch", "16", "--costs", "flops", "--grain", "hybrid", "--partitioner", "dataparallel")
    (code, _, err), *_ = run_each([command("partition", "lenet5", *how, "--imbalance", "1", "--out", folder)])
    assert code == 0, err
    return folder / "plan.json"


TRAIN = ("--data", "synthetic", "--images", "64", "--epochs", "1", "--threads", "1")


def test_train_is_the_same_command_in_processes(plan, tmp_path):
    results = run_each([command("train", plan, *TRAIN, "--json", "--live", "--out", tmp_path / "out")] * 2)
    assert [code for code, *_ in results] == [0, 0], results[0][2]
    assert results[1][1] == "", "only the first rank speaks"
    assert ["live page" in err for _, _, err in results] == [True, False]
    alone = run_each([command("train", plan, *TRAIN, "--json", "--out", tmp_path / "alone")])
    here, there = (json.loads(out) for out in (results[0][1], alone[0][1]))
    for name in ("train_loss", "test_accuracy"):
        assert here["rows"][0][name] == there["rows"][0][name]
    assert here["moved_bytes"] == there["moved_bytes"] > 0
    assert len(here["staleness"]) == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        path.name for path in (tmp_path / "alone").iterdir()
    )
    more = ("train", plan, *TRAIN[:-4], "--epochs", "2", "--threads", "1", "--resume", "--json")
    results = run_each([command(*more, "--out", tmp_path / "out")] * 2)
    alone = run_each([command(*more, "--out", tmp_path / "alone")])
    assert json.loads(results[0][1])["rows"][1]["train_loss"] == json.loads(alone[0][1])["rows"][1]["train_loss"]


LONG = ("--data", "synthetic", "--images", "6000", "--epochs", "1", "--threads", "1", "--in-flight", "1", "--json")


def told_to_stop(arguments, out, numbers):
    """Start two ranks, send a signal to those of these numbers in turn; return exit codes and what they say."""
    port = free_port()
    ranks = [started(n, command("train", *arguments, "--out", out), port, size=2) for n in range(2)]
    try:
        deadline = time.monotonic() + LIMIT_S
        while not (out / "plan.json").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        for number in numbers:
            ranks[number].send_signal(signal.SIGTERM)
            time.sleep(0.1)  # some mini-batches
        said = [rank.communicate(timeout=30)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [rank.returncode for rank in ranks], said


def test_ranks_that_are_told_to_stop_save_what_all_have_done(plan, tmp_path):
    codes, said = told_to_stop((plan, *LONG), tmp_path / "out", [1, 0])
    assert codes == [128 + signal.SIGTERM] * 2, said
    num_steps = read_checkpoint(tmp_path / "out" / "checkpoint.pt")["extra"]["progress"]["num_steps"]
    assert 0 < num_steps < 375
    assert f"interrupted after 0 epochs and {num_steps} mini-batches" in said[0]
    assert said[1] == "", "only the first rank speaks"
    resumed = run_each([command("train", plan, *LONG, "--resume", "--out", tmp_path / "out")] * 2)
    alone = run_each([command("train", plan, *LONG, "--out", tmp_path / "alone")])
    here, there = (json.loads(one[0][1])["rows"][0]["train_loss"] for one in (resumed, alone))
    assert here == there, "as if nobody had stopped it"


def test_a_rank_that_alone_is_told_to_stop_ends_all(plan, tmp_path):
    codes, said = told_to_stop((plan, *LONG), tmp_path / "out", [1])
    assert codes == [1, 1], said
    assert "error: rank 1 was told to stop" in said[0]
    assert not (tmp_path / "out" / "checkpoint.pt").exists()


def test_a_generated_program_runs_in_processes(plan, tmp_path):
    path = tmp_path / "lenet5_k2.py"
    assert run_each([command("generate", plan, "-o", path)])[0][0] == 0
    results = run_each([(path, "--steps", "3", "--save", tmp_path / "together.pt")] * 2)
    assert [code for code, *_ in results] == [0, 0], results
    assert "loss" in results[0][1]
    assert results[1][1] == ""
    run_each([(path, "--steps", "3", "--save", tmp_path / "alone.pt")])
    one, other = (torch.load(tmp_path / name) for name in ("together.pt", "alone.pt"))
    assert all(torch.equal(one[name], other[name]) for name in other)


def refused(arguments_of, **variables):
    """Return the one line that each rank says before it exits with 1."""
    results = run_each(arguments_of, limit_s=60, **variables)
    assert [code for code, *_ in results] == [1] * len(results), results
    said = [[line for line in err.splitlines() if line.startswith("error: ")] for *_, err in results]
    assert all(len(some) == 1 for some in said), results
    return [some[0] for some in said]


def test_bad_input_is_one_line_on_every_rank(plan, tmp_path):
    good = command("train", plan, *TRAIN, "--out", tmp_path / "out")
    missing = command("train", tmp_path / "nosuch.json", *TRAIN, "--out", tmp_path / "out")
    assert all("rank 1: cannot read" in line and "nosuch.json" in line for line in refused([good, missing]))
    assert all("but there are 3 processes" in line for line in refused([good] * 3))
    said = refused([good] * 2, GLOO_SOCKET_IFNAME="nosuch0")
    assert all("GLOO_SOCKET_IFNAME is nosuch0" in line for line in said)
    assert not (tmp_path / "out" / "plan.json").exists()


def test_a_port_in_use_is_said(plan, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port := free_port()))
        taken.listen()
        (code, _, err), *_ = run_each(
            [command("train", plan, *TRAIN, "--out", tmp_path / "out")],
            MASTER_PORT=str(port),
            WORLD_SIZE="2",
        )
    assert code == 1
    assert f"port 127.0.0.1:{port} is in use" in err


def test_probe_sees_all_processes_and_what_lies_between_them(tmp_path):
    command = ("-m", "hyperplace", "probe", "--seconds", "1", "-o", tmp_path / "cluster.toml")
    assert [code for code, *_ in run_each([command] * 2)] == [0, 0]
    found = load_cluster(tmp_path / "cluster.toml")
    assert found.num_devices == 2
    assert found.devices[0].speed == 1.0
    assert all(1e-12 < device.copy_s_per_byte < 1e-7 for device in found.devices)
    assert len(found.hosts) == 1, "they have one name"
