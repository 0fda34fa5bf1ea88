"""Every message that travels has the shape, the dtype and the bytes that the program says, for any number of rows."""

import pytest
import torch
from capture_models import MODELS, captured, model
from habits import HABITS
from harness import row_loss
from program_cases import planned, trainer_of, wavy_loss

import hyperplace
from hyperplace.runtime.transport import FORWARD

UNTRAINABLE = {"in_place_then_read_again"}  # plain torch refuses its backward pass, too
PLANNED_ROWS = 6
CHOSEN = {
    "several results": ["lstm", "gru", "max_pool_with_indices_and_unpool"],
    "values without rows": [
        "mean_of_rows_as_output",
        "minus_the_mean_of_rows",
        "penalty_among_outputs",
        "max_over_rows",
    ],
    "rows elsewhere": ["rows_behind_time", "multihead_attention_with_time_in_front", "tokens_as_rows", "batch_doubled"],
    "other dtypes": [
        "autocast_inside",
        "half_inside",
        "double_inside",
        "integer_among_outputs",
        "boolean_among_outputs",
    ],
    "other models": [
        "complex_weights",
        "half_of_the_model_in_double",
        "integers_and_floats_as_inputs",
        "model_in_bfloat16",
    ],
    "norms": ["norm_batch", "norm_called_twice", "norm_over_tokens_as_rows", "norm_instance_running"],
    "regions": ["checkpointed", "no_grad_block", "mixture_of_experts"],
}
NAMES = [name for names in CHOSEN.values() for name in names]
PLANS = [("coarse", 3, "random"), ("fine", 2, "random"), ("hybrid", 2, "random"), ("hybrid", 3, "dataparallel")]
BLOCKS = {"coarse": 3, "fine": 2, "hybrid": 2}


def watch(trainer):
    """Return what is to hold the key, the shape and the dtype of everything that is sent forward."""
    seen, send = [], trainer._transport.send

    def noted(key, tensor, **words):
        if key.way == FORWARD:
            seen.append((key, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")))
        return send(key, tensor, **words)

    trainer._transport.send = noted
    return seen


def check(trainer, seen, rows_of):
    """Compare what was sent with the program, where `rows_of` says how many rows a mini-batch had."""
    program = trainer.program
    for key, shape, dtype in seen:
        message = program.messages[key.item]
        assert (key.source, key.target) == (message.source, message.target)
        assert shape == message.sizes(rows_of(key.batch), program.batch), message
        assert dtype == message.dtype, message
    numbers = sorted((key.batch, key.item) for key, _, _ in seen)
    batches = {key.batch for key, _, _ in seen}
    assert numbers == sorted((batch, message.number) for batch in batches for message in program.messages)


def planned_bytes(program):
    """Return the bytes of a mini-batch as planned, by source and target."""
    total = {}
    for message in program.messages:
        if message.planned:
            pair = (FORWARD, message.source, message.target)
            total[pair] = total.get(pair, 0) + message.num_bytes(program.batch, program.batch)
    return total


def takes(program, rows):
    fewest, most = program.rows
    return fewest <= rows and (most is None or rows <= most)


@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
@pytest.mark.parametrize("name", sorted(set(MODELS) - UNTRAINABLE))
def test_messages_of_small_models(name, grain):
    net, inputs = model(name)
    graph = captured(name)
    more = tuple(torch.cat([x, x[:1]]) for x in inputs)
    for k, how in [(2, "contiguous"), (3, "scattered")]:
        plan = planned(graph, grain, k, how)
        with trainer_of(graph, plan, net, wavy_loss) as trainer:
            seen = watch(trainer)
            given = [inputs, more] if takes(trainer.program, len(more[0])) else [inputs]
            for one in given:
                trainer.step(*one, None).item()
            check(trainer, seen, lambda batch, given=given: len(given[batch][0]))
            forward = {pair: count for pair, count in plan.moved_bytes.items() if pair[0] == FORWARD}
            assert planned_bytes(trainer.program) == forward


def rows_in(sample):
    while not isinstance(sample, torch.Tensor):
        sample = next(iter(sample.values() if isinstance(sample, dict) else sample))
    return len(sample)


def compiled(habit, plan, **flow):
    return hyperplace.compile(
        habit.model(),
        plan,
        optimizer=lambda ps: torch.optim.SGD(ps, lr=0.02),
        loss=habit.loss or row_loss,
        threads=1,
        sample=habit.sample(PLANNED_ROWS),
        **flow,
    )


@pytest.mark.parametrize("name", NAMES)
def test_messages_of_habits(name):
    habit = HABITS[name]
    for grain, k, how in PLANS:
        blocks = 1 if how == "dataparallel" else BLOCKS[grain]
        options = {"grain": grain, "k": k, "partitioner": how, "blocks": blocks, "row_blocks": k, "imbalance": 100.0}
        plan = hyperplace.place(habit.model(), habit.sample(PLANNED_ROWS), batch=PLANNED_ROWS, **options)
        with compiled(habit, plan, in_flight=1) as trainer:
            seen = watch(trainer)
            sizes = [rows for rows in (PLANNED_ROWS, 9, 4) if takes(trainer.program, rows)]
            for rows in sizes:
                sample = habit.sample(rows)
                given = (sample,) if isinstance(sample, dict) else sample
                trainer.step(*given, torch.ones(rows, dtype=torch.float64)).item()
            check(trainer, seen, lambda batch, sizes=sizes: sizes[batch])
            forward = {pair: count for pair, count in plan.moved_bytes.items() if pair[0] == FORWARD}
            assert planned_bytes(trainer.program) == forward


@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
def test_messages_of_micro_batches(grain):
    habit = HABITS["residual_block"]
    plan = hyperplace.place(
        habit.model(), habit.sample(6), batch=6, grain=grain, k=2, partitioner="random", blocks=2, imbalance=100.0
    )
    with compiled(habit, plan, schedule="sync", micro_batches=3) as trainer:
        seen = watch(trainer)
        for rows in (6, 8):
            trainer.step(*habit.sample(rows), torch.ones(rows, dtype=torch.float64)).item()
        pieces = [2, 2, 2, 3, 3, 2]  # as torch.chunk cuts them
        check(trainer, seen, pieces.__getitem__)
