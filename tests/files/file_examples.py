"""The hypergraphs the file tests write and read: the thesis's sample, and any small one."""

from hypothesis import strategies as st

from hyperplace.values.hypergraph import Hypergraph

INT32_MAX = 2**31 - 1


def hypergraph(nets, weights, costs=None, **rest):
    """Build a hypergraph from a list of pins per net."""
    offsets = [0]
    for net in nets:
        offsets.append(offsets[-1] + len(net))
    pins = [pin for net in nets for pin in net]
    return Hypergraph(offsets, pins, weights, [1] * len(nets) if costs is None else costs, **rest)


def thesis_sample():
    """Return the sample network of the thesis: one input, then layers of 4, 3, 2, 1, 1 and 1 filters."""
    inner = [[v, 5, 6, 7] for v in (1, 2, 3, 4)] + [[v, 8, 9] for v in (5, 6, 7)]
    nets = [[0, 1, 2, 3, 4], *inner, [8, 10], [9, 10], [10, 11], [11, 12]]
    costs = [1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6]
    return hypergraph(nets, [1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7], costs)


@st.composite
def hypergraphs(draw):
    """Draw a valid hypergraph whose costs can be written: each is a multiple, in 32 bits, of one unit."""
    num_vertices = draw(st.integers(1, 8))
    net = st.lists(st.integers(0, num_vertices - 1), min_size=1, max_size=6)
    nets = draw(st.lists(net, max_size=6))
    unit = draw(st.sampled_from([1, 3, 4096, 2**32]))
    costs = [unit * draw(st.integers(0, INT32_MAX)) for _ in nets]
    weights = [draw(st.integers(0, INT32_MAX)) for _ in range(num_vertices)]
    return hypergraph(nets, weights, costs, work_unit=draw(st.sampled_from(["", "196608 flops", "2.5 µs"])))


def replace_line(text, number, line):
    """Return the text with its line `number`, counted from 1, replaced; None deletes it."""
    lines = text.splitlines()
    lines[number - 1 : number] = [] if line is None else [line]
    return "\n".join(lines) + "\n"
