"""Files of torch.save, which may come from anywhere: nothing in them is executed, no memory taken that they promise.

Such a file is a zip: a pickle of the values, and an entry of bytes per storage. Before torch sees it, its directory
must be of plain entries that are really there and have not changed since, and its pickle must name nothing but what
tensors and plain values are made of, and storages as long as their entries: torch's own list also has what makes a
tensor, or bytes, of any size from a number. Storages are then mapped, so that no size reaches further than the file.
"""

import os
import pickletools
import re
import struct
import zipfile
from typing import Any, BinaryIO

import torch

from hyperplace.errors import FileError
from hyperplace.files.write import Pathlike, shown

MOST_DIRECTORY_BYTES = 2**23  # some 100,000 entries
MOST_PICKLE_BYTES = 2**24
MOST_OPERATIONS = 2**20  # of the pickle: some 20 for a tensor, 1 for a number
END = b"PK\x05\x06"  # of the directory's record, the last of a zip
END_BYTES = 22
WIDE = b"PK\x06\x06"  # of the one before it in a large zip, with a locator of 20 bytes between them
WIDE_BYTES = 56 + 20
MOST_COMMENT_BYTES = 2**16
GLOBALS = {
    "collections OrderedDict",
    "collections Counter",  # of a scheduler's milestones
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter",
    "torch Size",
    "torch device",
    "__builtin__ set",
    "__builtin__ complex",
    "_codecs encode",  # of bytes
}
# What torch.save writes of a pickle's operations; others could build a storage's tuple in ways that are not looked for.
OPERATIONS = {"PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "BINPERSID", "EMPTY_DICT", "SETITEM", "SETITEMS"}
OPERATIONS |= {"EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE"}
OPERATIONS |= {"NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"}
OPERATIONS |= {"BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"}
ITEM_BYTES = {"torch.storage UntypedStorage": 1, "torch ByteStorage": 1, "torch CharStorage": 1}
ITEM_BYTES |= {"torch BoolStorage": 1, "torch ShortStorage": 2, "torch HalfStorage": 2, "torch BFloat16Storage": 2}
ITEM_BYTES |= {"torch IntStorage": 4, "torch FloatStorage": 4, "torch LongStorage": 8, "torch DoubleStorage": 8}
ITEM_BYTES |= {"torch ComplexFloatStorage": 8, "torch ComplexDoubleStorage": 16}
DTYPES = re.compile(r"torch (u?int\d+|b?float\d+\w*|complex\d+|bool)")


def read_tensors(path: Pathlike, what: str) -> Any:
    """Return the values of a file of torch.save, tensors mapped; `what` it should be is for messages."""
    try:
        with open(path, "rb") as file:
            _check(file, reads_all=True)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except OSError as fault:
        raise FileError(
            f"cannot read {shown(path)}: {(fault.strerror or str(fault)).lower()}; check the path"
        ) from None
    except Exception as fault:  # whatever zipfile, pickle or torch raise at bytes that are not what they seem
        reason = " ".join(str(fault).split())[:200] or type(fault).__name__
        raise FileError(f"cannot read {shown(path)}: {reason}; is it {what}, and whole?") from None


def is_marked(content: Any, kind: str) -> bool:
    """Say whether what was read is a dict that says it is of this kind; its version must be a number."""
    if not isinstance(content, dict):
        return False
    found, version = content.get("hyperplace"), content.get("version")
    return isinstance(found, str) and found == kind and isinstance(version, int)


def write_tensors(file: BinaryIO, content: Any) -> None:
    """Write what can be read again: a file that only torch.load without `weights_only` takes is refused now."""
    try:
        torch.save(content, file)
    except RuntimeError as fault:
        if isinstance(fault.__context__, OSError):  # torch only says that it is not where it should be in the file
            raise fault.__context__ from None
        raise
    file.flush()
    try:
        _check(file, reads_all=False)
    except ValueError as fault:
        raise FileError(
            f"not to be saved: {fault}; give numbers, texts, tensors, and lists and dicts of them"
        ) from None


def _check(file: BinaryIO, *, reads_all: bool) -> None:
    """Refuse what should not be read; `reads_all` tells whether the bytes of storages are looked at too."""
    size = os.fstat(file.fileno()).st_size
    _check_directory(file, size)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
            raise ValueError("an entry is compressed, which torch.save does not do")
        if sum(entry.file_size for entry in entries) > size or len({one.filename for one in entries}) < len(entries):
            raise ValueError("its directory has more than the file")
        if any(entry.compress_size != entry.file_size for entry in entries):
            raise ValueError("its directory gives an entry two sizes")  # of which readers may believe either
        pickles = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].file_size > MOST_PICKLE_BYTES:
            raise ValueError(f"it has not one pickle of at most {MOST_PICKLE_BYTES >> 20} MiB")
        folder = pickles[0].filename.removesuffix("data.pkl")
        size_of = {entry.filename: entry.file_size for entry in entries}
        for key, num_bytes in _storages(archive.read(pickles[0])).items():
            if size_of.get(f"{folder}data/{key}") != num_bytes:
                raise ValueError(f"its storage {key[:60]} should have {num_bytes} bytes")
        if reads_all and (broken := archive.testzip()):
            raise ValueError(f"its entry {broken[:60]} has changed")


def _check_directory(file: BinaryIO, size: int) -> None:
    """Refuse a long directory before there is an object for each of its entries."""
    file.seek(max(0, size - END_BYTES - MOST_COMMENT_BYTES))
    tail = file.read()
    at = tail.rfind(END)
    if at < 0 or len(tail) < at + END_BYTES:
        raise ValueError("it is not a zip, as torch.save writes one")
    (length,) = struct.unpack_from("<I", tail, at + 12)
    if at >= WIDE_BYTES and tail.startswith(WIDE, at - WIDE_BYTES):
        (length,) = struct.unpack_from("<Q", tail, at - WIDE_BYTES + 40)
    if length > MOST_DIRECTORY_BYTES:
        raise ValueError(f"its directory has {length} bytes")


def _storages(code: bytes) -> dict[str, int]:
    """Return the bytes of every storage that a pickle names; refuse one of anything but tensors and plain values.

    A storage is the tuple ("storage", type, key, place, elements), written right before BINPERSID; texts and types that
    were there before are written as their number in the memo.
    """
    found: dict[str, int] = {}
    memo: dict[Any, Any] = {}
    values: list[Any] = []  # since the last MARK
    last, is_tuple = None, False
    for number, (opcode, argument, _) in enumerate(pickletools.genops(code)):
        name = opcode.name
        if number > MOST_OPERATIONS:
            raise ValueError(f"its pickle has more than {MOST_OPERATIONS} values and operations")
        if name not in OPERATIONS:
            raise ValueError(f"its pickle has the operation {name}, which torch.save does not use")
        if name == "GLOBAL":
            _check_global(str(argument))
        if name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = last
            continue
        if name == "BINPERSID":
            found |= _storage(values if is_tuple else [])
        last = memo.get(argument) if name in ("BINGET", "LONG_BINGET") else argument
        is_tuple = name == "TUPLE"
        values = [] if name == "MARK" else values if is_tuple else [*values[-5:], last]
    return found


def _storage(values: list[Any]) -> dict[str, int]:
    match values:
        case ["storage", str(kind), str(key), str(), int(count)] if kind in ITEM_BYTES:
            return {key: count * ITEM_BYTES[kind]}
    raise ValueError("its pickle has a storage that torch.save would not write")


def _check_global(name: str) -> None:
    if not (name in GLOBALS or name in ITEM_BYTES or DTYPES.fullmatch(name)):
        raise ValueError(f"it names {name[:60].replace(' ', '.')}, which no tensors are made of")
