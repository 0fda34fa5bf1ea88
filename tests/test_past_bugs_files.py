"""Past bugs of files and folders, and of generated programs that write them."""

import json
import os
import re
import stat
import subprocess
import sys
import tempfile

import pytest
import torch
from torch import nn

import hyperplace
from hyperplace.cli.folder import held
from hyperplace.errors import FileError, HyperplaceError, UsageError
from hyperplace.files.cluster import load_cluster
from hyperplace.files.profile import parse_profile, profile_text
from hyperplace.files.write import read_text, write_text
from hyperplace.steps.partition import sandbox
from hyperplace.values.profile import LayerCost, Profile, Work
from hyperplace.values.program import Message, PartProgram, Piece, Program, Receive, Segment, Send
from hyperplace.values.timeline import Event, Timeline

CLI = (sys.executable, "-c", "from hyperplace.cli import main; main()")


def command(*words, **more):
    return subprocess.run([*CLI, *words], capture_output=True, text=True, timeout=120, check=False, **more)


def test_a_private_file_stays_private(tmp_path):
    """A file of mode 0600 was 0644 after it had been written again."""
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o600)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_does_not_lead_out_of_its_folder(tmp_path):
    """A link in the folder of results replaced whatever it pointed to, anywhere."""
    (tmp_path / "out").mkdir()
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "out" / "plan.json").symlink_to(tmp_path / "mine")
    write_text(tmp_path / "out" / "plan.json", "plan")
    assert (tmp_path / "mine").read_text() == "precious"
    assert (tmp_path / "out" / "plan.json").read_text() == "plan"


@pytest.mark.parametrize("name", ["n" * 5000, b"caf\xe9"])
def test_names_that_cannot_be_written(tmp_path, name):
    """An over-long or undecodable --out was a traceback."""
    asked = command("partition", "lenet5", "--k", "2", "--out", name, cwd=tmp_path)
    assert asked.returncode == 1
    assert re.fullmatch(r"error: cannot write to [^\n]*; choose another --out\n", asked.stderr), asked.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_behind_stdout():
    """It was a traceback, or an exception ignored at the very end."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([*CLI, "models"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: cannot write to stdout: no space left on device\n"


def test_two_trainings_do_not_share_a_folder(tmp_path):
    """Each overwrote the other's checkpoint."""
    script = f"""
from pathlib import Path
from hyperplace.cli.folder import held
with held(Path({str(tmp_path)!r})):
    print("held", flush=True)
    input()
"""
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(FileError, match="another command"), held(tmp_path):
            pass
    finally:
        other.communicate(b"\n", timeout=30)
    with held(tmp_path):
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_folders_of_killed_searches_are_removed(monkeypatch, tmp_path):
    """A killed search left up to 189 MB in the temporary folder for ever."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    dead, alive = (tmp_path / f"{sandbox._family()}{pid}-abc" for pid in (gone.pid, os.getpid()))
    for folder in (dead, alive, tmp_path / "other"):
        folder.mkdir()
    sandbox._sweep.__wrapped__()
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, "other"}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A generated program as a file."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3))
    plan = hyperplace.place(model, torch.empty(4, 1, 6, 6), k=2, partitioner="incremental")
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(hyperplace.generate(model, plan))
    return path


@pytest.mark.parametrize(
    "words",
    [("--steps", "0"), ("--in-flight", "0"), ("--batch", "-1"), ("--weights", "missing"), ("--weights", "{file}")],
)
def test_wrong_options_of_a_generated_program(program, words):
    """Each was a traceback."""
    asked = [word.format(file=program) for word in words]
    done = subprocess.run(
        [sys.executable, str(program), *asked], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr


def test_a_save_that_fails_leaves_the_old_weights(program, tmp_path):
    """A full disk or a kill in the middle of --save left half a file in the place of the old one."""
    path = tmp_path / "weights.pt"
    words = [sys.executable, str(program), "--steps", "1", "--save", str(path)]
    assert subprocess.run(words, capture_output=True, timeout=120, check=False).returncode == 0
    assert set(torch.load(path, weights_only=True)) == {"0.weight", "0.bias", "3.weight", "3.bias"}
    assert [other.name for other in tmp_path.iterdir()] == ["weights.pt"]
    blocked = [*words[:-1], str(tmp_path / "weights.pt" / "below")]
    done = subprocess.run(blocked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write ")


# Found by mutated files (tests/sweeps/mutated_files.py).


def test_what_a_file_says_is_printed_as_one_line(tmp_path):
    """Names of a file went into messages as they were: line breaks, colours of the terminal, a megabyte."""
    text = profile_text(Profile("flops", "flops", 1, (LayerCost("a", Work(1.0)),)))
    for name in ("a\nb", "\x1b[31m", "\u202e", "a" * 10**6):
        with pytest.raises(FileError) as caught:
            parse_profile(text.replace('"costs": "flops"', f'"costs": {json.dumps(name)}'), "profile.json")
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("text", ["x = " + "9" * 5000, "x = " + "[" * 5000, "\0"])
def test_a_cluster_file_that_toml_stumbles_over(tmp_path, text):
    """A whole number of 5000 digits was a ValueError."""
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(FileError, match="is no TOML"):
        load_cluster(tmp_path / "c.toml")


@pytest.mark.parametrize("text", ["n" * 5000, "a\0b", "2x1@" + "9" * 5000 + "gbit"])
def test_a_cluster_that_is_neither_file_nor_short_form(text):
    """A long name was an OSError."""
    with pytest.raises(UsageError):
        load_cluster(text)


def test_times_that_are_finite_but_not_their_thousandfold():
    """1e308 microseconds were believed, and an OverflowError where the timeline was written as a trace."""
    with pytest.raises(HyperplaceError, match="no number up to"):
        Timeline(1, (Event(0, "forward", "a", 0, 0.0, 1e308),))


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")
def test_a_file_without_end():
    """It was read until the memory was full."""
    with pytest.raises(FileError, match="more than 256 MiB"):
        read_text("/dev/zero")


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "plan.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match="more than 256 MiB"):
        read_text(tmp_path / "plan.json")


def test_a_message_of_bytes_that_no_terminal_shows():
    """It was cut to 1,500 characters, each of which was then escaped into four."""
    with pytest.raises(UsageError) as caught:
        load_cluster("1\0" * 5000 + "x1@1gbit")
    assert len(str(caught.value)) < 1600


PROGRAM_FAULTS = {
    "segments that wait for each other": (
        {
            "parts": (
                PartProgram(segments=(Segment("s0", (Receive(1),), (Send(0),)),)),
                PartProgram(segments=(Segment("s0", (Receive(0),), (Send(1),)),)),
            ),
            "messages": (Message(0, "a", 0, 1, (1,)), Message(1, "b", 1, 0, (1,))),
        },
        r"in a circle: s0 of part \d -> s0 of part \d -> s0 of part \d",
    ),
    "a tensor of two shapes": (
        {"parts": (PartProgram({"a": Piece("a", (2, 2))}), PartProgram({"b": Piece("a", (4,))}))},
        r"a is float32 of \(2, 2\) and float32 of \(4,\)",
    ),
}


@pytest.mark.parametrize("what", PROGRAM_FAULTS)
def test_an_edited_program(what):
    """Both were found by nobody before the schedule, or the trainer, ended in an AssertionError or a ValueError."""
    tables, said = PROGRAM_FAULTS[what]
    with pytest.raises(UsageError, match=said):
        Program("net", ((1,),), batch=1, **tables)
