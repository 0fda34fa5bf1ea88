"""A host is lost: who says so, how soon, and what the others do. More of it: tests/sweeps/faults.py (make faults)."""

import hashlib
import json
import signal
import time
from types import SimpleNamespace

import pytest
import torch
from ranks import LIMIT_S, free_port, lines, run, run_each, started

from hyperplace.errors import HostLost, TrainingError
from hyperplace.runtime.commands import Update
from hyperplace.runtime.hosts import heartbeat
from hyperplace.runtime.hosts.heartbeat import Heart
from hyperplace.runtime.survival.buddies import packed, unpacked
from hyperplace.runtime.transport import Stopped
from hyperplace.runtime.transport.distributed import Network


@pytest.fixture
def hearts(monkeypatch):
    """Three processes' signs of life, in one: they know each other by sockets only."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    found = [Heart(number, 3) for number in range(3)]
    addresses = [heart.address for heart in found]
    for heart in found:
        heart.start(addresses)
    until(lambda: all(peer.heard for heart in found for peer in heart._peers.values()))
    yield found
    for heart in found:
        heart.close()


def until(holds, limit_s=10.0):
    """Wait until something holds; return how long that took."""
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() < begin + limit_s, "it never came"
        time.sleep(0.005)
    return time.monotonic() - begin


@pytest.mark.parametrize("words", [{}, {heartbeat.BYE: heartbeat.BYE, heartbeat.END: "no room"}])
def test_one_that_ends_before_its_first_beat_is_known_at_once(monkeypatch, words):
    """It was silence to the others, for four seconds; what it said before it ended comes first all the same."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    found = [Heart(number, 3) for number in range(3)]
    addresses = [heart.address for heart in found]
    ended, others = found[2], found[:2]
    ended._run = hashlib.sha256("\n".join(addresses).encode()).hexdigest()[:16]
    for other, peer in ended._peers.items():
        ended._connect(peer, json.loads(addresses[other]))
    if words:
        ended._said = words
        ended.beat()
    for peer in ended._peers.values():
        peer.socket.close()
    for heart in others:
        heart.start(addresses)
    try:
        if words:
            assert until(lambda: all(heart.said(heartbeat.END) == {2: "no room"} for heart in others)) < 1.0
            time.sleep(2 * heartbeat.BEAT_S)
            assert not any(heart.lost for heart in others)
        else:
            assert until(lambda: all(heart.lost == {2: "its process has ended"} for heart in others)) < 1.0
    finally:
        for heart in others:
            heart.close()


def test_what_one_says_all_hear_until_it_is_forgotten(hearts):
    heard = []
    hearts[2].listen(lambda: heard.append(hearts[2].said("word")))
    hearts[0].say("word", "first")
    assert until(lambda: all(heart.said("word") == {0: "first"} for heart in hearts)) < heartbeat.BEAT_S
    assert heard[-1] == {0: "first"}
    hearts[0].say("word", "")
    until(lambda: not any(heart.said("word") for heart in hearts))


def test_a_process_that_has_ended_is_named_by_all_at_once(hearts):
    ended(hearts[1])
    assert until(lambda: hearts[0].lost and hearts[2].lost) < 1.0
    for heart in (hearts[0], hearts[2]):
        fault = heart.fault(range(3))
        assert isinstance(fault, HostLost)
        assert str(fault).startswith("rank 1 on host ")
        assert str(fault).endswith("(127.0.0.1) was lost: its process has ended")
        assert heart.fault([0, 2]) is None, "the others have gone on without it"


def test_who_is_silent_is_lost_and_who_is_late_is_slow(hearts, monkeypatch):
    for heart in hearts:
        heart.note_trainer()  # less patience
    monkeypatch.setattr(hearts[1], "beat", lambda: None)
    time.sleep(heartbeat.SLOW_S + 0.7)
    monkeypatch.undo()
    until(lambda: 1 in hearts[0].slow())
    assert not hearts[0].lost
    assert 0 not in hearts[2].slow()
    monkeypatch.setattr(hearts[1], "beat", lambda: None)
    took = until(lambda: 1 in hearts[0].lost and 1 in hearts[2].lost)
    assert heartbeat.DEAD_S - heartbeat.BEAT_S - 0.2 < took < heartbeat.DEAD_S + 1
    assert "no sign of life for 3 s" in str(hearts[2].fault(range(3)))
    until(lambda: hearts[1].fault(range(3)) is not None)
    assert "was given up by the others" in str(hearts[1].fault(range(3))), "it still hears them"


def test_who_leaves_is_not_lost(hearts):
    hearts[2].close()
    time.sleep(3 * heartbeat.BEAT_S)
    assert not hearts[0].lost
    assert not hearts[1].lost


def test_time_in_which_this_process_could_not_listen_is_no_silence(hearts):
    for heart in hearts:
        heart.note_trainer()
    until(lambda: heartbeat.BUSY not in hearts[0]._peers[1].said)
    peer = hearts[0]._peers[1]
    for _ in range(10):  # looks, between which it stood still or had no core
        hearts[0]._judge(time.monotonic(), heartbeat.DEAD_S)
        assert not hearts[0].lost
        peer.silent_s = min(peer.silent_s, heartbeat.MOST_LOOK_S)  # as the next beat would have it
    for _ in range(int(heartbeat.DEAD_S / heartbeat.LOOK_S) + 1):
        hearts[0]._judge(time.monotonic(), heartbeat.MOST_LOOK_S)
    assert 1 in hearts[0].lost


def ended(heart):
    """Let signs of life end as if the process were killed: nothing more is said, and its ports are nobody's."""
    heart._is_over.set()
    heart._thread.join()
    for peer in heart._peers.values():
        peer.socket.close()


def test_a_broken_store_is_told_as_the_loss_of_its_host(hearts):
    """Killed at the start, the rank that has the store was a DistNetworkError for the others: a broken pipe."""

    def ask():
        ended(hearts[0])
        raise RuntimeError("Broken pipe")

    with pytest.raises(HostLost, match=r"rank 0 on host .* its process has ended"):
        hearts[1].watched(ask)


def test_a_connection_that_breaks_while_all_live_is_no_loss(hearts, monkeypatch):
    monkeypatch.setattr(heartbeat, "REASON_S", 0.2)

    def ask():
        raise RuntimeError("no route to host")

    with pytest.raises(TrainingError, match="the ranks cannot be connected: no route to host"):
        hearts[1].watched(ask)


def test_who_is_stopped_while_it_asks_for_messages_hears_why_later(monkeypatch):
    """Where another rank failed at that moment, step() raised what only ranks know: Stopped, without a word."""
    network = object.__new__(Network)
    network._threads = SimpleNamespace(is_stopped=False)

    def post(expected):
        raise Stopped

    monkeypatch.setattr(network, "_expected", lambda command: [None], raising=False)
    monkeypatch.setattr(network, "_post", post, raising=False)
    network.announce(Update(0))


def test_who_leaves_says_why_to_the_last(hearts):
    hearts[0].say(heartbeat.END, "the disk is full")
    hearts[0].close()
    until(lambda: hearts[1]._peers[0].has_left and hearts[2]._peers[0].has_left)
    assert hearts[1].said(heartbeat.END) == hearts[2].said(heartbeat.END) == {0: "the disk is full"}
    assert not hearts[1].lost


def test_packets_of_another_run_are_not_heard(hearts):
    stranger = {"run": "other", "at": time.monotonic() + 99, "echo": None, "said": {"lost/2": "no"}}
    hearts[0]._peers[1].socket.send(json.dumps(stranger).encode())
    hearts[0]._peers[1].socket.send(b"\xff{")
    time.sleep(0.3)
    assert not hearts[1].lost


def test_shards_come_out_of_the_stream_as_they_went_in():
    shard = {
        "held": {"a": torch.randn(3, 5), "b": torch.tensor(7), "none": torch.empty(0, 2)},
        "optimizer": {
            "a": {"step": torch.tensor(3.0), "half": torch.randn(3).bfloat16(), "bits": torch.tensor([True])}
        },
        "groups": [{"lr": 0.1, "betas": (0.9, 0.999), "foreach": None}],
        "num_batches": 12,
    }
    head, tensors, num_bytes = packed([shard, {"part": 1}])
    body = torch.cat([*tensors])
    assert len(body) == num_bytes
    first, second = unpacked(head, body)
    assert second == {"part": 1}
    assert first["groups"] == shard["groups"]
    for kind in ("held", "optimizer"):
        flat, other = (one[kind] if kind == "held" else one[kind]["a"] for one in (first, shard))
        assert all(torch.equal(flat[name], other[name]) and flat[name].dtype == other[name].dtype for name in other)


def test_nobody_waits_for_a_part_whose_message_stopped_halfway(tmp_path):
    """gloo never tells such a part that all is over; closing the trainer took 4.5 s more, and a warning."""
    quiet = {"PYTHONWARNINGS": "error:hyperplace part:UserWarning"}
    named, ended = lines_of_living(run(2, "scenes.py", "stop_while_sending", tmp_path, **quiet))
    assert "HostLost: rank 0 on host" in named["error"]
    assert "no sign of life for 3 s" in named["error"]
    assert ended["in_vain"], "the message was halfway"


def test_a_state_that_stopped_halfway_is_not_waited_for(tmp_path):
    """gloo never told the caller either: state_dict() of the first rank hung for ever."""
    named, again = lines_of_living(run(2, "scenes.py", "stop_while_gathering", tmp_path))
    assert "HostLost: rank 1 on host" in named["error"]
    assert "no sign of life for 3 s" in named["error"]
    assert again["error"] == named["error"]


@pytest.mark.parametrize("scene", ["stop_before_closing", "stop_while_closing"])
def test_nobody_waits_to_close_with_a_host_that_is_lost(tmp_path, scene):
    closed, after = lines_of_living(run(2, "scenes.py", scene, tmp_path))
    assert closed["error"] is None, "all was done, and nothing is missing"
    assert after["left"] == [], "no thread of a part"


def test_two_hosts_are_lost_one_after_the_other(tmp_path):
    found = lines_of_living(run(3, "scenes.py", "lose_twice", tmp_path))
    assert [one["rank"] for one in found] == [0]
    assert found[0]["num_processes"] == [2, 1]
    assert found[0]["num_batches"] == 40
    assert found[0]["num_losses"] == 40, "none is skipped, and none counted twice"
    assert found[0]["wanted"] < found[0]["copied"] < found[0]["wanted"] + 10_000, "with what is not tensors"


def lines_of_living(results):
    """Return the lines of those who were not killed."""
    return lines([one for one in results if one[0] != -signal.SIGKILL])


TRAIN = (
    "--data",
    "synthetic",
    "--images",
    "2400",
    "--batch",
    "8",
    "--epochs",
    "2",
    "--threads",
    "1",
    "--in-flight",
    "2",
)
PLAN = ("--k", "2", "--grain", "coarse", "--partitioner", "horizontal", "--imbalance", "1", "--costs", "flops")


def killed(arguments, out, number):
    """Train in two ranks, of which one is killed in the first epoch; return how the other ended and what it said."""
    port = free_port()
    command = ("-m", "hyperplace", "train", "lenet5", *PLAN, *TRAIN, *arguments, "--out", str(out))
    ranks = [started(n, command, port, size=2) for n in range(2)]
    try:
        until((out / "plan.json").exists, LIMIT_S)
        time.sleep(0.5)
        ranks[number].send_signal(signal.SIGKILL)
        output = ranks[1 - number].communicate(timeout=LIMIT_S)
        return ranks[1 - number].returncode, *output
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def test_train_goes_on_without_the_first_host(tmp_path):
    shown = ("--live", "--tensorboard", tmp_path / "events")
    code, out, err = killed(("--survive", "1", "--survive-every", "5", "--json", *map(str, shown)), tmp_path / "out", 0)
    assert code == 0, err
    assert "live page, for this machine only: http://127.0.0.1:" in err, "who is the first now has the page"
    assert len(list((tmp_path / "events").iterdir())) == 2
    said = json.loads(out)
    assert len(said["rows"]) == 2
    assert "rank 0 on host " in err
    assert "1 went on after mini-batch " in err
    assert {"checkpoint.pt", "history.md", "plan.json"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert torch.load(tmp_path / "out" / "checkpoint.pt", weights_only=True)["num_batches"] == 600


def test_without_survive_the_other_stops_and_a_smaller_run_resumes(tmp_path):
    code, _, err = killed((), tmp_path / "out", 1)
    assert code == 1
    assert "error: rank 1 on host " in err
    assert "was lost: its process has ended" in err
    words = ("train", "lenet5", "--k", "1", *TRAIN, "--costs", "flops", "--json", "--out", tmp_path / "out")
    resume = ["--resume"] if (tmp_path / "out" / "checkpoint.pt").exists() else []
    (code, out, err), *_ = run_each([("-m", "hyperplace", *map(str, words), *resume)])
    assert code == 0, err
    assert len(json.loads(out)["rows"]) == 2
