import pytest
from file_examples import thesis_sample

from hyperplace.errors import FileError, UsageError
from hyperplace.files.hypergraph import FORMATS, read_hypergraph, write_hypergraph

SUFFIXES = [(name, suffix) for name, format in FORMATS.items() for suffix in format.suffixes]


@pytest.mark.parametrize(("name", "suffix"), SUFFIXES)
def test_the_suffix_tells_the_format(tmp_path, name, suffix):
    for path in (tmp_path / f"model{suffix}", str(tmp_path / f"MODEL{suffix.upper()}")):
        write_hypergraph(path, thesis_sample(), name)
        assert read_hypergraph(path) == thesis_sample()


@pytest.mark.parametrize("name", FORMATS)
def test_a_named_format_needs_no_suffix(tmp_path, name):
    path = tmp_path / "model.txt"
    write_hypergraph(path, thesis_sample(), name)
    assert read_hypergraph(path, format=name) == thesis_sample()


def test_an_unknown_suffix(tmp_path):
    with pytest.raises(FileError, match=r"model.txt from its suffix; rename it to one of .patoh, .u, .hgr, or give"):
        read_hypergraph(tmp_path / "model.txt")


def test_an_unknown_format(tmp_path):
    with pytest.raises(UsageError, match="unknown hypergraph format 'csv'; choose patoh or hmetis"):
        write_hypergraph(tmp_path / "model.txt", thesis_sample(), "csv")
    with pytest.raises(UsageError, match="unknown hypergraph format 'csv'; choose patoh or hmetis"):
        read_hypergraph(tmp_path / "model.txt", "csv")


def test_errors_name_the_path_and_line(tmp_path):
    path = tmp_path / "model.hgr"
    path.write_text("1 2\n1 3\n")
    with pytest.raises(FileError) as caught:
        read_hypergraph(path)
    assert str(caught.value) == f"{path}:2: pin 3 is outside 1..2"
