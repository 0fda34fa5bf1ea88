"""`hyperplace compare`: layer-wise, naive and hypergraph partitions side by side, as the thesis's tables.

Of several models there is one table, a row per model and number of parts. Rows are written as they are found.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.values.sizes import size

from . import options
from .folder import check_folder, held, write_document
from .planned import load
from .terminal import INTERRUPTED, progress, say

if TYPE_CHECKING:
    from hyperplace.report import Document
    from hyperplace.values.comparison import Comparison


def compare(
    model: Annotated[
        str, typer.Argument(help="A model, as for partition; or several, as vgg16,resnet50; or zoo: all of the zoo.")
    ],
    k: Annotated[str, typer.Option(help="Numbers of parts.")] = "2,4,8",
    imbalance: Annotated[str, typer.Option(help="Imbalances for the methods that obey one.")] = "0.1",
    methods: Annotated[
        str | None, typer.Option(help="Only these methods, such as coarse,auto; all by default.")
    ] = None,
    costs: options.Costs = "flops",
    batch: options.Batch = 32,
    blocks: options.Blocks = "64",
    row_blocks: options.RowBlocks = 8,
    batch_norm: options.BatchNorm = "exact",
    fc: options.Fc = "neurons",
    seed: options.Seed = 0,
    time_limit: options.TimeLimit = 20.0,
    input: options.Input = None,
    out: options.Out = None,
    html: options.Html = False,
) -> None:
    """Compare work and volume of every method, beside data parallelism and the thesis's own figures."""
    from hyperplace import api

    ks, imbalances = options.integers(k, "--k"), options.fractions(imbalance, "--imbalance")
    num_blocks = options.number_of_blocks(blocks)
    names = _names(model)
    if len(names) > 1 and input:
        raise UsageError("--input is for one model; leave it out, or compare the models one by one")
    models = [load(name, input) for name in names]
    folder = out or Path("results") / f"{models[0].name if len(names) == 1 else 'overview'}-compare"
    check_folder(folder)
    rows = _Rows(folder, is_of_one_model=len(names) == 1, html=html)
    with held(folder):
        for loaded in models:
            with rows.kept(), progress(f"measuring {loaded.name}") as shown:
                compared = api.compare(
                    loaded.module,
                    loaded.sample,
                    k=ks,
                    imbalance=imbalances,
                    methods=methods.split(",") if methods else api.METHOD_NAMES,
                    costs=costs,
                    batch=batch,
                    blocks=num_blocks,
                    fc=fc,
                    seed=seed,
                    row_blocks=row_blocks,
                    batch_norm=batch_norm,
                    time_limit_s=time_limit,
                    name=loaded.name,
                    on_layer=shown.on_layer,
                    on_row=rows.on_row,
                )
            rows.done.append(compared)
        rows.finish()


def _names(text: str) -> list[str]:
    from hyperplace.models import ZOO

    return list(ZOO) if text == "zoo" else list(dict.fromkeys(text.split(",")))


class _Rows:
    """The rows found so far: each is said, and all are written again with every new one."""

    def __init__(self, folder: Path, *, is_of_one_model: bool, html: bool) -> None:
        self.folder, self.is_of_one_model, self.html = folder, is_of_one_model, html
        self.done: list[Comparison] = []
        self.num_rows = 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Say, where the block is interrupted or fails, what is written nevertheless."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.num_rows:
                raise
            say(f"interrupted; {self._where()}")
            raise typer.Exit(INTERRUPTED) from None
        except HyperplaceError:
            if self.num_rows:
                say(self._where())
            raise

    def on_row(self, so_far: "Comparison") -> None:
        row = so_far.rows[-1]
        volume = f"{size(row.volume_bytes)} forward, {size(row.training_volume_bytes)} in training"
        figures = row.note or f"{volume}, max/avg {row.max_over_avg:.3f}"
        say(f"{row.model} k={row.k} {row.method}: {figures} ({row.seconds:.1f} s)")
        self._write(self._document([*self.done, so_far]).without_figures())
        self.num_rows += 1

    def finish(self) -> None:
        """Show all rows, and write them with their figure."""
        from rich.console import Console

        from hyperplace.report import show

        document = self._document(self.done)
        show(document, Console(highlight=False))
        say(f"written to {self.folder}/: {', '.join(self._write(document))}")

    def _write(self, document: "Document") -> tuple[str, ...]:
        if self.is_of_one_model:
            return write_document(self.folder, "comparison", document, text_width=160, html=self.html)
        return write_document(self.folder, "overview", document, text_width=200, html=self.html)

    def _document(self, comparisons: "list[Comparison]") -> "Document":
        from hyperplace.report import comparison_document, overview_document

        return comparison_document(comparisons[0]) if self.is_of_one_model else overview_document(comparisons)

    def _where(self) -> str:
        rows = "row found before that is" if self.num_rows == 1 else f"{self.num_rows} rows found before that are"
        return f"the {rows} in {self.folder}/"
