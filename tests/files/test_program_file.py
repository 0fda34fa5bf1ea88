"""Programs as text: what is printed is read back, and whatever else a text says, nothing of it is executed."""

import random
from dataclasses import replace

import pytest
from capture_models import MODELS, captured
from program_cases import planned

from hyperplace.errors import FileError
from hyperplace.files.program import parse_program
from hyperplace.models import ZOO, load_model
from hyperplace.steps.capture import capture
from hyperplace.steps.emit import emit
from hyperplace.steps.lower import lower
from hyperplace.values.call import Rows
from hyperplace.values.program import PartProgram, Program, Slot

GRAINS = ("coarse", "fine", "hybrid")
# Small sides: a program has as many lines at any.
SIDES = {"alexnet": 67, "smallcnn": 28, "resnet50": 64, "resnet101": 64, "mobilenet_v2": 64}
BLOCKS = {"coarse": 8, "fine": 4, "hybrid": 2}


def assert_read_back(program):
    text = emit(program)
    found = parse_program(text)
    assert found == program
    assert emit(found) == emit(program) == text


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_small_programs_are_read_back(name, grain):
    for k in (2, 3):
        graph = captured(name)
        program = lower(graph, planned(graph, grain, k, "scattered"))
        assert_read_back(program)
        assert emit(lower(graph, planned(graph, grain, k, "scattered"))) == emit(program)


@pytest.mark.parametrize("name", [name for name in ZOO if name != "resnet101"])
def test_programs_of_the_zoo_are_read_back(name):
    entry, side = ZOO[name], SIDES.get(name, 32)
    loaded = load_model(name, [(entry.input_shape[0], side, side)])
    graph = capture(loaded.module, loaded.sample)
    for grain in GRAINS:
        for k, how in ((2, "incremental"), (3, "horizontal"), (4, "layerwise")):
            plan = planned(graph, grain, k, how, blocks=BLOCKS[grain], batch=16, row_blocks=k)
            assert_read_back(lower(graph, plan))


def test_all_kinds_of_constants_are_read_back():
    takes = (
        (Slot(0), [1, -2.5, float("inf"), float("-inf"), 1 + 2j, 'a "quoted"\ntext', "\u2028"]),
        {"b": None, "c": (True,)},
    )
    program = Program(
        "odd",
        inputs=((), (2, 3)),
        parts=(PartProgram(), PartProgram()),
        batch=3,
        takes=takes,
        returns={"a": Slot(0), 3: [Slot(1)], "nothing": None},
        rows=(2, 7),
        predicts=False,
        unit="microseconds",
    )
    assert_read_back(program)


def test_sizes_that_follow_the_rows_are_read_back():
    program = lenet_program()
    first = replace(program.messages[0], shape=(16, Rows("*", Rows(), 3), Rows("//", Rows("+", 1, Rows()), 2)))
    assert first.sizes(8, 16) == (8, 24, 4)
    assert_read_back(replace(program, messages=(first, *program.messages[1:])))


def lenet_program(grain="coarse"):
    loaded = load_model("lenet5")
    graph = capture(loaded.module, loaded.sample)
    return lower(graph, planned(graph, grain, 2, "incremental", blocks=64, batch=16, row_blocks=2))


@pytest.fixture(scope="module")
def text():
    return emit(lenet_program())


def read(text):
    """Return whether a text is a program; anything but that and a FileError is a fault."""
    try:
        parse_program(text)
    except FileError:
        return False
    return True


def test_a_fault_says_where(text):
    edited = text.replace("batch=16", "batch=x")
    line = next(n for n, one in enumerate(edited.splitlines(), 1) if "batch=x" in one)
    with pytest.raises(FileError, match=f"^mine.py, line {line}: x is no constant and no Copy, Feed"):
        parse_program(edited, "mine.py")


EVIL = "__import__('os').system('touch hacked')"
EDITS = {
    "a call in the tables": ('Piece("features.0.weight", (6, 1, 5, 5))', EVIL),
    "a call within a piece": ("(6, 1, 5, 5)", f"({EVIL}, 1, 5, 5)"),
    "a call as a key": ('"features_0_weight": Piece', f"{EVIL}: Piece"),
    "a call among the words of the program": ("batch=16", f"batch={EVIL}"),
    "a call as a part": ("parts=(Part0, Part1)", f"parts=({EVIL}, Part1)"),
    "a call as a keyword of nobody": ("batch=16,", f"batch=16, evil={EVIL},"),
    "a statement besides": ("class Part0", f"{EVIL}\n\n\nclass Part0"),
    "a statement in a class": ("    weights = {", f"    x = {EVIL}\n    weights = {{"),
    "another class's instance": ("PROGRAM = runtime.program(", "PROGRAM = runtime.main("),
    "words spread out": ("batch=16", "**{'batch': 16}"),
    "an unknown value": ("Send(0)", "Sent(0)"),
    "an unknown word": ("forward=", "foreward="),
    "a word twice": ("batch=16", "inputs=()"),
    "a number for a text": ('Piece("features.0.weight", ', "Piece(3, "),
    "a text for a number": ("batch=16", 'batch="16"'),
    "a text for a shape": ("(6, 1, 5, 5)", '"6"'),
    "a number for the work": ("forward=3", 'forward="x", update=3'),
    "a message to nobody": ("source=0, target=1", "source=0, target=5"),
    "a message of another number": ("Message(0", "Message(7"),
    "more results than the method has": ("gives=(Keep", 'gives=(Keep("x"), Keep'),
    "an unknown dtype": ("rows=(0, 16)", 'dtype="decimal", rows=(0, 16)'),
    "an unknown dtype of a weight": ('Piece("features.0.bias", (6,)', 'Piece("features.0.bias", (6,), dtype="decimal"'),
    "an unknown operator": ("(16, 6, 14, 14)", '(16, Rows("^", 2, 3), 14, 14)'),
    "no message": ("Receive(0)", 'Keep("x")'),
    "messages that are a number": ("messages=(", "messages=3 or ("),
    "no parts": ("parts=(Part0, Part1)", "parts=()"),
    "parts left out": ("parts=(Part0, Part1),", ""),
    "a class missing": ("class Part1", "class Part7"),
    "a method missing": ("def segment_1", "def segment_9"),
    "a method without its end": ("        return (features_3,)", "        pass"),
    "a table that is a list": ("    weights = {", "    weights = [{"),
    "segments that are a number": ("    segments = (", "    segments = 3 if True else ("),
    "weights that are pairs": ("    holds = {", "    holds = 3\n    buffers = {"),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_text_is_a_program_or_refused_and_never_run(what, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old, new = EDITS[what]
    assert old in text
    assert not read(text.replace(old, new, 1))
    assert not list(tmp_path.iterdir())


def test_texts_that_are_something_else_are_refused(text):
    assert not any(map(read, ("", "x = 1", "PROGRAM = 3", "\0", "(" * 5000, "PROGRAM = runtime.program()", EVIL)))
    assert not read(f"PROGRAM = runtime.program('a', inputs=(), parts=(), batch={'-' * 3000}1)")
    assert not read(text.replace("batch=16", "batch=" + "[" * 150 + "]" * 150))


def test_a_truncated_text_is_refused(text):
    end = text.index("if __name__")
    assert read(text[:end])
    assert not any(read(text[:length]) for length in range(0, end - 5, 97))


def test_a_mutated_text_is_a_program_or_refused(text, tmp_path, monkeypatch):
    """Letters, words and lines left out, doubled or put elsewhere."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(0)
    num_read = sum(read(mutated(text, rng)) for _ in range(200))
    assert 0 < num_read < 200, "some change a number only, most break something"
    assert not list(tmp_path.iterdir())


def mutated(text, rng):
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randrange(1, 4)):
        n, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                lines[n] = ""
            case 1:
                lines[n] = lines[n] + lines[other]
            case 2:
                lines[n], lines[other] = lines[other], lines[n]
            case 3:
                words = rng.choice(["0", "-1", "None", "'x'", "(", "Keep(3)", "Rows(1)", "1e999", "True", "()", "{}"])
                place = rng.randrange(len(lines[n]) + 1)
                lines[n] = lines[n][:place] + words + lines[n][place:]
            case 4:
                digits = [place for place, letter in enumerate(lines[n]) if letter.isdigit()]
                if digits:
                    place = rng.choice(digits)
                    lines[n] = lines[n][:place] + str(rng.randrange(10)) + lines[n][place + 1 :]
    return "".join(lines)


def test_code_that_was_edited_is_read_as_it_is(text):
    """Comments go, statements stay."""
    edited = text.replace(
        "        features_0 = torch.tanh(features_0)\n",
        "        # steeper\n        if self.training:\n            features_0 = torch.tanh(2 * features_0)\n",
        1,
    )
    (segment, *_) = parse_program(edited).parts[0].segments
    assert "if self.training:\n    features_0 = torch.tanh(2 * features_0)" in segment.method.steps[0].code
    assert_read_back(parse_program(edited))


NESTED = {
    "minus": lambda depth: "-" * depth + "1",
    "tuples": lambda depth: "(" * depth + "1" + ",)" * depth,
    "attributes": lambda depth: "a" + ".a" * depth,
    "sums": lambda depth: "1" + " + 1j" * depth,
    "rows": lambda depth: "Rows(" * depth + ")" * depth,
}


@pytest.mark.parametrize("depth", [10, 80, 500, 1500, 5000])
@pytest.mark.parametrize("what", NESTED)
def test_what_is_nested_deep_is_refused(what, depth, text):
    assert not read(text.replace("batch=16", f"batch={NESTED[what](depth)}"))
    edited = text.replace("        features_0 = torch.tanh(features_0)", f"        x = {NESTED[what](depth)}", 1)
    assert read(edited) or depth > 10
