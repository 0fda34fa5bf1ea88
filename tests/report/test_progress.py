"""Progress: in a notebook HTML that is written over, in a terminal a bar, elsewhere nothing; loops see all batches."""

import sys
from types import SimpleNamespace

import pytest

import hyperplace
from hyperplace.report import progress as shown
from hyperplace.values import drawn

HOSTILE = "</script><img src=x onerror=window.hacked=1>"


@pytest.fixture
def notebook(monkeypatch):
    """Be in a kernel; return every state of every line that was shown in it."""
    lines = []

    def display(text, display_id):
        lines.append([text])
        return SimpleNamespace(update=lines[-1].append)

    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display, HTML=str))
    monkeypatch.setattr(shown, "EVERY_S", 0.0)
    return lines


def test_a_loop_is_shown_in_a_notebook_and_sees_every_batch(notebook):
    trainer = SimpleNamespace(staleness=[SimpleNamespace(mean=1.5), SimpleNamespace(mean=0.0)])
    assert list(hyperplace.progress([10, 20, 30], trainer)) == [10, 20, 30]
    (states,) = notebook
    assert states[0].startswith("<progress></progress> training")
    assert '<progress value="2" max="3"></progress> training 2 of 3' in states[2]
    assert "mini-batches/s, staleness 1.5 0.0" in states[2]
    assert states[-1].startswith("training: done after 0.")
    assert not any("\x1b" in state for state in states), "no codes of a terminal"
    assert list(hyperplace.progress(iter("ab"))) == ["a", "b"]
    assert "<progress></progress> training 2" in notebook[1][-2]


def test_what_is_broken_off_says_so_and_names_are_text(notebook):
    line = drawn.line(HOSTILE)
    line.__enter__()
    line.say(HOSTILE)
    line.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert "broken off after" in notebook[0][-1]
    assert not any("<img" in state for state in notebook[0])


def test_a_line_is_not_written_more_often_than_somebody_can_read(notebook, monkeypatch):
    monkeypatch.setattr(shown, "EVERY_S", 1000.0)
    list(hyperplace.progress(range(500)))
    assert len(notebook[0]) <= 3


def test_placing_shows_itself_in_a_notebook_unless_somebody_listens(notebook):
    import torch

    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    words = {"k": 2, "imbalance": 2.0, "grain": "coarse", "partitioner": "layerwise"}
    hyperplace.place(model, torch.zeros(4, 1, 4, 4), **words)
    assert [states[-1].split(":")[0] for states in notebook] == ["placing Sequential"]
    hyperplace.place(model, torch.zeros(4, 1, 4, 4), **words, on_progress=lambda text: None)
    assert len(notebook) == 1


def test_elsewhere_nothing_is_written(capsys):
    assert list(hyperplace.progress([1, 2])) == [1, 2]
    with drawn.line("placing") as line:
        line.say("something")
    assert capsys.readouterr() == ("", "")
