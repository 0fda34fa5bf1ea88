"""`hyperplace generate`: from a plan to the Python program that runs it."""

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .planned import find_planned
from .terminal import say


def generate(
    plan: Annotated[Path, typer.Argument(help="A plan.json that hyperplace partition wrote.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write; MODEL_kK.py beside the plan by default."),
    ] = None,
    model: options.PlannedModel = None,
    input: options.Input = None,
    recompute: options.Recompute = "none",
    offload: options.Offload = "none",
) -> None:
    """Write the plan as a readable program: a class per part, and a table of what it sends and receives."""
    from hyperplace import api
    from hyperplace.files.write import write_text

    subject = find_planned(plan, model, input)
    assert subject.plan is not None
    loaded, num_parts = subject.load(), subject.plan.settings.k
    text = api.generate(loaded.module, subject.plan, recompute=recompute, offload=offload)
    path = output or plan.with_name(f"{loaded.name}_k{num_parts}.py")
    write_text(path, text)
    say(f"{path}: {num_parts} parts, {len(text.splitlines()):,} lines; python {path} --help runs it")
