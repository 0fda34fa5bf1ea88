"""Profile files read back what was written, say what is wrong with anything else, and are cached by what counts."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperplace.errors import FileError, UsageError
from hyperplace.files.profile import cache_path, parse_profile, profile_text
from hyperplace.values.graph import Graph, Layer, Rule
from hyperplace.values.profile import LayerCost, Profile, Timing, Work

TIMING = Timing(2, 5, Work(0.1, 0.2), Work(), 1e-9, Work(0.05, 0.15), Work(0.1, 0.15), Work(0.06, 0.12), 0.5)
CONV = LayerCost("conv", Work(0.5, 1.0, 0.1), Work(0.2, 0.3), Work(0.05, 0.2), TIMING)
PROFILE = Profile(
    "measured",
    "us",
    32,
    (LayerCost("x", Work()), CONV, LayerCost("odd", Work(0.5, 1.5), note="not run (no)")),
    "AMD EPYC, 2 threads, cpu, torch 2.13.0",
)
seconds = st.floats(0, 1e12)
works = st.builds(Work, seconds, seconds, seconds)
timings = st.builds(Timing, st.integers(1, 64), st.integers(1, 20), works, works, seconds, works, works, works, seconds)
costs = st.builds(LayerCost, st.text(), works, works, works, st.none() | timings, st.text(), seconds)


@settings(max_examples=30)
@given(st.lists(costs, unique_by=lambda cost: cost.layer, max_size=4), st.integers(1, 4096), st.text())
def test_reads_back_what_it_wrote(layers, batch, machine):
    profile = Profile("measured", "us", batch, tuple(layers), machine)
    assert parse_profile(profile_text(profile), "p.json") == profile


@pytest.mark.parametrize("length", [0, 1, 30, 300])
def test_a_truncated_profile_is_refused(length):
    with pytest.raises(FileError, match=r"^p\.json: not a profile file, or cut short"):
        parse_profile(profile_text(PROFILE)[:length], "p.json")


def edited(*path, to):
    data = entry = json.loads(profile_text(PROFILE))
    for step in path[:-1]:
        entry = entry[step]
    if to is KeyError:
        del entry[path[-1]]
    else:
        entry[path[-1]] = to
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "not a profile file"),
        (edited("hyperplace", to="plan"), "not a profile file"),
        (edited("version", to=2), "profile version 2 cannot be read, only 4; measure again with hyperplace profile"),
        (edited("machine", to=KeyError), "profile has no 'machine'"),
        (edited("surprise", to=1), "profile has an unknown entry 'surprise'"),
        (edited("layers", 1, "timing", "rows", to=KeyError), "profile.layers[1].timing has no 'rows'"),
        (edited("layers", 1, "filter", "forward", to="1"), 'profile.layers[1].filter.forward must be float, not "1"'),
        (edited("layers", 1, "tail", "update", to=KeyError), "profile.layers[1].tail has no 'update'"),
        (edited("layers", 1, "timing", to=3), "profile.layers[1].timing must be an object, not 3"),
        (edited("batch", to=1.5), "profile.batch must be int, not 1.5"),
        (edited("layers", 1, "filter", "update", to=float("nan")), "NaN is not a number"),
        (edited("layers", 1, "filter", "update", to=-1), "layer conv has a cost that is negative or not a number"),
        (edited("layers", 1, "timing", "half_filters_s", "backward", to=-1), "layer conv has a cost that is negative"),
        (edited("layers", 1, "timing", "spread", to=-0.5), "layer conv has a cost that is negative or not"),
        (edited("layers", 1, "timing", "rows", to=0), "layer conv was timed with no rows or no repeats"),
        (edited("layers", 0, "layer", to="conv"), "two layers have one name"),
        (edited("batch", to=0), "batch 0 has no rows"),
        (edited("unit", to="flops"), "costs 'measured' in 'flops' are unknown"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(FileError) as caught:
        parse_profile(text, "p.json")
    assert str(caught.value).startswith("p.json: ")
    assert message in str(caught.value)


def small_graph(filters=3, rows=2):
    return Graph((Layer("x", "input", Rule.INPUT, filters, 4),), (), rows)


def test_the_cache_knows_all_a_timing_depends_on(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    paths = {
        cache_path(small_graph(), 32, "cpu", 1),
        cache_path(small_graph(4), 32, "cpu", 1),
        cache_path(small_graph(rows=3), 32, "cpu", 1),
        cache_path(small_graph(), 64, "cpu", 1),
        cache_path(small_graph(), 32, "cpu:0", 1),
        cache_path(small_graph(), 32, "cpu", 2),
    }
    monkeypatch.setattr("torch.__version__", "0.1")
    paths.add(cache_path(small_graph(), 32, "cpu", 1))
    assert len(paths) == 7
    assert {path.parent for path in paths} == {tmp_path / "hyperplace" / "profiles"}
    assert cache_path(small_graph(), 32, "cpu", 1) in paths


def test_the_cache_is_below_home_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path / ".cache" in cache_path(small_graph(), 1).parents


def test_a_profile_that_exists_is_valid():
    with pytest.raises(UsageError, match="batch 0 has no rows; two layers have one name"):
        replace(PROFILE, batch=0, layers=PROFILE.layers * 2)
