"""From a plan to what runs it: the program as text, and a trainer."""

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperplace.errors import ModelError, TrainingError, UsageError
from hyperplace.planning import heard_plan, plan_of_fewer, told_plan
from hyperplace.recapturing import planned_graph
from hyperplace.steps.emit import emit
from hyperplace.steps.lower import lower as lower_step
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import memory
from hyperplace.values import drawn
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived import derived, differences
from hyperplace.values.graph import Graph
from hyperplace.values.memory import RunMemory
from hyperplace.values.plan import Plan
from hyperplace.values.profile import Profile
from hyperplace.values.program import Program
from hyperplace.values.relief import ALL, NONE, relieved

if TYPE_CHECKING:
    from torch import Tensor, nn

    from hyperplace.runtime import Runnable, RunSettings, Survivor, Trainer
    from hyperplace.runtime.hosts.meeting import Facts
    from hyperplace.runtime.hosts.processes import Processes
    from hyperplace.runtime.hosts.world import World
    from hyperplace.runtime.survival.door import Door
    from hyperplace.runtime.weights import AverageFactory, OptimizerFactory, SchedulerFactory


def lower(model: "nn.Module", plan: Plan, profile: Profile | None = None, *, sample: Any = None) -> Program:
    """Return what every part does to run a plan of the model, as a value; `sample` as for compile.

    Segments cost what the profile says, or else what the plan has of the profile it was made with.
    """
    return lower_step(planned_graph(model, plan, sample), plan, profile)


def generate(model: "nn.Module", plan: Plan, *, sample: Any = None, recompute: str = NONE, offload: str = NONE) -> str:
    """Return the program that runs a plan of the model, as Python text; what else is given as for compile."""
    return emit(relieved(lower(model, plan, sample=sample), recompute, offload))


def check_plan(plan: Plan, model: "nn.Module | None" = None) -> tuple[Plan, list[str]]:
    """Return the plan as it must be, going by its owners and kernels, and how it differs from that.

    What the plan says about its layers is compared with the model where there is one, and otherwise believed.
    """
    faults: list[str] = []
    right = plan
    if model is not None:
        from hyperplace.steps.lower.check import model_faults, with_facts_of

        graph = planned_graph(model, plan)
        right = with_facts_of(graph, plan)
        faults = model_faults(graph, plan)
    faults += differences(right)
    return derived(right), faults


def run_memory(graph: Graph, plan: Plan, *, in_flight: int = 4, optimizer: str = "momentum") -> RunMemory:
    """Return what every part needs of memory to train a captured model by its plan, asynchronously."""
    program = lower_step(graph, plan)
    return RunMemory(memory(program, schedule(program, in_flight), optimizer=optimizer), in_flight, optimizer)


def runnable(
    graph: Graph, plan: Plan, profile: Profile | None = None, *, recompute: str = NONE, offload: str = NONE
) -> "Runnable":
    """Return the plan of a captured model as a program that a Trainer runs."""
    from hyperplace.runtime import runnable as with_code

    lowered = relieved(lower_step(graph, plan, profile), recompute, offload)
    return with_code(lowered, emit(lowered))


@drawn.watched("compiling")
def compile(
    model: "nn.Module",
    plan: Plan,
    *,
    optimizer: "OptimizerFactory",
    loss: Callable[..., Any],
    schedule: str = "async",
    in_flight: int = 4,
    micro_batches: int | None = None,
    scheduler: "SchedulerFactory | None" = None,
    average: "AverageFactory | None" = None,
    clip_norm: float | None = None,
    clip_part_norm: float | None = None,
    stash: bool = True,
    named_parameters: bool = False,
    devices: str | Sequence[str] = (),
    threads: int | None = None,
    seed: int = 0,
    check_nan: bool = False,
    record: bool = False,
    sample: Any = None,
    state: "Mapping[str, Tensor] | None" = None,
    parts_per_process: int = 1,
    cluster: Cluster | None = None,
    recompute: str = NONE,
    offload: str = NONE,
    survive: int = 0,
    survive_every: int = 20,
    door: int | None = None,
    spare: str = "",
) -> "Trainer | Survivor":
    """Return a trainer that runs a plan of the model: a thread per part, its weights taken from the model.

    Where torch.distributed is initialised with several processes, each of them makes the same calls, and the parts are
    theirs: one each, or `parts_per_process` neighbouring ones. The order in which parts work, and how stale copies of
    weights may be, makes allowance for the network of the `cluster`.

    With `state`, a state dict to begin with, the model may be on the meta device: each part takes its slices of it and
    no more (torch.load(path, mmap=True) reads no more).

    To save memory, segments may be run forward once more for their backward pass instead of keeping what that needs:
    `recompute` is none, all, or parts and segments such as `0:1,1:0`. Others may keep it in the memory of the host,
    where their device has memory of its own: `offload`, written alike. The losses are the same, bit for bit.

    With `survive`, so many of the processes may be lost, one after the other, and the others go on with fewer parts:
    each streams what its parts have to another one after every `survive_every` updates. Each then needs all rows of
    the mini-batches. A `door`, a port, lets others in instead: a process of no such run calls compile with `spare`, the
    doors of some of its processes such as `10.0.0.1:29600`, and the same else; it waits until one is missing and the
    others call `take_in`, and begins there, at `num_batches` and with what they gave along in `brought`.

    By default several mini-batches are under way at once (`schedule="async"`), each computed with weights that lack
    the updates of those before it; in_flight=1 or schedule="sync" is the plain loop.

    `optimizer`, `scheduler` (stepped after every update) and `average` (see torch.optim.swa_utils.AveragedModel) are
    functions, called once for each part. `optimizer` gets the part's parameters, or with `named_parameters` pairs of
    their names in the model and them. `clip_norm` bounds the norm of all gradients of an update, `clip_part_norm` that
    of each part's. The loss may not have parameters of its own. `sample` is needed only where inputs are not floating
    point.

    >>> with hyperplace.compile(model, plan, optimizer=lambda ps: SGD(ps, lr=0.01), loss=F.cross_entropy) as trainer:
    ...     for x, y in loader:
    ...         trainer.step(x, y)
    ...     model.load_state_dict(trainer.state_dict())
    """
    from hyperplace.runtime import RunSettings, Survivor, Training
    from hyperplace.runtime.checkpoints.state import evaluated, named_tensors
    from hyperplace.runtime.hosts.meeting import check_size, check_survive, facts, met_world
    from hyperplace.runtime.hosts.processes import Processes
    from hyperplace.steps.capture.alone import alone

    check_survive(survive, plan.settings.k, parts_per_process, door=door, spare=spare)
    if not spare:
        check_size(plan.settings.k, parts_per_process)
    with alone():  # another thread may be capturing the same model, which has other tensors meanwhile
        if state is None:
            _check_values(model)
        graph = planned_graph(model, plan, sample, tries_uses=True)
        whole = {**model.state_dict(), **named_tensors(model)} | dict(state or {})
        _check_known(whole)

    def pieces(plan: Plan) -> int:
        usual = micro_batches_for(graph, plan) if schedule == "sync" else 1
        return usual if micro_batches is None else micro_batches

    devices = (devices,) * plan.settings.k if isinstance(devices, str) else tuple(map(str, devices))
    flow = (schedule, in_flight, pieces(plan), seed, devices, threads, check_nan, record, cluster)
    settings = RunSettings(*flow, survive, survive_every)
    if settings.micro_batches > plan.settings.batch:
        rows = plan.settings.batch
        raise UsageError(f"micro_batches {settings.micro_batches} are more than the {rows} rows of the plan's batch")
    training = Training(optimizer, scheduler, average, clip_norm, clip_part_norm, stash, named_parameters)
    if settings.micro_batches > 1:
        _check_micro_batches(graph)
    made = runnable(graph, plan, recompute=recompute, offload=offload)
    evaluate = None if graph.evaluates else partial(evaluated, model, is_keyword=bool(graph.takes[1]))
    begin = partial(_trainer, model, whole, training=training, loss=loss, evaluate=evaluate)
    world = None if spare else met_world(made.program, whole, settings, training, parts_per_process)
    if world is None or (survive and isinstance(world, Processes)):
        again, away = (one if one == ALL else NONE for one in (recompute, offload))  # named segments are of this plan

        def ready(one: Plan) -> "tuple[Runnable, int]":
            return made if one is plan else runnable(graph, one, recompute=again, offload=away), pieces(one)

        given = facts(made.program, whole, settings, training)
        if world is None:
            return _guest(plan, settings, begin, ready, given, parts_per_process, door, spare)
        fewer = _fewer(graph, plan, settings.survive, world)
        opened = _opened(door, [plan, *fewer], given)
        make = _maker(plan, fewer, settings, begin, ready, parts_per_process, first=world)
        return Survivor(world, make, most_lost=survive, every=survive_every, door=opened)
    return begin(made, settings, world)


def _trainer(
    model: "nn.Module",
    whole: "Mapping[str, Tensor]",
    made: "Runnable",
    settings: "RunSettings",
    world: "World",
    **words: Any,
) -> "Trainer":
    from hyperplace.runtime import Trainer
    from hyperplace.runtime.checkpoints.state import StateNames
    from hyperplace.steps.capture.alone import alone

    with alone():
        names = StateNames.of(model, made.program)
    return Trainer(made, whole, settings=settings, names=names, world=world, **words)


Begin = Callable[["Runnable", "RunSettings", "World"], "Trainer"]
Ready = Callable[[Plan], "tuple[Runnable, int]"]


def _fewer(graph: Graph, plan: Plan, most_lost: int, processes: "Processes") -> list[Plan]:
    """Return plans, made now, for as many parts as may be left."""
    from hyperplace.runtime.hosts.joining import shared_text

    each = len(processes.parts)
    counts = [plan.settings.k - lost * each for lost in range(1, most_lost + 1)]
    return [plan_of_fewer(graph, plan, k, partial(shared_text, f"{processes.name}: plan for {k}")) for k in counts]


def _maker(
    plan: Plan,
    fewer: Sequence[Plan],
    settings: "RunSettings",
    begin: Begin,
    ready: Ready,
    each: int,
    *,
    first: "Processes | None" = None,
) -> "Callable[[Processes], Trainer]":
    """Return what makes the trainer of any generation; only of the first a cluster is known, with a device each."""
    known = {one.settings.k: ready(one) for one in (plan, *fewer)}

    def make(world: "Processes") -> "Trainer":
        made, micro_batches = known[world.size * each]
        devices = _devices_of(settings.devices, world.members, each)
        cluster = settings.cluster if world is first else None
        return begin(made, replace(settings, micro_batches=micro_batches, devices=devices, cluster=cluster), world)

    return make


def _devices_of(devices: Sequence[str], members: Sequence[int], each: int) -> tuple[str, ...]:
    """Return the device of every part; who came later has those of somebody who is lost."""
    if not devices:
        return ()
    slots = range(len(devices) // each)
    free = iter([slot for slot in slots if slot not in members])
    places = [member if member in slots else next(free) for member in members]
    return tuple(devices[place * each + part] for place in places for part in range(each))


def _opened(door: int | None, plans: Sequence[Plan], given: "Facts") -> "Door | None":
    """Open the door of this process; of several on one host each has a port of its own."""
    from hyperplace.runtime.survival.door import Door

    if door is None:
        return None
    welcome = {"plans": [told_plan(plan) for plan in plans], "facts": json.dumps(given)}
    return Door(door + int(os.environ.get("LOCAL_RANK", "0")), welcome)


def _guest(
    plan: Plan,
    settings: "RunSettings",
    begin: Begin,
    ready: Ready,
    given: "Facts",
    each: int,
    door: int | None,
    spare: str,
) -> "Survivor":
    """Return the trainer of a process that was let into a run, once it is."""
    from hyperplace.runtime import Survivor
    from hyperplace.runtime.survival.arrivals import differences as other_facts
    from hyperplace.runtime.survival.arrivals import entered
    from hyperplace.runtime.survival.door import Guest

    guest = Guest(spare)
    plans = [heard_plan(text) for text in guest.welcome["plans"]]
    if other := other_facts(guest.welcome, given):
        raise TrainingError(f"this spare is not like the run behind {spare}: {other}; give it the same options")
    make = _maker(plan, plans[1:], settings, begin, ready, each)
    world, key = entered(guest)
    return Survivor(
        world,
        make,
        most_lost=settings.survive,
        every=settings.survive_every,
        full=plan.settings.k // each,
        door=_opened(door, plans, given),
        guest_of=key,
    )


def _check_micro_batches(graph: Graph) -> None:
    """Refuse to cut mini-batches of a model that changes with each, and say where that makes a difference."""
    if changing := next((layer for layer in graph.layers if layer.writes), None):
        raise UsageError(
            f"{changing.name} writes the buffer {changing.writes[0]} once for every mini-batch; leave micro_batches out"
        )
    norms = {layer.name for layer in graph.layers if any(call.name == "batch_norm" for call in layer.calls)}
    if others := [name for name in graph.coupling if name not in norms]:
        warnings.warn(
            f"{others[0]} may let rows of the batch see each other; with micro_batches it sees those of one at a time",
            stacklevel=3,
        )


def _check_values(model: "nn.Module") -> None:
    """Refuse to train a model that has shapes only."""
    if name := next((name for name, tensor in model.state_dict().items() if tensor.is_meta), None):
        raise ModelError(
            f"{name} is on the meta device and has no values to train; call model.to_empty(device='cpu') and set them, "
            "or make the model on the CPU"
        )


def _check_known(state: "Mapping[str, Tensor]") -> None:
    if name := next((name for name, tensor in state.items() if tensor.is_meta), None):
        raise ModelError(f"{name} is on the meta device, and the state has no values for it; give all of them")


def save_checkpoint(
    trainer: "Trainer | Survivor", path: str | Path, extra: Mapping[str, Any] | None = None, *, sharded: bool = False
) -> None:
    """Write all that training needs to go on: weights, buffers, the state of optimizer, scheduler and average.

    `extra` is the caller's own, made of numbers, texts and tensors. The file appears whole or not at all. Of several
    processes the first one writes it; with `sharded` each writes its own parts into a folder of that name.
    """
    from hyperplace.runtime import save_checkpoint as save

    save(trainer, path, extra, sharded=sharded)


def load_checkpoint(trainer: "Trainer | Survivor", path: str | Path) -> dict[str, Any]:
    """Go on from a checkpoint of the same model, whatever its plan; return the `extra` that was saved beside it.

    Nothing in the file is executed.
    """
    from hyperplace.runtime import load_checkpoint as load

    return load(trainer, path)


def micro_batches_for(graph: Graph, plan: Plan) -> int:
    """Return as many micro-batches as parts; one where rows may see each other, or no part waits for another.

    Whoever only shares weights gains nothing by them, and its gradients travel while the one backward pass still runs.
    """
    if graph.coupling or graph.has_fixed_rows or not (plan.transfers or plan.reductions):
        return 1
    return min(plan.settings.k, plan.settings.batch)
