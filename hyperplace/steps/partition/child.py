"""The script that runs in the partitioner's own process: one request file in, one answer file out.

It is started by path (see sandbox.py) and must not import hyperplace, whose `__init__` would load torch. The two
partitioners are imported here and nowhere else. Their words (node, hyperedge, block) stop here too.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

EXIT_MISSING_LIBRARY = 69  # EX_UNAVAILABLE of sysexits.h; neither partitioner uses it

Request = Mapping[str, Any]  # the arrays of sandbox.Question, by name


def main(request_path: str, answer_path: str) -> int:
    with np.load(request_path, allow_pickle=False) as request:
        solve = SOLVERS[str(request["solver"])]
        try:
            answers = solve(dict(request), os.path.dirname(request_path))
        except ImportError as fault:
            print(fault, file=sys.stderr)
            return EXIT_MISSING_LIBRARY
    with open(answer_path + ".tmp", "wb") as file:
        np.savez(file, part_of=answers)
    os.replace(answer_path + ".tmp", answer_path)
    return 0


def kahypar(request: Request, folder: str) -> np.ndarray[Any, Any]:
    """Return one row per seed. Nothing is reused: a used Context asks on stdin, a used Hypergraph adds up weights."""
    import kahypar as library

    num_nodes, num_blocks = len(request["weights"]), int(request["num_parts"])
    offsets, pins, costs, weights = (request[name].tolist() for name in ("offsets", "pins", "costs", "weights"))
    ini_path = os.path.join(folder, "kahypar.ini")
    rows = []
    for seed, configuration in zip(request["seeds"].tolist(), request["configurations"].tolist(), strict=True):
        with open(ini_path, "w") as file:
            file.write(configuration)
        hypergraph = library.Hypergraph(num_nodes, len(costs), offsets, pins, num_blocks, costs, weights)
        context = library.Context()
        context.loadINIconfiguration(ini_path)
        context.setK(num_blocks)
        context.setEpsilon(float(request["epsilon"]))
        if len(request["limits"]):
            context.setCustomTargetBlockWeights(request["limits"].tolist())
        context.setSeed(seed)
        context.suppressOutput(True)
        library.partition(hypergraph, context)
        rows.append([hypergraph.blockID(node) for node in range(num_nodes)])
    return np.array(rows, np.int64)


def mtkahypar(request: Request, _folder: str) -> np.ndarray[Any, Any]:
    """Return one row per seed."""
    rows = [hypergraph.partition(context).get_partition() for hypergraph, context in _hypergraphs(request, "DEFAULT")]
    return np.array(rows, np.int64)


def vcycle(request: Request, _folder: str) -> np.ndarray[Any, Any]:
    """Return every start after one V-cycle; more than one found nothing further."""
    rows = []
    for start, (hypergraph, context) in zip(
        request["starts"].tolist(), _hypergraphs(request, "DETERMINISTIC_QUALITY"), strict=True
    ):
        # By position: the names of the first two parameters are exchanged in the library's own signature.
        partitioned = hypergraph.create_partitioned_hypergraph(context, int(request["num_parts"]), start)
        partitioned.improve_partition(context, 1)
        rows.append(partitioned.get_partition())
    return np.array(rows, np.int64)


def _hypergraphs(request: Request, preset: str) -> Iterator[tuple[Any, Any]]:
    """Yield Mt-KaHyPar's hypergraph and context, anew for every seed."""
    import mtkahypar as library

    num_nodes, num_blocks = len(request["weights"]), int(request["num_parts"])
    nets = [net.tolist() for net in np.split(request["pins"], request["offsets"][1:-1])]
    costs, weights = request["costs"].tolist(), request["weights"].tolist()
    runtime = library.initialize(int(request["num_threads"]))
    for seed in request["seeds"].tolist():
        library.set_seed(seed)
        context = runtime.context_from_preset(getattr(library.PresetType, preset))
        context.set_partitioning_parameters(num_blocks, float(request["epsilon"]), library.Objective.KM1)
        if len(request["limits"]):
            context.set_individual_target_block_weights(request["limits"].tolist())
        context.logging = False
        yield runtime.create_hypergraph(context, num_nodes, len(costs), nets, weights, costs), context


SOLVERS: dict[str, Callable[[Request, str], np.ndarray[Any, Any]]] = {
    "kahypar": kahypar,
    "mtkahypar": mtkahypar,
    "vcycle": vcycle,
}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
