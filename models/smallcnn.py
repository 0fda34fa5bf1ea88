"""A small CNN for 1x28x28 images such as Fashion-MNIST's: two convolutions, two linears."""

from collections import OrderedDict

from torch import nn


def smallcnn(num_classes: int = 10) -> nn.Sequential:
    """Make the net; its first linear reads 64 maps of 7x7, so only 28x28 images fit."""
    features = nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
    classifier = nn.Sequential(
        nn.Linear(64 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, num_classes),
    )
    return nn.Sequential(OrderedDict(features=features, flatten=nn.Flatten(), classifier=classifier))
