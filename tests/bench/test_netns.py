"""Emulated hosts: they reach each other at their rate, count what they send, and nothing of them ever stays."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from hyperplace.bench import Card, netns
from hyperplace.errors import HyperplaceError, UsageError

CAN = os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc")))
needs_hosts = pytest.mark.skipif(
    not CAN, reason="run the tests as root, with iproute2 installed (apt install iproute2)"
)
LIMIT_S = 60
MAIN = "from hyperplace.cli import main; main()"
SEND = """
import socket, sys
from hyperplace.bench.netns import sent_bytes
before = sent_bytes("eth0")
if sys.argv[1] == "serve":
    listening = socket.create_server(("", 4000))
    print("ready", flush=True)
    with listening.accept()[0] as taken:
        print(sum(iter(lambda: len(taken.recv(1 << 16)), 0)))
else:
    with socket.create_connection((sys.argv[1], 4000)) as sending:
        sending.sendall(bytes(10**6))
        sending.shutdown(socket.SHUT_WR)
        sending.recv(1)  # until the other side has it all
    print(sent_bytes("eth0") - before)
"""


def listed() -> list[str]:
    """Return the names of all namespaces."""
    lines = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in lines]


def own() -> list[str]:
    return [name for name in listed() if name.startswith(f"hyperplace-{os.getpid()}-")]


@pytest.mark.parametrize(
    ("rate", "delay", "card", "shown"),
    [
        ("1gbit", None, Card(1e9), "1 Gbit/s each way"),
        ("2.5GBIT", "1ms", Card(2.5e9, 1e3), "2.5 Gbit/s each way, 1 ms delay"),
        ("100mbit", "1.5s", Card(1e8, 1.5e6), "100 Mbit/s each way, 1.5 s delay"),
        (None, "20us", Card(None, 20), "no limit each way, 20 us delay"),
        (None, None, Card(), "no limit each way"),
    ],
)
def test_a_card_from_options(rate, delay, card, shown) -> None:
    assert Card.parse_all(rate, delay) == (card,)
    assert str(card) == shown


@pytest.mark.parametrize(
    ("rate", "delay"),
    [
        *[(rate, None) for rate in ("fast", "1", "-1gbit", "0gbit", "1gbit 1", "1e3gbit", "9" * 400 + "gbit")],
        *[("1gbit", delay) for delay in ("-1ms", "1", "ms", "nanms")],
    ],
)
def test_what_is_no_card(rate, delay) -> None:
    with pytest.raises(UsageError, match=r"--(rate|delay) "):
        Card.parse_all(rate, delay)


def test_a_card_for_each_host() -> None:
    cards = Card.parse_all("1gbit,100mbit", "1ms")
    assert cards == (Card(1e9, 1e3), Card(1e8, 1e3))
    assert netns.cards_line(cards) == "1 Gbit/s each way, 1 ms delay; 100 Mbit/s each way, 1 ms delay"
    assert netns.cards_line((Card(1e9),) * 2) == "1 Gbit/s each way"


@needs_hosts
def test_hosts_reach_each_other_and_count_what_they_send() -> None:
    with netns.hosts(2, Card.parse("1gbit", None)) as (first, second):
        words = [sys.executable, "-c", SEND]
        with subprocess.Popen([*first.enter, *words, "serve"], stdout=subprocess.PIPE, text=True) as serving:
            assert serving.stdout
            assert serving.stdout.readline() == "ready\n"
            sent = subprocess.run(
                [*second.enter, *words, first.address], capture_output=True, text=True, check=True, timeout=LIMIT_S
            )
            assert serving.stdout.readline() == "1000000\n"
        assert 1_000_000 < int(sent.stdout) < 1_030_000
    assert own() == []


@needs_hosts
def test_both_ways_are_limited() -> None:
    with netns.hosts(3, Card.parse("100mbit", None)):
        assert len(own()) == 4, "three hosts and the switch"
        for name in own():
            queues = subprocess.run(["tc", "-n", name, "qdisc"], capture_output=True, text=True, check=True).stdout
            assert queues.count("tbf") == (3 if name.endswith("switch") else 1)
            assert queues.count("rate 100Mbit") == queues.count("tbf")


@needs_hosts
def test_a_delay_is_on_what_every_host_sends() -> None:
    with netns.hosts(1, Card()) as (host,):
        words = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
        added = subprocess.run([*host.enter, *words], capture_output=True)
    if added.returncode:
        pytest.skip("this kernel has no netem; load it with modprobe sch_netem")
    with netns.hosts(2, Card.parse("1gbit", "1ms")):
        for name in own():
            queues = subprocess.run(["tc", "-n", name, "qdisc"], capture_output=True, text=True, check=True).stdout
            assert ("delay 1ms" in queues) == (not name.endswith("switch"))
            assert "tbf" in queues


@needs_hosts
def test_a_delay_that_cannot_be_made_is_not_left_out_silently(monkeypatch) -> None:
    run = netns._run

    def without_netem(*words: str) -> str:
        if "netem" in words:
            raise HyperplaceError("Error: Specified qdisc kind is unknown.")
        return run(*words)

    monkeypatch.setattr(netns, "_run", without_netem)
    with pytest.raises(HyperplaceError, match="cannot delay packets") as raised, netns.hosts(2, Card(1e9, 1e3)):
        pass
    assert not isinstance(raised.value, netns.NoHosts)
    assert own() == []


@needs_hosts
def test_a_fault_in_the_block_leaves_nothing() -> None:
    with pytest.raises(ZeroDivisionError), netns.hosts(2, Card()):
        assert len(own()) / 0
    assert own() == []


@needs_hosts
def test_the_remains_of_a_killed_run_are_removed_and_those_of_others_are_not() -> None:
    killed = subprocess.Popen([sys.executable, "-c", "pass"])
    killed.wait()
    stale, alive = f"hyperplace-{killed.pid}-0", f"hyperplace-{os.getppid()}-x"
    for name in (stale, alive):
        subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        with netns.hosts(2, Card()):
            assert stale not in listed()
            assert alive in listed()
    finally:
        subprocess.run(["ip", "netns", "delete", alive], check=True)


def test_without_rights_or_tools_the_reason_is_one_line(monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(netns.NoHosts, match=r"need (root|ip)"), netns.hosts(2, Card()):
        pass
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(netns.NoHosts, match="install iproute2"), netns.hosts(2, Card()):
        pass


@needs_hosts
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_bench_leaves_no_host_and_no_worker(tmp_path, number) -> None:
    """Ctrl-C and SIGTERM would leave namespaces, and processes in them that wait for each other for ever.

    A kill leaves the namespaces, which the next run removes.
    """
    command = ["bench", "lenet5", "--hosts", "2", "--repeats", "1000", "--costs", "flops", "--time-limit", "1"]
    bench = subprocess.Popen(
        [sys.executable, "-c", MAIN, *command, "--out", tmp_path / "out"], stderr=subprocess.PIPE, text=True
    )
    prefix = f"hyperplace-{bench.pid}-"
    try:
        _wait_until(lambda: len(_inside(prefix)) == 2)
        workers = _inside(prefix)
        bench.send_signal(number)
        _, err = bench.communicate(timeout=LIMIT_S)
    finally:
        bench.kill()
    _wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))
    if number == signal.SIGKILL:
        netns.remove_stale()
    else:
        assert bench.returncode == 128 + number
        assert ("interrupted" in err) == (number == signal.SIGINT)
    assert not [name for name in listed() if name.startswith(prefix)]
    left = [path.name for path in (tmp_path / "out").rglob("*")]
    assert left == ([".lock"] if number == signal.SIGKILL else []), "a lock that nobody holds any more"


def _inside(prefix: str) -> list[str]:
    """Return the processes in the namespaces of a run."""
    names = [name for name in listed() if name.startswith(prefix)]
    found = [subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout for name in names]
    return " ".join(found).split()


def _wait_until(is_so) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)
