"""Models that once trained as another model, without a word, or ended in a foreign exception.

Each is a habit of the corpus; here is what it did to a user, and that in two ways of every grain it is equal to plain
torch or refused by name. The corpus runs them all in more ways.
"""

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent / "corpus"))

from habits import HABITS
from harness import Subject
from ways import WAYS

from hyperplace.errors import ModelError
from hyperplace.steps.capture import capture

EQUAL = {
    "constant_ones_of_batch": "a constant that equals the batch became the number of rows",
    "buffer_lerped": "KeyError, or a buffer that drifted",
    "buffer_counts": "self.count += 1 was never counted",
    "buffer_multiplied": "KeyError in compile",
    "buffer_read_before_the_write": "read a value of its own, which nobody updated",
    "buffer_of_a_module_called_twice": "two copies of one buffer, each with half of the updates",
    "buffer_that_is_not_persistent": "KeyError in compile",
    "index_buffer_that_is_not_persistent": "KeyError in compile",
    "tensor_constant_lifted": "KeyError in compile",
    "embedding_tied_to_the_output": "one name of the parameter stayed at its start value in state_dict()",
    "two_layers_one_weight": "refused",
    "siamese": "refused",
    "softmax_over_rows": "sync cut the batch into micro-batches, so that rows missed each other",
    "mean_of_rows_as_output": "sync cut the batch into micro-batches",
    "complex_output": "no gradient",
    "parameter_among_outputs": "the output was dropped",
    "constant_among_outputs": "the constant was dropped",
    "auxiliary_head": "predict returned what training returns",
    "mode_decides": "predict ran what training runs",
    "spectral_norm": "refused",
    "stochastic_depth": "predict dropped paths",
    "result_that_nobody_reads": "a norm whose result is not used kept its statistics",
    "coordinates_as_channels": "KeyError in generate",
    "constant_computed_behind_a_layer": "a constant of two calls was cut twice, or overwrote its layer",
}
REFUSED = {
    "item": "an assertion in capture",
    "nonzero": "an assertion in capture",
    "input_without_elements": "a division by zero",
    "custom_gradient": "its own backward pass was lost",
    "gradient_hook": "the hook was lost",
    "python_counter": "kept its first value",
    "checkpointed_norm": "statistics moved once where plain torch moves them twice",
    "parameter_written_under_no_grad": "the write was lost",
}
SOME = [way for way in WAYS if way.micro_batches is None and (way.schedule, way.rows) in (("async", 6), ("sync", 4))]
PLANS = ("coarse k=2 horizontal", "fine k=3 incremental", "hybrid k=2 dataparallel")


def outcomes(name):
    subject = Subject(HABITS[name])
    return [subject.outcome(way) for way in SOME if way.plan in PLANS]


@pytest.mark.parametrize("name", EQUAL)
def test_it_trains_as_plain_torch(name):
    assert {outcome.kind for outcome in outcomes(name)} == {"equal"}, EQUAL[name]


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name):
    assert {outcome.kind for outcome in outcomes(name)} <= {"refused", "plain"}, REFUSED[name]


class Drawing(nn.Module):
    """A layer scaled by a number that is not drawn by torch."""

    def __init__(self, draw):
        super().__init__()
        self.layer, self.draw = nn.Linear(3, 3), draw

    def forward(self, x):
        return self.layer(x) * self.draw()


@pytest.mark.parametrize("draw", [random.random, lambda: float(np.random.rand())])  # noqa: NPY002 - as models do
def test_random_numbers_of_python_are_refused(draw):
    """They were drawn once, while the model was captured, and stayed the same for ever."""
    with pytest.raises(ModelError, match="draws random numbers of Python or numpy"):
        capture(Drawing(draw), torch.randn(4, 3))
