"""Programs are checked when they are made, and know the bytes of every dtype."""

from dataclasses import replace

import pytest
import torch
from handmade import TWO_LINEARS, ZIGZAG

from hyperplace.errors import UsageError
from hyperplace.values.program import ITEM_BYTES, Copy, Keep, Message, Method, Piece, Program, Receive, Send

ZIG = ZIGZAG.program


def torch_dtypes():
    """Return the types of tensors that models have; others are quantized, or bits for kernels of their own."""
    names = {str(one).removeprefix("torch.") for one in vars(torch).values() if isinstance(one, torch.dtype)}
    small = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
    return {name for name in names - small if not name.startswith(("q", "bits", "float4"))}


@pytest.mark.parametrize("name", sorted(torch_dtypes()))
def test_the_bytes_of_a_dtype_are_torchs(name):
    assert ITEM_BYTES[name] == getattr(torch, name).itemsize


def test_a_message_has_the_shares_of_any_mini_batch():
    message = Message(0, "h", 0, 1, (3, 5), "float64", rows=(1, 4))
    for num_rows in range(1, 20):
        cuts = [planned * num_rows // 6 for planned in (1, 4)]
        assert message.sizes(num_rows, 6) == (cuts[1] - cuts[0], 5)
        assert message.num_bytes(num_rows, 6) == (cuts[1] - cuts[0]) * 5 * 8
    assert replace(message, rows=None).sizes(17, 6) == (3, 5)


def with_segment(part, number, **changes):
    """Return the zigzag with a segment changed."""
    own = ZIG.parts[part].segments
    segments = (*own[:number], replace(own[number], **changes), *own[number + 1 :])
    parts = [*ZIG.parts]
    parts[part] = replace(parts[part], segments=segments)
    return replace(ZIG, parts=tuple(parts))


def with_weights(part, weights):
    parts = [*ZIG.parts]
    parts[part] = replace(parts[part], weights={**parts[part].weights, **weights})
    return replace(ZIG, parts=tuple(parts))


FIRST, SECOND = ZIG.messages
REFUSED = {
    "no rows": (lambda: replace(ZIG, batch=0), "batch 0 has no rows"),
    "numbers out of place": (lambda: replace(ZIG, messages=(SECOND, FIRST)), "message v has the number 1 in place 0"),
    "to a part that is not there": (
        lambda: replace(ZIG, messages=(replace(FIRST, target=2), SECOND)),
        "message u goes from part 0 to 2",
    ),
    "to itself": (lambda: replace(ZIG, messages=(replace(FIRST, target=0), SECOND)), "message u goes from part 0 to 0"),
    "an unknown dtype": (
        lambda: replace(ZIG, messages=(replace(FIRST, dtype="real"), SECOND)),
        "the unknown dtype real",
    ),
    "sent by nobody": (lambda: with_segment(1, 0, gives=(Keep("v"),)), "not every message is sent once, by its source"),
    "sent twice": (lambda: with_segment(1, 0, gives=(Send(1), Send(1))), "not every message is sent once"),
    "sent by another": (lambda: with_segment(0, 1, gives=(Send(1),)), "not every message is sent once"),
    "received by nobody": (lambda: with_segment(0, 1, takes=(Keep("u"),)), "not every message is received"),
    "received by another": (
        lambda: with_segment(0, 1, takes=(Receive(0), Receive(1))),
        "not every message is received",
    ),
    "kept by nobody": (lambda: with_segment(0, 1, takes=(Keep("x"), Receive(1))), "part 0 takes x in two before"),
    "weights of others": (lambda: with_segment(0, 1, weights=("b",)), "part 0 uses b in two, which it has not"),
    "a copy of its own": (lambda: with_weights(0, {"d": Copy("b", (2, 2), owner=0)}), "a copy of d from part 0"),
    "a copy of nobody's": (lambda: with_weights(0, {"d": Copy("b", (2, 2), owner=7)}), "a copy of d from part 7"),
    "a weight of an unknown dtype": (
        lambda: with_weights(0, {"d": Piece("d", (2,), dtype="real")}),
        "part 0 has d of the unknown dtype real",
    ),
    "a method of other results": (
        lambda: with_segment(0, 1, method=Method(("u", "v"), (), ())),
        "part 0 takes 2 and gives 1 tensors in two, whose method has 2 arguments and 0 results",
    ),
}


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_program_is_refused(make, said):
    with pytest.raises(UsageError, match="not a program: ") as caught:
        make()
    assert said in str(caught.value)


def test_a_program_prints_as_one_line_and_adds_up_its_work():
    assert repr(TWO_LINEARS.program) == "Program(two linears, 2 parts, 2 segments, 1 messages)"
    assert isinstance(TWO_LINEARS.program, Program)
    assert TWO_LINEARS.program.total_work == 6
