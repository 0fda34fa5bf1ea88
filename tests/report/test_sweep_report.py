"""The speed-ups of a sweep as a table and a figure, and what is said of devices that nobody has measured."""

from dataclasses import replace

import pytest
import torch
from report_examples import png
from torch import nn

from hyperplace import api
from hyperplace.report import forecast_document, sweep_document
from hyperplace.report.sweep import sweep_figure
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile


@pytest.fixture(scope="module")
def problem():
    graph = api.capture(nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)), torch.zeros(4, 2, 8, 8))
    costs = api.profile(graph, costs="flops", batch=4)
    settings = Settings(model="m", k=1, imbalance=0.1, grain="coarse", partitioner="auto", costs="measured", batch=4)
    return graph, Profile("measured", "us", 4, costs.layers, graph=costs.graph), settings


@pytest.fixture(scope="module")
def rows(problem):
    values = {"hosts": ["1", "2", "3"], "bandwidth": ["1mbit", "1gbit"]}
    flows = [api.FlowWish("async"), api.FlowWish("sync")]
    return api.sweep(*problem, api.load_cluster("1x1@1gbit"), values, flows, 4.0)


def test_a_column_per_cluster_and_a_row_per_method(rows):
    document = sweep_document(rows)
    assert document.data.headings[2:] == tuple(f"{n} at {rate}" for n in (1, 2, 3) for rate in ("1mbit", "1gbit"))
    for hosts, rate, one in rows:
        row = list(zip(document.data["method"], document.data["schedule"], strict=True)).index((one.name, one.schedule))
        assert document.data[f"{hosts} at {rate}"][row] == one.speed_up


def test_a_panel_per_bandwidth_and_schedule_with_a_curve_per_method(rows):
    figure = sweep_figure(rows)
    assert png(figure).startswith(b"\x89PNG")
    assert len(figure.axes) == 4
    for axes in figure.axes:
        curves = {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}
        assert {"layer-wise", "data parallelism", "parameter server", "by time"} <= set(curves)
        schedule, rate = axes.get_title(loc="left").split(", ")
        found = {
            n: one.speed_up for n, where, one in rows if (where, one.schedule, one.name) == (rate, schedule, "by time")
        }
        assert dict(zip(*curves["by time"].get_data(), strict=True)) == pytest.approx(found)
        assert list(curves["layer-wise"].get_xdata()) == [1, 2, 3], "one device alone is where all begin"


def test_of_devices_without_a_profile_it_is_said_that_they_are_scaled(problem):
    graph, costs, settings = problem
    hosts = (Host("a", (Device("cpu"),)), Host("b", (Device("gpu", 8.0), Device("tpu", 9.0))))
    said = "gpu, tpu: without a profile of its own; every layer is taken to take there what it takes on cpu"
    for cluster, is_said in ((Cluster(hosts), True), (Cluster((hosts[0], replace(hosts[0], name="c"))), False)):
        own = replace(settings, k=2, partitioner="incremental")
        plan = api.place_graph(graph, costs, own)
        document = forecast_document([api.forecast(graph, costs, plan, cluster)], cluster)
        texts = [block.text for section in document.sections for block in section.blocks if hasattr(block, "text")]
        assert any(said in text for text in texts) == is_said
