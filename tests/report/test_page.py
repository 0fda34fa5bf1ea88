"""Pages as text: where layers stand, what flows, what two plans have in common, and that no name is ever markup."""

import json
import random
import re
import time
from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from page_examples import HOSTILE, hostile_subject, hostile_timeline, placement, subject
from report_examples import coarse_plan, comparison

from hyperplace.errors import UsageError
from hyperplace.report import Table, Text, comparison_document, plan_document
from hyperplace.report.page import Subject, document_page, plan_page
from hyperplace.report.page.against import moved_table, renumbered
from hyperplace.report.page.layout import lay_out, layered
from hyperplace.report.page.network import network
from hyperplace.report.palette import FEW, part_color, text_color
from hyperplace.values.derived import derived
from hyperplace.values.derived.messages import crossings


def drawn_graph(seed, num_nodes):
    draw = random.Random(seed)
    names = [f"block{i // 6}.{i % 6}" if draw.random() < 0.9 else f"op{i}" for i in range(num_nodes)]
    return names, {(names[max(0, i - draw.choice([1, 1, 2, 7]))], names[i]) for i in range(1, num_nodes)}


@pytest.mark.parametrize("seed", range(12))
def test_everything_stands_once_below_what_it_reads_and_nothing_on_anything(seed):
    names, edges = drawn_graph(seed, 150)
    items = lay_out(names, edges)
    assert sorted(name for item in items for name in item.layers) == sorted(names)
    assert len({item.spot for item in items}) == len(items)
    assert all(len(set(item.layers.values())) == len(item.layers) for item in items)
    item_of = {name: item for item in items for name in item.layers}
    for source, target in edges:
        one, other = item_of[source], item_of[target]
        if one is other:
            assert one.layers[source].row < one.layers[target].row
        else:
            assert one.spot.row < other.spot.row


def test_a_block_that_something_leaves_and_comes_back_to_is_not_folded():
    names = ["b.0", "outside", "b.1", "b.2"]
    items = lay_out(names, [("b.0", "outside"), ("outside", "b.1"), ("b.1", "b.2")])
    assert [item.name for item in items] == names
    assert not any(item.is_block for item in items)


def test_blocks_of_a_residual_network_fold():
    items = network(placement("resnet50").plan)["items"]
    assert [item["name"] for item in items if item["isBlock"]] == [
        f"layer{stage}.{number}" for stage, count in ((1, 3), (2, 4), (3, 6), (4, 3)) for number in range(count)
    ]


def test_neighbours_in_a_row_do_not_cross_where_they_need_not():
    """Two chains side by side, given crossed: a row is ordered by what stands above it."""
    nodes = ["a", "b", "b1", "a1", "b2", "a2"]
    spots = layered(nodes, [("a", "a1"), ("b", "b1"), ("a1", "a2"), ("b1", "b2")])
    assert all(spots[f"{name}{n}"].column == spots[name].column for name in "ab" for n in (1, 2))


def test_thousands_of_layers_are_laid_out_in_seconds():
    names, edges = drawn_graph(0, 5000)
    start = time.process_time()
    lay_out(names, edges)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", ["vgg16", "vgg16 other", "resnet50"])
def test_what_crosses_to_a_layers_only_reader_is_what_the_plan_sends(name):
    plan = placement(name).plan
    found = crossings(plan.layers, plan.settings)
    readers, sent = defaultdict(list), defaultdict(int)
    for (source, _), num_bytes in found.items():
        readers[source].append(num_bytes)
    for message in plan.transfers:
        sent[message.layer] += message.num_bytes
    for source, amounts in readers.items():
        if len(amounts) == 1:
            assert amounts == [sent[source]], source
        assert max(amounts) <= sent[source] <= sum(amounts)
    assert sum(sent.values()) > 0


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes


def test_no_name_becomes_markup():
    page = plan_page(hostile_subject(), measured=hostile_timeline(), against=hostile_subject(), remarks=HOSTILE)
    found = Tags(page)
    assert found.tags.count("script") == 2
    assert not {"img", "b", "object", "iframe"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"]
    assert page.count(HOSTILE[0]) == 0
    assert "&lt;/script&gt;&lt;img src=x onerror=window.hacked=1&gt;" in page, "it is shown, though"
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    names = [layer["name"] for layer in data["network"]["layers"]]
    assert all(any(bad in name for name in names) for bad in HOSTILE)


def test_a_page_fetches_nothing_and_its_policy_lets_nothing_else_run():
    page = plan_page(subject("vgg16"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    addresses = [v for name, v in Tags(page).attributes if name in ("src", "href", "action", "srcset", "data")]
    assert addresses == ["data:,"]
    assert len(page.encode()) < 1_000_000


def called_otherwise(plan, name_of):
    def turned(pieces):
        return tuple(sorted((replace(one, part=name_of[one.part]) for one in pieces), key=lambda one: one.part))

    layers = [replace(layer, owners=turned(layer.owners), shards=turned(layer.shards)) for layer in plan.layers]
    return derived(replace(plan, layers=tuple(layers), transfers=(), reductions=(), replicas=()))


def test_a_plan_is_not_moved_by_calling_its_parts_otherwise():
    plan = placement("vgg16").plan
    turned = called_otherwise(plan, {0: 2, 1: 0, 2: 3, 3: 1})
    assert turned.layers != plan.layers
    assert len(moved_table(plan, turned.layers)) == len(plan.layers)
    assert len(moved_table(plan, renumbered(plan, turned))) == 0
    assert "no layer moved" in plan_page(Subject(plan), against=Subject(turned))
    assert len(moved_table(plan, renumbered(plan, placement("vgg16 other").plan))) > 0
    with pytest.raises(UsageError, match="give plans of the same"):
        renumbered(plan, placement("resnet50").plan)


@pytest.mark.parametrize("color", [*FEW, *(part_color(n, 40) for n in range(40)), "#000000", "#ffffff", "#777777"])
def test_numbers_on_colours_can_be_read(color):
    """WCAG's contrast, AA: 4.5 to 1."""

    def luminance(code):
        shares = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted([luminance(color), luminance(text_color(color))])
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize("make", [comparison_document, plan_document], ids=["comparison", "plan"])
def test_every_cell_and_sentence_of_a_document_is_on_its_page(make):
    document = make(comparison() if make is comparison_document else coarse_plan())
    page = document_page(document.without_figures(), "title", "hyperplace compare a --k 2")
    words = Words(page).words
    assert "hyperplace compare a --k 2" in words
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Table):
                assert {cell for row in block.rows for cell in row if cell} <= words
                assert set(block.headings) <= words
            elif isinstance(block, Text):
                assert block.text in words


def test_rows_over_the_limit_are_greyed_and_figures_are_inside_the_page():
    document = comparison_document(comparison())
    (table,) = [block for section in document.sections for block in section.blocks if isinstance(block, Table)][:1]
    page = document_page(document, "title", "hyperplace")
    assert page.count('class="misses"') >= 1
    assert len(table)
    assert page.count("data:image/png;base64,") == len(document.figures)


class Words(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.words = set()
        self.feed(text)

    def handle_data(self, data):
        self.words.add(data)
