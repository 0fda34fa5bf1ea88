"""What one part lends and borrows: gradients go to the owner of a weight, new values come back after every update.

A gradient goes as soon as it is complete, while the layers before it still run backward; where micro-batches share an
update, after the last of them.

Versions of a weight are counted by the owner's updates. The owner publishes a snapshot of each, and whoever uses the
weight, the owner too, sees snapshots and never the memory that the optimizer writes. With several mini-batches in
flight, the one that enters in tick t sees everywhere the weights after the update of the last one that entered in tick
t - delay or before; newer weights wait until a mini-batch wants them.

A part may be a relay of a weight for others on its host. Then its own gradient waits until theirs are there, and their
sum goes to the owner; and what the owner publishes it passes on to them, before any of its own mini-batches wants it.
"""

import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from hyperplace.runtime.pieces import add, cut, slice_of
from hyperplace.runtime.transport import GRADIENTS, WEIGHTS, Endpoint
from hyperplace.runtime.weights import Version, Weights
from hyperplace.values.loans import Loan
from hyperplace.values.program import PartProgram


class Replicas:
    """The weights of one part that other parts have too; without delays, a mini-batch sees the newest."""

    def __init__(
        self,
        table: PartProgram,
        endpoint: Endpoint,
        weights: Weights,
        *,
        loans: Sequence[Loan],
        delays: Mapping[tuple[int, str], int],
    ) -> None:
        self._table, self._endpoint, self._weights = table, endpoint, weights
        self._lent = [loan for loan in loans if loan.peer == loan.owner == endpoint.part]
        self._relayed: dict[str, list[Loan]] = {}  # by the attribute that is the relay's copy
        for loan in loans:
            if loan.via == endpoint.part:
                self._relayed.setdefault(loan.relayed, []).append(loan)
        self._borrowed = {loan.copy: loan for loan in loans if loan.borrower == endpoint.part}
        # Of what no segment of its own uses, a part would keep snapshots for ever.
        used = {name for index in range(len(table.segments)) for name in table.weights_of(index)}
        lent = {loan.lent for loan in loans if loan.owner == endpoint.part}
        self._kept: dict[str, deque[Tensor]] = {name: deque() for name in self._table.weights if name in lent & used}
        seen = {name: (endpoint.part, name) for name in self._kept}
        self._kept |= {name: deque() for name in self._relayed}
        seen |= {name: (loan.owner, loan.lent) for name, loan in self._borrowed.items()}
        self._delay_of = {name: delays[weight] for name, weight in seen.items() if weight in delays}
        self._version_of: dict[str, int] = {}
        self._tensor_of: dict[str, Tensor] = {}
        self._gradients: dict[str, Tensor] = {}
        self._given: dict[int, set[str]] = {}  # by mini-batch, what need not be given again
        self._held: dict[int, dict[str, Tensor | None]] = {}  # by mini-batch, what others have yet to be added to
        self._num_passed = 0  # versions that were passed on
        self._num_entered = 0
        self._recent: deque[int] = deque(maxlen=max(self._delay_of.values(), default=0))  # ticks with a mini-batch

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take the values of a state dict, which the part's own weights already have; nothing may be in flight."""
        self.renew()  # older values on their way would come back later
        for name, kept in self._kept.items():
            kept.clear()
            if name not in self._borrowed:
                self._tensor_of[name] = self._weights.parameters[name].detach().clone()
        for name in self._borrowed:
            piece = self._table.weights[name]
            self._tensor_of[name] = slice_of(piece, state[piece.name]).to(self._weights.device)
        self._version_of = dict.fromkeys(self._tensor_of, self._weights.number)
        self._num_passed = self._weights.number

    def enter(self, tick: int) -> dict[str, int]:
        """Return which version of every weight the mini-batch that enters in this tick is to see."""
        self._num_entered += 1
        self._recent.append(tick)
        return {
            name: self._num_entered - sum(recent > tick - delay for recent in self._recent)
            for name, delay in self._delay_of.items()
        }

    def in_time(self, names: Iterable[str]) -> list[str]:
        """Return the weights of which nobody else makes new versions: there is nothing to wait for."""
        return [name for name in names if name not in self._borrowed]

    def show(self, version: Version, names: Iterable[str]) -> None:
        """Let a mini-batch see some weights in the versions it is to see, waiting for them if need be."""
        for name in names:
            if name in self._tensor_of and name not in version.leaves:
                self._advance(name, version.wants.get(name, self._weights.number))
                version.leaves[name] = self._tensor_of[name].data.requires_grad_(torch.is_grad_enabled())
                version.saw(self._version_of[name])

    def _advance(self, name: str, version: int) -> None:
        while self._version_of[name] < version:
            self._version_of[name] += 1
            self._tensor_of[name] = self._next(name)

    def _next(self, name: str) -> Tensor:
        if name in self._kept:
            return self._kept[name].popleft()
        return self._received(name, self._version_of[name])

    def _received(self, name: str, version: int) -> Tensor:
        found = self._endpoint.receive(version, WEIGHTS, name, self._borrowed[name].peer)
        assert found is not None
        # Contiguous, as a loaded copy is: then a resumed run computes the same bits.
        return found.contiguous()

    def renew(self) -> None:
        """Go on to the newest versions; nothing may be in flight."""
        for name in self._tensor_of:
            self._advance(name, self._weights.number)

    def accumulate(self, version: Version) -> None:
        """Add a finished mini-batch's gradients of borrowed weights to those waiting to be given back."""
        for name in self._borrowed:
            gradient = version.leaves[name].grad if name in version.leaves else None
            if gradient is not None:
                known = self._gradients.get(name)
                self._gradients[name] = gradient if known is None else known.add_(gradient)

    def give_early(self, batch: int, version: Version, segment: int, *, to_come: Iterable[int]) -> None:
        """Let gradients go to their owners while the backward pass of a segment, which is about to begin, still runs.

        Those of weights that no segment whose backward pass is `to_come` uses: nothing will be added to them.
        """
        unfinished = {name for other in to_come for name in self._table.weights_of(other)}
        for name in self._table.weights_of(segment):
            if name in self._borrowed and name not in unfinished:
                # It is called once the leaf has its gradient, by the thread that runs the pass. Its part has the leaf,
                # and torch the hook, where no garbage collector sees it: it must not keep what keeps the part.
                give = partial(_give_from, weakref.ref(self), batch, name)
                version.leaves[name].register_post_accumulate_grad_hook(give)  # type: ignore[no-untyped-call]

    def give_from(self, batch: int, name: str, leaf: Tensor) -> None:
        """Send the gradient that a leaf has."""
        self._give_one(batch, name, leaf.grad)
        leaf.grad = None
        self._given.setdefault(batch, set()).add(name)

    def give(self, batch: int) -> None:
        """Send all other gradients of borrowed weights to their owners, also where there are none."""
        given = self._given.pop(batch, set())
        for name in self._borrowed:
            if name not in given:
                self._give_one(batch, name, self._gradients.pop(name, None))

    def _give_one(self, batch: int, name: str, gradient: Tensor | None) -> None:
        if name in self._relayed:
            self._held.setdefault(batch, {})[name] = gradient
        else:
            self._send_one(batch, name, gradient)

    def _send_one(self, batch: int, name: str, gradient: Tensor | None) -> None:
        self._endpoint.send(batch, GRADIENTS, name, self._borrowed[name].peer, gradient, like=self._tensor_of[name])

    def relay(self, batch: int) -> None:
        """Wait for the gradients of all that this part relays, add them to its own, and send the sums.

        Always in the same order, whoever comes first. Those who are waited for send before they wait for anything of
        the update, so that it surely ends.
        """
        held = self._held.pop(batch, {})
        for name, loans in self._relayed.items():
            total = held.pop(name)
            for loan in loans:
                gradient = self._endpoint.receive(batch, GRADIENTS, loan.copy, loan.borrower)
                if gradient is not None:
                    total = gradient.clone() if total is None else total.add_(gradient)
            self._send_one(batch, name, total)

    def pass_on(self) -> None:
        """Wait for the next version of all that this part relays, and send it to the others."""
        self._num_passed += 1
        for name, loans in self._relayed.items():
            found = self._received(name, self._num_passed)
            for loan in loans:
                self._endpoint.send(self._num_passed, WEIGHTS, loan.copy, loan.borrower, found)
            self._kept[name].append(found)

    def collect(self, batch: int) -> None:
        """Wait for the gradients of all borrowers, and add them to the part's own, always in the same order."""
        for loan in self._lent:
            gradient = self._endpoint.receive(batch, GRADIENTS, loan.copy, loan.borrower)
            parameter = self._weights.parameters[loan.lent]
            if gradient is None:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            add(parameter.grad, gradient, loan.spans)

    def publish(self) -> None:
        """Send what the last update has made of all lent weights to those who have copies."""
        snapshots: dict[str, Tensor] = {}
        for loan in self._lent:  # each at once: the network has something to do while the next is copied
            if loan.lent not in snapshots:
                snapshots[loan.lent] = self._weights.parameters[loan.lent].detach().clone()
            lent = cut(snapshots[loan.lent], loan.spans)
            self._endpoint.send(self._weights.number, WEIGHTS, loan.copy, loan.borrower, lent)
        for name, snapshot in snapshots.items():
            if name in self._kept:
                self._kept[name].append(snapshot)


def _give_from(replicas: "weakref.ref[Replicas]", batch: int, name: str, leaf: Tensor) -> None:
    if (owner := replicas()) is not None:
        owner.give_from(batch, name, leaf)
