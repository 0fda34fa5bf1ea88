"""Look whether another process has ended the run, or all wait for each other for ever.

Who waits for a message says so after a while, and for what. Once every process has said so and nobody has moved in
between, nothing will ever come: they were given different rows, or make different calls.
"""

from hyperplace.errors import TrainingError
from hyperplace.runtime.hosts.processes import Processes
from hyperplace.runtime.hosts.world import World
from hyperplace.runtime.progress import Fault, Progress
from hyperplace.runtime.transport import Transport
from hyperplace.runtime.transport.distributed import Network

LOOKS = 10  # in a row that find everybody waiting for the same
# After an outage TCP sends again only once it has waited for as long as that lasted, or longer.
SHAKEN_LOOKS = 50


def look_out(world: World, transport: Transport, progress: Progress) -> None:
    """Look every now and then while a trainer of several processes lives; one that is alone has nobody to look at."""
    if isinstance(world, Processes) and isinstance(transport, Network):
        world.watch(_Lookout(world, transport, progress).look)


class _Lookout:
    """One process's look at the others."""

    def __init__(self, processes: Processes, network: Network, progress: Progress) -> None:
        self._processes, self._network, self._progress = processes, network, progress
        self._waits: tuple[str, ...] = ()
        self._num_same = 0

    def look(self) -> None:
        """Look once; what has ended the run is told as a fault."""
        if self._network.is_stopped:
            return
        if self._processes.has_left:  # who is lost while all part from each other is waited for in vain
            if self._processes.heart.fault(self._processes.members):
                self._processes.abort()
            return
        fault = self._processes.fault() or self._deadlock()
        if fault and not (self._network.is_stopped or self._processes.has_left):
            self._progress.tell(Fault(-1, "", "", 0, fault))

    def _deadlock(self) -> TrainingError | None:
        """Say who waits for what, if all have waited for the same for long."""
        waits = self._processes.all_waits(self._network.waits())
        self._num_same = self._num_same + 1 if waits and waits == self._waits else 0
        self._waits = waits
        if self._num_same < (LOOKS if self._processes.is_calm() else SHAKEN_LOOKS):
            return None
        said = "; ".join(f"rank {number} {wait}" for number, wait in enumerate(waits))
        reason = f"all ranks wait for each other, and nothing will come: {said}"
        self._processes.tell_end(reason)
        return TrainingError(reason)
