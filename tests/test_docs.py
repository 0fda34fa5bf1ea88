"""What README, CONTRIBUTING and docs/ say is so: links, examples, commands, outputs and figures."""

import csv
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
import typer
from torch import nn
from torch.nn import functional as F

import hyperplace
from hyperplace.cli import main
from hyperplace.cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]}
COMMANDS = typer.main.get_command(app).commands
MIB = 2**20


def quoted(page):
    """Return the code in a page: inline, and every line of a block."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return (
        inline + lines + [line.strip().removeprefix("$ ") for line in re.findall(r"^    (\S.*)", prose, re.MULTILINE)]
    )


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name):
    links = re.findall(r"\]\(([^)\s]+)\)", PAGES[name])
    for link in links:
        file, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (ROOT / name).parent / file if file else ROOT / name
        assert target.exists(), f"{name} links {link}"
        headings = re.findall(r"^#+ (.*)", target.read_text(), re.MULTILINE) if anchor else []
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}, link


@pytest.mark.parametrize("name", PAGES)
def test_every_command_parses(name):
    for code in quoted(PAGES[name]):
        words = shlex.split(code, comments=True) if code.startswith("hyperplace ") else []
        if len(words) > 1 and not any(word.isupper() for word in words):  # MODEL stands for any
            command = COMMANDS[words[1]]
            if len(words) > 2:
                command.make_context(words[1], words[2:])  # exits where an option or argument is wrong


def test_every_make_target_and_page_is_there():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name, page in PAGES.items():
        asked = {words[1] for code in quoted(page) if len(words := code.split()) > 1 and words[0] == "make"}
        assert asked <= targets, f"{name} names {asked - targets}"
        scripts = re.findall(r"python (tests/\S+\.py)", "\n".join(quoted(page)))
        assert all((ROOT / script).exists() for script in scripts), name
    for path in ROOT.glob("docs/*.md"):
        assert f"](docs/{path.name})" in PAGES["README.md"], "README leads to every page"


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)


def test_the_examples_of_training_run(tmp_path, monkeypatch, capsys):
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(8 * 16, 4)
    model, sample = nn.Sequential(*layers), torch.randn(8, 3, 6, 6)
    names = {
        "hyperplace": hyperplace,
        "torch": torch,
        "F": F,
        "model": model,
        "sample": sample,
        "plan": hyperplace.place(model, sample, k=2, batch=8, imbalance=1.0, partitioner="horizontal"),
        "loader": [(torch.randn(8, 3, 6, 6), torch.randint(4, (8,))) for _ in range(3)],
        "epochs": 2,
    }
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in python_blocks("docs/python.md") if "compile(" in block]
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert "epoch 1: " in capsys.readouterr().out
    assert names["outputs"].shape == (8, 4)
    (shown,) = re.findall(r"# Later.*: (.*)", blocks[1])
    with hyperplace.compile(
        model, names["plan"], optimizer=names["optimizer"], loss=F.mse_loss, named_parameters=True
    ) as t:
        exec(shown, names | {"trainer": t}, found := {})
    assert found["extra"] == {"epoch": 1}


@pytest.fixture
def names():
    """Return what the examples take for granted."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten(), nn.Linear(128, 4))
    loader = [(torch.randn(8, 3, 6, 6), torch.randint(4, (8,))) for _ in range(3)]
    return {"hyperplace": hyperplace, "torch": torch, "F": F, "model": model, "sample": loader[0][0], "loader": loader}


def test_the_four_lines_of_readme_run(names):
    before = {name: tensor.clone() for name, tensor in names["model"].state_dict().items()}
    (block,) = python_blocks("README.md")
    assert len(block.splitlines()) == 4
    exec(block, names)
    assert len(names["losses"]) == 3
    assert all(not torch.equal(before[name], tensor) for name, tensor in names["model"].state_dict().items())


def test_the_examples_of_placing_run(names, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in python_blocks("docs/python.md") if "compile(" not in block]
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert hyperplace.load_plan("plan.json") == names["plan"]
    text = hyperplace.emit(names["program"])
    printed = capsys.readouterr().out
    assert printed.startswith(text)
    assert hyperplace.load_program(text) == names["program"]
    assert "part 3: " in printed[len(text) :]


def test_the_outputs_of_the_command_line_are_true(tmp_path, monkeypatch, capsys):
    """Every `$` of the page is run, one after the other in one folder; `...` stands for any lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    blocks = re.findall(r"^```console\n(.*?)^```", PAGES["docs/command-line.md"], re.DOTALL | re.MULTILINE)
    shown = [run for block in blocks for run in re.split(r"^\$ ", block, flags=re.MULTILINE) if run]
    assert len(shown) >= 6
    for run in shown:
        command, _, output = run.partition("\n")
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code, command
        printed = "".join(capsys.readouterr())
        assert re.fullmatch(pattern(output), stripped(printed)), f"{command}\n{printed}"
    (program,) = re.findall(r"^```python\n(class .*?)^```", PAGES["docs/command-line.md"], re.DOTALL | re.MULTILINE)
    assert re.search(pattern(program), stripped(Path("lenet5_k2.py").read_text()))
    (plan,) = re.findall(r"^```json\n(.*?)^```", PAGES["docs/file-formats.md"], re.DOTALL | re.MULTILINE)
    shown = json.loads(re.sub(r",\s*\.\.\.", "", plan))
    assert is_within(shown, json.loads(Path("results/lenet5-k2-coarse/plan.json").read_text()))
    (start,) = re.findall(r"^```text\n(% .*?)```", PAGES["docs/file-formats.md"], re.DOTALL | re.MULTILINE)
    assert Path("results/lenet5-k2-coarse/hypergraph.patoh").read_text().startswith(start)


def is_within(shown, whole):
    """Return whether all that is shown is there, in any place of a list."""
    if isinstance(shown, dict):
        return all(name in whole and is_within(value, whole[name]) for name, value in shown.items())
    if isinstance(shown, list) and any(isinstance(value, dict) for value in shown):
        return all(any(is_within(value, other) for other in whole) for value in shown)
    return shown == whole


def pattern(shown):
    """Return the text as a regular expression in which a line of dots is any lines."""
    pieces = re.split(r"^ *\.\.\.\n", shown, flags=re.MULTILINE)
    return r"(?:.*\n)*?".join(re.escape(stripped(piece)) for piece in pieces)


def stripped(text):
    """Return the text without empty lines and spaces at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())


LABELS = {"layer-wise": "layer-wise", "filter-wise incremental": "filter-wise incremental", "KaHyPar": "coarse"}
LABELS |= {"**auto**": "auto"}


@pytest.mark.parametrize(
    ("page", "folder"),
    [
        ("README.md", "results/vgg16-auto"),
        ("docs/results.md", "results/vgg16-auto"),
        ("docs/results.md", "results/resnet50"),
        ("docs/results.md", "results/googlenet"),
    ],
)
def test_the_volumes_are_those_of_the_results(page, folder):
    table = PAGES[page].split(f"{folder}/comparison.md")[1].split("| MiB |")[1].split("\n\n")[0]
    head, _, *lines = (line.strip("| ").split(" | ") for line in f"MiB |{table}".splitlines())
    with open(ROOT / folder / "comparison.csv") as file:
        found = {(row["method"], row["k"]): row for row in csv.DictReader(file) if row["imbalance"] in ("", "0.1")}
    cells = {(line[0], k): cell for line in lines for k, cell in zip(head[1:], line[1:], strict=True)}
    checked = [(method, k) for method, k in cells if method in LABELS]
    assert len(checked) == 4 * (len(head) - 1)
    for method, k in checked:
        row = found[LABELS[method], k.removeprefix("k=")]
        over = f" ({float(row['max_over_avg']):.2f})" if float(row["max_over_avg"]) > 1.1 + 1e-9 else ""
        assert cells[method, k] == f"{int(row['volume_bytes']) / MIB:,.1f}{over}"


PLAIN = {"one thread": "plain loop, 1 thread", "two threads": "plain loop, 2 threads"}


def bench_key(label):
    """Return the method and schedule that a line of the table of speeds is about."""
    if label == "compiled for one part":
        return "compiled, k=1", "async"
    name, _, schedule = label.partition(", ")
    if name == "plain loop":
        return PLAIN[schedule], "plain"
    name = name.removesuffix(" plan")
    return (f"{name} auto" if name in ("coarse", "fine", "hybrid") else name), schedule


@pytest.mark.parametrize(("page", "num_rows"), [("README.md", 5), ("docs/results.md", 12)])
def test_the_speeds_are_those_of_the_results(page, num_rows):
    table = PAGES[page].split("results/vgg16-bench/bench.md")[1].split("| | images/s |")[1].split("\n\n")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    with open(ROOT / "results/vgg16-bench/bench.csv") as file:
        found = {(row["method"], row["schedule"]): row for row in csv.DictReader(file)}
    assert len(lines) == num_rows
    for label, *cells in ([cell.strip() for cell in line] for line in lines):
        row = found[bench_key(label)]
        idle = f"{100 * float(row['bubble']):.0f} %" if row["bubble"] else ""
        speed_ups = [f"{float(row[name]):.2f}" for name in ("speed_up_1_thread", "speed_up_k_threads")]
        assert cells == [f"{float(row['median']):.1f}", *speed_ups, idle], label
