"""Run parts event by event without computing anything: when does every action begin and end, what is on which card.

Every part does its actions in order, each as soon as what it needs is done and has arrived. What one host sends another
waits in a queue of the sender's card, then in one of the receiver's; a card sends and receives at once. Whatever a
device does for the network is time that it does not compute in.

wiring.py makes arrays of the tasks; events.py, which is compiled, lets them happen.
"""

from dataclasses import dataclass

from hyperplace.errors import UsageError
from hyperplace.steps.simulate.tasks import Spans, Tasks, kind_of
from hyperplace.steps.simulate.wiring import State, Wiring, state_before, wired
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.traffic import Card
from hyperplace.values.prediction import IN, OUT


@dataclass(frozen=True)
class Outcome:
    """When everything happened."""

    spans: Spans
    cards: dict[Card, float]  # how long each was busy
    end: float


def run(tasks: Tasks, cluster: Cluster | None = None) -> Outcome:
    """Return when all that is to be done happens; raise UsageError if parts wait for each other for ever."""
    from hyperplace.steps.simulate.events import play  # numba takes a while to load

    wiring, state = wired(tasks, cluster), state_before(tasks, cluster)
    end = float(play(wiring, state))
    stuck = [todo[place] for todo, place in zip(tasks.todo, state.place.tolist(), strict=True) if place < len(todo)]
    if stuck:
        who = ", ".join(
            f"part {node[0]} before {kind_of(node)}{node[2]} of mini-batch {batch}" for batch, node in stuck
        )
        raise UsageError(f"the schedule never ends: {who} wait for each other")
    return _outcome(tasks, wiring, state, end)


def _outcome(tasks: Tasks, wiring: Wiring, state: State, end: float) -> Outcome:
    begins, ends = state.begin[wiring.todo].tolist(), state.end[wiring.todo].tolist()
    done = (one for todo in tasks.todo for one in todo)
    cards = {
        (host, way): busy
        for host, both in enumerate(state.cards.tolist())
        for way, busy in zip((OUT, IN), both, strict=True)
        if busy >= 0
    }
    return Outcome(dict(zip(done, zip(begins, ends, strict=True), strict=True)), cards, end)
