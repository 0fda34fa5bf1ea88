"""One rank's end of a transport."""

from torch import Tensor, device

from hyperplace.runtime.journal import Journal
from hyperplace.runtime.transport import Key, Transport


class Endpoint:
    """Sends as it is told; what it receives is brought to the rank's device, and the wait is noted."""

    def __init__(self, part: int, transport: Transport, where: device, journal: Journal) -> None:
        self.part, self.transport, self._device, self._journal = part, transport, where, journal

    def send(
        self,
        batch: int,
        way: str,
        item: int | str,
        target: int,
        tensor: Tensor | None,
        *,
        like: Tensor | None = None,
        planned: bool = True,
    ) -> None:
        self.transport.send(Key(batch, way, item, self.part, target), tensor, like=like, planned=planned)

    def receive(self, batch: int, way: str, item: int | str, source: int) -> Tensor | None:
        key = Key(batch, way, item, source, self.part)
        found = self._journal.timed("wait", lambda: self.transport.receive(key))
        return None if found is None else found.to(self._device)
