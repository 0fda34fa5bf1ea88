"""The harness itself: it finds what differs, names what is raised, and waits for nothing for ever."""

import time
from dataclasses import replace

import pytest
import torch
from habit import BATCH, HABITS, Habit, flat
from habits import THEMES
from harness import Subject, _limit, row_loss
from torch import nn
from verdicts import Outcome, Trained, faults_between
from ways import WAYS

from hyperplace.errors import ModelError

assert THEMES  # registers the habits
WAY = WAYS[0]


def changed(**options) -> Outcome:
    """Return what becomes of a plain habit with something of it changed."""
    return Subject(replace(HABITS["residual_block"], **options)).outcome(WAY)


def test_a_plain_model_is_equal():
    assert changed() == Outcome("equal")


def test_another_model_than_the_plain_one_is_wrong():
    plain, other = HABITS["residual_block"].make, iter((0, 1e-6, 2e-6, 3e-6))

    def make() -> nn.Module:
        net = plain()
        net.c.bias.data += next(other)
        return net

    outcome = changed(make=make)
    assert outcome.kind == "WRONG"
    assert "loss 0 is off by" in outcome.detail


def test_a_fault_of_a_worker_is_an_exception_even_as_a_hyperplace_error():
    calls = []

    def loss(outputs, target):
        calls.append(outputs)
        if len(calls) > 3:  # the plain loop's own calls
            raise ZeroDivisionError("never heard of it")
        return row_loss(outputs, target)

    outcome = changed(loss=loss)
    assert outcome.kind == "EXCEPTION"
    assert "ZeroDivisionError: never heard of it" in outcome.detail


def test_a_refusal_keeps_its_message(monkeypatch):
    def refuse(model, sample, **options):
        raise ModelError("not this one; take another")

    monkeypatch.setattr("hyperplace.planning.capture", refuse)
    assert changed() == Outcome("refused", "not this one; take another")


def test_what_plain_torch_cannot_run_is_no_fault():
    assert changed(make=_Failing).kind == "plain"


class _Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)  # the inputs have eight columns

    def forward(self, x):
        return self.a(x)


def test_the_limit_ends_a_wait_and_leaves_the_timer_as_it_was():
    with _limit(30), pytest.raises(TimeoutError), _limit(0.05):
        time.sleep(5)


def test_the_loss_of_rows_is_the_mean_of_its_halves():
    outputs, target = {"a": torch.randn(BATCH, 3).double(), "b": [torch.ones(7).double()]}, torch.randn(BATCH).double()
    halves = [row_loss({"a": outputs["a"][rows], "b": outputs["b"]}, target[rows]) for rows in (slice(3), slice(3, 6))]
    assert row_loss(outputs, target).item() == pytest.approx(sum(halves).item() / 2)
    assert len(flat({"x": [outputs, None, 3.5]})) == 2


def test_habits_are_the_same_at_every_call():
    for habit in list(HABITS.values())[::20]:
        assert isinstance(habit, Habit)
        one, other = habit.model().state_dict(), habit.model().state_dict()
        assert all(torch.equal(one[name], other[name]) for name in one if not one[name].is_meta)


def test_differences_are_found_wherever_they_are():
    one = Trained([1.0, float("nan")], {"w": torch.ones(3)}, [torch.zeros(2)])
    assert faults_between(one, one, 0.0) == []
    assert faults_between(replace(one, losses=[1.0, 2.0]), one, 1e-9) == ["loss 1 is finite in other places"]
    assert faults_between(replace(one, state={"w": torch.ones(3) * 1.5}), one, 1e-9) == ["w is off by 5.0e-01"]
    assert faults_between(replace(one, state={"v": torch.ones(3)}), one, 1.0) == [
        "state dict has other names: ['v', 'w']"
    ]
    assert faults_between(replace(one, predictions=[]), one, 1.0) == ["0 outputs instead of 1"]
    longer = replace(one, predictions=[torch.zeros(3)])
    assert faults_between(longer, one, 1.0) == ["prediction 0 has shape (3,) instead of (2,)"]
