"""VGG (Simonyan and Zisserman, 2014) of 11, 13, 16 and 19 layers, plain and with batch norm.

Parameter names are the well-known ones: features.N, classifier.N. Images are square, 32 a side at least.
"""

from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

STAGE_FILTERS = (64, 128, 256, 512, 512)
STAGE_CONVS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
SHRINK = 2 ** len(STAGE_FILTERS)  # every stage ends in a pooling that halves the side


def vgg11(num_classes: int = 1000, image_size: int = 224) -> nn.Sequential:
    return _vgg(11, num_classes, image_size, norm=False)


def vgg13(num_classes: int = 1000, image_size: int = 224) -> nn.Sequential:
    return _vgg(13, num_classes, image_size, norm=False)


def vgg16(num_classes: int = 1000, image_size: int = 224) -> nn.Sequential:
    return _vgg(16, num_classes, image_size, norm=False)


def vgg19(num_classes: int = 1000, image_size: int = 224) -> nn.Sequential:
    return _vgg(19, num_classes, image_size, norm=False)


def vgg11_bn(num_classes: int = 1000, image_size: int = 224) -> nn.Sequential:
    return _vgg(11, num_classes, image_size, norm=True)


def vgg13_bn(num_classes: int = 1000, image_size: int = 224) -> nn.Sequential:
    return _vgg(13, num_classes, image_size, norm=True)


def vgg16_bn(num_classes: int = 1000, image_size: int = 224) -> nn.Sequential:
    return _vgg(16, num_classes, image_size, norm=True)


def vgg19_bn(num_classes: int = 1000, image_size: int = 224) -> nn.Sequential:
    return _vgg(19, num_classes, image_size, norm=True)


def _vgg(depth: int, num_classes: int, image_size: int, *, norm: bool) -> nn.Sequential:
    classifier = nn.Sequential(
        nn.Linear(STAGE_FILTERS[-1] * (image_size // SHRINK) ** 2, 4096),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(4096, num_classes),
    )
    features = nn.Sequential(*_feature_layers(depth, norm=norm))
    model = nn.Sequential(OrderedDict(features=features, flatten=nn.Flatten(), classifier=classifier))
    _initialise(model)
    return model


def _feature_layers(depth: int, *, norm: bool) -> Iterator[nn.Module]:
    channels = 3
    for filters, num_convs in zip(STAGE_FILTERS, STAGE_CONVS[depth], strict=True):
        for _ in range(num_convs):
            yield nn.Conv2d(channels, filters, kernel_size=3, padding=1)
            if norm:
                yield nn.BatchNorm2d(filters)
            yield nn.ReLU()
            channels = filters
        yield nn.MaxPool2d(2)


def _initialise(model: nn.Module) -> None:
    """Draw weights that keep the signal's size: with torch's defaults it dies in the plain variants."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
