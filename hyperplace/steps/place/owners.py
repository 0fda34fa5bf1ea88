"""Other owners of the weights of which several parts have copies: Plan -> Plan.

Who owns them moves no byte more or less in all, but of n parts that hold a layer the owner's card carries n - 1 copies
and every other's one; and the owner's device updates.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hyperplace.values.derived import derived
from hyperplace.values.derived.replicas import Held, Share, evenly, replicas
from hyperplace.values.plan import Plan
from hyperplace.values.ranges import count


def reowned(plan: Plan, weights: Sequence[float]) -> Plan:
    """Return the plan with filters that several parts hold owned in proportion to the weights of these parts."""
    return derived(replace(plan, replicas=tuple(replicas(plan.layers, share=_in_proportion(weights)))))


def _in_proportion(weights: Sequence[float]) -> Share:
    """Return the share by which parts own filters by their weights, and as many each where none has any."""

    def share(held: Held, owned_bytes: Counter[int], number: int) -> Sequence[int]:
        own = [weights[part] for part in held.parts]
        if not sum(own):
            return evenly(held, owned_bytes, number)
        size = count(held.filters)
        wanted = [size * weight / sum(own) for weight in own]
        sizes = [int(one) for one in wanted]
        # What is left over goes to whom most is missing, those that own least first.
        late = sorted(range(len(own)), key=lambda i: (sizes[i] - wanted[i], owned_bytes[held.parts[i]]))
        for i in late[: size - sum(sizes)]:
            sizes[i] += 1
        return sizes

    return share
