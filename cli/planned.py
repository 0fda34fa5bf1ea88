"""A plan and the model it is of, as the commands that run plans take them: a plan file, or a model to plan first."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperplace.errors import UsageError

from .terminal import progress, say

if TYPE_CHECKING:
    from hyperplace.values.plan import Plan, Settings


@dataclass(frozen=True)
class Subject:
    """A model by its spec and shapes, and its plan if there is one already."""

    spec: str
    shapes: tuple[tuple[int, ...], ...] | None
    plan: "Plan | None" = None

    def load(self, device: str = "meta") -> Any:
        """Make the model: a LoadedModel."""
        from hyperplace.models import load_model

        return load_model(self.spec, self.shapes, device=device)

    def weighted(self, seed: int) -> Any:
        """Make the model with the weights of a seed."""
        import torch

        torch.manual_seed(seed)
        return self.load("cpu")


@dataclass(frozen=True)
class PlanWish:
    """What was asked of a plan; None is what was not."""

    k: int | None = None
    imbalance: float | None = None
    grain: str | None = None
    partitioner: str | None = None
    costs: str | None = None
    batch: int | None = None
    batch_norm: str | None = None

    def applied(self, settings: "Settings") -> "Settings":
        """Return the settings with what was asked for."""
        asked = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(settings, **{name: value for name, value in asked.items() if value is not None})

    def check(self, path: Path, plan: "Plan") -> None:
        """Refuse what contradicts a plan that is there already; another batch only runs it with other rows."""
        if faults := [
            f"--{field.name.replace('_', '-')} {asked}"
            for field in fields(self)
            if field.name != "batch"
            and (asked := getattr(self, field.name)) not in (None, getattr(plan.settings, field.name))
        ]:
            raise UsageError(f"{path} was planned with other than {', '.join(faults)}; leave it out, or plan again")


def find_planned(path: Path, spec: str | None, shapes: list[str] | None) -> Subject:
    """Read a plan; its model is the one of the zoo that it names, or `spec`.

    A plan file is data from anywhere: what it names is looked up in the zoo and never imported.
    """
    from hyperplace.api import load_plan
    from hyperplace.models import ZOO

    plan = load_plan(path)
    _check_shapes(path, plan, shapes)
    if spec is None and plan.settings.model not in ZOO:
        raise UsageError(
            f"{path} is of {plan.settings.model!r}, which is not in the zoo, and nothing that a file names is imported "
            "or run by itself; give --model path/to/file.py:factory"
        )
    return Subject(spec or plan.settings.model, plan.inputs, plan)


def _check_shapes(path: Path, plan: "Plan", shapes: list[str] | None) -> None:
    if shapes and parsed_shapes(shapes) != plan.inputs:
        planned = " ".join(f"--input {'x'.join(map(str, shape))}" for shape in plan.inputs)
        raise UsageError(f"{path} was made for {planned}; leave --input out, or make another plan")


def load(spec: str, shapes: list[str] | None) -> Any:
    """Return a model by name, module or file, as every command takes it: its short name, module and sample input."""
    from hyperplace.models import load_model

    return load_model(spec, parsed_shapes(shapes))


def parsed_shapes(shapes: list[str] | None) -> tuple[tuple[int, ...], ...] | None:
    """Return the shapes of --input."""
    from hyperplace.models import parse_shape

    return tuple(parse_shape(text) for text in shapes) if shapes else None


def find_subject(name: str, wish: PlanWish, *, spec: str | None, shapes: list[str] | None) -> Subject:
    """Return what is to be trained: a plan file, or a model without a plan yet."""
    if not name.endswith(".json"):
        if spec:
            raise UsageError(f"--model {spec} is for a plan file, but {name} is a model already; leave it out")
        return Subject(name, parsed_shapes(shapes))
    subject = find_planned(Path(name), spec, shapes)
    assert subject.plan is not None
    wish.check(Path(name), subject.plan)
    return subject


def settled_aloud(settings: "Settings") -> "Settings":
    """Return the settings as they will be used, and say where all grains were asked for and only one is meant."""
    from hyperplace import api

    settled = api.settled(settings)
    if settled.grain != settings.grain:
        what = "a partition vector" if settings.partitioner == "file" else f"--partitioner {settings.partitioner}"
        say(f"{what} is for one grain, {settled.grain} unless --grain says otherwise: the others are not tried")
    return settled


def make_plan(loaded: Any, settings: "Settings") -> "Plan":
    """Plan a model, with a line of progress."""
    from hyperplace import api

    settings = settled_aloud(settings)
    with progress(f"measuring {loaded.name}") as shown:
        placement = api.run(
            loaded.module,
            loaded.sample,
            settings,
            watch=api.Watch(keeps_best=False, on_progress=shown.on_progress),
            on_layer=shown.on_layer,
        )
    return placement.plan
