"""Clusters and pins that cannot be: one line, exit code 1 or 2, and nothing written, whatever the command."""

import pytest

LENET = ("lenet5", "--batch", 4, "--time-limit", 1)
PINS = ("--keep-together", "features.0,features.3", "--keep-together", "features.3,features.6")
HOST = '[[hosts]]\nname = "a"\n'
TWO = f'{HOST}[[hosts]]\nname = "b"\n'


def device(text):
    return f"{HOST}[[hosts.devices]]\n{text}\n"


FILES = {
    "unknown key": ('[[hosts]]\nname = "a"\nspeed = 2\n', "unknown key 'speed'; known are"),
    "unknown key of a device": (device("rate = 1"), "unknown key 'rate'; known are"),
    "unknown table": ("[net]\nrate = 1\n", "unknown key 'net'; known are hosts"),
    "negative bandwidth": (f"{HOST}rate = -1e9\n", "-1e+09; it must be above 0"),
    "bandwidth 0": (f'{HOST}rate = "0gbit"\n', "has the out_rate 0; it must be above 0"),
    "bandwidth no number": (f"{HOST}rate = nan\n", "nan; it must be above 0"),
    "negative bandwidth in words": (f'{HOST}rate = "-1gbit"\n', "-1gbit is not a number with one of"),
    "negative latency": (f"{HOST}latency_s = -1\n", "latency_s -1; it must be 0 or more"),
    "memory 0": (device("memory_bytes = 0"), "memory_bytes 0; it must be above 0"),
    "memory of less than a byte": (device("memory_bytes = 0.5"), "memory_bytes 0; it must be above 0"),
    "memory without end": (device("memory_bytes = inf"), "memory_bytes must be a finite number"),
    "memory no number": (device("memory_bytes = nan"), "memory_bytes must be a finite number"),
    "memory below 0": (device("memory_bytes = -5"), "memory_bytes -5; it must be above 0"),
    "speed 0": (device("speed = 0"), "speed 0; it must be above 0"),
    "no hosts": ("", "it has no hosts"),
    "no devices": (f"{HOST}devices = []\n", "has no devices"),
    "twice the same name": (HOST + HOST, "two hosts have the name 'a'"),
    "no TOML": ("[[hosts\n", "is no TOML"),
}


def refused(ran, tmp_path, said):
    """Check that a command ended with one line that says it, and left nothing."""
    assert ran.code in (1, 2), ran.out + ran.err
    (line,) = [line for line in ran.err.splitlines() if line.startswith("error")]
    assert said in line
    assert "Traceback" not in ran.err
    assert not ran.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_cluster_is_refused(run, tmp_path, name):
    text, said = FILES[name]
    (tmp_path / "c.toml").write_text(text)
    command = ("partition", "simulate")[list(FILES).index(name) % 2]
    ran = run(command, *LENET, "--cluster", tmp_path / "c.toml", "--out", tmp_path / "out")
    refused(ran, tmp_path, said)


@pytest.mark.parametrize("command", ["partition", "simulate"])
@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("2x1@-1gbit", "-1gbit is not a number with one of"),
        ("0x1", "no hosts"),
        ("2x0", "has no devices"),
        ("two", "neither a file"),
    ],
)
def test_a_short_form_that_is_no_cluster_is_refused(run, tmp_path, command, cluster, said):
    refused(run(command, *LENET, "--cluster", cluster, "--out", tmp_path / "out"), tmp_path, said)


def test_more_parts_than_devices_are_refused(run, tmp_path):
    ran = run("partition", *LENET, "--k", 3, "--cluster", "2x1@1gbit", "--out", tmp_path / "out")
    refused(ran, tmp_path, "3 parts need as many devices, and the cluster has 2")


def test_a_plan_of_more_parts_than_devices_is_refused(run, tmp_path):
    made = run("partition", "lenet5", "--k", 3, "--partitioner", "layerwise", "--out", tmp_path / "plan", "--json")
    assert made.code == 0, made.err
    for command, more in (("simulate", ()), ("train", ("--data", "synthetic", "--images", 16, "--epochs", 1))):
        plan = tmp_path / "plan" / "plan.json"
        ran = run(command, plan, "--cluster", "2x1@1gbit", *more, "--out", tmp_path / "out")
        refused(ran, tmp_path, "3 parts need as many devices, and the cluster has 2")


def test_a_cycle_of_pins_on_two_parts_is_refused_and_one_on_none_is_taken(run, tmp_path):
    there = ("--pin", "features.0=0", "--pin", "features.6=1", *PINS)
    for cluster in (("--cluster", "2x1@1gbit"), ("--k", 2)):
        ran = run("partition", *LENET, *cluster, *there, "--out", tmp_path / "out")
        refused(ran, tmp_path, "features.0 is pinned to part 0 and features.6 to part 1, but they are kept together")
    round_about = (*PINS, "--keep-together", "features.6,features.0")
    ran = run("partition", *LENET, "--k", 2, "--imbalance", 1, *round_about, "--json", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
