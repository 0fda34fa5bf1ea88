"""Plan files as nobody should write them: one to three changes, each of a kind that a hand, a merge or a bug makes."""

import copy
import json

from hyperplace.errors import HyperplaceError
from hyperplace.files.plan import parse_draft, plan_text
from hyperplace.values.derived import derived

NUMBERS = (0, 1, 2, 3, -1, 7, 2**28, 2**31, 2**53, 2**63 - 1, 2**63, -(2**40), 10**30)
GARBAGE = (None, True, 1.5, "", "x", [], {}, [[]], [[[1, 2]]], {"a": {}}, [None], 1e308, "0", [0, 1], "\ud800")
WORDS = ("", "x", "auto", "fine", "hybrid", "coarse", "whole", "same", "all", "group", "per-shard", "é", "a" * 5000)


def mutant(text, random):
    """Return a changed plan file; one in three has all that follows from the change put right again."""
    data = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        random.choice(CHANGES)(data, random)
    changed = json.dumps(data)
    if random.random() < 1 / 3:
        try:
            return plan_text(derived(parse_draft(changed, "mutant")))
        except HyperplaceError:
            return changed
    return changed if random.random() > 0.02 else broken(changed, random)


def broken(text, random):
    """Return a text that is hardly JSON any more."""
    at = random.randrange(len(text))
    texts = (
        text[:at],
        text[:at] + "[" * 50_000,
        text[:at] + text[at + 1 :],
        "9" * 5000,
        "[" * 400 + text,
        text.replace(": 0", ": " + "[" * 900 + "]" * 900, 1),
        text.replace(": 1", ": " + "1" * 4300, 1),
    )
    return random.choice(texts)


def places(node, wanted, name=None):
    """Yield (container, key, the nearest field's name) of every value that is wanted."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        field = key if isinstance(key, str) else name
        if wanted(value):
            yield node, key, field
        yield from places(value, wanted, field)


def a_place(data, random, wanted):
    """Return one such place: any field is as likely as another, however often it occurs."""
    found = {}
    for container, key, field in places(data, wanted):
        found.setdefault(field, []).append((container, key))
    return random.choice(found[random.choice(sorted(found, key=str))]) if found else (data, "version")


def a_list(data, random):
    container, key = a_place(data, random, lambda value: isinstance(value, list) and value)
    return container[key] if isinstance(container[key], list) else data["layers"]


def delete_entry(data, random):
    entries = a_list(data, random)
    if entries:
        del entries[random.randrange(len(entries))]


def repeat_entry(data, random):
    entries = a_list(data, random)
    if entries:
        entries.insert(random.randrange(len(entries) + 1), copy.deepcopy(random.choice(entries)))


def empty(data, random):
    a_list(data, random).clear()


def shuffle(data, random):
    random.shuffle(a_list(data, random))


def move_entry(data, random):
    """Put an entry of one list into another."""
    one, other = a_list(data, random), a_list(data, random)
    if one:
        other.append(copy.deepcopy(random.choice(one)))


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


def flip(data, random):
    container, key = a_place(data, random, lambda value: isinstance(value, bool))
    container[key] = not container[key]


def is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def change_number(data, random):
    container, key = a_place(data, random, is_number)
    nearby = (container[key] + 1, container[key] - 1, 2 * container[key], container[key] // 2)
    container[key] = random.choice(random.choice((NUMBERS, nearby)))


def copy_number(data, random):
    """Give one number the value of another."""
    (container, key), (other, where) = a_place(data, random, is_number), a_place(data, random, is_number)
    container[key] = other[where]


def exchange_numbers(data, random):
    (container, key), (other, where) = a_place(data, random, is_number), a_place(data, random, is_number)
    container[key], other[where] = other[where], container[key]


def change_word(data, random):
    container, key = a_place(data, random, lambda value: isinstance(value, str))
    other, where = a_place(data, random, lambda value: isinstance(value, str))
    container[key] = random.choice((random.choice(WORDS), other[where], f"{container[key]}x"))


def put_garbage(data, random):
    container, key = a_place(data, random, lambda value: True)
    container[key] = copy.deepcopy(random.choice(GARBAGE))


def nest(data, random):
    container, key = a_place(data, random, lambda value: True)
    for _ in range(random.choice((1, 2, 50))):
        container[key] = [container[key]]


def change_keys(data, random):
    container, key = a_place(data, random, lambda value: isinstance(value, dict) and value)
    entry = container[key]
    if isinstance(entry, dict) and entry:
        name = random.choice(sorted(entry))
        value = entry.pop(name)
        if random.random() < 0.5:
            entry[name + "s"] = value


def move_layer(data, random):
    """Give all that one layer has on one part, or some of it, to another part."""
    layers = [layer for layer in data["layers"] if isinstance(layer, dict)] if isinstance(data["layers"], list) else []
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
            for container, key, field in list(places(data["layers"], is_number)):
                if field in ("filters", "rows") and container[key] == old:
                    container[key] = new


CHANGES = (
    delete_entry,
    repeat_entry,
    empty,
    shuffle,
    move_entry,
    split_entry,
    flip,
    flip,
    change_number,
    change_number,
    change_number,
    copy_number,
    exchange_numbers,
    change_word,
    put_garbage,
    nest,
    change_keys,
    move_layer,
    move_layer,
    move_layer,
    move_edge,
)
