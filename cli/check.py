"""`hyperplace check`: whether a plan file is what follows from its owners, and with --fix make it so."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .terminal import say


def check(
    plan: Annotated[Path, typer.Argument(help="A plan.json, perhaps edited by hand.", show_default=False)],
    fix: Annotated[
        bool, typer.Option("--fix", help="Recompute all that follows from the owners, and write the file.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="Compare with this model too: of the zoo, or a file:factory.")
    ] = None,
) -> None:
    """Say `right`, or all of a plan that does not follow from its owners: messages, copies of weights, balance."""
    from hyperplace import api
    from hyperplace.files.plan import parse_draft
    from hyperplace.files.write import read_text

    draft = parse_draft(read_text(plan), str(plan))
    right, faults = api.check_plan(draft, _module(model, draft.inputs) if model else None)
    for fault in faults:
        print(fault)
    if not faults:
        print("right")
    elif fix:
        api.save_plan(right, plan)
        say(f"{plan}: put right: {right}")
    else:
        say(f"{plan}: {len(faults)} faults; --fix recomputes what follows from the owners")
        raise typer.Exit(1)


def _module(spec: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    from hyperplace.models import load_model

    return load_model(spec, shapes, device="meta").module
