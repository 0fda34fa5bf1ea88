"""Ctrl-C is a wish first, then an order; afterwards it is what it was before."""

import signal
import threading
import time

import pytest

from hyperplace.training.interrupt import SIGNALS, Interrupt


class Orders:
    """What is called when the wait is over."""

    def __init__(self) -> None:
        self.given = threading.Event()

    def __call__(self) -> None:
        self.given.set()


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_is_a_wish_and_the_second_an_order(number: int) -> None:
    before, order = signal.getsignal(number), Orders()
    with Interrupt(order) as interrupt:
        assert not interrupt.is_wanted
        signal.raise_signal(number)
        assert interrupt.is_wanted
        assert interrupt.signal == number
        assert not order.given.is_set()
        signal.raise_signal(signal.SIGINT)
        assert order.given.is_set()
        assert interrupt.signal == number
    assert signal.getsignal(number) == before


def test_a_wish_becomes_an_order_when_the_grace_is_over() -> None:
    order = Orders()
    with Interrupt(order, grace_s=0.1):
        signal.raise_signal(signal.SIGINT)
        assert order.given.wait(20)


def test_nothing_is_ordered_after_the_block() -> None:
    order = Orders()
    with Interrupt(order, grace_s=0.1):
        signal.raise_signal(signal.SIGINT)
    time.sleep(0.3)
    assert not order.given.is_set()


def test_what_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt(Orders()) as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert not interrupt.is_wanted
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_left_alone() -> None:
    def enter() -> None:
        with Interrupt(Orders()) as interrupt:
            assert not interrupt.is_wanted

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
