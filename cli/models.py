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
    from rich.table import Table

    table = Table("model", "input", "about", box=None, pad_edge=False)
    for model in ZOO.values():
        table.add_row(model.name, "x".join(map(str, model.input_shape)), model.about)
    Console(highlight=False).print(table)
