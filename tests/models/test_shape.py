"""Shapes as users write them."""

import pytest

from hyperplace.errors import UsageError
from hyperplace.models import parse_shape


@pytest.mark.parametrize("shape", [(1,), (3, 224, 224), (1, 2, 3, 4), (2**31,), (2**16, 2**15)])
def test_reads_what_it_would_print(shape: tuple[int, ...]) -> None:
    assert parse_shape("x".join(map(str, shape))) == shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a list of sizes"),
        ("cat", "'cat' is not a list of sizes"),
        ("3x", "is not a list of sizes"),
        ("x3", "is not a list of sizes"),
        ("3,224,224", "is not a list of sizes"),
        ("3 x 8", "is not a list of sizes"),
        ("3x8\n", "is not a list of sizes"),
        ("3x2.5", "is not a list of sizes"),
        ("٣x٣", "is not a list of sizes"),
        ("3x0x8", "has the size 0"),
        ("3x-8x8", "has the size -8"),
        ("2147483649", "more than 2147483648 elements"),
        ("65536x65536", "more than 2147483648 elements"),
        ("9" * 9999, "more than 2147483648 elements"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shape(text)
    said = str(caught.value)
    assert message in said
    assert said.endswith("like --input 3x224x224")
    assert len(said) < 160
    assert "\n" not in said
