"""`train --live`: who is answered and who is not, what the page is told, and that it ends with the run."""

import csv
import http.client
import json
import re
import signal
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from hyperplace.cli.live import MOST_READINGS, LivePage, Readings
from hyperplace.values.reading import Reading

TINY = ("--data", "synthetic", "--images", 64, "--batch", 16, "--partitioner", "incremental", "--threads", 1)


def reading(number: int, loss: float = 2.0) -> Reading:
    return Reading(1, number, number / 2, (loss,), 100.0, (0.5, None), (1.0, None), 1000 * number)


@contextmanager
def served(title="a run", **words):
    page = LivePage(**words)
    page.begin(title, 2)
    try:
        yield page
    finally:
        page.close("over")


def asked(page, path, method="GET", **headers):
    """Return the answer to a request that says all of itself."""
    where = urlsplit(page.url)
    line = http.client.HTTPConnection(where.hostname, where.port, timeout=10)
    line.putrequest(method, path, skip_host=True)
    for name, value in ({"Host": where.netloc} | headers).items():
        line.putheader(name, value)
    line.endheaders()
    answer = line.getresponse()
    return answer.status, answer.read(), answer


def test_the_page_and_its_readings_are_handed_out():
    with served("</script><img src=x onerror=window.hacked=1>") as page:
        path = urlsplit(page.url).path
        status, text, answer = asked(page, path)
        assert status == 200
        assert b"connect-src 'self'" in text
        assert b"<img" not in text
        assert answer.headers["Cache-Control"] == "no-store"
        page.readings.add(reading(1))
        page.readings.add(reading(2, loss=float("nan")))
        found = json.loads(asked(page, f"{path}readings")[1])
        assert [one["loss"] for one in found["readings"]] == [2.0, None]
        assert (found["last"], found["end"]) == (2, "")
        assert found["readings"][0]["busy"] == [0.5, None]
        since = json.loads(asked(page, f"{path}readings?since=1")[1])
        assert [one["num_batches"] for one in since["readings"]] == [2]
        assert len(json.loads(asked(page, f"{path}readings?since=-x")[1])["readings"]) == 2
        assert asked(page, path, Host=f"localhost:{urlsplit(page.url).port}")[0] == 200


def test_nobody_else_is_answered():
    with served() as page, served() as other:
        path, port = urlsplit(page.url).path, urlsplit(page.url).port
        assert path != urlsplit(other.url).path
        for wrong in ("/", "/readings", path[:-2] + "/", path.lower(), f"{path}../", f"{path}x", "*"):
            assert asked(page, wrong)[0] == 404, wrong
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""):
            assert asked(page, path, Host=host)[0] == 404, host
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"):
            status, _, answer = asked(page, path, method)
            assert (status, answer.headers["Allow"]) == (405, "GET"), method
        assert page.url.startswith("http://127.0.0.1:")
        # Somebody who connects and says nothing keeps nobody else waiting.
        with socket.create_connection(("127.0.0.1", port)):
            assert asked(page, path)[0] == 200
    with pytest.raises(OSError, match="refused"):
        asked(page, path)


def test_whoever_looks_hears_how_it_ended():
    page = LivePage()
    page.begin("a run", 2)
    path = f"{urlsplit(page.url).path}readings"
    assert json.loads(asked(page, path)[1])["end"] == ""
    closing = threading.Thread(target=page.close, args=("over",))
    closing.start()
    ends = []
    while not ends or not ends[-1]:
        ends.append(json.loads(asked(page, path)[1])["end"])
    closing.join(10)
    assert ends[-1] == "over"
    assert not closing.is_alive()


def test_a_long_run_is_thinned_out_and_its_newest_reading_is_there():
    kept = Readings()
    for number in range(1, 3 * MOST_READINGS):
        kept.add(reading(number))
    found = json.loads(kept.text_since(0))
    numbers = [one["num_batches"] for one in found["readings"]]
    assert MOST_READINGS // 2 <= len(numbers) <= MOST_READINGS
    assert (numbers[0], numbers[-1], found["last"]) == (1, 3 * MOST_READINGS - 1, 3 * MOST_READINGS - 1)
    assert numbers == sorted(numbers)


@pytest.fixture
def looked(monkeypatch):
    """Look at every page that begins, all the time, from a thread; return what was seen."""
    seen = []
    begin = LivePage.begin

    def look(url):
        try:
            while not seen or not seen[-1]["end"]:
                with urllib.request.urlopen(f"{url}readings", timeout=10) as answer:
                    seen.append(json.loads(answer.read()))
                time.sleep(0.01)
        except OSError as fault:
            seen.append({"end": f"gone: {fault}", "readings": []})

    def begin_and_look(page, *words):
        begin(page, *words)
        threading.Thread(target=look, args=(page.url,), daemon=True).start()

    monkeypatch.setattr(LivePage, "begin", begin_and_look)
    return seen


def test_a_run_is_shown_as_it_comes_and_trains_the_same(run, tmp_path, looked):
    options = ("train", "smallcnn", "--epochs", 2, *TINY)
    plain = run(*options, "--out", tmp_path / "plain")
    assert "http:" not in plain.err
    ran = run(*options, "--live", "--tensorboard", tmp_path / "events", "--out", tmp_path / "live")
    assert ran.code == 0, ran.err
    (events,) = (tmp_path / "events").iterdir()
    assert events.read_bytes().count(b"train/loss") == 8
    assert re.search(r"live page, for this machine only: http://127\.0\.0\.1:\d+/\S{32}/\n", ran.err)
    assert "http:" not in ran.out
    last = looked[-1]
    assert last["end"] == "The run has ended after 2 epochs."
    epochs = [one for one in last["readings"] if one["test_accuracy"] is not None]
    assert [(one["epoch"], one["num_batches"]) for one in epochs] == [(1, 4), (2, 8)]
    assert all(len(one["busy"]) == len(one["staleness"]) == 2 for one in epochs)
    assert [one["loss"] for one in epochs] == [None, None], "a test trains nothing"
    assert all(0 < share <= 1 for one in epochs for share in one["busy"])
    assert losses(tmp_path / "live") == losses(tmp_path / "plain")
    assert epochs[-1]["moved_bytes"] > 0
    assert not [thread for thread in threading.enumerate() if "live page" in thread.name]


def losses(folder):
    with open(folder / "history.csv") as file:
        return [row["train_loss"] for row in csv.DictReader(file)]


def test_ctrl_c_ends_the_page_with_the_run(run, tmp_path, looked):
    def press():
        while not any(one["readings"] for one in looked):
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    # Signals are the main thread's wherever they are raised.
    threading.Thread(target=press, daemon=True).start()
    ran = run("train", "smallcnn", "--epochs", 1000, *TINY, "--lr", 0.001, "--live", "--out", tmp_path / "live")
    assert ran.code == 130, ran.err
    assert "was interrupted" in looked[-1]["end"]


def test_what_cannot_be_shown_is_refused_before_any_work(run, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = run("train", "smallcnn", *TINY, "--live", "--live-port", port, "--out", tmp_path / "out")
        assert ran.code == 2
        assert f"--live-port {port} cannot be had: address already in use" in ran.err
    for wrong in (("--live-port", 8000), ("--live", "--live-port", 70000), ("--live", "--against-plain")):
        ran = run("train", "smallcnn", *TINY, *wrong, "--out", tmp_path / "out")
        assert ran.code == 2
        assert "--live" in ran.err
    (tmp_path / "file").write_text("")
    ran = run("train", "smallcnn", *TINY, "--tensorboard", tmp_path / "file", "--out", tmp_path / "out")
    assert ran.code == 1
    assert "is not a folder; choose another --tensorboard" in ran.err
    assert not (tmp_path / "out").exists()
