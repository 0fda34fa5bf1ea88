"""Data: labelled images from files or made up, and the mini-batches a model is trained with."""

from hyperplace.data.fashion import fashion_mnist
from hyperplace.data.minibatches import batches
from hyperplace.data.patterns import synthetic
from hyperplace.values.images import Images

__all__ = ["Images", "batches", "fashion_mnist", "synthetic"]
