import pytest
from file_examples import hypergraph, hypergraphs, replace_line
from hypothesis import given

from hyperplace.errors import FileError
from hyperplace.files.hypergraph import hmetis_text, parse_hmetis

SAMPLE = """\
3 4 11
10 1 2
20 2 3 4
30 4
5
6
7
8
"""


def sample():
    return hypergraph([[0, 1], [1, 2, 3], [3]], [5, 6, 7, 8], [10, 20, 30])


def parse_error(text):
    with pytest.raises(FileError) as caught:
        parse_hmetis(text, "vgg.hgr")
    return str(caught.value)


def test_sample_to_the_character():
    assert hmetis_text(sample()) == SAMPLE
    assert parse_hmetis(SAMPLE, "sample") == sample()


@given(hypergraphs())
def test_reading_undoes_writing(h):
    assert parse_hmetis(hmetis_text(h), "h") == h


def test_units_are_comments():
    h = hypergraph([[0], [0]], [1], [2**31, 2**20], work_unit="us")
    text = hmetis_text(h)
    assert text == (
        "% net costs are in units of 1048576 bytes\n% vertex weights are in units of us\n2 1 11\n2048 1\n1 1\n1\n"
    )
    assert parse_hmetis(text, "h") == h


@pytest.mark.parametrize(
    ("text", "weights", "costs"),
    [
        ("2 3\n1 2\n2 3\n", [1, 1, 1], [1, 1]),
        ("2 3 0\n1 2\n2 3\n", [1, 1, 1], [1, 1]),
        ("2 3 1\n5 1 2\n6 2 3\n", [1, 1, 1], [5, 6]),
        ("2 3 10\n1 2\n2 3\n7\n8\n9\n", [7, 8, 9], [1, 1]),
        ("% c\n2 3 11\n5 1 2\n% c\n6 2 3\n7\n% c\n8\n9\n", [7, 8, 9], [5, 6]),
    ],
)
def test_every_fmt(text, weights, costs):
    assert parse_hmetis(text, "h") == hypergraph([[0, 1], [1, 2]], weights, costs)


@pytest.mark.parametrize(
    ("line", "new", "message"),
    [
        (1, "3", "1: the header has 1 numbers; it must be `nets vertices [fmt]`"),
        (1, "3 4 11 1", "1: the header has 4 numbers"),
        (1, "3 4 2", "1: the fmt in the header is 2; it must be 0, 1, 10 or 11"),
        (1, "three 4 11", "1: 'three' is not a whole number"),
        (1, "-3 4 11", "1: the header holds the negative number -3"),
        (1, "3 0 11", "1: the header promises 0 vertices"),
        (1, "3 1000000000000", "1: the header promises 1000000000000 vertices in a file of"),
        (1, "1000000000000 4 11", "1: the header promises 1000000000000 nets in a file of"),
        (1, "9 4 11", "8: the file ends after 7 of 9 nets"),
        (1, "3 4 1", "5: 4 numbers follow the nets, but the header promises 0 vertex weights"),
        (2, "10 0 2", "2: pin 0 is outside 1..4"),
        (3, "20 2 3 5", "3: pin 5 is outside 1..4"),
        (3, "-20 2 3 4", "3: the cost of net 1 is negative: -20"),
        (4, "30", "4: net 2 has no pins"),
        (6, "-6", "6: the weight of vertex 1 is negative: -6"),
        (6, "six", "6: 'six' is not a whole number"),
        (8, None, "7: the file ends after 3 of 4 vertex weights"),
        (8, "8\n9", "9: 5 numbers follow the nets, but the header promises 4"),
    ],
)
def test_errors_name_the_line(line, new, message):
    assert parse_error(replace_line(SAMPLE, line, new)).startswith("vgg.hgr:" + message)


def test_a_blank_line_is_a_net_without_pins():
    assert parse_error("2 3\n\n1 2\n") == "vgg.hgr:2: net 0 has no pins"


def test_an_empty_file():
    assert parse_error("") == "vgg.hgr: the file is empty; its first line must be `nets vertices [fmt]`"
