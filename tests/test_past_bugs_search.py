"""Bugs of the search and its commands: each test says what the bug did to a user."""

import io
import re
import signal
import subprocess
import sys
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
from hyperplace.cli.terminal import Shown
from hyperplace.comparing import grain_rows
from hyperplace.errors import HyperplaceError, ModelError, UsageError
from hyperplace.files.profile import cache_path, profile_text
from hyperplace.files.write import write_text
from hyperplace.models import load_model
from hyperplace.report.plan import better_lines, parts_table
from hyperplace.search import Watch, compiled, search
from hyperplace.search.race import Stop, Task, race
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
