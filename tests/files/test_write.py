import os
import stat
from pathlib import Path

import pytest

from hyperplace.errors import FileError
from hyperplace.files.write import read_text, write_bytes, write_text


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_text_comes_back(tmp_path):
    path = tmp_path / "new" / "folders" / "a.txt"
    write_text(path, "2.5 µs\n")
    assert path.read_bytes() == "2.5 µs\n".encode()
    assert read_text(path) == "2.5 µs\n"
    assert names(path.parent) == ["a.txt"]


def test_chunks_and_bytes(tmp_path):
    write_text(str(tmp_path / "a"), (f"{i}\n" for i in range(3)))
    write_bytes(tmp_path / "b", b"\xff\x00")
    assert (tmp_path / "a").read_text() == "0\n1\n2\n"
    assert (tmp_path / "b").read_bytes() == b"\xff\x00"


def test_a_path_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text("plain.txt", "x")
    assert names(tmp_path) == ["plain.txt"]


def test_an_old_file_is_replaced_and_readable_as_the_umask_says(tmp_path):
    path, by_open = tmp_path / "a", tmp_path / "b"
    write_text(path, "old and longer")
    write_text(path, "new")
    by_open.write_text("")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(by_open.stat().st_mode)


def test_the_longest_name_a_folder_can_hold(tmp_path):
    write_text(tmp_path / ("n" * 255), "x")
    assert names(tmp_path) == ["n" * 255]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "a")
    for text in ("made", "replaced"):
        write_text(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "there" / "a").read_text() == text
    assert names(tmp_path / "there") == ["a"]


def test_a_device_is_written_to_and_not_replaced():
    write_text("/dev/null", "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, fault):
    def chunks():
        yield "half"
        raise fault

    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(fault):
        write_text(path, chunks())
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_rename_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def refuse(source, target):
        assert Path(source).read_text() == "new"
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "a"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(FileError) as caught:
        write_text(path, "new")
    assert str(caught.value) == f"cannot write {path}: permission denied; choose another --out"
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_full_disk():
    with pytest.raises(FileError, match=r"^cannot write /dev/full: no space left on device; choose"):
        write_text("/dev/full", "x")


def test_a_directory_in_the_place_of_the_file(tmp_path):
    with pytest.raises(FileError) as caught:
        write_bytes(tmp_path, b"x")
    assert str(caught.value) == f"cannot write {tmp_path}: is a directory; choose another --out"
    assert names(tmp_path) == []


@pytest.mark.parametrize(("below", "reason"), [("a", "{} is not a directory"), ("b/a", "not a directory")])
def test_a_file_in_the_place_of_a_folder(tmp_path, below, reason):
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(FileError) as caught:
        write_text(file / below, "x")
    assert str(caught.value) == f"cannot write {file / below}: {reason.format(file)}; choose another --out"
    assert file.read_text() == "old"


def test_a_folder_where_no_file_can_be_made():
    with pytest.raises(FileError, match=r"^cannot write /proc/hyperplace.txt: no such file or directory"):
        write_text("/proc/hyperplace.txt", "x")


@pytest.mark.parametrize(("name", "reason"), [("missing", "no such file or directory"), (".", "is a directory")])
def test_what_cannot_be_read(tmp_path, name, reason):
    with pytest.raises(FileError) as caught:
        read_text(tmp_path / name)
    assert str(caught.value) == f"cannot read {tmp_path / name}: {reason}; check the path"


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "a").write_bytes(b"abc\xff")
    with pytest.raises(FileError, match="a: it is not UTF-8 text, see byte 3; is it another kind of file"):
        read_text(tmp_path / "a")


def test_newlines_and_marks_of_other_systems(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf1 2\r\n3\r4\n")
    assert read_text(tmp_path / "a") == "1 2\n3\n4\n"
