"""What the probe of a network may cost: about the time it is given, on fast and on slow ones."""

import pytest

from hyperplace.runtime.hosts.probe import FIRST_BYTES, MOST_BYTES, ROUNDS, _rounds_and_bytes


@pytest.mark.parametrize("bytes_per_s", [1e5, 1e6, 1e7, 1e8, 1e9, 1e12])
def test_all_rounds_together_take_about_the_time_given(bytes_per_s: float) -> None:
    seconds = 1.5
    rounds, num_bytes = _rounds_and_bytes(FIRST_BYTES / bytes_per_s, seconds)
    assert 1 <= rounds <= ROUNDS
    assert FIRST_BYTES <= num_bytes <= MOST_BYTES
    assert rounds * num_bytes / bytes_per_s <= max(seconds, FIRST_BYTES / bytes_per_s) * 1.01


def test_a_fast_network_is_asked_several_times() -> None:
    assert _rounds_and_bytes(FIRST_BYTES / 1e9, 1.5)[0] == ROUNDS
    assert _rounds_and_bytes(0.0, 1.5) == (ROUNDS, MOST_BYTES)
