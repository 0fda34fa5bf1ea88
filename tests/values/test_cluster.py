"""Clusters: short forms, files, and what is refused."""

import math

import pytest

from hyperplace.errors import FileError, UsageError
from hyperplace.files.cluster import cluster_text, load_cluster, read_cluster
from hyperplace.values.cluster import Cluster, Device, Host, parse_cluster, shown_rate

ODD = Cluster(
    (
        Host(
            'a "quoted"\\ name', (Device("gpu", 2.5, 16 * 2**30), Device()), 125e6, 250e6, 1e-4, 1e-9, 2e-9, 12e9, 1e-5
        ),
        Host("b", (Device(flops_per_s=1e12, copy_s_per_byte=2.5e-10),)),
    )
)


def test_short_forms_say_hosts_devices_and_what_joins_them():
    four = parse_cluster("4x1@1gbit")
    assert (len(four.hosts), four.num_devices) == (4, 4)
    assert {host.out_rate for host in four.hosts} == {host.in_rate for host in four.hosts} == {125e6}
    two = parse_cluster("2x4@10gbit,pcie,0.1ms")
    assert two.home == (0, 0, 0, 0, 1, 1, 1, 1)
    assert two.hosts[0].inside_rate == 12e9
    assert two.hosts[1].latency_s == pytest.approx(1e-4)
    assert parse_cluster("1x2").hosts[0].out_rate == math.inf


def test_bytes_take_the_slower_of_two_cards_and_within_a_host_its_own_link():
    cluster = Cluster((Host("a", (Device(), Device()), 100.0, 50.0, 0.5, inside_rate=1000.0), Host("b", in_rate=80.0)))
    assert cluster.lag(0, 2, 800) == 0.5 + 10
    assert cluster.lag(2, 0, 800) == 16
    assert cluster.lag(0, 1, 800) == 0.8


@pytest.mark.parametrize("cluster", [ODD, parse_cluster("3x2@100mbit,nvlink"), parse_cluster("1x1")])
def test_a_file_gives_the_same_cluster(cluster, tmp_path):
    (tmp_path / "c.toml").write_text(cluster_text(cluster))
    assert load_cluster(tmp_path / "c.toml") == cluster


def test_files_may_say_rates_and_sizes_in_words():
    found = read_cluster(
        '[[hosts]]\nname="a"\nrate="1gbit"\nin_rate="100mbit"\n[[hosts.devices]]\nmemory_bytes="16gib"\n'
    )
    assert (found.hosts[0].out_rate, found.hosts[0].in_rate) == (125e6, 12.5e6)
    assert found.devices == (Device(memory_bytes=16 * 2**30),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no hosts"),
        ("hosts = 3", r"\[\[hosts\]\]"),
        ("[[hosts]]\n", "name must be a text"),
        ('[[hosts]]\nname="a"\nspeed=1', "unknown key 'speed'"),
        ('[[hosts]]\nname="a"\nrate=-1', "must be above 0"),
        ('[[hosts]]\nname="a"\nrate=nan', "must be above 0"),
        ('[[hosts]]\nname="a"\nrate=true', "must be a number"),
        ('[[hosts]]\nname="a"\nrate="fast"', "1gbit"),
        ('[[hosts]]\nname="a"\nlatency_s=-1', "must be 0 or more"),
        ('[[hosts]]\nname="a"\ndevices=[]', "no devices"),
        ('[[hosts]]\nname="a"\n[[hosts.devices]]\nmemory_bytes=0', "must be above 0"),
        ('[[hosts]]\nname="a"\n[[hosts]]\nname="a"', "two hosts"),
        ('[[hosts]]\nname="a"\n[[hosts.devices]]\nsped=1', "unknown key 'sped'"),
        ("[[hosts", "no TOML"),
        ("x" * 1_000_001, "characters"),
    ],
)
def test_what_is_no_cluster_is_refused_in_one_line(text, said):
    with pytest.raises(FileError, match=said) as refused:
        read_cluster(text, "c.toml")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "4", "4x1@fast", "4x1@0gbit", "0x1", "2x0", "9999x9999@1gbit", "2x1@1gbit,ether"])
def test_what_is_no_short_form_is_refused(text):
    with pytest.raises(UsageError):
        parse_cluster(text)


def test_a_missing_file_and_too_many_parts_are_refused(tmp_path):
    with pytest.raises(FileError, match="cannot read"):
        load_cluster(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="3 parts need as many devices"):
        parse_cluster("2x1").check_parts(3)


def test_costs_in_flops_need_to_know_how_many_a_device_does():
    assert Device(speed=2, flops_per_s=10.0).seconds(40, "flops") == 2
    assert Device(speed=2).seconds(4e6, "us") == 2
    with pytest.raises(UsageError, match="flops_per_s"):
        Device().seconds(1, "flops")


def test_rates_are_shown_as_bits():
    assert shown_rate(125e6) == "1 Gbit/s"
    assert shown_rate(12.5e6) == "100 Mbit/s"
