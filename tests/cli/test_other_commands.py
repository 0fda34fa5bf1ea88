"""export, profile, compare and models."""

import json

import pytest

from hyperplace import comparing
from hyperplace.errors import ModelError
from hyperplace.files.hypergraph import read_hypergraph

KAHYPAR = ("--costs", "flops", "--partitioner", "kahypar")


@pytest.mark.parametrize(("format", "suffix"), [("patoh", ".patoh"), ("hmetis", ".hgr")])
def test_export_writes_what_partition_partitions(run, tmp_path, format, suffix) -> None:
    path = tmp_path / f"lenet{suffix}"
    assert run("export", "lenet5", "--costs", "flops", "--format", format, "-o", path).code == 0
    summary = json.loads(run("partition", "lenet5", "--k", 2, *KAHYPAR, "--json", "--out", tmp_path).out)
    written = read_hypergraph(path)
    assert (written.num_vertices, written.num_nets, written.num_pins) == tuple(
        summary[name] for name in ("num_vertices", "num_nets", "num_pins")
    )
    assert written == read_hypergraph(summary["hypergraph"])


def test_profile_prints_a_table_and_writes_a_file_that_partition_takes(run, tmp_path) -> None:
    path = tmp_path / "profile.json"
    ran = run("profile", "lenet5", "--batch", 4, "-o", path)
    assert ran.code == 0, ran.err
    assert all(word in ran.out for word in ("features.0", "forward", "backward", "update", "trailing"))
    options = ("--k", 2, "--profile", path, "--json", "--out", tmp_path)
    assert json.loads(run("partition", "lenet5", "--batch", 4, *options).out)["batch"] == 4
    wrong = run("partition", "lenet5", "--batch", 8, *options)
    assert wrong.code == 2
    assert "a batch of 4, not of 8" in wrong.err


@pytest.mark.parametrize(("costs", "other"), [("flops", "measured"), ("measured", "flops")])
def test_a_plan_has_the_costs_of_the_profile_it_was_given(run, tmp_path, costs, other) -> None:
    path = tmp_path / "profile.json"
    assert run("profile", "lenet5", "--batch", 4, "--costs", costs, "-o", path).code == 0
    options = ("--k", 2, "--batch", 4, "--profile", path, "--partitioner", "incremental", "--json", "--out", tmp_path)
    assert json.loads(run("partition", "lenet5", *options).out)["costs"] == costs
    assert json.loads(run("partition", "lenet5", "--costs", costs, *options).out)["costs"] == costs
    assert json.loads((tmp_path / "plan.json").read_text())["settings"]["costs"] == costs
    wrong = run("partition", "lenet5", "--costs", other, *options)
    assert wrong.code == 2
    assert f"--costs {other}, but the profile is of {costs} costs; leave out --costs or --profile" in wrong.err


def test_compare_writes_tables_and_a_plot(run, tmp_path) -> None:
    limited = ("--methods", "layer-wise,filter-wise incremental,coarse,auto", "--time-limit", 2)
    ran = run("compare", "lenet5", "--k", "2,4", "--imbalance", "0.1,0.2", "--blocks", 4, *limited, "--out", tmp_path)
    assert ran.code == 0, ran.err
    assert {p.name for p in tmp_path.glob("comparison.*")} == {f"comparison.{s}" for s in ("txt", "md", "csv", "png")}
    lines = (tmp_path / "comparison.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * (2 + 2 * 2), "two methods without a limit, two with two limits each, for two k"
    assert "hyperplace compare lenet5 --k 2,4" in (tmp_path / "comparison.md").read_text()


def test_compare_of_several_models_is_one_table_written_row_by_row(run, tmp_path, monkeypatch) -> None:
    options = ("--k", "2,3", "--methods", "layer-wise,filter-wise incremental", "--blocks", 4, "--row-blocks", 4)
    ran = run("compare", "lenet5,blocksnet", *options, "--out", tmp_path)
    assert ran.code == 0, ran.err
    assert {path.name for path in tmp_path.glob("overview.*")} == {"overview.txt", "overview.md", "overview.csv"}
    assert len((tmp_path / "overview.csv").read_text().splitlines()) == 1 + 2 * 2 * 2
    assert "row blocks 4" in ran.out

    found = comparing.compare_row

    def killed(method, graph, costs, settings, *arguments, **options):
        if settings.model == "alexnet":
            raise KeyboardInterrupt
        return found(method, graph, costs, settings, *arguments, **options)

    monkeypatch.setattr(comparing, "compare_row", killed)
    ran = run("compare", "zoo", *options[:3], "layer-wise", "--out", tmp_path / "zoo")
    assert (ran.code, ran.err.splitlines()[-1]) == (
        130,
        f"interrupted; the 4 rows found before that are in {tmp_path / 'zoo'}/",
    )
    lines = (tmp_path / "zoo/overview.csv").read_text().splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == ["lenet5", "lenet5", "smallcnn", "smallcnn"], "nothing is lost"
    assert len((tmp_path / "zoo/overview.md").read_text().split("\n| ")) == 2 + 1 + 4
    wrong = run("compare", "lenet5,blocksnet", "--input", "1x32x32", "--out", tmp_path)
    assert (wrong.code, "--input is for one model" in wrong.err) == (2, True)


@pytest.mark.parametrize(("fault", "code"), [(KeyboardInterrupt(), 130), (ModelError("odd"), 1)])
@pytest.mark.parametrize("num_rows", [0, 1])
def test_a_comparison_that_ends_early_says_what_is_written(run, tmp_path, monkeypatch, fault, code, num_rows) -> None:
    found, rows = comparing.compare_row, []

    def failing(*arguments, **options):
        if len(rows) == num_rows:
            raise fault
        rows.append(found(*arguments, **options))
        return rows[-1]

    monkeypatch.setattr(comparing, "compare_row", failing)
    folder = tmp_path / "out"
    ran = run("compare", "lenet5", "--methods", "layer-wise", "--k", "2,4", "--blocks", 4, "--out", folder)
    assert ran.code == code
    if num_rows:
        assert f"the row found before that is in {folder}/" in ran.err
        assert ("interrupted" in ran.err) == (code == 130)
        assert {path.name for path in folder.iterdir()} == {"comparison.txt", "comparison.md", "comparison.csv"}
        assert len((folder / "comparison.csv").read_text().splitlines()) == 2
        assert "comparison.png" not in (folder / "comparison.md").read_text(), "there is no such picture yet"
    else:
        assert "rows" not in ran.err
        assert not folder.exists()


def test_models_lists_the_zoo(run) -> None:
    ran = run("models")
    assert ran.code == 0
    for name in ("lenet5", "vgg16_bn", "resnet101", "googlenet", "mobilenet_v2"):
        assert name in ran.out
    assert {m["name"] for m in json.loads(run("models", "--json").out)} >= {"vgg16", "alexnet"}
