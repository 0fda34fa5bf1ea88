"""A bench's medians, spreads and speed-ups, counted by hand; a value that exists is valid."""

from dataclasses import replace

import pytest

from hyperplace.errors import HyperplaceError
from hyperplace.values.bench import TOGETHER, Bench, BenchRow, Paces

ROWS = (
    BenchRow("plain loop, 1 thread", "plain", 1, 1, 16, (10.0, 12.0, 11.0)),
    BenchRow("plain loop, 2 threads", "plain", 1, 2, 16, (20.0, 22.0, 24.0)),
    BenchRow("compiled, k=1", "async", 1, 1, 16, (99.0,)),
    BenchRow("coarse auto", "sync", 2, 1, 16, (16.5,)),
    BenchRow("coarse auto", "async", 2, 1, 16, (33.0,)),
    BenchRow("fine auto", "async", 2, 1, 16, note="cannot be met"),
)
BENCH = Bench("net", ((3, 8, 8),), 2, 8, 0.02, "measured", "a machine", 2, ROWS)


def test_figures() -> None:
    assert (ROWS[0].median, ROWS[0].spread) == (11.0, pytest.approx(2 / 11))
    assert BENCH.best is ROWS[4], "what is not split does not count"
    assert (BENCH.speed_up(ROWS[4]), BENCH.threads_speed_up(ROWS[4])) == (3.0, 1.5)
    assert repr(BENCH) == "Bench(net, k=2, 6 methods, best coarse auto async 3.00x)"


def test_without_a_plan_or_threads() -> None:
    alone = replace(BENCH, rows=ROWS[:1])
    assert alone.best is None
    assert not alone.has_threads
    assert alone.threads_speed_up(ROWS[0]) == 1.0
    assert repr(alone) == "Bench(net, k=2, 1 methods)"


def test_paces_are_those_of_the_plain_loop() -> None:
    assert BENCH.paces(16) == Paces(), "nobody knows what its layers take"
    first = replace(ROWS[0], predicted_us=1e6)  # 16 images took 16/11 s
    assert replace(BENCH, rows=(first, *ROWS[1:])).paces(16) == Paces(16 / 11, (16 / 11,))
    all_hosts = BenchRow(TOGETHER, "plain", 2, 1, 16, (10.0,), predicted_us=1e6)
    paces = replace(BENCH, rows=(first, all_hosts, *ROWS[1:])).paces(16)
    assert paces == Paces(16 / 11, (1.6,))
    assert (paces.at(0), paces.at(1)) == ((paces.alone,), pytest.approx(paces.together))


def test_every_host_has_a_pace_of_its_own() -> None:
    """A share of a core that was faster than probed made predictions too fast for the whole core beside it."""
    first = replace(ROWS[0], predicted_us=1e6)
    all_hosts = BenchRow(TOGETHER, "plain", 2, 1, 16, (10.0,), predicted_us=2e6, paces=(1.5, 0.8))
    paces = replace(BENCH, rows=(first, all_hosts, *ROWS[1:])).paces(16)
    assert paces == Paces(16 / 11, (1.5, 0.8))
    assert paces.at(1) == pytest.approx((1.5, 0.8))
    assert paces.at(0) == pytest.approx((16 / 11, 16 / 11 * 0.8 / 1.5))


def test_every_batch_size_has_a_plain_loop_of_its_own() -> None:
    slower = [replace(row, batch=8, images_per_s=tuple(speed / 2 for speed in row.images_per_s)) for row in ROWS]
    both = replace(BENCH, rows=(*ROWS, *slower))
    assert both.batches == (16, 8)
    assert both.rows_of(8) == tuple(slower)
    assert both.speed_up(slower[4]) == both.speed_up(ROWS[4]) == 3.0
    outside = replace(ROWS[4], images_per_s=(99.0,), is_outside=True)
    assert replace(both, rows=(*both.rows, outside)).best is ROWS[4], "not a plan of ours"
    with pytest.raises(HyperplaceError, match="first row of batch 8"):
        replace(both, rows=(*ROWS, *slower[1:]))


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ((), "it has no rows"),
        (ROWS[1:], "not the plain loop on one thread"),
        ((*ROWS, BenchRow("empty", "sync", 2, 1, 16)), "empty needs either figures or a note"),
        ((*ROWS, BenchRow("still", "sync", 2, 1, 16, (1.0, 0.0))), "still has a speed that is none"),
        ((*ROWS, BenchRow("odd", "sync", 2, 1, 16, (float("nan"),))), "odd has a speed that is none"),
    ],
)
def test_what_is_not_a_bench(rows, fault) -> None:
    with pytest.raises(HyperplaceError, match=fault):
        replace(BENCH, rows=rows)
