"""`hyperplace probe`: what this machine is, or under torchrun all hosts, as a cluster file."""

from pathlib import Path
from typing import Annotated

import typer

from .terminal import say


def probe(
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path("cluster.toml"),
    seconds: Annotated[float, typer.Option(help="How long to send bytes back and forth, in all.")] = 5.0,
) -> None:
    """Measure speeds, bandwidth and latency, and write them as a cluster; under torchrun for all hosts."""
    from hyperplace import api
    from hyperplace.files.cluster import cluster_text
    from hyperplace.files.write import write_text

    found = api.probe(seconds)
    if found is None:  # another process writes it
        return
    write_text(output, cluster_text(found))
    say(f"{found}\nwritten: {output}")
