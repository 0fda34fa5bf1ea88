"""How a plan is best run on a cluster, and what it is predicted to take."""

from dataclasses import dataclass

from hyperplace.values.cluster import Cluster
from hyperplace.values.memory import PartMemory
from hyperplace.values.pace import Pace
from hyperplace.values.plan import Plan
from hyperplace.values.prediction import Prediction
from hyperplace.values.relief import OFFLOAD, RECOMPUTE, Chosen
from hyperplace.values.sync_pace import SyncPace


@dataclass(frozen=True)
class Forecast:
    """A plan with the schedule it is to run by and what that takes."""

    name: str  # of the method that made the plan
    plan: Plan
    schedule: str  # sync or async
    in_flight: int
    micro_batches: int
    prediction: Prediction
    memory: tuple[PartMemory, ...]
    one_device_s: float  # a mini-batch on the fastest device alone
    recompute: Chosen = ()  # the parts and segments that run forward again for their backward pass
    offload: Chosen = ()  # those that keep in the host's memory what it needs
    lacks: str = ""  # which devices have not the memory for it, and how much they lack
    lacking_bytes: int = 0  # of all devices together
    lacking_part: int | None = None  # the one that lacks most
    unhindered_s: float = 0.0  # what it would take if nothing were recomputed or offloaded for want of memory
    short_part: int | None = None  # for want of whose memory it is slower than it could be

    @property
    def seconds(self) -> float:
        return self.prediction.seconds

    @property
    def relief(self) -> dict[str, Chosen]:
        """The parts and segments that need less memory, by the way in which."""
        return {RECOMPUTE: self.recompute, OFFLOAD: self.offload}

    @property
    def rank(self) -> tuple[int, float]:
        """By which forecasts are compared: what fits into memory, or lacks least, first, then what is fastest."""
        return self.lacking_bytes, self.seconds

    @property
    def binds(self) -> str:
        """What stands in the way of less time: a part's memory, where more of it would do, or what is always busy."""
        return self.prediction.binds if self.short_part is None else f"part {self.short_part}'s memory"

    @property
    def speed_up(self) -> float:
        """Over the fastest device alone."""
        return self.one_device_s / self.seconds

    @property
    def moved_bytes(self) -> int:
        """What a mini-batch moves between parts, cut into its micro-batches."""
        return self.plan.moved_in(self.micro_batches).total()

    @property
    def images_per_s(self) -> float:
        return self.plan.settings.batch / self.seconds


@dataclass(frozen=True)
class Outlook:
    """A plan on a cluster: what it is predicted to take there, and what bounds that on other networks and devices."""

    forecast: Forecast
    cluster: Cluster
    pace: Pace | SyncPace  # by the schedule of the forecast
    assumed: str = ""  # what nobody has said of the cluster
