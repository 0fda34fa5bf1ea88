import csv
import io
from dataclasses import replace

from report_examples import check_golden

from hyperplace.report import bench_document, csv_text, markdown_text, plain_text
from hyperplace.report.bench import bench_table, speed_table
from hyperplace.values.bench import Bench, BenchRow

MIB = 2**20


def bench():
    """Return two plain loops, a plan that is worth it, and one that could not be made."""
    rows = (
        BenchRow("plain loop, 1 thread", "plain", 1, 1, 16, (100.0, 104.0, 98.0)),
        BenchRow("plain loop, 2 threads", "plain", 1, 2, 16, (160.0, 161.0, 159.0)),
        BenchRow("compiled, k=1", "async", 1, 1, 16, (97.0, 97.0, 97.0), 0.01, 0, 0),
        BenchRow("coarse auto", "sync", 2, 1, 16, (140.0, 150.0, 145.0), 0.25, 3 * MIB, 3 * MIB),
        BenchRow("coarse auto", "async", 2, 1, 16, (180.0, 175.0, 181.0), 0.05, 3 * MIB, 3 * MIB),
        BenchRow("fine auto", "sync", 2, 1, 16, note="imbalance 0.02 cannot be met at k=2"),
        BenchRow("fine auto", "async", 2, 1, 16, note="imbalance 0.02 cannot be met at k=2"),
    )
    return Bench("vgg16", ((3, 64, 64),), 2, 8, 0.02, "measured", "AMD EPYC, 1 thread, cpu, torch 2", 2, rows)


def test_the_table_by_hand():
    table = bench_table(bench(), 16)
    assert list(table["images/s"])[:5] == [100, 160, 97, 145, 180]
    assert list(table["x 1 thread"])[:5] == [1, 1.6, 0.97, 1.45, 1.8]
    assert list(table["x k threads"])[3:5] == [145 / 160, 180 / 160]
    assert table["spread %"][0] == 6
    assert table["moved MiB"][4] == 3
    assert all(column.values[5:] == (None, None) for column in table.columns[2:])


def test_the_bench_as_promised_text():
    document = bench_document(bench())
    check_golden("bench.txt", plain_text(document, 120))
    check_golden("bench-80.txt", plain_text(document, 80))
    check_golden("bench.md", markdown_text(document, "hyperplace bench vgg16 --k 2 --input 3x64x64"))


def test_csv_holds_every_repeat():
    lines = list(csv.DictReader(io.StringIO(csv_text(bench_document(bench())))))
    assert [float(speed) for speed in lines[0]["images_per_s"].split()] == [100.0, 104.0, 98.0]
    assert float(lines[4]["speed_up_k_threads"]) == 180 / 160
    assert (lines[5]["median"], lines[5]["note"]) == ("", "imbalance 0.02 cannot be met at k=2")
    assert {line["machine"] for line in lines} == {"AMD EPYC, 1 thread, cpu, torch 2"}


def test_what_the_schedule_predicts_stands_beside_what_a_mini_batch_took():
    rows = tuple(replace(row, predicted_us=85e3) if row.num_parts == 2 else row for row in bench().rows)
    predicted = replace(bench(), rows=rows)
    table = bench_table(predicted, 16)
    assert table["mini-batch ms"][:2] == (160.0, 100.0)
    assert table["predicted ms"] == (None, None, None, 85, 85, 85, 85)
    assert "if messages took no time" in plain_text(bench_document(predicted), 120)
    assert "predicted ms" not in bench_table(bench(), 16).headings


def test_fewer_cores_than_parts_are_said():
    assert "4 parts shared 2 cores" in plain_text(bench_document(replace(bench(), k=4)), 120)


def hosts():
    """Return two batch sizes on hosts: a plan of ours, which auto returns, and torch's, which fits only one of them."""
    rows = (
        BenchRow("plain loop, 1 thread", "plain", 1, 1, 6, (10.0, 12.0, 11.0), idle=0.01),
        BenchRow("hybrid auto", "async", 2, 1, 6, (22.0,), 0.1, 3 * MIB, 3 * MIB, None, 0.08, 3.03 * MIB, is_auto=True),
        BenchRow("torch GPipe m=4", "sync", 2, 1, 6, is_outside=True, note="6 rows do not split evenly"),
        BenchRow("plain loop, 1 thread", "plain", 1, 1, 16, (12.0,), idle=0.01),
        BenchRow("hybrid auto", "async", 2, 1, 16, (18.0,), 0.2, 8 * MIB, 8 * MIB, None, 0.16, 8.1 * MIB, is_auto=True),
        BenchRow("torch GPipe m=4", "sync", 2, 1, 16, (9.0,), None, None, None, None, 0.4, 8 * MIB, is_outside=True),
    )
    network = "2 emulated hosts, 1 Gbit/s each way, a core each"
    return Bench("vgg16", ((3, 64, 64),), 2, 8, 0.02, "measured", "AMD EPYC, 1 thread, cpu, torch 2", 2, rows, network)


def test_hosts_by_batch_size():
    table = speed_table(hosts())
    assert table["method"] == ("plain loop, 1 thread", "hybrid auto *", "torch GPipe m=4")
    assert (table["batch 6"], table["batch 16"]) == ((11, 22, None), (12, 18, 9))
    assert bench_table(hosts(), 6)["x 1 thread"] == (1, 2, None), "against the plain loop of the same size"
    assert bench_table(hosts(), 16)["x 1 thread"] == (1, 1.5, 0.75)
    assert bench_table(hosts(), 16)["wire MiB"] == (None, 8.1, 8)
    assert "x k threads" not in table.headings


def test_the_bench_of_hosts_as_promised_text():
    document = bench_document(hosts())
    check_golden("bench-hosts.txt", plain_text(document, 120))
    check_golden("bench-hosts.md", markdown_text(document, "hyperplace bench vgg16 --hosts 2 --rate 1gbit"))
