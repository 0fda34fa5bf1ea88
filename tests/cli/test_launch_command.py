"""`hyperplace launch`, with a stand-in for ssh that runs the command here."""

import subprocess
import sys
from pathlib import Path

import pytest

FAKE = '#!/bin/sh\necho "$1" >> {log}\nshift\nexec sh -c "$*"\n'


def launched(tmp_path, *words, hosts="a,b", port="0"):
    """Run launch in a folder of its own; return its exit code and what it wrote."""
    ssh = tmp_path / "ssh"
    ssh.write_text(FAKE.format(log=tmp_path / "asked"))
    ssh.chmod(0o755)
    command = [sys.executable, "-m", "hyperplace", "launch", "--hosts", hosts, "--address", "127.0.0.1", "--port", port]
    return subprocess.run(
        [*command, "--python", sys.executable, "--ssh", str(ssh), *map(str, words)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def test_launch_trains_on_all_hosts(tmp_path):
    how = ("--k", "2", "--batch", "16", "--costs", "flops", "--grain", "coarse", "--partitioner", "layerwise")
    planning = [sys.executable, "-m", "hyperplace", "partition", "lenet5", *how, "--imbalance", "1", "--out", "plans"]
    subprocess.run(planning, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    train = ("--data", "synthetic", "--images", "48", "--epochs", "1", "--out", "run")
    result = launched(tmp_path, "plans/plan.json", *train, port=free_port())
    assert result.returncode == 0, result.stderr
    assert "epoch 1/1" in result.stdout
    assert sorted((tmp_path / "asked").read_text().split()) == ["a", "b"]
    assert (tmp_path / "run" / "checkpoint.pt").exists()


def test_launch_says_what_every_host_says(tmp_path):
    result = launched(tmp_path, "nosuch.json", port=free_port())
    assert result.returncode == 1
    assert "cannot read nosuch.json" in result.stderr
    assert "[a] " in result.stderr
    assert "[b] " in result.stderr


@pytest.mark.parametrize("hosts", ["a", "a,a", ","])
def test_launch_wants_different_hosts(tmp_path, hosts):
    result = launched(tmp_path, "plan.json", hosts=hosts)
    assert result.returncode == 2
    assert "does not name two or more different hosts" in result.stderr
    assert not Path(tmp_path / "asked").exists()
