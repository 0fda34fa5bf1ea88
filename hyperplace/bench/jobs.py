"""What the bench and its workers say to each other: a line of JSON per job, and one per reply."""

import json
from dataclasses import asdict, dataclass
from typing import Any

PROBE, OPEN, GIVE, WATCH, CLOSE = "probe", "open", "give", "watch", "close"
PLAIN, PLAN, DDP, GPIPE, ONE_F_ONE_B = "plain", "plan", "ddp", "gpipe", "1f1b"  # the ways to train


@dataclass(frozen=True)
class Start:
    """What a worker is born with: the model by its spec and shapes, with the weights of a seed."""

    spec: str
    shapes: tuple[tuple[int, ...], ...] | None
    seed: int
    interface: str  # whose bytes are counted
    silence_s: float  # how long a rank waits for another

    @classmethod
    def parse(cls, text: str) -> "Start":
        words = json.loads(text)
        shapes = words["shapes"] and tuple(tuple(shape) for shape in words["shapes"])
        return cls(**words | {"shapes": shapes})


@dataclass(frozen=True)
class Entry:
    """How a contender trains."""

    way: str
    batch: int
    schedule: str = ""
    in_flight: int = 1
    micro_batches: int = 1
    plan: str = ""  # a file
    cuts: tuple[int, ...] = ()  # before which modules of the model a new stage begins
    record: bool = False  # keep a timeline
    cluster: str = ""  # as the text of a file
    survive_every: int = 0  # updates after which parts are copied to other hosts; 0: never


@dataclass(frozen=True)
class Job:
    """What to do next.

    probe: find out what the network takes. open: make ready to train. give: train on some mini-batches. watch: finish
    them and tell. close: end it.
    """

    do: str
    entry: Entry | None = None  # of open
    number: int = 0  # of mini-batches
    settling: int = 0  # others before these, for which the clock does not run yet

    @classmethod
    def parse(cls, text: str) -> "Job":
        words = json.loads(text)
        entry = words["entry"] and Entry(**words["entry"] | {"cuts": tuple(words["entry"]["cuts"])})
        return cls(**words | {"entry": entry})


@dataclass(frozen=True)
class Reply:
    """What a job took on one host, or why it failed."""

    fault: str = ""
    seconds: float = 0.0
    last_s: float = 0.0  # of the last mini-batch
    busy_s: float = 0.0  # of the processor, all threads
    faults: int = 0  # pages of memory that came anew
    sent_bytes: int = 0  # by the host's card; of a watch, since the first mini-batch
    moved_bytes: float = 0.0  # per mini-batch, by the trainer's own count
    timeline: str = ""
    cluster: str = ""  # of a probe, as the text of a file

    @classmethod
    def parse(cls, text: str) -> "Reply":
        return cls(**json.loads(text))


def line_of(message: Any) -> str:
    """Return a message as one line."""
    return json.dumps(asdict(message)) + "\n"
