"""A plan file and the model it is of, as the commands that run plans take them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperplace.errors import UsageError

if TYPE_CHECKING:
    from hyperplace.values.plan import Plan


@dataclass(frozen=True)
class Planned:
    """A plan and its model, a LoadedModel."""

    plan: "Plan"
    loaded: Any


def load_planned(path: Path, spec: str | None, shapes: list[str] | None, *, device: str = "meta") -> Planned:
    """Read a plan and make its model: the one of the zoo that it names, or the one of `spec`.

    A plan file is data from anywhere: what it names is looked up in the zoo and never imported.
    """
    from hyperplace.api import load_plan
    from hyperplace.models import ZOO, load_model

    plan = load_plan(path)
    _check_shapes(path, plan, shapes)
    if spec is None and plan.settings.model not in ZOO:
        raise UsageError(
            f"{path} is of {plan.settings.model!r}, which is not in the zoo, and nothing that a file names is imported "
            "or run by itself; give --model path/to/file.py:factory"
        )
    return Planned(plan, load_model(spec or plan.settings.model, plan.inputs, device=device))


def _check_shapes(path: Path, plan: "Plan", shapes: list[str] | None) -> None:
    from hyperplace.models import parse_shape

    if shapes and tuple(parse_shape(text) for text in shapes) != plan.inputs:
        planned = " ".join(f"--input {'x'.join(map(str, shape))}" for shape in plan.inputs)
        raise UsageError(f"{path} was made for {planned}; leave --input out, or make another plan")
