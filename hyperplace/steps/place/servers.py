"""Parameter servers: data parallelism in which a part owns whole layers' weights, instead of a run of every layer's.

The bytes are the same; who carries them is not. `dataparallel` itself shares every layer out (see values.derived).
"""

from collections import Counter
from collections.abc import Callable, Sequence

from hyperplace.values.derived.replicas import Held, Share
from hyperplace.values.ranges import count

Pick = Callable[[Held, Counter[int], int], int]  # the part that owns some filters, as a Share says how many


def _whole(pick: Pick) -> Share:
    """Return the share by which one part owns all."""

    def share(held: Held, owned_bytes: Counter[int], number: int) -> Sequence[int]:
        server = pick(held, owned_bytes, number)
        return [count(held.filters) * (part == server) for part in held.parts]

    return share


def _first(held: Held, owned_bytes: Counter[int], number: int) -> int:
    return held.parts[0]


def _in_turn(held: Held, owned_bytes: Counter[int], number: int) -> int:
    return held.parts[number % len(held.parts)]


def _lightest(held: Held, owned_bytes: Counter[int], number: int) -> int:
    return min(held.parts, key=lambda part: (owned_bytes[part], part))


SERVERS: dict[str, Share] = {
    "server": _whole(_first),
    "server-roundrobin": _whole(_in_turn),
    "server-greedy": _whole(_lightest),
}
