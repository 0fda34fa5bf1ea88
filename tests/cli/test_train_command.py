"""`hyperplace train`: what it prints and writes, and what it refuses before anything is written."""

import csv
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hyperplace
from hyperplace.runtime.checkpoints.checkpoint import read_checkpoint

TINY = ("--data", "synthetic", "--images", 64, "--batch", 16, "--partitioner", "incremental", "--threads", 1)
FILES = {"plan.json", "checkpoint.pt", "history.csv", "history.md", "history.png"}


def write_idx(path: Path, array: np.ndarray) -> None:
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "history.csv") as file:
        return list(csv.DictReader(file))


def test_a_model_is_planned_trained_and_resumed(run, tmp_path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    ran = run("train", "smallcnn", "--epochs", 2, *TINY, "--out", whole)
    assert ran.code == 0, ran.err
    assert [line.split("  ")[2] for line in ran.out.splitlines()] == ["epoch 1/2", "epoch 2/2"]
    assert "images/s  staleness" in ran.out
    assert {path.name for path in whole.iterdir()} == FILES
    assert hyperplace.load_plan(whole / "plan.json").settings.k == 2
    assert "hyperplace train smallcnn --epochs 2" in (whole / "history.md").read_text()

    assert run("train", "smallcnn", "--epochs", 1, *TINY, "--out", parts).code == 0
    again = run("train", "smallcnn", "--epochs", 1, *TINY, "--out", parts)
    assert again.code == 1
    assert "go on from it with --resume" in again.err
    resumed = run("train", "smallcnn", "--epochs", 2, *TINY, "--out", parts, "--resume", "--json")
    assert resumed.code == 0, resumed.err
    assert [row["train_loss"] for row in rows(parts)] == [row["train_loss"] for row in rows(whole)]
    assert [row["train_loss"] for row in json.loads(resumed.out)["rows"]] == [
        float(row["train_loss"]) for row in rows(whole)
    ]
    other = run("train", "smallcnn", "--k", 3, "--epochs", 3, *TINY, "--out", parts, "--resume")
    assert other.code == 0, other.err
    assert hyperplace.load_plan(parts / "plan.json").settings.k == 3
    assert len(rows(parts)) == 3


def test_a_plan_file_is_trained_as_it_is(run, tmp_path) -> None:
    planned = tmp_path / "planned"
    options = ("--k", 2, "--grain", "coarse", "--costs", "flops", "--batch", 16)
    assert run("partition", "lenet5", *options, "--out", planned).code == 0
    options = ("--data", "synthetic", "--images", 32, "--epochs", 1, "--schedule", "sync", "--out", tmp_path / "out")
    ran = run("train", planned / "plan.json", *options)
    assert ran.code == 0, ran.err
    assert (tmp_path / "out/plan.json").read_bytes() == (planned / "plan.json").read_bytes()
    wrong = run("train", planned / "plan.json", *options, "--k", 4, "--grain", "fine")
    assert wrong.code == 2
    assert "was planned with other than --k 4, --grain fine" in wrong.err


def test_images_of_another_shape_are_adapted(run, tmp_path) -> None:
    """Fashion-MNIST's files, tiny, for a net that reads 1x32x32."""
    data = tmp_path / "data"
    data.mkdir()
    for prefix in ("train", "t10k"):
        write_idx(data / f"{prefix}-images-idx3-ubyte", np.zeros((32, 28, 28), np.uint8))
        write_idx(data / f"{prefix}-labels-idx1-ubyte", np.arange(32, dtype=np.uint8) % 10)
    options = ("--data-folder", data, "--epochs", 1, "--batch", 16, "--partitioner", "incremental")
    ran = run("train", "lenet5", *options, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err


def test_beside_the_plain_loop(run, tmp_path) -> None:
    ran = run("train", "smallcnn", *TINY, "--epochs", 1, "--against-plain", "--seeds", "0,1", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert [(row["method"], row["seed"]) for row in rows(tmp_path / "out")] == [
        (method, seed) for seed in "01" for method in ("plain loop, 1 thread", "k=2 async, 4 in flight")
    ]
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES - {"checkpoint.pt"}
    assert "x as fast" in (tmp_path / "out/history.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nowhere.json",), 1, ["nowhere.json"]),
        (("vgg61",), 1, ["vgg61"]),
        (("smallcnn", "--data", "cifar"), 2, ["'cifar'", "fashion-mnist, synthetic"]),
        (("smallcnn", "--data-folder", "."), 1, ["apt-get install dataset-fashion-mnist", "folder of the four IDX"]),
        (("smallcnn", *TINY, "--k", "0"), 2, ["k=0"]),
        (("smallcnn", *TINY, "--schedule", "now"), 2, ["'now'", "async, sync"]),
        (("smallcnn", *TINY, "--device", "tpu"), 2, ["--device tpu"]),
        (("smallcnn", *TINY, "--device", "cpu,cpu,cpu"), 2, ["3 devices for 2 parts"]),
        (("smallcnn", *TINY, "--parts-per-process", "0"), 2, ["parts_per_process 0 is less than 1"]),
        (("smallcnn", *TINY, "--k", "4", "--parts-per-process", "2"), 2, ["has all 4 parts", "under torchrun"]),
        (("smallcnn", *TINY, "--resume"), 1, ["there is no", "checkpoint.pt", "--resume"]),
        (("smallcnn", *TINY, "--resume", "--against-plain"), 2, ["--against-plain"]),
        (("smallcnn", *TINY, "--seeds", "0,1"), 2, ["--seeds is for --against-plain"]),
        (("smallcnn", *TINY, "--against-plain", "--seeds", "0,x"), 2, ["--seeds 0,x"]),
        (("smallcnn", *TINY, "--model", "lenet5"), 2, ["--model lenet5"]),
        (("smallcnn", *TINY, "--out", "file/out"), 1, ["file is not a folder"]),
    ],
)
def test_one_line_before_anything_is_written(run, tmp_path, monkeypatch, arguments, code, words) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    ran = run("train", *arguments)
    assert (ran.code, ran.out) == (code, ""), ran.err
    lines = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    for word in words:
        assert word in lines[0]
    assert {path.name for path in tmp_path.iterdir()} <= {"file", "hyperplace"}


def test_a_checkpoint_of_another_model_is_refused(run, tmp_path) -> None:
    assert run("train", "smallcnn", "--epochs", 1, *TINY, "--out", tmp_path).code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    ran = run("train", "lenet5", "--epochs", 2, *TINY, "--out", tmp_path, "--resume")
    assert ran.code == 2
    assert "holds a run of smallcnn, not of lenet5" in ran.err
    (tmp_path / "plan.json").unlink()
    ran = run("train", "lenet5", "--epochs", 2, *TINY, "--out", tmp_path, "--resume")
    assert ran.code == 2
    assert "belongs to another model" in ran.err
    (tmp_path / "plan.json").write_bytes(before["plan.json"])
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before


@pytest.mark.timeout(180)
def test_ctrl_c_stops_and_saves(tmp_path) -> None:
    options = [str(word) for word in (*TINY[:2], "--images", 100_000, *TINY[4:])]
    command = [sys.executable, "-c", "from hyperplace.cli import main; main()", "train", "smallcnn", *options]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    out = tmp_path / "out"
    with subprocess.Popen([*command, "--out", out], stderr=subprocess.PIPE, text=True, env=environment) as process:
        deadline = time.monotonic() + 120
        while not (out / "plan.json").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)  # how long it takes, make signals measures
    assert process.returncode == 130, said
    assert "interrupted after 0 epochs and" in said
    progress = read_checkpoint(out / "checkpoint.pt")["extra"]["progress"]
    assert f"and {progress['num_steps']} mini-batches" in said
