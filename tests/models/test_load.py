"""Finding and making models: the zoo, the user's modules and files, and every way it can go wrong."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from hyperplace.errors import ModelError, UsageError
from hyperplace.models import load_model

SHAPES = [(3, 8, 8)]

NETS = """
from __future__ import annotations
from dataclasses import dataclass
import torch
from torch import Tensor, nn
from neighbour import WIDTH

CONFIG = {"width": 4}
nothing = None

@dataclass
class Options:
    width: int = WIDTH

class TinyNet(nn.Module):
    def __init__(self, options: Options | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, (options or Options()).width, 3)
    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)

def make():
    return TinyNet().eval()

def late_import():
    from neighbour import WIDTH
    return nn.Conv2d(3, WIDTH, 1)

made = nn.Linear(2, 2)

def needs(width): return nn.Linear(width, width)
def explodes(): raise ValueError("two\\nlines")
def breaks(): raise RuntimeError("on every device")
def returns_int(): return 3

def reads_value():
    return nn.Linear(3, int(torch.ones(()).item()))

def not_implemented():
    if torch.ones(()).is_meta:
        raise NotImplementedError("no meta")
    return nn.Linear(3, 3)

def stays_on_cpu():
    return nn.Linear(3, 3, device="cpu")
"""


@pytest.fixture
def nets(tmp_path: Path) -> str:
    (tmp_path / "neighbour.py").write_text("WIDTH = 5\n")
    path = tmp_path / "my nets.py"
    path.write_text(NETS)
    return str(path)


@pytest.fixture(autouse=True)
def _forget_imports() -> Iterator[None]:
    known = set(sys.modules)
    yield
    for name in {"neighbour", "nets_of_cwd", "hyperplace_user_my_nets"} - known:
        sys.modules.pop(name, None)


def check_message(caught: pytest.ExceptionInfo[Exception], *parts: str) -> None:
    said = str(caught.value)
    assert "\n" not in said
    assert ";" in said, "no remedy"
    for part in parts:
        assert part in said


def test_zoo_model_is_in_train_mode_with_two_rows() -> None:
    model = load_model("resnet18")
    assert model.name == "resnet18"
    assert model.module.training
    assert [tensor.shape for tensor in model.sample] == [(2, 3, 224, 224)]
    assert repr(model) == "LoadedModel(name='resnet18')"


def test_no_shapes_from_the_command_line_means_the_usual_one() -> None:
    assert load_model("lenet5", []).sample[0].shape == (2, 1, 32, 32)


@pytest.mark.parametrize(("name", "side", "features"), [("vgg11", 64, 2048), ("alexnet", 99, 1024)])
def test_first_linear_fits_the_image(name: str, side: int, features: int) -> None:
    model = load_model(name, [(3, side, side)])
    assert model.module.get_submodule("classifier.0").in_features == features
    assert model.module(*model.sample).shape == (2, 1000)


def test_cpu_sample_is_the_same_every_time_and_leaves_the_random_state() -> None:
    state = torch.get_rng_state()
    first, second = (load_model("torch.nn:Identity", SHAPES, device="cpu").sample[0] for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("resnet18", [(3, 8, 8), (3, 8, 8)], "resnet18 takes one input but 2 are given"),
        ("resnet18", [(1, 8, 8)], "resnet18 reads images of 3 channels, not 1x8x8"),
        ("resnet18", [(3, 8)], "resnet18 reads images of 3 channels, not 3x8"),
        ("lenet5", [(3, 32, 32)], "lenet5 reads images of 1 channel, not 3x32x32"),
        ("lenet5", [(1, 28, 28)], "lenet5 fits one image size only, not 1x28x28"),
        ("vgg16", [(3, 64, 32)], "vgg16 needs square images, not 3x64x32"),
        ("vgg16", [(3, 31, 31)], "vgg16 needs images of at least 32x32"),
        ("alexnet", [(3, 66, 66)], "alexnet needs images of at least 67x67"),
        ("googlenet", [(3, 99, 14)], "googlenet needs images of at least 15x15, not 3x99x14"),
    ],
)
def test_shape_that_does_not_fit_the_zoo_model(name: str, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_model(name, shapes)
    check_message(caught, message, "--input")


@pytest.mark.parametrize(("name", "side"), [("googlenet", 14), ("alexnet", 66)])
def test_smallest_side_is_not_larger_than_needed(name: str, side: int) -> None:
    module = load_model(name).module
    with pytest.raises(RuntimeError, match="too small"):
        module(torch.empty(2, 3, side, side, device="meta"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("vgg_16", "did you mean vgg16"), ("ResNet50", "did you mean resnet50"), ("", "no model")],
)
def test_unknown_name(name: str, hint: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(name)
    check_message(caught, f"no model named {name!r}", hint, "hyperplace models lists them")


def test_no_guess_for_a_name_like_no_other() -> None:
    with pytest.raises(ModelError) as caught:
        load_model("transformer")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("factory", ["TinyNet", "make", "late_import"])
def test_factory_in_a_file(nets: str, factory: str) -> None:
    path_before = list(sys.path)
    model = load_model(f"{nets}:{factory}", SHAPES)
    assert model.name == f"my_nets_{factory}"
    assert model.module.training
    assert model.module(*model.sample).shape[1] == 5
    assert model.sample[0].is_meta
    assert sys.path == path_before


def test_file_in_the_current_folder(nets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(nets).parent)
    assert load_model("my nets.py:make", SHAPES).name == "my_nets_make"


def test_factory_in_a_module() -> None:
    model = load_model("torch.nn:Identity", [(3, 32, 32), (1, 8)])
    assert isinstance(model.module, nn.Identity)
    assert model.name == "nn_Identity"
    assert [tensor.shape for tensor in model.sample] == [(2, 3, 32, 32), (2, 1, 8)]


def test_module_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets_of_cwd.py").write_text("from torch import nn\ndef make(): return nn.Linear(2, 2)\n")
    monkeypatch.chdir(tmp_path)
    assert load_model("nets_of_cwd:make", [(2,)]).name == "nets_of_cwd_make"


@pytest.mark.parametrize("factory", ["reads_value", "not_implemented", "stays_on_cpu"])
def test_model_that_cannot_be_made_on_meta(nets: str, factory: str) -> None:
    model = load_model(f"{nets}:{factory}", [(3,)])
    tensors = [*model.module.parameters(), *model.sample]
    assert {tensor.device.type for tensor in tensors} == {"cpu"}
    model.module(*model.sample)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nets.py", "write nets.py:function_or_class"),
        ("nets.py:", "path/to/file.py:factory"),
        (":make", "path/to/file.py:factory"),
        ("nets.py:make", "--input 3x224x224"),
        ("torch.nn:Identity", "--input 3x224x224"),
    ],
)
def test_incomplete_spec(spec: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_model(spec)
    check_message(caught, message)


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("absent/nets.py:make", ["no such file: absent/nets.py"]),
        ("absent/nets:make", ["no such file: absent/nets"]),
        ("absent_package.nets:make", ["no such module: absent_package.nets"]),
        ("torch.absent_nets:make", ["no such module: torch.absent_nets"]),
        ("..nets:make", ["cannot import ..nets: "]),
        ("torch.nn:Identitty", ["torch.nn has no Identitty", "more"]),
    ],
)
def test_code_that_is_not_there(spec: str, parts: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(spec, SHAPES)
    check_message(caught, *parts)


@pytest.mark.parametrize(
    ("factory", "parts"),
    [
        ("absent", ["has no absent", "it has Options, TinyNet, make, late_import"]),
        ("nothing", ["has no nothing", "it has Options"]),
        ("CONFIG", ["CONFIG is a dict, not a factory", "it has Options"]),
        ("made", ["made is a Linear, not a factory", "it has Options"]),
        ("explodes", ["explodes raised ValueError: two lines"]),
        ("breaks", ["breaks raised RuntimeError: on every device"]),
        ("needs", ["needs raised TypeError", "missing 1 required", "without arguments"]),
        ("returns_int", ["returned a int", "has to return an nn.Module"]),
    ],
)
def test_bad_factory(nets: str, factory: str, parts: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(f"{nets}:{factory}", SHAPES)
    check_message(caught, *parts)
    assert "Tensor" not in str(caught.value), "imported names are no factories"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import absent_library", "ModuleNotFoundError: No module named 'absent_library'"),
        ("def make(:", "SyntaxError"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
@pytest.mark.parametrize("as_file", [True, False])
def test_code_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str, *, as_file: bool
) -> None:
    (tmp_path / "broken_nets.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    where = "broken_nets.py" if as_file else "broken_nets"
    with pytest.raises(ModelError) as caught:
        load_model(f"{where}:make", SHAPES)
    check_message(caught, f"cannot import {where}: {message}")
    assert caught.value.__cause__ is not None
    assert "hyperplace_user_broken_nets" not in sys.modules


def test_file_without_a_function(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("from torch import nn\n")
    with pytest.raises(ModelError, match="it defines no function or class"):
        load_model(f"{path}:make", SHAPES)
