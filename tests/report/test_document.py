"""The laws of documents and their writers, whatever the noun."""

import csv
import io

import pytest
from report_examples import coarse_plan, comparison, plan_others

from hyperplace.errors import HyperplaceError
from hyperplace.report import (
    Column,
    Document,
    Figure,
    Section,
    Table,
    Text,
    comparison_document,
    csv_text,
    markdown_text,
    plain_text,
    plan_document,
    show,
)
from hyperplace.report.document import SHORT, written


def document(*blocks, head=(), title=""):
    return Document(head, (Section(blocks, title),), Table(()))


def nothing_drawn():
    raise AssertionError("drawn by a writer of text")


def figure(**more):
    return Figure("curve", "A caption.", "What it shows", nothing_drawn, **more)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (None, ",.1f", ""),
        ("any | word", ",.1f", "any | word"),
        (1234, ",.3f", "1,234"),
        (1234.56, ",.1f", "1,234.6"),
        (0.125, "g", "0.125"),
        (1234.56, SHORT, "1,234.6"),
        (0.012345, SHORT, "0.0123"),
        (float("inf"), ",.1f", "inf"),
    ],
)
def test_values_as_they_are_written(value, form, text):
    assert written(value, form) == text


def test_a_table_that_is_none_is_refused():
    one, two = Column.words("a", ["x"]), Column.numbers("b", [1, 2])
    with pytest.raises(HyperplaceError, match=r"columns of \[1, 2\] rows"):
        Table((one, two))
    with pytest.raises(HyperplaceError, match="two columns are headed 'a'"):
        Table((one, one))


def test_a_heading_has_its_unit_and_a_remark_stands_in_brackets():
    column = Column("moved", (1.0, None), unit="MiB", remarks=("1.20", ""))
    assert (column.heading, column.cells) == ("moved MiB", ("1.0 (1.20)", ""))
    assert Table((column,))["moved MiB"] == (1.0, None)


def test_columns_are_left_out_by_their_number_and_only_as_many_as_must():
    columns = [Column.numbers(f"column{spare}", [1], spare=spare) for spare in (0, 2, 1, 3)]
    text = plain_text(document(Table(tuple(columns))), 20)
    assert "left out at this width: column1, column2" in text.replace("\n", " ")
    assert plain_text(document(Table(tuple(columns))), 40).split()[:4] == ["column0", "column2", "column1", "column3"]


def test_equal_keys_are_written_once_and_a_gap_stands_where_the_first_changes():
    keys = Column.numbers("k", [2, 2, 4], is_key=True)
    lines = plain_text(document(Table((keys, Column.words("w", ["a", "b", "c"])))), 20).splitlines()[2:]
    assert lines == ["2  a", "   b", "", "4  c"]


@pytest.mark.parametrize(
    ("word", "is_styled"), [("over", True), ("no result", True), ("best at 0.1", True), ("met", False)]
)
def test_only_flags_are_coloured(word, is_styled):
    from rich.console import Console

    def shown(column):
        file = io.StringIO()
        show(document(Table((column,))), Console(file=file, color_system="truecolor", force_terminal=True))
        return f"m{word}" in file.getvalue()

    assert shown(Column.flags("limit", [word])) == is_styled
    assert not shown(Column.words("limit", [word]))


def test_a_fact_is_one_line_and_a_note_wraps():
    long = "word " * 30 + "end"
    assert plain_text(document(head=(Text(long, "fact"),)), 40).splitlines()[0] == long
    assert max(map(len, plain_text(document(Text(long, "note")), 40).splitlines())) <= 40


def test_sections_are_apart_and_one_with_nothing_to_show_leaves_no_gap():
    parts = (Section((figure(),), "unseen"), Section((Text("one"),), "First"), Section((Text("two"),)))
    assert plain_text(Document((), parts, Table(())), 40) == "First\none\n\ntwo\n"
    assert plain_text(Document((Text("head", "head"),), parts, Table(())), 40) == "head\n\nFirst\none\n\ntwo\n"


def test_a_figure_is_drawn_in_characters_where_it_can_be_and_linked_in_markdown():
    from rich.text import Text as Characters

    mapped = document(figure(characters=lambda width: Characters("#" * width)))
    assert plain_text(mapped, 12) == "#" * 12 + "\n"
    assert "![What it shows](curve.png)\n\nA caption.\n" in markdown_text(mapped, "x")
    assert mapped.without_figures().sections == ()
    assert "curve.png" not in markdown_text(mapped.without_figures(), "x")


def test_markdown_makes_one_list_of_neighbouring_notes():
    text = markdown_text(document(Text("a", "note"), Text("b", "note"), Text("c"), title="T"), "do it")
    assert text == "```sh\ndo it\n```\n\n## T\n\n- a\n- b\n\nc\n"


def test_csv_gives_every_digit_back():
    data = Table((Column("a", (1 / 3, None)), Column("b", ("x,|y", ""))))
    lines = list(csv.reader(io.StringIO(csv_text(Document((), (), data)))))
    assert lines == [["a", "b"], [repr(1 / 3), "x,|y"], ["", ""]]


def test_documents_of_the_same_value_are_equal():
    assert comparison_document(comparison()) == comparison_document(comparison())
    assert plan_document(coarse_plan(), plan_others()) == plan_document(coarse_plan(), plan_others())


def test_what_a_page_needs_is_in_the_document():
    """Whoever sorts, greys and aligns reads kinds, units and flags, never a heading."""
    *_, versus = plan_document(coarse_plan(), plan_others()).sections
    table = next(block for block in versus.blocks if isinstance(block, Table))
    assert [column.kind for column in table.columns] == ["words", *["number"] * 4, "flag"]
    assert [column.unit for column in table.columns[1:3]] == ["MiB", "MiB"]
    (figure,) = plan_document(coarse_plan()).figures
    assert (figure.name, figure.alt) == ("plan", "tiny on 3 parts, coarse by kahypar: 97.5 MiB forward, max/avg 1.050")
