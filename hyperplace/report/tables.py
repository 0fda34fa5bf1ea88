"""A DataFrame as written cells and as Markdown. The columns' names say the unit and so the decimals."""

from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MIB = 2**20
GIB = 2**30
DECIMALS = {
    "max/min": 3,
    "max/avg": 3,
    "x this plan": 2,
    "train loss": 4,
    "accuracy %": 2,
    "lowest %": 2,
    "highest %": 2,
    "points more": 2,
    "x as fast": 2,
    "x 1 thread": 2,
    "x k threads": 2,
}
NOTHING = float("nan")  # an empty cell, in a column of numbers


def cell(column: str, value: Any) -> str:
    """Return one value as it is written in a table."""
    if value is None or value != value:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Integral):
        return f"{value:,}"
    if column == "imbalance":
        return f"{value:g}"
    return f"{value:,.{DECIMALS.get(column, 1)}f}"


def cells(frame: "pd.DataFrame") -> list[list[str]]:
    """Return every row as written."""
    names = [str(name) for name in frame.columns]
    return [
        [cell(name, value) for name, value in zip(names, row, strict=True)] for row in frame.itertuples(index=False)
    ]


def markdown_table(frame: "pd.DataFrame") -> str:
    """Return a GitHub table; numbers stand right."""
    names = [str(name) for name in frame.columns]
    rules = ["---" if name in text_columns(frame) else "---:" for name in names]
    lines = [names, rules, *cells(frame)]
    return "".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |\n" for line in lines)


def text_columns(frame: "pd.DataFrame") -> set[str]:
    """Return the columns that hold words."""
    return {str(name) for name in frame.columns if any(isinstance(value, str) for value in frame[name].tolist())}
