from dataclasses import replace

import pytest
from report_examples import check_golden, png

from hyperplace.report import plain_text, timeline_document
from hyperplace.report.timeline import COLORS, MOST_BATCHES, timeline_figure, timeline_table
from hyperplace.values.timeline import Event, Timeline


def pipeline(num_batches, num_parts=2, num_segments=2):
    """Return mini-batches one after the other: forward down the parts, backward up again, two thirds of it waiting."""
    events, now = [], 5e5
    for batch in range(num_batches):
        down = [("forward", part) for part in range(num_parts)]
        for kind, part in [*down, ("loss", num_parts - 1), *(("backward", part) for _, part in reversed(down))]:
            for segment in range(num_segments):
                events.append(Event(part, kind, f"$s_{segment}", batch, now, now + 1000))
                now += 1000
        events += [Event(part, "update", "", batch, now, now + 500) for part in range(num_parts)]
        now += 500
    events.append(Event(1, "wait", "", 0, 5e5, 5e5 + 1000 * num_segments))
    return Timeline(num_parts, tuple(events))


def test_every_row_is_its_parts_times_and_the_last_row_their_sum():
    timeline = pipeline(3)
    table = timeline_table(timeline)
    assert list(table["part"]) == ["0", "1", "all"]
    assert list(table["busy ms"]) == pytest.approx([3 * 4.5, 3 * 6.5, 33])
    assert list(table["waiting ms"]) == pytest.approx([0, 2, 2])
    together = [
        sum(times) for times in zip(*(table[f"{what} ms"] for what in ("busy", "waiting", "idle")), strict=True)
    ]
    assert together == pytest.approx([31.5, 31.5, 63])
    assert list(table["bubble %"]) == pytest.approx([100 * 18 / 31.5, 100 * 12 / 31.5, 100 * 30 / 63])
    assert list(table["mini-batches"]) == [3, 3, 3]


def test_the_timeline_as_promised_text():
    check_golden("timeline.txt", plain_text(timeline_document(pipeline(3)), 80))
    check_golden("timeline-narrow.txt", plain_text(timeline_document(replace(pipeline(3), is_predicted=True)), 44))


def test_nothing_happened():
    text = plain_text(timeline_document(Timeline(2, ())), 80)
    assert "0.0 ms measured; on average 0.00 of 2 parts were busy" in text
    assert png(timeline_figure(Timeline(2, ()))).startswith(b"\x89PNG")


@pytest.mark.parametrize("size", [(1, 2), (3, 3), (2, 40), (50, 2), (14, 5, 100)])
def test_a_timeline_of_any_size_is_drawn(size):
    assert png(timeline_figure(pipeline(*size))).startswith(b"\x89PNG")


def bars(figure):
    """Return (left, right, row, colour) of every bar, times in ms."""
    from matplotlib.colors import to_hex

    return {
        (*(round(x, 6) for x in path.get_extents().intervalx), round(path.get_extents().intervaly.mean()), color)
        for collection in figure.axes[0].collections
        for color in [to_hex(collection.get_facecolor()[0])]
        for path in collection.get_paths()
    }


def test_a_bar_per_event_in_the_row_of_its_part_and_the_colour_of_its_kind():
    drawn = bars(timeline_figure(pipeline(1)))
    assert drawn == {
        *((start, start + 1, 0, COLORS["forward"]) for start in (0, 1)),
        *((start, start + 1, 1, COLORS["forward"]) for start in (2, 3)),
        *((start, start + 1, 1, COLORS["loss"]) for start in (4, 5)),
        *((start, start + 1, 1, COLORS["backward"]) for start in (6, 7)),
        *((start, start + 1, 0, COLORS["backward"]) for start in (8, 9)),
        *((10, 10.5, part, COLORS["update"]) for part in (0, 1)),
        (0, 2, 1, COLORS["wait"]),
    }


def test_a_run_of_segments_has_one_number_and_odd_mini_batches_another_shade():
    figure = timeline_figure(pipeline(2))
    numbers = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(numbers) == ["0"] * 7 + ["1"] * 7
    assert len({color for *_, color in bars(figure)}) == 2 * 4 + 1


def test_a_short_timeline_is_drawn_whole_and_a_long_one_in_its_middle():
    short, long = (timeline_figure(pipeline(n)) for n in (MOST_BATCHES, 100))
    assert short.get_suptitle() == "2 parts, measured, 12 mini-batches: bubble 47.6%"
    assert long.get_suptitle().startswith(
        "2 parts, measured, the middle 84.0 of 1,050.0 ms (100 mini-batches): bubble 47"
    )
    assert short.axes[0].get_xlim() == (0, 126)
    assert long.axes[0].get_xlim() == pytest.approx((525 - 42, 525 + 42))


def test_the_legend_names_what_is_there():
    forward_only = Timeline(1, (Event(0, "forward", "a", 0, 0, 1),))
    (legend,) = timeline_figure(forward_only).legends
    assert [text.get_text() for text in legend.get_texts()][:2] == ["forward", "idle"]
