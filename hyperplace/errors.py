"""Every fault hyperplace reports on purpose.

HyperplaceError
|-- UsageError            an option or argument that can never work (exit 2)
|-- ModelError            a model that cannot be found, loaded or exported
|-- FileError             a file that cannot be read or written, or whose content is wrong
|-- BalanceError          an imbalance that cannot be met, with the block that is too heavy
|-- TrainingError         a part failed while a model was trained, with the part and the layer
`-- PartitionerError      the partitioner process failed
    |-- PartitionerCrash      it died, or its answer was not a partition
    |-- PartitionerTimeout    it did not end in time
    `-- PartitionerOverflow   the numbers do not fit into its integers

A message is lower case: what is wrong, the values, then the remedy, in the user's words.
"""


class HyperplaceError(Exception):
    """A fault the user can act on; its message is the whole story."""


class UsageError(HyperplaceError):
    """An option or argument that can never work."""


class ModelError(HyperplaceError):
    """A model that cannot be found, loaded or exported."""


class FileError(HyperplaceError):
    """A file that cannot be read or written, or whose content is wrong."""


class BalanceError(HyperplaceError):
    """An imbalance that cannot be met."""


class TrainingError(HyperplaceError):
    """A part failed while a model was trained."""


class PartitionerError(HyperplaceError):
    """The partitioner process failed."""


class PartitionerCrash(PartitionerError):
    """The partitioner died, or its answer was not a partition."""


class PartitionerTimeout(PartitionerError):
    """The partitioner did not end in time."""


class PartitionerOverflow(PartitionerError):
    """The hypergraph's numbers do not fit into the partitioner's integers."""
