"""A document as HTML: sections, tables that sort, figures inside the file. Whatever comes from a model is escaped."""

import base64
import io
from html import escape

from hyperplace.report.document import Block, Column, Document, Figure, Section, Table, Text, Value


def document_markup(document: Document) -> str:
    """Return what is said first, then the sections."""
    return "".join([*map(_text, document.head), *map(section_markup, document.sections)])


def section_markup(section: Section) -> str:
    """Return a section under its title."""
    title = f"<h2>{escape(section.title)}</h2>" if section.title else ""
    return f"<section>{title}{''.join(map(block_markup, section.blocks))}</section>\n"


def block_markup(block: Block) -> str:
    """Return a table, a figure or a text."""
    if isinstance(block, Table):
        return table_markup(block)
    return _figure(block) if isinstance(block, Figure) else _text(block)


def _text(text: Text) -> str:
    return f'<p class="{text.tone}">{escape(text.text)}</p>\n'


def table_markup(table: Table, caption: str = "") -> str:
    """Return a table whose headings are buttons that sort it; cells carry their value where the text is not it."""
    if not table.columns:
        return ""
    heads = "".join(_head(column) for column in table.columns)
    rows = "".join(_row(table, number) for number in range(len(table)))
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption) or "table"}"><table data-sorts>'
        f"{title}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>\n"
    )


def _head(column: Column) -> str:
    kind = ' class="number"' if column.kind == "number" else ""
    return f'<th scope="col"{kind} aria-sort="none"><button type="button">{escape(column.heading)}</button></th>'


def _row(table: Table, number: int) -> str:
    cells = "".join(_cell(column, number) for column in table.columns)
    return f"<tr{_row_class(table, number)}>{cells}</tr>"


def _row_class(table: Table, number: int) -> str:
    """Return what greys a row that is over its limit or has no result."""
    if number in table.greyed:
        return ' class="misses"'
    flags = [str(column.values[number] or "") for column in table.columns if column.kind == "flag"]
    words = [flag.split()[0] for flag in flags if flag]
    return ' class="misses"' if any(word in ("over", "no") for word in words) else ""


def _cell(column: Column, number: int) -> str:
    value, text = column.values[number], column.cells[number]
    kind = ' class="number"' if column.kind == "number" else ""
    return f"<td{kind}{_data(value, text)}>{escape(text)}</td>"


def _data(value: Value, text: str) -> str:
    return f' data-value="{value!r}"' if isinstance(value, int | float) and repr(value) != text else ""


def _figure(figure: Figure) -> str:
    """Return the figure as a picture inside the page."""
    image = io.BytesIO()
    figure.draw().savefig(image, format="png", dpi=90, metadata={"Software": None})
    data = base64.b64encode(image.getvalue()).decode()
    return (
        f'<figure><img alt="{escape(figure.alt)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>\n"
    )
