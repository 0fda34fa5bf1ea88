"""Plan files as nobody should write them: one to three changes, each of a kind that a hand, a merge or a bug makes."""

import copy
import json

from json_mutants import CHANGES as ANY_CHANGES
from json_mutants import a_place, broken, changed, flip, is_number, places

from hyperplace.errors import HyperplaceError
from hyperplace.files.plan import parse_draft, plan_text
from hyperplace.values.derived import derived


def mutant(text, random):
    """Return a changed plan file; one in three has all that follows from the change put right again."""
    data = json.loads(text)
    changed(data, random, CHANGES)
    text = json.dumps(data)
    if random.random() < 1 / 3:
        try:
            return plan_text(derived(parse_draft(text, "mutant")))
        except HyperplaceError:
            return text
    return text if random.random() > 0.02 else broken(text, random)


def split_entry(data, random):
    """Cut an owner, shard, message or replica in two, by filters, channels or rows."""
    container, key = a_place(data, random, lambda value: isinstance(value, dict) and "filters" in value)
    what = random.choice(("filters", "channels", "rows"))
    entry = container[key]
    if not (isinstance(entry, dict) and isinstance(container, list) and isinstance(entry.get(what), list)):
        return
    span = entry[what] if what == "rows" else (entry[what] or [[0, 2]])[0]
    if isinstance(span, list) and len(span) == 2 and all(isinstance(end, int) for end in span):
        low, high = span
        other = copy.deepcopy(entry)
        middle = (low + high) // 2
        entry[what], other[what] = (
            ([low, middle], [middle, high]) if what == "rows" else ([[low, middle]], [[middle, high]])
        )
        container.insert(key + 1, other)


def move_layer(data, random):
    """Give all that one layer has on one part, or some of it, to another part."""
    found = data.get("layers")
    layers = [layer for layer in found if isinstance(layer, dict)] if isinstance(found, list) else []
    if layers:
        layer, parts = random.choice(layers), (random.randrange(3), random.randrange(3))
        what = random.choice((("owners",), ("shards",), ("owners", "shards")))
        for container, key, field in list(places([layer.get(name) for name in what], is_number)):
            if field == "part" and container[key] == parts[0]:
                container[key] = parts[1]


def move_edge(data, random):
    """Move the boundary between two owners."""
    owners = [o for o, _, _ in places(data, lambda value: True) if isinstance(o, dict) and {"part", "rows"} <= o.keys()]
    ends = [pair for o in owners for pair in (o.get("filters"), o.get("rows")) if isinstance(pair, list) and pair]
    if ends:
        edge = random.choice(ends)
        edge = edge[0] if isinstance(edge[0], list) and edge[0] else edge
        old = edge[-1]
        if is_number(old):
            new = old + random.choice((-1, 1))
            for container, key, field in list(places(data.get("layers"), is_number)):
                if field in ("filters", "rows") and container[key] == old:
                    container[key] = new


CHANGES = (*ANY_CHANGES, split_entry, flip, move_layer, move_layer, move_layer, move_edge)
