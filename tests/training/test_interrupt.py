"""Ctrl-C is a wish first, then an order; afterwards it is what it was before."""

import signal
import threading
import time

import pytest

from hyperplace.training.interrupt import Interrupt


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_first_is_a_wish_and_the_second_an_order() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt.is_wanted
        press()
        assert interrupt.is_wanted
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_wish_becomes_an_order_when_the_grace_is_over() -> None:
    """Also while the main thread is blocked: a simulated signal came only when it woke by itself."""
    begin = time.monotonic()
    with Interrupt(grace_s=0.1):
        press()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(20)
    assert time.monotonic() - begin < 5


def test_nothing_is_raised_later_once_calm() -> None:
    with Interrupt(grace_s=0.1) as interrupt:
        press()
        interrupt.calm()
        time.sleep(0.3)


def test_other_threads_are_left_alone() -> None:
    def enter() -> None:
        with Interrupt() as interrupt:
            assert not interrupt.is_wanted

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
