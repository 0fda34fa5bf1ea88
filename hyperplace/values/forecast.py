"""How a plan is best run on a cluster, and what it is predicted to take."""

from dataclasses import dataclass

from hyperplace.values.cluster import Cluster
from hyperplace.values.memory import PartMemory
from hyperplace.values.pace import Pace
from hyperplace.values.plan import Plan
from hyperplace.values.prediction import Prediction
from hyperplace.values.recompute import Chosen


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
    lacks: str = ""  # which devices have not the memory for it, and how much they lack
    lacking_bytes: int = 0  # of all devices together

    @property
    def seconds(self) -> float:
        return self.prediction.seconds

    @property
    def rank(self) -> tuple[int, float]:
        """By which forecasts are compared: what fits into memory, or lacks least, first, then what is fastest."""
        return self.lacking_bytes, self.seconds

    @property
    def speed_up(self) -> float:
        """Over the fastest device alone."""
        return self.one_device_s / self.seconds

    @property
    def images_per_s(self) -> float:
        return self.plan.settings.batch / self.seconds


@dataclass(frozen=True)
class Outlook:
    """A plan on a cluster: what it is predicted to take there, and what bounds that on other networks and devices."""

    forecast: Forecast
    cluster: Cluster
    pace: Pace
    assumed: str = ""  # what nobody has said of the cluster
