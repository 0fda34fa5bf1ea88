"""hyperplace: decide which filters of a CNN live on which device, and prove what that costs.

>>> plan = hyperplace.place(model, sample, k=4, imbalance=0.1)
>>> plan.metrics.volume_bytes

The flow, one function per arrow: capture -> profile -> build -> partition -> place -> lower -> schedule, emit. `place`
on a model does all up to the plan and `generate` all from there to text; `compile` makes a trainer of model and plan,
`save_checkpoint` and `load_checkpoint` keep what it has learnt. Importing hyperplace is cheap: torch loads with the
first function used.
"""

from typing import TYPE_CHECKING, Any

from hyperplace.values import drawn

if TYPE_CHECKING:
    from hyperplace.api import (
        build,
        capture,
        compare,
        compile,
        dry_run,
        emit,
        generate,
        keep_memory,
        load_checkpoint,
        load_cluster,
        load_plan,
        load_program,
        lower,
        memory,
        partition,
        place,
        predict,
        probe,
        profile,
        save_checkpoint,
        save_plan,
        schedule,
        simulate,
        take_turns,
    )
    from hyperplace.report.progress import progress

__all__ = [
    "build",
    "capture",
    "compare",
    "compile",
    "dry_run",
    "emit",
    "generate",
    "keep_memory",
    "load_checkpoint",
    "load_cluster",
    "load_plan",
    "load_program",
    "lower",
    "memory",
    "partition",
    "place",
    "predict",
    "probe",
    "profile",
    "progress",
    "save_checkpoint",
    "save_plan",
    "schedule",
    "simulate",
    "take_turns",
]
__version__ = "0.1.0"


def _as_html(value: Any) -> str | None:
    from hyperplace.report.notebook import html_of

    return html_of(value)


def _as_figure(value: Any) -> Any:
    from hyperplace.report.planfigure import plan_figure

    return plan_figure(value)


def _as_line(title: str) -> Any:
    from hyperplace.report.progress import line

    return line(title)


drawn.register("html", _as_html)
drawn.register("figure", _as_figure)
drawn.register("line", _as_line)


def __getattr__(name: str) -> Any:
    if name == "progress":
        from hyperplace.report.progress import progress

        return progress
    if name in __all__:
        from hyperplace import api

        return getattr(api, name)
    raise AttributeError(f"module 'hyperplace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
