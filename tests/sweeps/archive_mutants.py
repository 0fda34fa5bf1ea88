"""Files of torch.save as nobody should make them: other content, other pickle, other zip."""

import io
import os
import pickle
import struct
import zipfile

import torch
from json_mutants import HOSTILE

MOST_NUMBERS = 10**6  # of a tensor that is computed with: some here only say that they are large
TENSORS = (
    lambda: torch.zeros(3),
    lambda: torch.zeros(0),
    lambda: torch.tensor(float("nan")),
    lambda: torch.zeros(1).expand(2**40),
    lambda: torch.zeros(2, 2).expand(10**6, 10**6, 2, 2),
    lambda: torch.zeros(2, 2, dtype=torch.int64),
    lambda: torch.zeros(2, 2, dtype=torch.complex64),
    lambda: torch.zeros(2, 2, dtype=torch.bool),
    lambda: torch.zeros(2, 2, dtype=torch.float8_e4m3fn),
    lambda: torch.zeros(2, 2).to_sparse(),
    lambda: torch.full((2, 2), float("inf"), dtype=torch.float64),
    lambda: torch.zeros(2, 2, device="meta"),
    lambda: torch.nn.Parameter(torch.ones(2, 2)),
    lambda: torch.ones(4, 4)[::2, 1:3],
    lambda: torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.quint8),
)
VALUES = (None, True, 0, 1, -1, 7, 2**70, -1.5, float("nan"), float("inf"), "", "x", (), [], {}, [[]], {1: 2}, 1j, b"x")
VALUES += ({"a": {"b": {}}}, "a" * 5000, [0] * 1000, (1, 2), set(), torch.Size((2, 2)), torch.float32, 10**400)
OPCODES = (
    b"]",
    b"}",
    b")",
    b"N",
    b"K\x07",
    b"J\xff\xff\xff\x7f",
    b"\x8a\x0a" + b"\xff" * 10,
    b"0",
    b"2",
    b"\x94",
    b"a",
    b"s",
    b"(",
)
OPCODES += (
    b"R",
    b"b",
    b"Q",
    b"\x81",
    b"cos\nsystem\n",
    b"cbuiltins\nbytearray\n",
    b"ctorch\nFloatTensor\n",
    b"]" * 3000,
)
REDUCED = (
    (os.mkdir, ("executed",)),
    (exec, ("open('executed', 'w')",)),
    (bytearray, (2**33,)),
    (torch.FloatTensor, (2**30,)),
    (torch.Tensor, (2**15, 2**15)),
)


class Reduced:
    """Pickled as a call."""

    def __init__(self, function, arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def archive_mutant(content, random):
    """Return what is left of a file of torch.save after a change of its values, its pickle or its zip."""
    return random.choice((_other_values, _other_values, _other_values, _other_pickle, _other_zip))(content, random)


def _other_values(content, random):
    data = torch.load(io.BytesIO(content), weights_only=True)
    for _ in range(random.choice((1, 1, 2, 3))):
        _change(data, random)
    file = io.BytesIO()
    old = random.random() < 0.03
    torch.save(data, file, _use_new_zipfile_serialization=not old)
    return file.getvalue()


def _change(data, random):
    """Change one entry somewhere in nested dicts and lists."""
    node = data
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        inner = [key for key in keys if isinstance(node[key], dict | list) and node[key]]
        if not inner or random.random() < 0.3:
            break
        node = node[random.choice(inner)]
    key = random.choice(keys)
    match random.randrange(7):
        case 0 | 1:
            node[key] = random.choice(VALUES)
        case 2:
            node[key] = random.choice(TENSORS)()
        case 3:
            node[key] = node[random.choice(keys)]
        case 4:
            del node[key]
            if isinstance(node, dict) and random.random() < 0.5:
                node[random.choice((f"{key}x", 3, None, *HOSTILE))] = random.choice(VALUES)
        case 5:
            node[key] = Reduced(*random.choice(REDUCED))
        case 6:
            if isinstance(node[key], torch.Tensor) and node[key].numel() > MOST_NUMBERS:
                node[key] = node[key].unsqueeze(0)
            elif _is_dense(node[key]):
                node[key] = random.choice(
                    (node[key].double(), -node[key], node[key].unsqueeze(0), node[key].clone().squeeze())
                )
            elif isinstance(node[key], int | float):
                node[key] = random.choice((node[key] + 1, -node[key], 10**9, 10**18))
            else:
                for _ in range(random.choice((1, 150))):
                    node[key] = [node[key]] if random.random() < 0.5 else {"a": node[key]}


def _is_dense(value):
    """Say whether a value is a tensor of numbers that every operation below takes."""
    is_tensor = isinstance(value, torch.Tensor)
    return is_tensor and value.layout == torch.strided and value.dtype in (torch.float32, torch.float64)


def _entries(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def _zipped(entries, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return file.getvalue()


def _other_pickle(content, random):
    """Change the pickle in the zip: sizes of storages and tensors, opcodes."""
    entries = _entries(content)
    name = next(name for name in entries if name.endswith("data.pkl"))
    code = bytearray(entries[name])
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(2, len(code))
        match random.randrange(5):
            case 0:
                code[at] = random.randrange(256)
            case 1:
                code[at:at] = random.choice(OPCODES)
            case 2:
                del code[at : at + random.choice((1, 2, 20))]
            case 3:  # BININT1: most sizes
                places = [i for i in range(len(code) - 1) if code[i] == ord("K")]
                if places:
                    i = random.choice(places)
                    size = random.choice((-1, 10**6, 2**31 - 1))
                    code[i : i + 2] = b"J" + struct.pack("<i", size)
            case 4:
                function, arguments = random.choice(REDUCED[:3])
                call = pickle.dumps(Reduced(function, arguments), 2)[2:-1]
                code[-1:-1] = call + random.choice((b"0", b""))
        code = code if len(code) > 3 else bytearray(b"\x80\x02}.")
    entries[name] = bytes(code)
    return _zipped(entries.items())


def _other_zip(content, random):
    """Drop, double, rename, compress or cut entries; promise other sizes in the directory."""
    entries = list(_entries(content).items())
    at = random.randrange(len(entries))
    name, data = entries[at]
    match random.randrange(7):
        case 0:
            del entries[at]
        case 1:
            entries[at] = (name, data[: random.randrange(len(data) + 1)])
        case 2:
            entries[at] = (random.choice((name + "x", "../" + name, "a/" + name, name.replace("archive", "b"))), data)
        case 3:
            entries[at] = (name, data + bytes(random.choice((1, 10**6))))
        case 4:
            return _zipped([(n, d + bytes(10**7) if n == name else d) for n, d in entries], zipfile.ZIP_DEFLATED)
        case 5:
            entries += [(f"archive/data/x{number}", b"") for number in range(2000)]
        case 6:
            changed = bytearray(_zipped(entries))
            heads = [i for i in range(len(changed) - 46) if changed[i : i + 4] in (b"PK\1\2", b"PK\5\6")]
            head = random.choice(heads)
            offset = random.choice((10, 20, 24, 42) if changed[head + 2] == 1 else (8, 10, 12, 16))
            struct.pack_into("<I", changed, head + offset, random.choice((0, 1, 2**16, 2**31, 2**32 - 1)))
            return bytes(changed)
    return _zipped(entries)
