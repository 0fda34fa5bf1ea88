"""JSON as nobody should write it: changes to parsed data, each of a kind that a hand, a merge or a bug makes."""

import copy
import json

NUMBERS = (0, 1, 2, 3, -1, 7, 2**28, 2**31, 2**53, 2**63 - 1, 2**63, -(2**40), 10**30)
FLOATS = (0.0, -0.0, -1.0, 1e-320, 1e300, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 0.1 + 0.2)
GARBAGE = (None, True, 1.5, "", "x", [], {}, [[]], [[[1, 2]]], {"a": {}}, [None], 1e308, "0", [0, 1], "\ud800")
WORDS = ("", "x", "auto", "fine", "hybrid", "coarse", "whole", "same", "all", "group", "per-shard", "é", "a" * 5000)
HOSTILE = (
    "../../../tmp/x",
    "/dev/zero",
    "a\0b",
    "\u202e",
    "__class__",
    "{0.__class__}",
    "%s%n",
    "\x1b[31m",
    "a\nb",
    "'",
)


def changed(data, random, changes):
    """Make one to three of the changes."""
    for _ in range(random.choice((1, 1, 2, 3))):
        random.choice(changes)(data, random)


def broken(text, random):
    """Return a text that is hardly JSON any more."""
    at = random.randrange(len(text)) if text else 0
    texts = (
        text[:at],
        text[:at] + "[" * 50_000,
        text[:at] + text[at + 1 :],
        "9" * 5000,
        "[" * 400 + text,
        text.replace(": 0", ": " + "[" * 900 + "]" * 900, 1),
        text.replace(": 1", ": " + "1" * 4300, 1),
        text.replace(": ", ": 1e99999, " + text[at : at + 20], 1),
        twice(text, random),
    )
    return random.choice(texts)


def twice(text, random):
    """Repeat a line: a key that is there twice, or an entry too many."""
    lines = text.split("\n")
    line = random.randrange(len(lines))
    return "\n".join([*lines[:line], lines[line].rstrip(",") + ",", *lines[line:]])


def json_mutant(text, random):
    """Return a changed JSON file of any kind."""
    data = json.loads(text)
    changed(data, random, CHANGES)
    text = json.dumps(data, indent=random.choice((None, 1)))
    return text if random.random() > 0.05 else broken(text, random)


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
    if not found:
        data.setdefault("version", 1)
        return data, "version"
    return random.choice(found[random.choice(sorted(found, key=str))])


def a_list(data, random):
    container, key = a_place(data, random, lambda value: isinstance(value, list) and value)
    return container[key] if isinstance(container[key], list) else []


def delete_entry(data, random):
    entries = a_list(data, random)
    if entries:
        del entries[random.randrange(len(entries))]


def repeat_entry(data, random):
    entries = a_list(data, random)
    if entries:
        entries.insert(random.randrange(len(entries) + 1), copy.deepcopy(random.choice(entries)))


def repeat_often(data, random):
    entries = a_list(data, random)
    if entries:
        entries.extend([random.choice(entries)] * random.choice((10, 300)))


def empty(data, random):
    a_list(data, random).clear()


def shuffle(data, random):
    random.shuffle(a_list(data, random))


def move_entry(data, random):
    """Put an entry of one list into another."""
    one, other = a_list(data, random), a_list(data, random)
    if one:
        other.append(copy.deepcopy(random.choice(one)))


def flip(data, random):
    container, key = a_place(data, random, lambda value: isinstance(value, bool))
    container[key] = not container[key]


def is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def change_number(data, random):
    container, key = a_place(data, random, is_number)
    if is_number(container[key]):
        nearby = (container[key] + 1, container[key] - 1, 2 * container[key], container[key] // 2)
        container[key] = random.choice(random.choice((NUMBERS, nearby)))


def change_float(data, random):
    container, key = a_place(data, random, lambda value: isinstance(value, float))
    if isinstance(container[key], float):
        nearby = (container[key] * 2, -container[key], container[key] + 1, int(min(1e9, abs(container[key]))))
        container[key] = random.choice(random.choice((FLOATS, nearby)))


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
    words = (random.choice(WORDS), random.choice(HOSTILE), other[where], f"{container[key]}x")
    container[key] = random.choice(words)


def put_garbage(data, random):
    container, key = a_place(data, random, lambda value: True)
    container[key] = copy.deepcopy(random.choice(GARBAGE))


def nest(data, random):
    container, key = a_place(data, random, lambda value: True)
    for _ in range(random.choice((1, 2, 50))):
        container[key] = [container[key]]


def change_keys(data, random):
    container, key = a_place(data, random, lambda value: isinstance(value, dict) and value)
    entry = container[key] if random.random() < 0.8 else data
    if isinstance(entry, dict) and entry:
        name = random.choice(sorted(entry))
        value = entry.pop(name)
        if random.random() < 0.5:
            entry[random.choice((name + "s", random.choice(HOSTILE)))] = value


CHANGES = (
    delete_entry,
    repeat_entry,
    repeat_often,
    empty,
    shuffle,
    move_entry,
    flip,
    change_number,
    change_number,
    change_number,
    change_float,
    change_float,
    copy_number,
    exchange_numbers,
    change_word,
    put_garbage,
    nest,
    change_keys,
)
