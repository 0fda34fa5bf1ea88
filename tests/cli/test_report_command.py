"""`hyperplace report`, and `--html` of the other commands: what they write, assume and refuse."""

import re

import pytest

TRAIN = ("--data", "synthetic", "--images", 32, "--batch", 16, "--partitioner", "incremental", "--threads", 1)
MADE = {
    "plan.html": ("partition", "lenet5", "--k", 2, "--grain", "coarse", "--partitioner", "layerwise"),
    "comparison.html": ("compare", "lenet5", "--k", "2", "--methods", "layer-wise,coarse"),
    "simulation.html": ("simulate", "lenet5", "--cluster", "2x1@1gbit", "--schedule", "sync", "--time-limit", 2),
    "history.html": ("train", "lenet5", "--k", 2, "--epochs", 1, *TRAIN),
}


@pytest.mark.parametrize("name", MADE)
def test_html_writes_a_page_beside_the_other_files(run, tmp_path, name):
    assert run(*MADE[name], "--out", tmp_path / "plain").code == 0
    assert not list((tmp_path / "plain").glob("*.html"))
    ran = run(*MADE[name], "--html", "--out", tmp_path / "page")
    assert ran.code == 0
    assert name in ran.err
    page = (tmp_path / "page" / name).read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in page
    assert "<table" in page
    assert ('id="network"' in page) == (name == "plan.html")


def test_a_page_without_a_folder_is_refused(run):
    ran = run("simulate", "lenet5", "--cluster", "2x1@1gbit", "--html")
    assert ran.code == 2
    assert "--html writes a page into the folder of --out" in ran.err


def test_report_says_what_it_assumes_and_refuses_what_does_not_fit(run, tmp_path):
    out, page = tmp_path / "made", tmp_path / "page.html"
    assert run(*MADE["plan.html"], "--out", out).code == 0
    plan = out / "plan.json"
    assert run("report", plan, "-o", page).code == 0
    assert "no --cluster is given: times are for 2 hosts" in page.read_text()
    assert "100 GFLOP a second are assumed" in page.read_text()
    assert 'name="in_flight"' in page.read_text()
    assert run("report", plan, "-o", page, "--schedule", "sync", "--micro-batches", 4).code == 0
    assert "predicted with the sync schedule, 4 micro-batches" in page.read_text()
    assert 'name="micro_batches" min="1" max="32" step="1" value="4"' in page.read_text()
    for wrong, words in (
        (("--schedule", "often"), "schedule 'often' is unknown"),
        (("--micro-batches", "2"), "--micro-batches is for --schedule sync"),
        (("--schedule", "sync", "--micro-batches", "0"), "--micro-batches 0 is less than 1"),
        (("--cluster", "1x1@1gbit"), "2 parts need as many devices"),
        (("--in-flight", "0"), "--in-flight 0 is less than 1"),
        (("--timeline", tmp_path / "none.json"), "none.json"),
        (("--against", tmp_path / "none.json"), "none.json"),
    ):
        failed = run("report", plan, "-o", tmp_path / "wrong.html", *wrong)
        assert failed.code in (1, 2)
        assert re.fullmatch(rf"error: .*{re.escape(words)}.*\n", failed.err)
        assert not (tmp_path / "wrong.html").exists()
    plan.write_text(plan.read_text().replace('"model": "lenet5"', '"model": "my/net"'))
    assert run("report", plan, "-o", page).code == 0
    assert "no times: " in page.read_text()
    assert 'id="what-if"' not in page.read_text()
