"""Random programs without code, the times by which a schedule is found, and a dry run that is not the library's."""

import numpy as np

from hyperplace.steps.schedule.schedule import _Problem, _starts
from hyperplace.values.derived.actions import durations, needs_of
from hyperplace.values.program import Copy, Feed, Keep, Message, PartProgram, Piece, Program, Receive, Segment, Send


def random_program(seed, lends=False, hosts=()):
    """Return a program as lowering would make it: layers in order, each reading some earlier ones.

    Every part has a weight; where parts lend, those that run something may have copies of the others'. With the hosts
    of four parts, copies on another host than the owner's go by the first of them there.
    """
    rng = np.random.default_rng(seed)
    num_parts, num_layers = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    part_of = rng.integers(0, num_parts, num_layers).tolist()
    reads = [
        sorted({int(r) for r in rng.integers(0, n, int(rng.integers(1, 3)))} if n else ()) for n in range(num_layers)
    ]
    pairs = sorted({(r, part_of[n]) for n in range(num_layers) for r in reads[n] if part_of[r] != part_of[n]})
    messages = tuple(
        Message(number, f"v{r}", part_of[r], q, (4, 1 + r), rows=(0, 4), learns=r % 3 > 0)
        for number, (r, q) in enumerate(pairs)
    )
    number_of = {pair: number for number, pair in enumerate(pairs)}
    segments = [[] for _ in range(num_parts)]
    for layer, p in enumerate(part_of):
        takes = [Feed(0, "0:1")] if not reads[layer] else []
        takes += [Keep(f"v{r}") if part_of[r] == p else Receive(number_of[r, p]) for r in reads[layer]]
        targets = {part_of[n] for n in range(num_layers) if layer in reads[n]}
        gives = [Keep(f"v{layer}") if q == p else Send(number_of[layer, q]) for q in sorted(targets)]
        work, update = int(rng.integers(0, 50)), int(rng.integers(0, 5))
        segments[p].append(
            Segment(
                f"s{layer}",
                tuple(takes),
                tuple(gives),
                (f"v{layer}",),
                forward=work / 3,
                backward=work * 2 / 3,
                update=update,
                saved_bytes=100 * layer,
            )
        )
    lenders = random_lenders(segments, seed) if lends else {}
    parts = tuple(PartProgram(_weights(p, lenders, hosts), segments=tuple(own)) for p, own in enumerate(segments))
    return Program("random", inputs=((1,),), parts=parts, batch=4, messages=messages)


def random_lenders(segments, seed):
    """Return who lends to whom; only parts that run something borrow."""
    rng = np.random.default_rng(seed)
    busy = [p for p, own in enumerate(segments) if own]
    lenders = {p: {q for q in busy if q != p and rng.random() < 0.5} for p in range(len(segments))}
    return {p: borrowers for p, borrowers in lenders.items() if borrowers}


def _weights(part, lenders, hosts):
    copies = {
        f"of_{p}": Copy(f"w{p}", (2,), owner=p, via=_via(p, part, borrowers, hosts))
        for p, borrowers in lenders.items()
        if part in borrowers
    }
    return {"w": Piece(f"w{part}", (2,)), **copies}


def _via(owner, part, borrowers, hosts):
    if not hosts or hosts[owner] == hosts[part]:
        return None
    first = min(q for q in borrowers if hosts[q] == hosts[part])
    return None if first == part else first


def vias_of(program):
    """Return by whom every copy goes that goes by somebody: (owner, borrower) -> relay."""
    return {
        (piece.owner, q): piece.via
        for q, part in enumerate(program.parts)
        for piece in part.weights.values()
        if isinstance(piece, Copy) and piece.via is not None
    }


def lenders_of(program):
    """Return who lends to whom, from the copies."""
    found = {}
    for q, part in enumerate(program.parts):
        for piece in part.weights.values():
            if isinstance(piece, Copy):
                found.setdefault(piece.owner, set()).add(q)
    return found


def times_of(program, in_flight, **how):
    """Return start and end of every action on one mini-batch's time line, and the period, as they are searched for."""
    needs = needs_of(program, **how)
    work = durations(program, needs)
    starts, period = _starts(_Problem(needs, work, {}), in_flight, {})
    return {node: (start, start + work[node]) for node, start in starts.items()}, period


def plain_dry_run(program, schedule, num_batches, **how):
    """Run the rows tick by tick, every part in its own order, and return the actions in an order that worked.

    Who sees an updated weight waits for the update that its mini-batch is to see.
    """
    needs, vias = needs_of(program, **how), vias_of(program)
    todo = [
        [
            (t - a.offset, (p, a.kind, a.segment))
            for t in range(num_batches + schedule.depth)
            for a in row
            if 0 <= t - a.offset < num_batches
        ]
        for p, row in enumerate(schedule.actions)
    ]
    done, order = set(), []

    def is_ready(batch, node):
        lent_to = _lent_to(program, schedule, node)
        updates = [(batch - schedule.delays[lent], _publisher(vias, lent[0], node[0])) for lent in lent_to]
        return all((batch, n) in done for n in needs[node]) and all(one in done for one in updates if one[0] >= 0)

    while any(todo):
        ready = [p for p, actions in enumerate(todo) if actions and is_ready(*actions[0])]
        assert ready, f"deadlock before {[actions[0] for actions in todo if actions]}"
        for p in ready:
            done.add(todo[p][0])
            order.append(todo[p].pop(0))
    return order


def _publisher(vias, owner, part):
    """Return the action by which a part gets new values: a relay's, if it is one or has one."""
    relays = {via for (other, _), via in vias.items() if other == owner}
    via = part if part in relays else vias.get((owner, part))
    return (owner, "U", 0) if via is None else (via, "P", 0)


def _lent_to(program, schedule, node):
    """Return the lent weights that an action sees: forward, all those that its part owns or has copies of."""
    part, kind, _ = node
    owners = {piece.owner if isinstance(piece, Copy) else part for piece in program.parts[part].weights.values()}
    return [(owner, name) for owner, name in schedule.delays if kind == "F" and owner in owners]
