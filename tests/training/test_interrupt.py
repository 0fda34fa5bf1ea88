"""Ctrl-C is a wish first, then an order; afterwards it is what it was before."""

import signal
import threading
import time

import pytest

from hyperplace.errors import TrainingError
from hyperplace.runtime.hosts.world import Alone
from hyperplace.training.interrupt import SIGNALS, Halt, Interrupt


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


class Others(Alone):
    """A process among others that have passed so many places when they hear of the signal."""

    def __init__(self, *passed: int) -> None:
        super().__init__(1)
        self.passed, self.own, self.may_answer = passed, "", threading.Event()

    def told(self, call: str, text: str, limit_s: float) -> list[str]:
        self.own = text
        assert self.may_answer.wait(20)
        if not self.passed:
            raise TrainingError("nobody has come")
        return [text, *map(str, self.passed)]


@pytest.mark.parametrize(("passed", "place"), [((3, 7), 7), ((0,), 5)])
def test_all_stop_where_the_first_of_them_is(passed: tuple[int, ...], place: int) -> None:
    order, world = Orders(), Others(*passed)
    halt = Halt(lambda: world, order)
    world.may_answer.set()
    assert not any(halt.is_here() for _ in range(5))
    halt.agree()
    assert world.own == "5"
    assert [halt.is_here() for _ in range(5, place + 2)] == [False] * (place - 5) + [True, True]
    assert not order.given.is_set()


@pytest.mark.parametrize("passed", [(6,), ()])
def test_nobody_goes_further_before_all_are_heard_of(passed: tuple[int, ...]) -> None:
    order, world = Orders(), Others(*passed)
    halt, found = Halt(lambda: world, order), []
    agreeing = threading.Thread(target=halt.agree)
    agreeing.start()
    while not world.own:
        time.sleep(0.001)
    asking = threading.Thread(target=lambda: found.append(halt.is_here()))
    asking.start()
    asking.join(timeout=0.2)
    assert asking.is_alive()
    world.may_answer.set()
    asking.join(timeout=20)
    agreeing.join(timeout=20)
    assert found == [not passed], "who is not heard of ends it here"
    assert order.given.is_set() == (not passed)
