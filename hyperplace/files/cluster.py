"""Clusters as TOML: a table per host, and one per device in it. Nothing else may stand there.

[[hosts]]
name = "a"
rate = "1gbit"            # in_rate and out_rate, where they differ; bytes per second as a number
latency_s = 0.0001
[[hosts.devices]]
kind = "cpu"
speed = 1.0
memory_bytes = "16gib"
"""

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from hyperplace.errors import FileError, UsageError
from hyperplace.files.write import read_text
from hyperplace.values.cluster import Cluster, Device, Host, parse_amount, parse_cluster, parse_rate

BYTES_OF = {"mib": 2.0**20, "gib": 2.0**30}
MOST_CHARACTERS = 1_000_000


def load_cluster(text: str | Path) -> Cluster:
    """Return the cluster of a short form such as 4x1@1gbit, or of a file."""
    path = Path(text)
    if path.suffix == ".toml" or os.path.exists(path):  # which says no of a name that cannot be
        return read_cluster(read_text(path), str(path))
    return parse_cluster(str(text))


def read_cluster(text: str, name: str = "cluster") -> Cluster:
    """Return the cluster that a TOML text describes."""
    if len(text) > MOST_CHARACTERS:
        raise FileError(f"{name} has {len(text)} characters; a cluster has at most {MOST_CHARACTERS}")
    try:
        content = tomllib.loads(text)
        _check_keys(content, {"hosts"}, name)
        tables = _tables(content, "hosts", name)
        return Cluster(tuple(_host(table, f"{name}: host {number}") for number, table in enumerate(tables)))
    except (ValueError, RecursionError) as fault:
        raise FileError(f"{name} is no TOML: {fault}") from None
    except UsageError as fault:
        raise FileError(f"{name}: {fault}") from None


def cluster_text(cluster: Cluster) -> str:
    """Return a cluster as TOML, such that reading it gives the same value."""
    lines = ["# Rates are bytes per second, times seconds; speed is relative to where the costs were measured."]
    for host in cluster.hosts:
        lines += ["", "[[hosts]]", *_lines(host)]
        for device in host.devices:
            lines += ["[[hosts.devices]]", *_lines(device)]
    return "\n".join(lines) + "\n"


def _lines(value: Host | Device) -> list[str]:
    """Return what a host or device has that is not as by default."""
    found = {field.name: getattr(value, field.name) for field in fields(value) if field.name != "devices"}
    default = {field.name: field.default for field in fields(value) if field.default is not MISSING}
    shown = {name: one for name, one in found.items() if one != default.get(name, MISSING) or name in ("kind", "speed")}
    return [f"{name} = {_shown(one)}" for name, one in shown.items()]


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    escaped = "".join(f"\\u{ord(c):04x}" if c in '"\\' or ord(c) < 32 or ord(c) == 127 else c for c in value)
    return f'"{escaped}"'


def _tables(content: Mapping[str, Any], key: str, name: str) -> list[Mapping[str, Any]]:
    found = content.get(key, [])
    if not (isinstance(found, list) and all(isinstance(one, dict) for one in found)):
        raise FileError(f"{name}: {key} must be tables, written [[{key}]]")
    return found


def _check_keys(table: Mapping[str, Any], known: set[str], name: str) -> None:
    if unknown := sorted(set(table) - known):
        raise FileError(f"{name} has the unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")


def _host(table: Mapping[str, Any], name: str) -> Host:
    _check_keys(table, {field.name for field in fields(Host)} | {"rate"}, name)
    numbers = {key: _number(table[key], f"{name}: {key}") for key in table if key not in ("name", "devices", "rate")}
    if "rate" in table:
        numbers = dict.fromkeys(("in_rate", "out_rate"), _number(table["rate"], f"{name}: rate")) | numbers
    devices = [_device(one, f"{name}, device {n}") for n, one in enumerate(_tables(table, "devices", name))]
    host = Host(_text(table.get("name"), f"{name}: name"), **numbers)  # type: ignore[arg-type]
    return replace(host, devices=tuple(devices)) if "devices" in table else host


def _device(table: Mapping[str, Any], name: str) -> Device:
    _check_keys(table, {field.name for field in fields(Device)}, name)
    numbers = {key: _number(table[key], f"{name}: {key}") for key in table if key != "kind"}
    if "memory_bytes" in numbers:
        if not math.isfinite(numbers["memory_bytes"]):
            raise FileError(f"{name}: memory_bytes must be a finite number; leave it out where there is no limit")
        numbers["memory_bytes"] = int(numbers["memory_bytes"])
    return Device(_text(table.get("kind", "cpu"), f"{name}: kind"), **numbers)  # type: ignore[arg-type]


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise FileError(f"{name} must be a text")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, str):
        return parse_rate(value) if name.endswith("rate") else parse_amount(value, BYTES_OF, "16gib")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FileError(f"{name} must be a number")
    return value
