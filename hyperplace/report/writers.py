"""A document as the text of a file: Markdown to read, CSV with every digit to compute with."""

import csv
import io
from collections.abc import Iterator
from itertools import groupby

from hyperplace.report.document import Block, Document, Figure, Table, Text


def markdown_text(document: Document, command: str) -> str:
    """Return the command that made the document, what is said first, then the sections."""
    pieces = [f"```sh\n{command}\n```\n", *(f"{text.text}\n" for text in document.head)]
    for section in document.sections:
        pieces += [f"## {section.title}\n"] if section.title else []
        pieces += _blocks(section.blocks)
    return "\n".join(pieces)


def _blocks(blocks: tuple[Block, ...]) -> Iterator[str]:
    """Yield the blocks; neighbouring notes are one list."""
    for is_note, group in groupby(blocks, lambda block: isinstance(block, Text) and block.tone == "note"):
        texts = [_block(block) for block in group]
        yield from ["".join(texts)] if is_note else texts


def _block(block: Block) -> str:
    if isinstance(block, Table):
        return markdown_table(block)
    if isinstance(block, Figure):
        return f"![{block.alt}]({block.name}.png)\n\n{block.caption}\n"
    return f"- {block.text}\n" if block.tone == "note" else f"{block.text}\n"


def markdown_table(table: Table) -> str:
    """Return a GitHub table; numbers stand right."""
    rules = ["---:" if column.kind == "number" else "---" for column in table.columns]
    lines = [table.headings, rules, *table.rows]
    return "".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |\n" for line in lines)


def csv_text(document: Document) -> str:
    """Return the document's data, every digit of it; what is not known is left empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(document.data.headings)
    writer.writerows(zip(*(column.values for column in document.data.columns), strict=True))
    return text.getvalue()
