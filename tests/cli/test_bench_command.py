"""`hyperplace bench`: the table on stdout, its files, and what it refuses."""

import json

import pytest

QUICK = ("--k", 2, "--batch", 4, "--repeats", 1, "--steps", 1, "--costs", "flops", "--time-limit", 1)
FILES = {"bench.txt", "bench.md", "bench.csv", "trace.json", "timeline.png"}


@pytest.fixture
def _few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the searches, which have tests of their own."""
    from hyperplace.bench import contender

    monkeypatch.setattr(contender, "PLANS", contender.PLANS[:2])


@pytest.mark.usefixtures("_few_plans")
def test_a_table_and_its_files(run, tmp_path) -> None:
    ran = run("bench", "lenet5", *QUICK, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    for words in ("plain loop, 2 threads", "incremental", "images/s", "the fastest plan, in the steady state"):
        assert words in ran.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert "hyperplace bench lenet5 --k 2" in (tmp_path / "out/bench.md").read_text()
    assert json.loads((tmp_path / "out/trace.json").read_text())["traceEvents"]


@pytest.mark.usefixtures("_few_plans")
def test_json_is_one_object(run, tmp_path) -> None:
    ran = run("bench", "lenet5", *QUICK, "--json", "--out", tmp_path / "out")
    found = json.loads(ran.out)
    assert len(found["rows"]) == 3 + 2 * 2
    assert {path.rpartition("/")[2] for path in found["files"]} == FILES


def test_hosts_have_a_table_per_batch_size_and_rows_with_every_figure(run, tmp_path, monkeypatch) -> None:
    from hyperplace.bench import host_contender

    monkeypatch.setattr(host_contender, "PLANS", host_contender.PLANS[:1])
    monkeypatch.setattr(host_contender, "SERVERS", ())
    monkeypatch.setattr(host_contender, "AUTO_KIND", host_contender.PLANS[0])
    few = ("--hosts", 2, "--batches", "2,4", *QUICK[4:])
    ran = run("bench", "lenet5", *few, "--json", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert {row["batch"] for row in found["rows"]} == {2, 4}
    named = ("method", "schedule", "batch", "images_per_s", "predicted_bytes", "moved_bytes")
    assert all(name in row for row in found["rows"] for name in named)
    ours = next(row for row in found["rows"] if row["method"] == "layer-wise")
    assert ours["moved_bytes"] == ours["predicted_bytes"] > 0
    assert len(ours["images_per_s"]) == 1
    text = (tmp_path / "out/bench.md").read_text()
    assert "| method | schedule | batch 2 | batch 4 |" in text
    assert "torch DDP" in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("vgg61",), 1, "vgg61"),
        (("lenet5", "--k", 0), 2, "k=0"),
        (("lenet5", "--repeats", 0), 2, "--repeats 0"),
        (("lenet5", "--in-flight", 0), 2, "--in-flight 0"),
        (("lenet5", "--imbalance", -1), 2, "imbalance -1"),
        (("lenet5", "--input", "3x32x32"), 2, "1 channel"),
        (("lenet5", "--out", "file/out"), 1, "file is not a folder"),
        (("lenet5", "--hosts", 1), 2, "--hosts 1"),
        (("lenet5", "--hosts", 0), 2, "--hosts 0"),
        (("lenet5", "--hosts", 2, "--k", 3), 2, "--k 3 is not --hosts 2"),
        (("lenet5", "--hosts", 2, "--rate", "nonsense"), 2, "--rate nonsense"),
        (("lenet5", "--hosts", 2, "--delay", "-1ms"), 2, "--delay -1ms"),
        (("lenet5", "--hosts", 2, "--batches", "8,x"), 2, "--batches 8,x"),
        (("lenet5", "--hosts", 2, "--batches", "8,0"), 2, "batch 0"),
        (("lenet5", "--hosts", 2, "--turn-limit", 0), 2, "--turn-limit 0"),
        (("lenet5", "--shares", "1,0.4"), 2, "add --hosts"),
        (("lenet5", "--hosts", 2, "--shares", "1,0.4,1"), 2, "--shares 1,0.4,1 are not 2 shares"),
        (("lenet5", "--hosts", 2, "--rate", "1gbit,1gbit,1gbit"), 2, "3 rates for 2 hosts"),
        (("lenet5", "--rate", "1gbit"), 2, "--rate is for emulated hosts"),
        (("flat.py:flat", "--input", "4"), 2, "does not read single images"),
        (("flat.py:flat", "--input", "4", "--hosts", 2), 2, "does not read single images"),
    ],
)
def test_one_line_before_the_work(run, tmp_path, monkeypatch, arguments, code, words) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "flat.py").write_text("from torch import nn\ndef flat():\n    return nn.Linear(4, 10)\n")
    ran = run("bench", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error: ")
    assert words in ran.err
    assert not (tmp_path / "results").exists()
