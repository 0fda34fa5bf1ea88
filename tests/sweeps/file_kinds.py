"""Every kind of file that hyperplace reads: right ones to change, and what holds of a changed one that is believed.

A check raises HyperplaceError where the file is refused. Otherwise it returns "right", or what is wrong.
"""

import gzip
import math
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

sys.path.extend(str(Path(__file__).parents[1] / folder) for folder in ("runtime", "files", "steps/lower"))

import plan_mutants
from file_examples import thesis_sample
from handmade import ZIGZAG, batches, squared, state_of
from mutated_plans import CASES, case, graph_of, plan_outcome, subject
from program_cases import sgd

from hyperplace.compiling import runnable as compiled
from hyperplace.errors import HyperplaceError
from hyperplace.files.cluster import cluster_text, load_cluster
from hyperplace.files.hypergraph import FORMATS, hmetis_text, patoh_text, read_hypergraph
from hyperplace.files.idx import read_idx
from hyperplace.files.profile import graph_mark, parse_profile, profile_text
from hyperplace.files.program import parse_program
from hyperplace.files.timeline import parse_timeline, read_timeline, timeline_text, trace_text
from hyperplace.files.vector import parse_vector, vector_text
from hyperplace.files.write import read_text
from hyperplace.planning import checked_profile
from hyperplace.runtime import RunSettings, Trainer, Training, load_checkpoint, runnable, save_checkpoint
from hyperplace.runtime.checkpoints.state import read_state
from hyperplace.steps.build import build
from hyperplace.steps.emit import emit
from hyperplace.steps.profile.work import count_flops
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import dry_run, predict
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.partition import Partition
from hyperplace.values.profile import LayerCost, Profile, Timing, Work
from hyperplace.values.timeline import Event, Timeline

Files = dict[str, bytes]  # by name


@dataclass(frozen=True)
class Kind:
    """Right files, each a folder of some, and the check of a changed one: its folder, and which it was made of."""

    examples: Callable[[], list[Files]]
    check: Callable[[Path, int], str]
    mutant: Callable[..., str] | None = None  # of the text, where the suffix does not say all


def right_if(is_right, what="it does not read back as written"):
    return "right" if is_right else f"WRONG: {what}"


def plan_files():
    return [{"plan.json": case(number)[2].encode()} for number in range(len(CASES))]


def check_plan(folder, example):
    found = plan_outcome(example, read_text(folder / "plan.json"))
    return "right" if found in ("the same plan", "equal") else found


def profile_files():
    graph = graph_of("chain", "exact")
    work = Work(1.5, 2.5, 0.25)
    timing = Timing(4, 3, work, work, 0.5, work, Work(), work, 0.1)
    layers = tuple(LayerCost(layer.name, work * 2, work, work, timing, "é") for layer in graph.layers)
    measured = Profile("measured", "us", graph.rows, layers, "a machine", graph_mark(graph))
    return [{"profile.json": profile_text(one).encode()} for one in (count_flops(graph, graph.rows), measured)]


def check_profile(folder, example):
    graph = graph_of("chain", "exact")
    found = parse_profile(read_text(folder / "profile.json"), "profile.json")
    if parse_profile(profile_text(found), "again") != found:
        return right_if(False)
    fitting = checked_profile(found, graph, graph.rows, "profile.json")
    for grain in ("coarse", "fine", "hybrid"):
        h = build(graph, fitting, grain=grain, blocks=2, row_blocks=2)
        if (h.weights < 0).any():
            return f"WRONG: a {grain} vertex of negative weight"
    return "right"


def cluster_files():
    hosts = (
        Host(
            "a",
            (Device("cpu", 1.0, 2**34), Device("gpu", 8.0, None, 1e12, 1e-12)),
            1e9,
            1e9,
            latency_s=1e-4,
            send_s_per_byte=1e-10,
            receive_s_per_byte=1e-10,
            message_s=1e-5,
            queue_s=1e-3,
            inside_rate=12e9,
            inside_latency_s=1e-6,
        ),
        Host('b "c"', (Device(),), 125e6, 125e6),
    )
    written = cluster_text(Cluster(hosts)).encode()
    by_hand = b'[[hosts]]\nname = "a"\nrate = "1gbit"\nlatency_s = 1e-4\n[[hosts.devices]]\nmemory_bytes = "16gib"\n'
    return [{"cluster.toml": written}, {"cluster.toml": by_hand + by_hand.replace(b'"a"', b'"b"')}]


def short_files():
    return [{"cluster.short": text} for text in (b"4x1@1gbit", b"2x4@10gbit,pcie,0.1ms", b"1x2", b"2x1@100mbit,nvlink")]


@cache
def small_program():
    """Return a program of two parts, with its schedule."""
    program = replace(compiled(graph_of("chain", "exact"), case(0)[1]).program, unit="us")
    return program, schedule(program, 2, is_sync=False, clips=False, cluster=None)


def check_cluster(folder, example):
    return _check_cluster(load_cluster(folder / "cluster.toml"))


def check_short(folder, example):
    text = (folder / "cluster.short").read_bytes().decode(errors="surrogateescape")
    return _check_cluster(load_cluster(text))


def _check_cluster(found):
    (folder := Path("again.toml")).write_text(cluster_text(found))
    if load_cluster(folder) != found:
        return right_if(False)
    program, order = small_program()
    found.check_parts(len(program.parts))
    seconds = predict(program, order, found).seconds
    return right_if(math.isfinite(seconds) and seconds >= 0, f"a mini-batch takes {seconds} s")


def _timeline():
    kinds = (
        ("forward", "a .. b", 0.0, 2.5),
        ("loss", "loss", 2.5, 3.0),
        ("backward", "é", 3.0, 7.25),
        ("wait", "", 7.25, 8.0),
    )
    events = [
        Event(part, kind, name, batch, 100 * batch + start, 100 * batch + end)
        for part in range(2)
        for batch in range(3)
        for kind, name, start, end in kinds
    ]
    return Timeline(2, tuple(events))


def timeline_files():
    return [{"timeline.json": timeline_text(_timeline()).encode()}, {"timeline.json": trace_text(_timeline()).encode()}]


def check_timeline(folder, example):
    found = read_timeline(folder / "timeline.json")
    figures = (found.span_us, *found.busy_us, *found.waiting_us, *found.idle_us, *found.bubble)
    repr(found), trace_text(found)
    if not all(math.isfinite(figure) and figure >= 0 for figure in figures):
        return f"WRONG: {figures[:5]}"
    return right_if(parse_timeline(timeline_text(found), "again") == found)


def patoh_files():
    return [{"h.patoh": patoh_text(thesis_sample()).encode()}, {"h.patoh": b"1 3 2 4 0\n1 2\n2 3\n"}]


def hmetis_files():
    return [{"h.hgr": hmetis_text(thesis_sample()).encode()}, {"h.hgr": b"2 3\n1 2\n2 3\n"}]


def check_hypergraph(folder, example):
    path = next(folder.iterdir())
    found = read_hypergraph(path)
    kind = {".patoh": "patoh", ".hgr": "hmetis"}[path.suffix]
    if found.pins.tolist() != _pins_of(read_text(path), kind):
        return "WRONG: not the pins that are there"
    again = FORMATS[kind].parse(FORMATS[kind].text(found), "again")
    arrays = ("offsets", "pins", "weights", "costs")
    return right_if(all(np.array_equal(getattr(found, name), getattr(again, name)) for name in arrays))


def _pins_of(text, kind):
    """Read the pins as simply as can be, of a text that is right."""
    lines = [line for line in text.split("\n") if not line.strip().startswith("%")]
    while not lines[0].strip():
        del lines[0]
    header = [int(word) for word in lines[0].split()]
    if kind == "patoh":
        first, nets, has_costs = header[0], header[2], header[4] in (2, 3)
    else:
        first, nets, has_costs = 1, header[0], header[2:] in ([1], [11])
    return [int(word) - first for line in lines[1 : 1 + nets] for word in line.split()[has_costs:]]


NUM_VERTICES = 13


def vector_files():
    part_of = np.arange(NUM_VERTICES) % 3
    one_line = " ".join(map(str, part_of)).encode()
    return [{"vector.txt": vector_text(Partition(part_of, 3)).encode()}, {"vector.txt": one_line}]


def check_vector(folder, example):
    text = read_text(folder / "vector.txt")
    for num_parts in (None, 4):
        found = parse_vector(text, "vector.txt", NUM_VERTICES, num_parts)
        again = parse_vector(vector_text(found), "again", NUM_VERTICES, found.num_parts)
        if not np.array_equal(found.part_of, again.part_of) or not (found.part_of < found.num_parts).all():
            return right_if(False)
    return "right"


def idx_files():
    images = b"\0\0\x08\x03" + struct.pack(">3I", 5, 4, 3) + bytes(range(60))
    floats = b"\0\0\x0d\x01" + struct.pack(">I", 6) + np.arange(6, dtype=">f4").tobytes()
    return [{"a.idx": images}, {"a.idx": gzip.compress(images, mtime=0)}, {"a.idx": floats}]


def check_idx(folder, example):
    content = (folder / "a.idx").read_bytes()
    found = read_idx(folder / "a.idx")
    plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    body = plain[4 + 4 * plain[3] :]
    return right_if(found.astype(found.dtype.newbyteorder(">")).tobytes() == body, "not the elements that are there")


@cache
def program_texts():
    """Return the programs of small plans, with the cases they are of."""
    numbers = range(0, len(CASES), 3)
    return {number: emit(compiled(graph_of(CASES[number][0], "exact"), case(number)[1]).program) for number in numbers}


def program_files():
    return [{"program.py": text.encode()} for text in program_texts().values()]


def check_program(folder, example):
    """Read it, run it dry, and where its code is as it was, run a step of it."""
    number, original = list(program_texts().items())[example]
    program = parse_program(read_text(folder / "program.py"), "program.py")
    text = emit(program)
    if parse_program(text, "again") != program:
        return right_if(False)
    for in_flight, is_sync in ((2, False), (1, True)):
        dry_run(program, schedule(program, in_flight, is_sync=is_sync, clips=False, cluster=None))
    return _run(CASES[number][0], program, text) if _code(program) <= _code(parse_program(original)) else "right"


def _code(program):
    segments = [segment for part in program.parts for segment in part.segments]
    return {(s.method.arguments, s.method.steps, s.method.results) for s in segments}


def _run(name, program, text):
    """An edited table may be of another computation: it must end, or be refused, and give back all tensors whole."""
    net, x, y, *_ = subject(name)
    training = Training(sgd)
    loss = torch.nn.functional.cross_entropy
    with Trainer(
        runnable(program, text), net.state_dict(), training=training, loss=loss, settings=RunSettings("async", 2)
    ) as trainer:
        trainer.step(x, y).item()
        after = trainer.state_dict()
    return right_if({n: t.shape for n, t in after.items()} == {n: t.shape for n, t in net.state_dict().items()})


(X, Y), *_ = batches(2)
_trainers: list[Trainer] = []


def adam_trainer():
    """Return a trainer with all that a checkpoint can hold; one for many files, as long as it lives."""
    if not _trainers:
        training = Training(
            lambda ps: torch.optim.Adam(ps, lr=0.05),
            scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3),
            average=torch.optim.swa_utils.AveragedModel,
        )
        settings = RunSettings(in_flight=1)
        _trainers.append(Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=squared, settings=settings))
        _trainers[0].step(X, Y).item()
    return _trainers[0]


@cache
def good_checkpoint():
    path = Path("good.pt").absolute()
    save_checkpoint(adam_trainer(), path, {"epoch": 1, "of": "é", "rows": [0.5, {"a": (1, 2)}], "t": torch.ones(2)})
    return path


def checkpoint_files():
    return [{"checkpoint.pt": good_checkpoint().read_bytes()}]


def shard_files():
    good_checkpoint()
    save_checkpoint(adam_trainer(), "shards", {"epoch": 1}, sharded=True)
    return [{path.name: path.read_bytes() for path in Path("shards").iterdir()}]


def check_checkpoint(folder, example):
    return _check_saved(folder / "checkpoint.pt")


def check_shards(folder, example):
    return _check_saved(folder)


def _check_saved(path):
    """Load it: all or nothing, the tensors that are in it, and training goes on; then have the good one back."""
    trainer = adam_trainer()
    try:
        load_checkpoint(trainer, good_checkpoint())
    except HyperplaceError as fault:
        _trainers.clear()
        return f"WRONG: after the file before, the good one is refused: {fault}"
    before = trainer.state_dict()
    try:
        load_checkpoint(trainer, path)
    except HyperplaceError:
        after = trainer.state_dict()
        if not all(torch.equal(after[name], before[name]) for name in before):
            return "WRONG: refused, but weights have changed"
        if fault := _cannot_go_on(trainer):
            return f"WRONG: refused, and then {fault}"
        raise
    if path.is_file() and not _same(trainer.state_dict(), _plainly_read(path)["model"]):
        return "WRONG: not the tensors that are there"
    fault = _cannot_go_on(trainer)
    return f"WRONG: believed, then {fault}" if fault else "right"


def _cannot_go_on(trainer):
    """Train a mini-batch more; where that fails, say why, and have another trainer for the next file."""
    try:
        trainer.step(X, Y).item()
        trainer.averaged_state_dict()
    except HyperplaceError as fault:
        trainer.close()
        _trainers.clear()
        return str(fault)
    return ""


def _plainly_read(path):
    """Read a file as torch does, wherever its tensors were when they were saved."""
    return torch.load(path, map_location="cpu", weights_only=True)


def _same(found, wanted):
    return all(torch.equal(one.nan_to_num(), wanted[name].to(one.dtype).nan_to_num()) for name, one in found.items())


def state_files():
    torch.save(state_of(ZIGZAG), "state.pt")
    return [{"state.pt": Path("state.pt").read_bytes()}]


def check_state(folder, example):
    trainer = adam_trainer()
    try:
        trainer.load_state_dict(read_state(folder / "state.pt"))
    except HyperplaceError:
        if fault := _cannot_go_on(trainer):
            return f"WRONG: refused, and then {fault}"
        raise
    same = _same(trainer.state_dict(), _plainly_read(folder / "state.pt"))
    return right_if(same, "not the tensors that are there")


KINDS = {
    "plan": Kind(plan_files, check_plan, plan_mutants.mutant),
    "profile": Kind(profile_files, check_profile),
    "cluster": Kind(cluster_files, check_cluster),
    "short form": Kind(short_files, check_short),
    "timeline": Kind(timeline_files, check_timeline),
    "patoh": Kind(patoh_files, check_hypergraph),
    "hmetis": Kind(hmetis_files, check_hypergraph),
    "vector": Kind(vector_files, check_vector),
    "idx": Kind(idx_files, check_idx),
    "program": Kind(program_files, check_program),
    "checkpoint": Kind(checkpoint_files, check_checkpoint),
    "shards": Kind(shard_files, check_shards),
    "state": Kind(state_files, check_state),
}
