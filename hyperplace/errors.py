"""Every fault hyperplace reports on purpose.

HyperplaceError
|-- UsageError            an option or argument that can never work (exit 2)
|-- ModelError            a model that cannot be found, loaded or exported
|-- FileError             a file that cannot be read or written, or whose content is wrong
|-- BalanceError          an imbalance that cannot be met, with the block that is too heavy
|-- TrainingError         a part failed while a model was trained, with the part and the layer
|   |-- HostLost              a process of the run, or the host that it was on, is gone
|   `-- NotNeeded             a spare's run has ended without it
`-- PartitionerError      the partitioner process failed
    |-- PartitionerCrash      it died, or its answer was not a partition
    |-- PartitionerTimeout    it did not end in time
    `-- PartitionerOverflow   the numbers do not fit into its integers

A message is lower case: what is wrong, the values, then the remedy, in the user's words. It is one line that can be
printed, whatever a file has put into it.
"""

MOST_CHARACTERS = 1500


class HyperplaceError(Exception):
    """A fault the user can act on; its message is the whole story."""

    def __init__(self, message: str = "") -> None:
        super().__init__(_one_line(message))


def _one_line(message: str) -> str:
    """Return a message with what no terminal should see escaped, and without its middle where that is long."""
    if len(message) > 2 * MOST_CHARACTERS:  # a file's whole content is not worth escaping
        message = message[:MOST_CHARACTERS] + message[-MOST_CHARACTERS:]
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    if len(line) > MOST_CHARACTERS:
        line = f"{line[: MOST_CHARACTERS // 2]}...{line[-MOST_CHARACTERS // 4 :]}"
    return line


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


class HostLost(TrainingError):
    """A process of the run, or the host that it was on, is gone."""


class NotNeeded(TrainingError):
    """The run that a spare has waited for has ended without it."""


class PartitionerError(HyperplaceError):
    """The partitioner process failed."""


class PartitionerCrash(PartitionerError):
    """The partitioner died, or its answer was not a partition."""


class PartitionerTimeout(PartitionerError):
    """The partitioner did not end in time."""


class PartitionerOverflow(PartitionerError):
    """The hypergraph's numbers do not fit into the partitioner's integers."""
