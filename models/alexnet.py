"""AlexNet (Krizhevsky et al., 2012) for 3x227x227 images, as in Table 2.2 of the thesis.

One column: the two-GPU grouping of the original is a placement, which is what hyperplace decides.
"""

from collections import OrderedDict

from torch import nn


def alexnet(num_classes: int = 1000, image_size: int = 227) -> nn.Sequential:
    """Make AlexNet for square images of the given side, 67 at least."""
    features = nn.Sequential(
        nn.Conv2d(3, 96, kernel_size=11, stride=4),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(96, 256, kernel_size=5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(256, 384, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 384, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2),
    )
    classifier = nn.Sequential(
        nn.Linear(256 * _map_side(image_size) ** 2, 4096),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(4096, num_classes),
    )
    return nn.Sequential(OrderedDict(features=features, flatten=nn.Flatten(), classifier=classifier))


def _map_side(image_size: int) -> int:
    """Side of the maps after the first convolution (11x11/4) and the three poolings (3x3/2)."""
    side = (image_size - 11) // 4 + 1
    for _ in range(3):
        side = (side - 3) // 2 + 1
    return side
