"""What a program is predicted to take on a cluster, and what binds it."""

from collections.abc import Mapping
from dataclasses import dataclass

from hyperplace.values.timeline import Timeline

FULL = 0.9  # of the time: what is busy for less binds nothing
OUT, IN = "out", "in"
WAYS = {OUT: "outward", IN: "inward"}


@dataclass(frozen=True)
class Prediction:
    """The seconds of a mini-batch in the steady state, and who is busy for which share of it."""

    seconds: float
    busy: tuple[float, ...]  # of every part
    cards: Mapping[tuple[str, str], float]  # of every host's card that carries anything, by its name and way
    timeline: Timeline

    @property
    def binds(self) -> str:
        """What is busy all the time; if nothing is, that parts wait for each other."""
        shares = {f"part {part}'s work": share for part, share in enumerate(self.busy)}
        shares |= {f"{host}'s card, {WAYS[way]}": share for (host, way), share in self.cards.items()}
        most = max(shares, key=shares.__getitem__)
        return most if shares[most] >= FULL else "parts wait for each other"
