"""The images of a run: a training and a test set, in the shape the model reads."""

from collections.abc import Sequence
from dataclasses import dataclass

from hyperplace.data import fashion_mnist, synthetic
from hyperplace.errors import UsageError
from hyperplace.training.settings import TrainSettings
from hyperplace.values.images import Images, Shape

SYNTHETIC_IMAGES, SYNTHETIC_CLASSES = 2048, 10
TEST_SHARE = 6  # with fewer images than there are, a test image for so many of training, as in Fashion-MNIST


@dataclass(frozen=True)
class Sets:
    """What a model learns from and is judged by; `shape` is what it reads."""

    train: Images
    test: Images
    shape: Shape


def load_sets(settings: TrainSettings, inputs: Sequence[tuple[int, ...]]) -> Sets:
    """Return the images for a model with these inputs."""
    shape = _image_shape(inputs)
    if settings.data == "synthetic":
        num_images = settings.num_images or SYNTHETIC_IMAGES
        return Sets(_made(num_images, shape, 0), _made(_num_test(num_images), shape, 1), shape)
    train, test = (fashion_mnist(settings.data_folder, split) for split in ("train", "test"))
    if settings.num_images:
        train, test = _first(train, settings.num_images), _first(test, _num_test(settings.num_images))
    return Sets(train, test, shape)


def _image_shape(inputs: Sequence[tuple[int, ...]]) -> Shape:
    if len(inputs) != 1 or len(inputs[0]) != 3:
        shown = " and ".join("x".join(map(str, shape)) for shape in inputs) or "nothing"
        raise UsageError(f"the model reads {shown}, but the data are single images; train it from Python instead")
    channels, height, width = inputs[0]
    return channels, height, width


def _made(num_images: int, shape: Shape, seed: int) -> Images:
    return synthetic(num_images, shape, SYNTHETIC_CLASSES, seed)


def _num_test(num_images: int) -> int:
    return max(1, num_images // TEST_SHARE)


def _first(images: Images, number: int) -> Images:
    return Images(images.x[:number], images.y[:number], images.num_classes, images.mean, images.std)
