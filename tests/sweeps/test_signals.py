"""A share of the sweep of signals: a run that is disturbed ends in time and goes on to the same losses."""

import signal

import pytest
from signals import sweep


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_disturbed_commands_end_in_time_and_go_on(number):
    found = sweep({number: 1}, seed=number)
    assert not [fault for one in found.values() for fault in one.faults]
    assert found["train", number].runs >= 1
