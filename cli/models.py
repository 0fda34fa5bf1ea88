"""`hyperplace models`: what can be named instead of a file."""

from . import options


def models(json: options.Json = False) -> None:
    """List the models of the zoo."""
    from hyperplace.models import ZOO

    if json:
        import json as text

        print(text.dumps([{"name": m.name, "input": list(m.input_shape), "about": m.about} for m in ZOO.values()]))
        return
    from rich.console import Console

    from hyperplace.report import Column, Document, Section, Table, show

    zoo = ZOO.values()
    table = Table(
        (
            Column.words("model", [model.name for model in zoo]),
            Column.words("input", ["x".join(map(str, model.input_shape)) for model in zoo]),
            Column.words("about", [model.about for model in zoo]),
        )
    )
    show(Document((), (Section((table,)),), table), Console(highlight=False))
