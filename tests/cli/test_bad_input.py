"""Bad input: one line that says what to do, exit 1 or 2, nothing half-written."""

from pathlib import Path

import pytest

FLOPS = ("--costs", "flops", "--k", "2")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("partition", "vgg61"), 1, ["vgg61", "hyperplace models"]),
        (("partition", "lenet5", "--k", "0"), 2, ["k=0", "a k of 1 or more"]),
        (("partition", "lenet5", "--k", "2", "--seed", "2147483648"), 2, ["seed 2147483648", "0..2147483647"]),
        (("partition", "lenet5", "--k", "-3"), 2, ["k=-3"]),
        (("partition", "lenet5", "--costs", "flops", "--k", "100000"), 2, ["100000", "filters", "--k"]),
        (("partition", "lenet5", "--imbalance", "-0.1"), 2, ["imbalance -0.1"]),
        (("partition", "lenet5", "--imbalance", "nan"), 2, ["imbalance nan"]),
        (("partition", "lenet5", "--imbalance", "inf"), 2, ["imbalance inf"]),
        (("partition", "lenet5", "--batch", "0"), 2, ["batch 0"]),
        (("partition", "lenet5", "--blocks", "0"), 2, ["blocks 0"]),
        (("partition", "lenet5", "--blocks", "some"), 2, ["--blocks some"]),
        (("partition", "lenet5", "--grain", "sand"), 2, ["'sand'", "coarse, fine"]),
        (("partition", "lenet5", "--fc", "half"), 2, ["'half'", "neurons, whole"]),
        (("partition", "lenet5", "--batch-norm", "odd"), 2, ["'odd'", "exact, per-shard"]),
        (("compare", "lenet5", "--batch-norm", "odd"), 2, ["'odd'", "exact, per-shard"]),
        (("train", "smallcnn", "--data", "synthetic", "--batch-norm", "odd"), 2, ["'odd'", "exact, per-shard"]),
        (("partition", "lenet5", "--costs", "gold"), 2, ["'gold'", "measured, flops"]),
        (("partition", "lenet5", "--partitioner", "oracle"), 2, ["'oracle'", "kahypar"]),
        (("partition", "lenet5", "--input", "1xx32"), 2, ["1xx32"]),
        (("partition", "no_such_module_here:net", "--input", "3x8x8"), 1, ["no_such_module_here"]),
        (("partition", "nowhere.py:net", "--input", "3x8x8"), 1, ["nowhere.py"]),
        (("partition", "lenet5", *FLOPS, "--from-partition", "nowhere.txt"), 1, ["nowhere.txt"]),
        (("partition", "lenet5", *FLOPS, "--profile", "nowhere.json"), 1, ["nowhere.json"]),
        (
            ("partition", "lenet5", "--costs", "flops", "--k", "64", "--fc", "whole", "--grain", "coarse"),
            1,
            ["cannot be met", "alone weighs"],
        ),
        (("export", "lenet5", "-o", "x", "--format", "metis"), 2, ["'metis'", "patoh or hmetis"]),
        (("compare", "lenet5", "--k", "2,x"), 2, ["--k 2,x"]),
        (("compare", "lenet5", "--imbalance", "0.1;0.2"), 2, ["--imbalance 0.1;0.2"]),
    ],
)
def test_one_line_that_says_what_to_do(run, tmp_path, monkeypatch, arguments, code, words) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*arguments)
    assert (ran.code, ran.out) == (code, "")
    lines = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    for word in words:
        assert word in lines[0]
    assert not list(tmp_path.rglob("results")), "nothing is written"


def test_a_vector_of_the_wrong_length_names_both_lengths(run, tmp_path) -> None:
    vector = tmp_path / "v.txt"
    vector.write_text("0\n1\n0\n")
    ran = run("partition", "lenet5", *FLOPS, "--from-partition", vector, "--out", tmp_path / "out")
    assert ran.code == 1
    assert "error: " in ran.err
    assert "3" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_said_before_the_work(run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ran = run("partition", "lenet5", *FLOPS, "--out", tmp_path / "file" / "out")
    assert ran.code == 1
    assert "is not a folder; choose another --out" in ran.err


def test_a_result_over_the_limit_is_never_shown_as_if_it_met_it(run, tmp_path) -> None:
    ran = run("partition", "lenet5", *FLOPS, "--partitioner", "single", "--out", tmp_path)
    assert ran.code == 0
    assert "max/avg 2.000, over the limit of 1.1: part 0 is too heavy" in ran.out


def test_debug_shows_the_traceback(run) -> None:
    assert "Traceback" in run("partition", "vgg61", "--debug").err
    assert "Traceback" not in run("partition", "vgg61").err
