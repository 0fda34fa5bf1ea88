"""Past bugs of a trainer's life: calls that hung, interrupts that mixed updates, threads and memory that stayed."""

import gc
import linecache
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter

import pytest
import torch
from handmade import ZIGZAG, batches, squared, state_of
from interrupts import LIMIT_S, MODES, fault_after, interrupt, interrupted, make, same, states_of
from sequences import Sequence
from torch import nn
from torch.nn import functional as F

import hyperplace
from hyperplace.errors import TrainingError
from hyperplace.runtime import RunSettings, Trainer, Training, load_checkpoint, save_checkpoint
from hyperplace.runtime.hosts.heartbeat import DEAD_S, SLOW_S, Heart
from hyperplace.runtime.hosts.lookout import LOOKS, SHAKEN_LOOKS, _Lookout
from hyperplace.runtime.hosts.processes import LOOK_S
from hyperplace.runtime.transport import GRADIENTS, Key, Stopped
from hyperplace.runtime.transport.distributed import Arrived, Network
from hyperplace.runtime.transport.threads import Gate

(X, Y), (OTHER_X, OTHER_Y) = batches(2)
STRIDE = {"lines": 29, "bytecodes": 211}


def slow_trainer(**settings):
    """Return a trainer whose loss waits for an event, and the event."""
    go = threading.Event()

    def slow(output, target):
        go.wait(60)
        return squared(output, target)

    training = Training(lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9))
    chosen = RunSettings(**{"in_flight": 1, **settings})
    return Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=slow, settings=chosen), go


def in_thread(call):
    """Return what a call in another thread raised, or returned, in time."""
    answers = []

    def run():
        try:
            answers.append(call())
        except BaseException as fault:
            answers.append(fault)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert answers, "it does not return"
    return answers[0]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", STRIDE)
@pytest.mark.parametrize("mode", MODES)
def test_an_interrupt_anywhere_leaves_whole_updates_and_nobody_waiting(mode, kind):
    """One interrupt in nine left flush() waiting for ever; others let sync use the gradients of a lost mini-batch."""
    states, faults, num_broken, at = states_of(mode), [], 0, 0
    while True:
        trainer, where = interrupted(mode, at, opcodes=kind == "bytecodes")
        if not where:
            trainer.close()
            break
        if fault := fault_after(mode, trainer, states):
            faults.append((where, fault))
        num_broken += trainer.calls.broken_by is not None
        at += STRIDE[kind]
    assert not faults
    assert at > 20 * STRIDE[kind]
    assert num_broken


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["async-1", "async-4"])
def test_no_loss_is_waited_for_that_was_never_handed_out(mode):
    """Ctrl-C between noting a mini-batch and handing it out: over a network the next call waited for its loss."""
    at, wanted = 0, Counter()
    while True:
        trainer = make(mode)
        handed_out, asked = set(), Counter()

        def announce(command, handed_out=handed_out):
            handed_out.add(getattr(getattr(command, "batch", None), "number", None))

        def loss(batch, handed_out=handed_out, asked=asked):
            asked[batch] += 1
            assert batch in handed_out

        # What another process would see: of a mini-batch that is announced comes one loss, of others none.
        trainer._transport.announce, trainer._transport.loss = announce, loss
        where = interrupt(lambda trainer=trainer: (trainer.step(X, Y), trainer.step(X, Y)), at)
        said = ""
        try:
            trainer.flush()
            trainer.step(X, Y)
            trainer.predict(X)
        except TrainingError as fault:
            said = str(fault)
        assert not said or "interrupted within step" in said, where
        trainer.close()
        assert max(asked.values(), default=1) == 1, where
        wanted += asked
        at += 1
        if not where:
            break
    assert at > 50
    assert wanted[1] > 10


def test_a_flush_with_nothing_left_to_do_learns_the_losses():
    """A process whose parts had done everything before flush() was called said that the loss was cut off."""
    trainer, asked = make("async-1"), []
    trainer._transport.loss = asked.append  # as over a network: the loss is told by another process
    trainer.step(X, Y)
    end = time.monotonic() + LIMIT_S
    while trainer._progress.num_finished < trainer._num_given and time.monotonic() < end:
        time.sleep(0.01)
    trainer.flush()
    trainer.close()
    assert asked == [0]


@pytest.mark.timeout(180)
def test_no_sequence_of_calls_hangs_or_leaves_other_weights_than_the_plain_loop():
    """After a fault, a close or an interrupt the next call but one waited for ever."""
    faults = [(seed, fault) for seed in range(20_000, 20_150) if (fault := Sequence(seed).run())]
    assert not faults


CALLS = {
    "step": lambda trainer: trainer.step(X, Y),
    "predict": lambda trainer: trainer.predict(X),
    "flush": lambda trainer: trainer.flush(),
    "load_state_dict": lambda trainer: trainer.load_state_dict(state_of(ZIGZAG)),
    "state_dict": lambda trainer: trainer.state_dict(),
    "moved_bytes": lambda trainer: trainer.moved_bytes(),
    "timeline": lambda trainer: trainer.timeline(),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", CALLS)
def test_calls_after_close_answer_at_once(name):
    """With a mini-batch under way, step raised once after close(), and every later call waited for ever."""
    trainer, go = slow_trainer()
    loss = trainer.step(X, Y)
    closing = threading.Thread(target=trainer.stop)
    closing.start()
    closing.join()
    for _ in range(2):
        answer = in_thread(lambda: CALLS[name](trainer))
        reads = name in ("state_dict", "moved_bytes", "timeline")
        assert not isinstance(answer, BaseException) if reads else isinstance(answer, TrainingError), answer
    with pytest.raises(TrainingError, match="closed"):
        loss.item()
    go.set()
    trainer.close()


@pytest.mark.timeout(60)
def test_close_from_another_thread_wakes_whoever_waits():
    trainer, go = slow_trainer()
    trainer.step(X, Y)
    threading.Timer(0.2, trainer.stop).start()
    with pytest.raises(TrainingError, match="closed"):
        trainer.flush()
    assert same(trainer.state_dict(), state_of(ZIGZAG))
    go.set()


@pytest.mark.timeout(60)
def test_a_call_from_another_thread_is_refused_while_one_is_under_way():
    """state_dict() from another thread while stepping deadlocked in three of four tries."""
    trainer, go = slow_trainer()
    trainer.step(X, Y)
    flushing = threading.Thread(target=trainer.flush, name="flushing")
    flushing.start()
    time.sleep(0.1)
    answer = in_thread(trainer.state_dict)
    assert isinstance(answer, TrainingError)
    assert "within flush(), called in thread 'flushing'" in str(answer)
    go.set()
    flushing.join(LIMIT_S)
    assert isinstance(in_thread(trainer.state_dict), dict)
    trainer.close()


@pytest.mark.timeout(60)
def test_a_forked_child_is_refused_and_the_parent_goes_on():
    """A child has the trainer but none of its threads: every call of it hung."""
    trainer = make("async-1")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            trainer.step(X, Y)
        except TrainingError as fault:
            trainer.close()
            code = 0 if "forked" in str(fault) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    trainer.step(X, Y).item()
    trainer.close()


@pytest.mark.timeout(180)
def test_several_threads_compile_at_once():
    """Capture swapped stdout and the warnings of the whole process, and one thread put back another's."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 2))
    x, y = torch.randn(2, 3, 6, 6), torch.tensor([0, 1])
    plan = hyperplace.place(net, x, k=2, imbalance=1.0, batch=2, partitioner="layerwise")
    before, results = sys.stdout, []

    def run():
        for _ in range(3):
            options = {"optimizer": lambda ps: torch.optim.SGD(ps, lr=0.1), "loss": F.cross_entropy}
            with hyperplace.compile(net, plan, **options) as trainer:
                results.append(trainer.step(x, y).item())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(results) == 12
    assert results == pytest.approx([results[0]] * 12)
    assert sys.stdout is before
    assert net.training


@pytest.mark.timeout(60)
@pytest.mark.parametrize("schedule", ["sync", "async"])
def test_an_update_is_done_by_all_parts_or_by_none(schedule):
    """A part that was done early updated, and another was told to stop in its backward pass: halves of two models."""
    trainer, go = slow_trainer(schedule=schedule)
    go.set()
    trainer.step(X, Y).item()
    wanted = trainer.state_dict()
    late = trainer.ranks[0].weights
    accumulate, reached = late.accumulate, threading.Event()

    def waits(version):
        reached.set()
        time.sleep(0.5)
        accumulate(version)

    late.accumulate = waits
    stepping = threading.Thread(target=lambda: in_thread(lambda: trainer.step(X, Y)))
    stepping.start()
    assert reached.wait(LIMIT_S)
    time.sleep(0.1)  # the other part is ready to update
    trainer.stop()
    stepping.join()
    assert same(trainer.state_dict(), wanted)
    assert [rank.weights.number for rank in trainer.ranks] == [1, 1]


def test_a_closed_gate_lets_nobody_in_and_waits_for_who_is_inside():
    gate, inside, out = Gate((0, 1)), threading.Event(), threading.Event()

    def write():
        with gate.writing(0, together=False):
            inside.set()
            out.wait(60)

    thread = threading.Thread(target=write)
    thread.start()
    inside.wait(60)
    gate.close()
    assert not gate.wait_until_free(0.1)
    with pytest.raises(Stopped), gate.writing(1, together=False):
        pass
    out.set()
    assert gate.wait_until_free(LIMIT_S)
    thread.join()


@pytest.mark.timeout(60)
def test_weights_can_be_saved_while_a_part_is_in_a_long_operation(tmp_path):
    """Ctrl-C waited for the end of a long segment, up to 20 s, or saved while a part still wrote."""
    trainer, go = slow_trainer()
    trainer.step(X, Y)
    begin = time.monotonic()
    trainer.stop()
    save_checkpoint(trainer, tmp_path / "c.pt")
    assert time.monotonic() - begin < 1
    go.set()
    trainer.close()
    with make("async-1") as another:
        load_checkpoint(another, tmp_path / "c.pt")
        assert same(another.state_dict(), state_of(ZIGZAG))
        assert another.num_batches == 0


# Memory and threads.


@pytest.mark.timeout(60)
@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_trainer_that_nobody_has_any_more_ends_its_threads(in_flight):
    """Unclosed trainers kept their threads, their weights and their program until the process ended."""
    before = set(threading.enumerate())
    trainer = make("async-1" if in_flight == 1 else "async-4")
    trainer.step(X, Y)
    known = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert known() is None
    deadline = time.monotonic() + LIMIT_S
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


@pytest.mark.timeout(120)
def test_a_program_is_freed_with_its_trainer():
    """45 KiB of every compiled program stayed in sys.modules and linecache."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 2))
    x = torch.randn(2, 3, 6, 6)
    plan = hyperplace.place(net, x, k=2, imbalance=1.0, batch=2, partitioner="layerwise")

    def compiled():
        with hyperplace.compile(net, plan, optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1), loss=squared) as trainer:
            return weakref.ref(trainer.program)

    compiled()
    gc.collect()
    modules, lines = len(sys.modules), len(linecache.cache)
    programs = [compiled() for _ in range(3)]
    gc.collect()
    assert [program() for program in programs] == [None] * 3
    assert (len(sys.modules), len(linecache.cache)) == (modules, lines)


# The command line.

LONG = """
import sys, time, torch
from torch.nn import functional
cross_entropy = functional.cross_entropy
def long(*args, **words):
    time.sleep(30)
    return cross_entropy(*args, **words)
functional.cross_entropy = long
from hyperplace.cli import main
main()
"""


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_training_in_time_within_a_long_operation(number, code, tmp_path):
    """It took up to 20 s, once ended by abort() after "saved", and SIGTERM saved nothing."""
    words = ["train", "lenet5", "--data", "synthetic", "--images", "64", "--partitioner", "layerwise", "--out"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", LONG, *words, str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "out" / "plan.json").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(number)
        begin = time.monotonic()
        _, said = process.communicate(timeout=60)
        assert time.monotonic() - begin < LIMIT_S
    assert process.returncode == code, said
    assert "interrupted after 0 epochs and 0 mini-batches; saved in" in said
    assert (tmp_path / "out" / "checkpoint.pt").exists()


def test_ctrl_c_before_there_is_anything_to_save_is_said(monkeypatch, capsys):
    """typer ended the command without a word."""
    from hyperplace.cli import main

    def pressed(*args, **words):
        raise KeyboardInterrupt

    monkeypatch.setattr("hyperplace.models.load_model", pressed)
    monkeypatch.setattr(sys, "argv", ["hyperplace", "train", "lenet5", "--data", "synthetic"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_slow_network_is_not_taken_for_a_deadlock():
    """Data parallelism at 100 Mbit/s ended after some seconds: all ranks wait for each other, and nothing will come."""
    network = object.__new__(Network)  # as much of one as says what it waits for
    key = Key(0, GRADIENTS, "weight", 1, 0)
    network._waits, network._rows = {key: time.monotonic() - 10}, {}
    network._begun, network._arrived = {0: 100_000_000}, Arrived()
    assert network.waits() == "", "the last of a hundred megabytes may take a hundred seconds"
    network._arrived = Arrived(7, 99_000_000)
    first = network.waits()
    assert first.startswith("waits for gradients weight from part 1, mini-batch 0")
    network._arrived = Arrived(8, 100_000_000)
    assert network.waits() != first, "something has moved since"


class Waiting:
    """Processes, and the network between them, that all wait for the same; somebody was slow of late, or nobody was."""

    is_stopped = has_left = False

    def __init__(self, *, is_calm: bool) -> None:
        self.is_calm, self.faults = lambda: is_calm, []

    def waits(self) -> str:
        return "waits for the others in save_checkpoint()"

    def all_waits(self, wait: str) -> tuple[str, ...]:
        return wait, wait

    def fault(self) -> None:
        return None

    def tell_end(self, reason: str) -> None:
        self.faults.append(reason)

    def tell(self, fault: object) -> None:
        pass


def test_an_outage_is_not_taken_for_a_deadlock() -> None:
    """A run ended after two seconds without a network, once in 134 outages: all ranks wait for each other in
    save_checkpoint(), and nothing will come. TCP, it is thought, had yet to send again what was lost."""
    calm, shaken = Waiting(is_calm=True), Waiting(is_calm=False)
    for world, enough in ((calm, LOOKS), (shaken, SHAKEN_LOOKS)):
        lookout = _Lookout(world, world, world)
        for _ in range(enough):
            lookout.look()
        assert not world.faults
        lookout.look()
        assert "all ranks wait for each other" in world.faults[0]
    assert LOOK_S * SHAKEN_LOOKS > 2 * DEAD_S, "as long as an outage may last, and as long again"


def test_who_was_slow_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    heart = Heart(0, 3)
    try:
        assert heart.is_calm((0, 1, 2))
        heart._peers[1].note(SLOW_S / 2, time.monotonic())
        assert heart.is_calm((0, 1, 2))
        heart._peers[1].note(2 * SLOW_S, time.monotonic())
        assert not heart.is_calm((0, 1, 2))
        assert heart.is_calm((0, 2)), "who is not of the run"
        monkeypatch.setattr("hyperplace.runtime.hosts.heartbeat.CALM_S", -1.0)
        assert heart.is_calm((0, 1, 2))
    finally:
        for peer in heart._peers.values():
            peer.socket.close()
