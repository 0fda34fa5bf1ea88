"""LeNet-5 (LeCun et al., 1998) for 1x32x32 images, as in Table 2.1 of the thesis.

The table's softmax is left to the loss. It names tanh beside the poolings too: we apply it once, before them.
"""

from collections import OrderedDict

from torch import nn


def lenet5(num_classes: int = 10) -> nn.Sequential:
    """Make LeNet-5; the third convolution shrinks 5x5 maps to one pixel, so only 32x32 images fit."""
    features = nn.Sequential(
        nn.Conv2d(1, 6, kernel_size=5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, kernel_size=5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(16, 120, kernel_size=5),
        nn.Tanh(),
    )
    classifier = nn.Sequential(
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, num_classes),
    )
    return nn.Sequential(OrderedDict(features=features, flatten=nn.Flatten(), classifier=classifier))
