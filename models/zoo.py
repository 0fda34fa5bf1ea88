"""The models that come with hyperplace, as a table of names; nothing is built or imported here."""

from dataclasses import dataclass
from typing import Literal

# Which heights and widths a model accepts. "any": it pools globally before its last layer.
# "square": its factory takes image_size. "fixed": only its own.
Sides = Literal["any", "square", "fixed"]
Image = tuple[int, int, int]

IMAGENET: Image = (3, 224, 224)


@dataclass(frozen=True)
class ModelEntry:
    """One model of the zoo: the file and function that make it, and the images it reads (C, H, W)."""

    name: str
    family: str
    factory: str
    input_shape: Image
    about: str
    sides: Sides
    min_side: int  # a smaller image is pooled away


def _entry(
    family: str, name: str, about: str, *, shape: Image = IMAGENET, sides: Sides = "any", min_side: int = 1
) -> ModelEntry:
    return ModelEntry(name, family, name, shape, about, sides, min_side)


def _vgg(depth: int) -> ModelEntry:
    about = f"VGG: {depth - 3} convolutions of 3x3, 3 big linears"
    return _entry("vgg", f"vgg{depth}", about, sides="square", min_side=32)


def _vgg_bn(depth: int) -> ModelEntry:
    about = f"VGG: {depth - 3} convolutions of 3x3 with batch norm, 3 big linears"
    return _entry("vgg", f"vgg{depth}_bn", about, sides="square", min_side=32)


_ENTRIES = (
    _entry(
        "lenet",
        "lenet5",
        "LeNet-5 for digits: tanh, average pooling",
        shape=(1, 32, 32),
        sides="fixed",
        min_side=32,
    ),
    _entry(
        "smallcnn",
        "smallcnn",
        "two convolutions, two linears for Fashion-MNIST",
        shape=(1, 28, 28),
        sides="fixed",
        min_side=28,
    ),
    _entry(
        "alexnet",
        "alexnet",
        "AlexNet in one column: 5 convolutions, 3 big linears",
        shape=(3, 227, 227),
        sides="square",
        min_side=67,
    ),
    *map(_vgg, (11, 13, 16, 19)),
    *map(_vgg_bn, (11, 13, 16, 19)),
    _entry("resnet", "resnet18", "residual network: 8 basic blocks"),
    _entry("resnet", "resnet34", "residual network: 16 basic blocks"),
    _entry("resnet", "resnet50", "residual network: 16 bottleneck blocks"),
    _entry("resnet", "resnet101", "residual network: 33 bottleneck blocks"),
    _entry("googlenet", "googlenet", "nine inception blocks with batch norm", min_side=15),
    _entry("mobilenet", "mobilenet_v2", "inverted residuals around depthwise convolutions"),
    _entry("blocksnet", "blocksnet", "small test net with a block of every kind", shape=(3, 32, 32)),
)

ZOO: dict[str, ModelEntry] = {entry.name: entry for entry in _ENTRIES}
