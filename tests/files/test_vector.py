import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperplace.errors import FileError
from hyperplace.files.vector import parse_vector, vector_text
from hyperplace.values.partition import Partition


def parse_error(text, num_vertices=3, num_parts=None):
    with pytest.raises(FileError) as caught:
        parse_vector(text, "parts.txt", num_vertices, num_parts)
    return str(caught.value)


def test_one_part_per_line():
    assert vector_text(Partition([0, 12, 3], 16)) == "0\n12\n3\n"


@given(st.lists(st.integers(0, 9), min_size=1))
def test_reading_undoes_writing(part_of):
    partition = Partition(part_of, 10)
    assert parse_vector(vector_text(partition), "parts", len(part_of), 10) == partition


@pytest.mark.parametrize("text", ["2 0 1", "2 0 1\n", "2\n0\n1", "2\n0\n1\n\n \n", "2\r\n0\r\n1\r\n", "2 0\n1\n"])
def test_other_layouts(text):
    assert parse_vector(text, "parts", 3, 3) == Partition([2, 0, 1], 3)


def test_the_largest_part_counts_the_parts():
    assert parse_vector("0 4 1", "parts", 3).num_parts == 5
    assert parse_vector("0 4 1", "parts", 3, 8).num_parts == 8


@pytest.mark.parametrize(("text", "length"), [("0\n1\n", 2), ("0 1 0 1", 4), ("", 0)])
def test_wrong_length(text, length):
    assert parse_error(text) == (
        f"parts.txt: wrong length: {length} part numbers for a hypergraph of 3 vertices; "
        "give the vector made for this hypergraph (same model, --grain and --blocks)"
    )


@pytest.mark.parametrize(
    ("text", "num_parts", "message"),
    [
        ("0\none\n1\n", None, "parts.txt:2: 'one' is not a whole number of at most 18 digits"),
        ("0\n1.0\n1\n", 2, "parts.txt:2: '1.0' is not a whole number of at most 18 digits"),
        ("0\n1\n-1\n", None, "parts.txt:3: part -1 is outside 0..1048575"),
        ("0\n1\n-1\n", 2, "parts.txt:3: part -1 is outside 0..1"),
        ("0\n\n2\n1\n", 2, "parts.txt:3: part 2 is outside 0..1"),
        ("0 1 2\n", 2, "parts.txt:1: part 2 is outside 0..1"),
        ("0\n1\n999999999999999\n", None, "parts.txt:3: part 999999999999999 is outside 0..1048575"),
    ],
)
def test_wrong_part_numbers(text, num_parts, message):
    assert parse_error(text, num_parts=num_parts) == message
