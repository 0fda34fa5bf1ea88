"""Bugs of the search, its commands and its files: each test says what the bug did to a user."""

import io
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from rich.progress import Progress
from torch import nn

import hyperplace
from hyperplace import machine_code, planning
from hyperplace.cli.folder import held
from hyperplace.cli.terminal import Shown
from hyperplace.comparing import grain_rows
from hyperplace.errors import FileError, HyperplaceError, ModelError, UsageError
from hyperplace.files.profile import cache_path, profile_text
from hyperplace.files.write import write_text
from hyperplace.models import load_model
from hyperplace.report.plan import better_lines, parts_table
from hyperplace.search import Watch, compiled, search
from hyperplace.search.race import Stop, Task, race
from hyperplace.steps.partition import sandbox
from hyperplace.values.comparison import ComparisonRow
from hyperplace.values.plan import Settings
from hyperplace.values.sizes import size

CLI = (sys.executable, "-c", "from hyperplace.cli import main; main()")


def command(*words, **more):
    return subprocess.run([*CLI, *words], capture_output=True, text=True, timeout=120, check=False, **more)


def graph_of(name):
    loaded = load_model(name)
    return planning.capture(loaded.module, loaded.sample)


# Time.


@pytest.mark.timeout(60)
@pytest.mark.parametrize("grain", ["auto", "coarse", "fine", "hybrid"])
def test_the_time_limit_holds_for_all_grains_together(grain):
    """Blocksnet with a limit of 5 s took 77 s: only some searches looked at the clock, and each grain set it back."""
    loaded = load_model("blocksnet")
    settings = Settings(model="blocksnet", k=3, imbalance=0.1, grain=grain, partitioner="auto", costs="flops", batch=32)
    placement = planning.run(loaded.module, loaded.sample, settings, watch=Watch(2))
    assert placement.seconds["partition"] < 4
    assert placement.plan.metrics.feasible
    assert placement.left_out or not placement.plan.metrics.is_cut_short


def test_every_grain_shows_its_own_seconds():
    """All grains were timed by one clock, so that each row showed the seconds of all together."""
    loaded = load_model("lenet5")
    settings = Settings(model="lenet5", k=3, imbalance=0.1, grain="auto", partitioner="auto", costs="flops", batch=32)
    placement = planning.run(loaded.module, loaded.sample, settings, watch=planning.Watch(4))
    total = placement.seconds["partition"]
    own = {one.plan.settings.grain: one.search_s for one in (placement, *placement.others)}
    assert own.keys() == {"coarse", "fine", "hybrid"}
    assert all(0 < seconds < total for seconds in own.values())
    assert own["coarse"] + own["hybrid"] <= total + 0.1, "hybrid begins when coarse has ended"
    assert [row.seconds for row in grain_rows(placement)] == [other.search_s for other in placement.others]


@pytest.mark.timeout(60)
def test_a_task_that_never_looks_at_the_clock_is_left_behind():
    """A library that computed for itself held up the answer, however long it took."""
    stop, released = Stop(0.2), threading.Event()
    begin = time.monotonic()
    race([[Task("stubborn", lambda: released.wait(30) and None), Task("next", lambda: None)]], stop)
    released.set()
    assert time.monotonic() - begin < 5
    assert stop.left_out == ["stubborn", "next"]
    assert stop.is_cut_short


@pytest.mark.timeout(60)
def test_a_cold_cache_does_not_hold_up_the_answer(monkeypatch):
    """The first search of all compiled for 20 s, whatever the limit was."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(machine_code, "is_kept", lambda search: False)
    monkeypatch.setattr(compiled, "_compiler", lambda search: sleeper)
    left_out = []
    graph = graph_of("lenet5")
    settings = Settings(model="lenet5", k=8, imbalance=0.3, grain="coarse", partitioner="auto", costs="flops", batch=32)
    begin = time.monotonic()
    try:
        search(graph, planning.profile(graph, costs="flops"), settings, Watch(2, on_left_out=left_out.append))
    finally:
        sleeper.kill()
        sleeper.wait(30)
    assert time.monotonic() - begin < 4
    assert any("compiling" in what for what in left_out)


def test_machine_code_is_kept_by_the_hash_of_all_its_source(monkeypatch, tmp_path):
    """After a change in one file, numba ran the old machine code of functions in another."""
    (tmp_path / "steps/symmetric").mkdir(parents=True)
    names = []
    for text, version in (("one", "1"), ("two", "1"), ("two", "2"), ("two", "2")):
        (tmp_path / "steps/symmetric/compiled.py").write_text(text)
        monkeypatch.setattr(machine_code, "HERE", tmp_path)
        monkeypatch.setattr(machine_code.numba, "__version__", version)
        names.append(machine_code.folder.__wrapped__().name)
    assert len(set(names[:3])) == 3
    assert names[2] == names[3]


def test_whatever_is_compiled_is_hashed():
    """A file outside the hash would bring stale machine code back."""
    package = Path(machine_code.__file__).parent
    hashed = {path for pattern in machine_code.SOURCES for path in package.glob(pattern)}
    compiled_files = {
        path for path in package.rglob("*.py") if re.search(r"^@(entry|inner|inlined)", path.read_text(), re.M)
    }
    assert compiled_files
    assert compiled_files <= hashed


@pytest.mark.parametrize("limit", [float("nan"), -1.0, float("inf")])
def test_a_time_limit_that_is_none(limit):
    """A limit of nan searched for ever."""
    with pytest.raises(UsageError, match="time limit"):
        hyperplace.place(nn.Conv2d(3, 4, 3), torch.empty(2, 3, 8, 8), k=2, time_limit_s=limit)


def test_the_bar_of_measured_layers_never_stands_full():
    """The bar stood full with its clock frozen while the search went on."""
    bars = Progress(console=Console(file=io.StringIO()))
    task = bars.add_task("measuring", total=None, words="")
    shown = Shown(bars, task)
    for done in range(4):
        shown.on_layer(done, 3, "layer")
    assert not bars.tasks[0].finished
    shown.on_progress("best 1 MiB")
    assert bars.tasks[0].finished_time is None


@pytest.mark.timeout(120)
def test_an_interrupt_while_comparing_ends_the_command(tmp_path):
    """Ctrl-C in train, bench and compare kept the best placement so far, and went on as if nothing had been said."""
    words = ("compare", "resnet18", "--k", "8", "--methods", "auto,hybrid", "--time-limit", "100", "--out", tmp_path)
    process = subprocess.Popen([*CLI, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(12)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


# What is given.


@pytest.mark.parametrize("model", [5, len, "vgg16"])
def test_what_is_no_module(model):
    """A function or a number instead of a model was an AttributeError."""
    with pytest.raises(ModelError, match=r"give an nn\.Module"):
        hyperplace.place(model, torch.empty(2, 3, 8, 8), k=2)


def test_a_plan_is_for_the_rows_of_the_sample():
    """A plan from Python was for 32 rows, whatever the sample had."""
    model, sample = nn.Conv2d(3, 4, 3), torch.empty(6, 3, 8, 8)
    assert hyperplace.place(model, sample, k=2, partitioner="incremental").settings.batch == 6
    assert hyperplace.place(model, sample, k=2, partitioner="incremental", batch=9).settings.batch == 9


def test_python_hears_of_progress():
    """Only the command line could show how far a search had come."""
    heard = []
    hyperplace.place(nn.Conv2d(3, 4, 3), torch.empty(2, 3, 8, 8), k=2, grain="coarse", on_progress=heard.append)
    assert any(text.startswith("best ") for text in heard)


@pytest.mark.parametrize("batch", [10**9, 10**30, -3])
def test_batches_that_no_memory_holds(batch):
    """A batch of a thousand million rows took 24 GB before anything was said, a larger one an OverflowError."""
    with pytest.raises(UsageError, match="batch") as refused:
        hyperplace.place(nn.Conv2d(3, 4, 3), torch.empty(2, 3, 8, 8), k=2, batch=batch)
    assert "--" not in str(refused.value), "Python has no flags"
    with pytest.raises(UsageError, match="batch"):
        planning.profile(graph_of("lenet5"), batch=batch)


def test_a_profile_of_another_model_is_refused():
    """Layers of one name and other sizes: lenet5's profile was used for any model with the same names."""
    small, large = (planning.capture(nn.Conv2d(3, n, 3), torch.empty(2, 3, 8, 8)) for n in (4, 8))
    found = planning.profile(small, costs="flops", batch=2)
    assert planning.checked_profile(found, small, 2, "it") is found
    for graph, batch in ((large, 2), (small, 4), (graph_of("lenet5"), 2)):
        with pytest.raises(UsageError, match=r"^it "):
            planning.checked_profile(found, graph, batch, "it")


@pytest.mark.parametrize(("costs", "asked"), [("flops", "measured"), ("measured", "flops")])
def test_a_plan_has_the_costs_of_the_profile_it_was_made_with(monkeypatch, tmp_path, costs, asked):
    """A plan by counted FLOPs called itself measured, and one by seconds said flops."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph = planning.capture(nn.Conv2d(3, 4, 3), torch.empty(2, 3, 8, 8))
    settings = Settings(
        model="net", k=2, imbalance=9.0, grain="coarse", partitioner="incremental", costs=asked, batch=2
    )
    found = planning.place_graph(graph, planning.profile(graph, costs=costs, batch=2), settings)
    assert found.settings == replace(settings, costs=costs)


def test_a_profile_of_another_batch_in_the_cache_is_not_used(monkeypatch, tmp_path):
    """A file in the cache was believed, whatever was in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph = planning.capture(nn.Conv2d(3, 4, 3), torch.empty(2, 3, 8, 8))
    right = planning.profile(graph, batch=2)
    write_text(cache_path(graph, 2), profile_text(replace(right, batch=7)))
    assert planning.profile(graph, batch=2).batch == 2


def test_a_partition_does_not_overwrite_the_folder_it_lies_in(tmp_path):
    """The plan a vector was taken from was replaced without a question."""
    first = command("partition", "lenet5", "--k", "2", "--partitioner", "incremental", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    folder = tmp_path / "results/lenet5-k2-coarse"
    before = (folder / "plan.json").read_bytes()
    again = command("partition", "lenet5", "--k", "2", "--from-partition", str(folder / "partition.txt"), cwd=tmp_path)
    assert again.returncode == 2
    assert "would be replaced" in again.stderr
    assert (folder / "plan.json").read_bytes() == before


def test_version_and_help():
    """There was neither --version nor -h."""
    assert command("--version").stdout.strip() == f"hyperplace {hyperplace.__version__}"
    assert "Usage" in command("partition", "-h").stdout


# What is said.


def test_small_sizes_that_differ_look_different():
    """ "0.3 MiB instead of 0.3" stood under a row of 1.01 x."""
    assert size(300_000) == "293.0 KiB"
    assert size(310_000) == "302.7 KiB"
    assert size(2**20) == "1.0 MiB"


def test_data_parallelism_is_judged_by_its_own_row():
    """Its formula was said to move less than the plan, while its row, with all that it moves, said more."""
    plan = hyperplace.place(
        nn.Conv2d(3, 8, 3), torch.empty(8, 3, 8, 8), k=2, grain="hybrid", partitioner="dataparallel"
    )
    cheap = replace(plan, metrics=replace(plan.metrics, data_parallel_bytes=1))
    row = ComparisonRow.of("data parallelism", plan, None, 0.0)
    assert better_lines(cheap, [row]) == []
    assert better_lines(cheap, []) != []


def test_parts_that_receive_something_receive_messages():
    """Parts of a data parallel plan received 40 MiB in 0 messages: those of the weights were not counted."""
    plan = hyperplace.place(
        nn.Conv2d(3, 8, 3), torch.empty(8, 3, 8, 8), k=2, grain="hybrid", partitioner="dataparallel"
    )
    table = parts_table(plan)
    (received,) = (name for name in table.headings if name.startswith("received"))
    assert [size > 0 for size in table[received]] == [count > 0 for count in table["messages in"]]
    assert sum(table["messages in"]) > 0


# Files.


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
        with pytest.raises(FileError, match="another training"), held(tmp_path):
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


def test_every_message_of_python_is_a_hyperplace_error():
    """k='2' is for others; k=0, imbalance=-1 and seed=-1 name arguments, not flags."""
    for wrong in ({"k": 0}, {"imbalance": -1.0}, {"seed": -1}, {"row_blocks": 0}, {"blocks": 0}):
        with pytest.raises(HyperplaceError) as refused:
            hyperplace.place(nn.Conv2d(3, 4, 3), torch.empty(2, 3, 8, 8), **{"k": 2} | wrong)
        assert "--" not in str(refused.value)


def test_ratios_below_one_mib_keep_their_digits():
    """The parts' table said 0.0 sent of 0.1."""
    plan = hyperplace.place(nn.Conv2d(3, 8, 3), torch.empty(2, 3, 8, 8), k=2, partitioner="incremental")
    table = parts_table(plan)
    assert "sent KiB" in table.headings
    assert np.isclose(sum(table["sent KiB"]) * 1024, plan.metrics.volume_bytes)
