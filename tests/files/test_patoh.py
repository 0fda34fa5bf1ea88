from pathlib import Path

import pytest
from file_examples import hypergraph, hypergraphs, replace_line, thesis_sample
from hypothesis import given

from hyperplace.errors import FileError
from hyperplace.files.hypergraph import parse_patoh, patoh_text
from hyperplace.values.hypergraph import Labels

SAMPLE = (Path(__file__).parents[1] / "figure_3_5.patoh").read_text()


def parse_error(text):
    with pytest.raises(FileError) as caught:
        parse_patoh(text, "vgg.patoh")
    return str(caught.value)


def test_sample_of_the_thesis_to_the_character():
    assert patoh_text(thesis_sample()) == SAMPLE
    assert parse_patoh(SAMPLE, "sample") == thesis_sample()


@given(hypergraphs())
def test_reading_undoes_writing(h):
    assert parse_patoh(patoh_text(h), "h") == h


def test_labels_are_not_written():
    labels = Labels(("a",), [0], [0], [1], [-1], [-1], [0], [0], [0])
    plain, labelled = hypergraph([[0]], [1]), hypergraph([[0]], [1], labels=labels)
    assert patoh_text(labelled) == patoh_text(plain)


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        (0, "1 3 2 4 0\n1 2\n2 3\n"),
        (1, "1 3 2 4 1\n1 2\n2 3\n7 8 9\n"),
        (2, "1 3 2 4 2\n5 1 2\n6 2 3\n"),
        (3, "1 3 2 4 3\n5 1 2\n6 2 3\n7 8 9\n"),
    ],
)
def test_every_flag_with_base_1(flag, text):
    weights = [7, 8, 9] if flag in (1, 3) else [1, 1, 1]
    costs = [5, 6] if flag in (2, 3) else [1, 1]
    assert parse_patoh(text, "h") == hypergraph([[0, 1], [1, 2]], weights, costs)


@pytest.mark.parametrize(
    "text",
    [
        "% made by hand\n\n  % twice\n0 3 1 2 3\n% between\n5 0 2\n7\n\n% among\n8 9\n\n% end\n\n",
        "0 3 1 2 3 1\n5 0 2\n7 8 9",
        "0\t3 1 2 3\r\n 5  0 2 \r\n7 8 9\r\n",
    ],
    ids=["comments, blank lines, wrapped weights", "sixth number, no last newline", "tabs and crlf"],
)
def test_other_layouts(text):
    assert parse_patoh(text, "h") == hypergraph([[0, 2]], [7, 8, 9], [5])


def test_no_nets_and_lonely_vertices():
    assert parse_patoh("0 3 0 0 0\n", "h") == hypergraph([], [1, 1, 1])
    assert parse_patoh("0 500 0 0 2\n", "h").num_vertices == 500


@pytest.mark.parametrize(
    ("line", "new", "message"),
    [
        (1, "0 13 12 38", "1: the header has 4 numbers; it must be `base cells nets pins flag [const"),
        (1, "0 13 12 38 3 1 1", "1: the header has 7 numbers; it must be `base cells nets pins"),
        (1, "0 13 x 38 3", "1: 'x' is not a whole number"),
        (1, "0 13 12 -38 3", "1: the header holds the negative number -38"),
        (1, "2 13 12 38 3", "1: the base in the header is 2"),
        (1, "0 13 12 38 4", "1: the flag in the header is 4"),
        (1, "0 13 12 38 3 2", "1: cells with 2 weights each; only one"),
        (1, "0 0 12 38 3", "1: the header promises 0 vertices"),
        (1, "0 1000000000000 12 38 3", "1: the header promises 1000000000000 vertices in a file of 156 ch"),
        (1, "0 1000000000000 12 38 2", "1: the header promises 1000000000000 vertices in a file"),
        (1, "0 13 1000000000000 38 3", "1: the header promises 1000000000000 nets in a file"),
        (1, "0 13 12 1000000000000 3", "1: the header promises 1000000000000 pins in a file"),
        (1, "0 13 12 37 3", "1: the header promises 37 pins, but the nets have 38"),
        (1, "0 13 20 38 3", "14: the file ends after 13 of 20 nets"),
        (1, "0 13 12 38 2", "14: 13 numbers follow the nets, but the header promises 0 vertex weights"),
        (3, None, "1: the header promises 38 pins, but the nets have 46"),
        (7, "3 5 8 99", "7: pin 99 is outside 0..12"),
        (7, "3 5 8 13", "7: pin 13 is outside 0..12"),
        (7, "3 -5 8 9", "7: pin -5 is outside 0..12"),
        (7, "-3 5 8 9", "7: the cost of net 5 is negative: -3"),
        (7, "3", "7: net 5 has no pins"),
        (7, "", "7: net 5 has no pins"),
        (7, "3 5 8 9.5", "7: '9.5' is not a whole number"),
        (7, "3 5 8 1_0", "7: '1_0' is not a whole number"),
        (7, "3 5 8 ٣", "7: '٣' is not a whole number"),
        (7, "3 5\xa08 9", "7: '3 5\\xa08 9' is not a whole number"),
        (7, "3 5 8 99999999999999999999", "7: '99999999999999999999' is not a whole number of at most 18"),
        (7, "3 5 8 " + "9" * 5000, "7: '" + "9" * 40 + "' is not"),
        (14, "1 2 2 2 2 3 3 3 4 4 5 6", "14: the file ends after 12 of 13 vertex weights"),
        (14, "1 2 2 2 2 3 3 3 4 4 5 6 7 8", "14: 14 numbers follow the nets, but the header promises 13"),
        (14, "1 2 2 2 2 3 3 3 4 4 5 6 7\n\n8", "16: 14 numbers follow the nets"),
        (14, "1 2 2 2 2 3 3\n% note\n3 -4 4 5 6 7", "16: the weight of vertex 8 is negative: -4"),
        (14, "1 2 2 2 2 3 3 3 4 4 5 6\nseven", "15: 'seven' is not a whole number"),
        (14, None, "13: the file ends after 0 of 13 vertex weights"),
    ],
)
def test_errors_name_the_line(line, new, message):
    assert parse_error(replace_line(SAMPLE, line, new)).startswith("vgg.patoh:" + message)


def test_comments_count_as_lines():
    text = "% first\n\n" + replace_line(SAMPLE, 7, "% here\n3 5 8 99")
    assert parse_error(text) == "vgg.patoh:10: pin 99 is outside 0..12"


def test_base_1_pins_are_named_as_written():
    assert parse_error("1 3 2 4 0\n1 2\n0 3\n") == "vgg.patoh:3: pin 0 is outside 1..3"


def test_a_line_after_an_unweighted_file_is_an_error():
    assert parse_error("0 3 1 2 0\n0 1\n\n1 2\n").startswith("vgg.patoh:4: 2 numbers follow the nets")


@pytest.mark.parametrize("num_lines", range(1, 13))
def test_a_file_cut_between_lines_says_how_far_it_got(num_lines):
    cut = "\n".join(SAMPLE.splitlines()[:num_lines])
    assert parse_error(cut) == f"vgg.patoh:{num_lines}: the file ends after {num_lines - 1} of 12 nets"


@pytest.mark.parametrize("text", ["", "\n\n", "% only this\n"])
def test_an_empty_file(text):
    assert parse_error(text).startswith("vgg.patoh: the file is empty; its first line must be `base cells")
