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
    ],
)
def test_one_line_before_the_work(run, tmp_path, monkeypatch, arguments, code, words) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    ran = run("bench", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error: ")
    assert words in ran.err
    assert not (tmp_path / "results").exists()
