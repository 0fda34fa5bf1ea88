"""What notebooks show of values: well-formed, escaped, small, and without a script; the example notebook runs."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from page_examples import HOSTILE, hostile_subject, hostile_timeline, placement, subject
from report_examples import coarse_plan, long_plan, wide_plan

import hyperplace
from hyperplace.values.cluster import Cluster, Device, Host, parse_cluster
from hyperplace.values.comparison import Comparison, ComparisonRow

VOID = {"img", "br", "meta", "link", "input"}


class Nested(HTMLParser):
    """Every element is closed where it was opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        assert not [name for name, _ in attributes if name.startswith("on")]
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def comparison():
    row = ComparisonRow.of(HOSTILE[0], placement("lenet5").plan, 0.1, 0.0)
    return Comparison("lenet5", 16, "flops", 64, "neurons", 100, (row,))


SHOWN = {
    "plan": coarse_plan,
    "long plan": long_plan,
    "wide plan": wide_plan,
    "real plan": lambda: placement("resnet50").plan,
    "hostile plan": lambda: hostile_subject().plan,
    "timeline": lambda: subject("resnet50").outlook.forecast.prediction.timeline,
    "hostile timeline": hostile_timeline,
    "cluster": lambda: parse_cluster("2x4@10gbit,pcie,0.1ms"),
    "unequal cluster": lambda: Cluster(
        tuple(Host(name, (Device(speed=2.0, memory_bytes=2**30), Device())) for name in HOSTILE)
    ),
    "comparison": comparison,
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_value_is_shown_as_markup_that_is_whole_small_and_harmless(name):
    text = SHOWN[name]()._repr_html_()
    found = Nested(text)
    assert "table" in found.seen
    assert not {"script", "img", "iframe", "object"} & set(found.seen)
    assert HOSTILE[0] not in text
    assert len(text) < 250_000
    if "hostile" in name or name == "comparison":
        assert "&lt;/script&gt;" in text or name == "hostile timeline"


def test_a_plan_has_a_figure():
    assert coarse_plan().figure().get_suptitle()


def test_importing_a_value_alone_draws_nothing_and_loads_nothing():
    """What a value is shown by is loaded when it is shown: a program that trains has no use for it."""
    code = (
        "import sys, hyperplace\n"
        "from hyperplace.values.cluster import parse_cluster\n"
        "loaded = [name for name in sys.modules if name.startswith(('hyperplace.report', 'matplotlib', 'torch'))]\n"
        "assert not loaded, loaded\n"
        "assert 'host 1' in parse_cluster('2x1')._repr_html_()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_a_trainer_says_what_it_runs_and_how_far_it_is():
    import torch
    from torch.nn import functional

    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    sample = torch.zeros(4, 1, 4, 4)
    plan = hyperplace.place(model, sample, k=2, imbalance=2.0, grain="coarse", partitioner="layerwise")
    with hyperplace.compile(
        model, plan, optimizer=lambda some: torch.optim.SGD(some, lr=0.1), loss=functional.cross_entropy
    ) as trainer:
        loss = trainer.step(sample, torch.zeros(4, dtype=torch.long))
        assert repr(trainer).endswith("2 parts, async with 4 in flight, 1 mini-batch given)")
        trainer.flush()
        assert repr(loss) == f"Loss({loss.item():.4g})"
    assert repr(trainer).endswith("given, closed)")


NOTEBOOK = Path(__file__).parents[2] / "docs/example.ipynb"


def test_the_example_notebook_runs_from_top_to_bottom_and_its_output_is_there(tmp_path):
    book = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert sum("text/html" in output.get("data", {}) for cell in cells for output in cell.outputs) >= 5
    was = [[sorted(output.get("data", {})) for output in cell.outputs] for cell in cells]
    ran = NotebookClient(book, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    ran.execute()  # raises where a cell fails
    again = [cell for cell in ran.nb.cells if cell.cell_type == "code"]
    assert [[sorted(output.get("data", {})) for output in cell.outputs] for cell in again] == was
