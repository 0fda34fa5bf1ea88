"""Files of every kind as nobody should write them: a mutator per kind, by the suffix of the file's name."""

import gzip
import io
import re
import struct
import tokenize
from contextlib import suppress

from archive_mutants import archive_mutant
from json_mutants import HOSTILE, json_mutant

WHOLE = ("0", "1", "2", "3", "-1", "7", "65536", "1048577", "2147483647", "2147483648", "999999999999999999")
WHOLE += ("9223372036854775807", "9223372036854775808", "1" * 30, "9" * 5000, "-0", "+5", "007")
NO_WHOLE = ("1_000", "1.5", "0x10", "1e3", "nan", "inf", "\u0663", "x", "%", "-", "\x00", "a" * 5000, "1 %")
TOML_VALUES = (
    *WHOLE,
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e-400",
    "true",
    '""',
    '"1gbit"',
    '"0gbit"',
    '"16gib"',
    "[]",
    "{}",
)
TOML_VALUES += (
    '"' + "a" * 5000 + '"',
    "[[1]]",
    "1979-05-27",
    "0xff",
    '"999999999gbit"',
    '"1 gbit"',
    '"\\u0000"',
    "'''",
)
TOML_LINES = (
    "[[hosts]]",
    "[hosts]",
    "[[hosts.devices]]",
    "[hosts.devices]",
    "a.b.c = 1",
    "x = " + "[" * 5000,
    "=",
    "[[",
)
TOML_LINES += (
    "hosts = []",
    'hosts = [{name = "a"}]',
    "devices = []",
    "# é",
    '"\\ud800" = 1',
    'name = "a"',
    "speed = 0",
)
SHORT = ("2", "4", "x", "x", "1", "@", "@", "gbit", "1gbit", ",", "pcie", "nvlink", "shared", "0.1ms", "5us", "1s", "")
SHORT += (
    "0",
    "9999",
    "-",
    ".",
    "1e9",
    "kbit",
    "mbit",
    "\u0663",
    " ",
    "\n",
    "\0",
    "/",
    "..",
    "~",
    "100000x1",
    "s",
    "bit",
)
EXECUTING = "__import__('os').mkdir('executed')"
PYTHON = (EXECUTING, "f'{1}'", "10 ** 10 ** 10", "'a' * 10 ** 10", "(lambda: 1)()", "[0 for _ in range(10 ** 10)]")
PYTHON += (
    "float('nan')",
    "float('1e999')",
    "float('x')",
    "1e999",
    "-1",
    "None",
    "True",
    "...",
    "b'x'",
    "1j",
    "{1: {}}",
)
PYTHON += (
    "(" * 150 + ")" * 150,
    "[" * 5000,
    "-" * 3000 + "1",
    "Piece()",
    "Send(-1)",
    "Receive(999)",
    "Keep(Keep('a'))",
)
PYTHON += (
    "{**{}}",
    "Slot(*[1])",
    "Rows(1, 2)",
    "x := 1",
    "await 1",
    "'\\ud800'",
    "1" * 5000,
    "9" * 400,
    "{}",
    "()",
    "''",
)
CALLS = re.compile(r"\b(?:Send|Receive|Keep|Feed|Output|Message|Piece|Copy|Slot)\([^()]*(?:\([^()]*\)[^()]*)*\)")


def mutant(name, content, random):
    """Return a changed file: by what its name says it is, or by its bytes, or both."""
    if random.random() < 0.9:
        content = MUTATORS[name.rpartition(".")[2]](content, random)
    return content if random.random() < 0.85 else byte_mutant(content, random)


def byte_mutant(content, random):
    """Return other bytes: bits flipped, a piece cut out, doubled, or of something else, another encoding."""
    at, end = sorted((random.randrange(len(content) + 1), random.randrange(len(content) + 1)))
    flipped = bytearray(content)
    for _ in range(random.choice((1, 1, 4, 64)) if content else 0):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return random.choice(
        (
            content[:at],
            content[at:],
            content[:at] + content[end:],
            content[:end] + content[at:],
            content + content,
            bytes(flipped),
            bytes(flipped),
            content[:at] + random.randbytes(random.choice((1, 8, 300))) + content[at:],
            content[:at] + b"\0" * random.choice((1, 4096)) + content[at:],
            b"\xef\xbb\xbf" + content,
            content.replace(b"\n", b"\r\n"),
            content.decode("latin-1").encode("utf-16"),
            b"",
        )
    )


def as_text(change):
    """Return a change of texts as one of files."""

    def run(content, random):
        return change(content.decode(), random).encode(errors="surrogatepass")

    return run


def numbers_mutant(text, random):
    """Change lines of whole numbers; the first line, where sizes are promised, as often as all others."""
    lines = [line.split(" ") for line in text.rstrip("\n").split("\n")]
    for _ in range(random.choice((1, 1, 2, 3))):
        line = lines[random.choice((0, random.randrange(len(lines))))]
        at = random.randrange(len(line))
        match random.randrange(11):
            case 0 | 1 | 2:
                line[at] = random.choice(WHOLE)
            case 3:
                line[at] = random.choice(NO_WHOLE)
            case 4:
                line[at] = (
                    str(int(line[at]) + random.choice((-1, 1))) if line[at].isdecimal() and len(line[at]) < 30 else "1"
                )
            case 5:
                del line[at]
            case 6:
                line.insert(at, line[random.randrange(len(line))])
            case 7:
                lines.insert(random.randrange(len(lines) + 1), list(random.choice(lines)))
            case 8:
                del lines[random.randrange(len(lines))]
            case 9:
                random.shuffle(lines)
            case 10:
                unit = random.choice((*WHOLE, "x"))
                lines.insert(random.randrange(len(lines) + 1), [f"% net costs are in units of {unit} bytes"])
        lines = [line or [""] for line in lines] or [[""]]
    ends = random.choice(("\n", "\n", "\n", "\r\n", "\n\n", "\x0b", " \n", "\t", "\u2028"))
    return ends.join(" ".join(line) for line in lines) + "\n"


def toml_mutant(text, random):
    """Change lines of a cluster's file."""
    lines = text.split("\n")
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(lines))
        key, sign, _ = lines[at].partition("=")
        match random.randrange(7):
            case 0 | 1 | 2 if sign:
                lines[at] = f"{key}= {random.choice(TOML_VALUES)}"
            case 3:
                lines.insert(at, random.choice((*TOML_LINES, *lines)))
            case 4:
                lines[at] = ""
            case 5:
                other = random.choice(lines).partition("=")[0]
                lines[at] = (
                    f"{random.choice((other, random.choice(HOSTILE), key + 's'))}{sign}{lines[at].partition('=')[2]}"
                )
            case _:
                random.shuffle(lines)
    return "\n".join(lines)


def short_mutant(text, random):
    """Make up a short form of pieces."""
    words = [*re.findall(r"\d+|[a-z]+|.", text), *(random.choice(SHORT) for _ in range(random.randrange(3)))]
    for _ in range(random.randrange(3)):
        words.insert(random.randrange(len(words) + 1), random.choice(SHORT))
        del words[random.randrange(len(words))]
    return "".join(words) * random.choice((1, 1, 1, 1, 50))


def program_mutant(text, random):
    """Change the tables of a generated program, or put something into it that must not run."""
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice((_other_token, _other_token, _other_token, _other_call, _other_call, _other_line))(
            text, random
        )
    return text


def _other_token(text, random):
    """Replace a number, a text or a name."""
    found = []
    with suppress(tokenize.TokenError, SyntaxError):
        found += [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in (1, 2, 3)]
    if not found:
        return text
    kind = random.choice(sorted({token.type for token in found}))
    token, other = (random.choice([one for one in found if one.type == kind]) for _ in range(2))
    values = [other.string, other.string, random.choice(PYTHON), random.choice(WHOLE), repr(random.choice(HOSTILE))]
    if token.string.isdecimal() and len(token.string) < 30:
        values += [str(int(token.string) + 1), str(max(0, int(token.string) - 1))] * 3
    lines = text.split("\n")
    (row, start), (last, end) = token.start, token.end
    if row == last:
        line = lines[row - 1]
        lines[row - 1] = line[:start] + random.choice(values) + line[end:]
    return "\n".join(lines)


def _other_call(text, random):
    """Drop, double or exchange an entry of a table."""
    found = list(CALLS.finditer(text))
    if not found:
        return text
    one, other = random.choice(found), random.choice(found)
    new = random.choice((other.group(), other.group(), f"{one.group()}, {other.group()}", "", random.choice(PYTHON)))
    return text[: one.start()] + new + text[one.end() :]


def _other_line(text, random):
    lines = text.split("\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    room = re.match(" *", lines[at]).group()
    new = (
        f"{room}{EXECUTING}",
        f"{room}x = {EXECUTING}",
        f"{room}import os",
        f"{room}{random.choice(PYTHON)}",
        lines[other],
    )
    lines[at : at + random.randrange(2)] = [random.choice(new)]
    if random.random() < 0.3:
        lines[at], lines[other] = lines[other], lines[at]
    if random.random() < 0.1:
        lines[at] = lines[at].replace("self", f"self, x={EXECUTING}").replace("(runtime.Part)", f"({EXECUTING})")
    return "\n".join(lines)


def idx_mutant(content, random):
    """Change the header of an IDX file, or what it is wrapped in."""
    is_gzip = content[:2] == b"\x1f\x8b"
    plain = bytearray(gzip.decompress(content) if is_gzip else content)
    for _ in range(random.choice((0, 1, 1, 2))):
        at = random.choice((2, 3, *range(4, 4 + 4 * max(1, plain[3] % 9), 4)))
        if at < 4:
            plain[at] = random.choice((0, 1, 2, 3, 4, 8, 9, 11, 12, 13, 14, 255))
        elif len(plain) >= at + 4:
            old = struct.unpack_from(">I", plain, at)[0]
            new = random.choice((0, 1, 2**16, 2**31, 2**32 - 1, (old + 1) % 2**32, max(0, old - 1)))
            struct.pack_into(">I", plain, at, new)
    if random.random() < 0.02:  # as small as such a file can promise much
        plain = bytearray(b"\0\0\x08\x01" + struct.pack(">I", 2**28)) + bytes(random.choice((2**20, 2**26)))
    if random.random() < 0.2:
        plain += random.randbytes(random.choice((1, 5000)))
    packed = gzip.compress(bytes(plain), 1, mtime=0)
    return random.choice((bytes(plain), packed, packed, packed[: random.randrange(len(packed))], packed + packed))


MUTATORS = {
    "json": as_text(json_mutant),
    "toml": as_text(toml_mutant),
    "patoh": as_text(numbers_mutant),
    "hgr": as_text(numbers_mutant),
    "txt": as_text(numbers_mutant),
    "short": as_text(short_mutant),
    "py": as_text(program_mutant),
    "idx": idx_mutant,
    "pt": archive_mutant,
}
