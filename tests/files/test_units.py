import pytest
from file_examples import INT32_MAX, hypergraph, hypergraphs
from hypothesis import given

from hyperplace.errors import FileError, PartitionerOverflow
from hyperplace.files.hypergraph import parse_patoh, patoh_text
from hyperplace.values.hypergraph import Labels


@given(hypergraphs())
def test_written_costs_fit_32_bits_and_the_sum_does_unless_the_file_says_so(h):
    lines = patoh_text(h).splitlines()
    rows = [line.split() for line in lines if not line.startswith("%")]
    costs = [int(row[0]) for row in rows[1 : 1 + h.num_nets]]
    assert max(costs, default=0) <= INT32_MAX
    assert (sum(costs) > INT32_MAX) == ("their sum exceeds 32 bits" in lines[0])


def test_a_sum_beyond_32_bits_is_written_in_a_larger_unit():
    h = hypergraph([[0], [0]], [1], [4096 * 2**20, 4096 * 3], work_unit="196608 flops")
    assert patoh_text(h) == (
        "% net costs are in units of 4096 bytes\n"
        "% vertex weights are in units of 196608 flops\n"
        "0 1 2 2 3\n1048576 0\n3 0\n1\n"
    )


def test_a_sum_of_exactly_32_bits_stays_in_bytes():
    assert patoh_text(hypergraph([[0], [0]], [1], [INT32_MAX - 2, 2])).startswith("0 1 2 2 3\n")
    assert patoh_text(hypergraph([[0], [0]], [1], [INT32_MAX - 1, 2])).startswith("% net costs are in units of 2 b")


def test_a_sum_beyond_32_bits_in_any_unit_is_said_and_read_back():
    h = hypergraph([[0], [0]], [1], [2 * INT32_MAX, 2 * INT32_MAX - 2])
    text = patoh_text(h)
    assert text.startswith("% net costs are in units of 2 bytes; their sum exceeds 32 bits\n0 1 2 2 3\n2147483647 0")
    assert parse_patoh(text, "h") == h


def test_a_single_cost_beyond_32_bits_names_its_layer():
    labels = Labels(("a", "features.2"), [0], [0], [1], [-1], [-1], [0], [0, 1], [0, 0])
    for given_labels, name in ((None, "net 1 "), (labels, "net 1 of layer features.2 ")):
        h = hypergraph([[0], [0]], [1], [3, 2**31], labels=given_labels)
        with pytest.raises(PartitionerOverflow, match=name + r"costs 2,147,483,648 bytes, .* lower --batch"):
            patoh_text(h)


def test_costs_beyond_64_bits_in_sum_are_exact():
    h = hypergraph([[0], [0], [0]], [1], [2**62, 2**62, 2**62])
    assert parse_patoh(patoh_text(h), "h") == h


def test_a_line_break_in_the_work_unit_stays_in_its_comment():
    h = hypergraph([[0]], [1], work_unit="2\nflops")
    assert parse_patoh(patoh_text(h), "h").work_unit == "2 flops"


@pytest.mark.parametrize("unit", [0, 2**61, 10**30])
def test_an_impossible_unit_of_cost(unit):
    text = f"% hello\n% net costs are in units of {unit} bytes\n" + "0 1 1 1 3\n5 0\n1\n"
    with pytest.raises(FileError, match=f"^vgg.patoh:2: a unit of {unit} bytes makes net costs"):
        parse_patoh(text, "vgg.patoh")
