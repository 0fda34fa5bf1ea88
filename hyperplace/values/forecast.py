"""How a plan is best run on a cluster, and what it is predicted to take."""

from dataclasses import dataclass

from hyperplace.values.memory import PartMemory
from hyperplace.values.plan import Plan
from hyperplace.values.prediction import Prediction


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
    lacks: str = ""  # which device has not the memory for it, and how much it lacks

    @property
    def seconds(self) -> float:
        return self.prediction.seconds

    @property
    def rank(self) -> tuple[bool, float]:
        """By which forecasts are compared: what fits into memory first, then what is fastest."""
        return bool(self.lacks), self.seconds

    @property
    def speed_up(self) -> float:
        """Over the fastest device alone."""
        return self.one_device_s / self.seconds

    @property
    def images_per_s(self) -> float:
        return self.plan.settings.batch / self.seconds
