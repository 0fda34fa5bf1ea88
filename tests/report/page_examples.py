"""Plans of real models for pages, each made once, and names that would do harm if anything took them for markup."""

import json
from dataclasses import replace
from functools import cache

from hyperplace import api
from hyperplace.files.plan import parse_plan, plan_text
from hyperplace.models import load_model
from hyperplace.report.page import Subject
from hyperplace.values.cluster import Cluster, Device, Host, parse_cluster
from hyperplace.values.derived import derived
from hyperplace.values.plan import Owner, Settings
from hyperplace.values.timeline import Event, Timeline

HOSTILE = (
    "</script><img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "'-window.hacked=1-'",
    "<!--<script>window.hacked=1",
    "&lt;b&gt;\u2028 {{7*7}} ${window.hacked=1}",
)
MADE = {
    "vgg16": (4, "hybrid", "dataparallel"),  # but for the later layers, see `half_whole`
    "vgg16 other": (4, "coarse", "incremental"),
    "resnet50": (8, "coarse", "incremental"),
    "resnet50 other": (8, "coarse", "layerwise"),
    "lenet5": (2, "coarse", "layerwise"),
}


@cache
def placement(name):
    k, grain, partitioner = MADE[name]
    model = name.split()[0]
    side = 224 if model == "vgg16" else 64
    loaded = load_model(model, ((3, side, side),) if model != "lenet5" else None, device="meta")
    settings = Settings(model=model, k=k, imbalance=0.1, grain=grain, partitioner=partitioner, costs="flops", batch=32)
    made = api.run(loaded.module, loaded.sample, settings)
    return replace(made, plan=half_whole(made.plan)) if name == "vgg16" else made


def half_whole(plan):
    """Return the plan with its later layers whole on the last part: rows, layers and messages, and no search."""
    last, rows = plan.settings.k - 1, (0, plan.settings.batch)
    layers = list(plan.layers)
    for number in range(len(layers) // 2, len(layers)):
        layer = layers[number]
        filters = ((0, layer.num_filters),)
        shard = replace(layer.shards[0], part=last, filters=filters, rows=rows)
        layers[number] = replace(layer, owners=(Owner(last, filters, rows),), shards=(shard,))
    return derived(replace(plan, layers=tuple(layers), transfers=(), reductions=(), replicas=()))


@cache
def subject(name, **flow):
    made = placement(name)
    cluster = parse_cluster(f"{made.plan.settings.k}x1@1gbit,0.1ms")
    return Subject(made.plan, api.outlook(made.graph, made.plan, cluster, **flow))


@cache
def hostile_subject():
    """Return a plan whose model, layers, kinds and hosts are called what nobody would call them."""
    made = placement("lenet5")
    text = plan_text(made.plan)
    names = [layer.name for layer in made.plan.layers]
    block, *others = HOSTILE
    for name, bad in zip(names, (*others[:2], *(f"{block}.{other}" for other in others)), strict=True):  # four fold
        for key in ("name", "layer"):
            text = text.replace(f'"{key}": {json.dumps(name)}', f'"{key}": {json.dumps(bad)}')
    text = text.replace('"model": "lenet5"', f'"model": {json.dumps(HOSTILE[0])}')
    text = text.replace('"kind": "conv2d"', f'"kind": {json.dumps(HOSTILE[1])}')
    plan = parse_plan(text, "hostile")
    hosts = tuple(Host(bad, (Device(memory_bytes=10**6),), 1e6, 1e6) for bad in HOSTILE[:2])
    outlook = api.outlook(made.graph, made.plan, Cluster(hosts))
    return Subject(plan, outlook)


def hostile_timeline():
    """Return mini-batches with such names one after the other on two parts, as long as what is predicted."""
    whole_us = hostile_subject().outlook.forecast.prediction.timeline.span_us
    step_us = whole_us / (len(HOSTILE) + 1)
    return Timeline(
        2,
        tuple(
            Event(part, "forward", bad, number, step_us * (number + part), step_us * (number + part + 0.9))
            for part in range(2)
            for number, bad in enumerate(HOSTILE)
        ),
    )


@cache
def whole(name):
    """Return a plan with its timeline, measured and predicted, and another to hold it against: all that a page has."""
    if name == "hostile":
        bad = hostile_subject()
        return bad, {"measured": hostile_timeline(), "against": bad, "remarks": HOSTILE}
    one = subject(name)
    return one, {"measured": one.outlook.forecast.prediction.timeline, "against": subject(f"{name} other")}
