"""The model zoo, and how a model named on the command line is found and made.

    load_model("vgg16")                                   a name from ZOO
    load_model("torchvision.models:resnet18", [(3, 224, 224)])
    load_model("nets/tiny.py:TinyNet", [(3, 32, 32)])     a function or class in a file

Importing this package does not import torch: listing the zoo is instant.
"""

from .load import LoadedModel, load_model
from .shape import parse_shape
from .zoo import ZOO, ModelEntry

__all__ = ["ZOO", "LoadedModel", "ModelEntry", "load_model", "parse_shape"]
