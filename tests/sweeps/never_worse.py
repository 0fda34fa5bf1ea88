"""Hold `auto` against every partitioner it could have been: run by hand, for it takes hours (`make sweep-never-worse`).

Every model of the zoo at every k from 2 to 32, coarse, flops, batch 32, imbalance 0.1, fully connected layers whole:
KaHyPar and Mt-KaHyPar with five seeds each, and every baseline. Above k = 4, `auto` gets less than a user gives it: 2 s
instead of 20, which leave it one seed of each search and no exact program, and the first round of restarts of the local
search; all of them only where that is a loss, for they go on from there. Models with equal hypergraphs (VGG with and
without batch norms) are searched once. A line is written per case as it finishes, a case that is there already is not
run again, and a loss ends in exit code 1.

    python tests/sweeps/never_worse.py results/never-worse.csv [model ...]
"""

import sys
import time
from functools import partial
from pathlib import Path

import pytest
from sweep_rows import append_row, read_rows

from hyperplace.errors import HyperplaceError
from hyperplace.models import ZOO, load_model
from hyperplace.search import Watch, hypergraph_of, search
from hyperplace.steps.build import build
from hyperplace.steps.capture import capture
from hyperplace.steps.partition import partition
from hyperplace.steps.profile.work import count_flops
from hyperplace.steps.symmetric import local
from hyperplace.values.layout import partition_of
from hyperplace.values.partition import is_feasible, volume_bytes, work_per_part
from hyperplace.values.plan import Settings

COLUMNS = ("model", "k", "auto_mib", "found_by", "auto_s", "kahypar_mib", "mtkahypar_mib", "baseline_mib", "verdict")
BASELINES = ("layerwise", "horizontal", "incremental")
SEEDS = range(5)
PARTS = range(2, 33)
MIB = 2**20


def main(path, names):
    rows = {(row["model"], int(row["k"])): row for row in read_rows(path)}
    models, firsts = {name: prepared(name) for name in names}, {}
    twins = {name: firsts.setdefault(_arrays(model[0]), name) for name, model in models.items()}
    for k in PARTS:
        for name, model in models.items():
            if (name, k) not in rows:
                twin = rows.get((twins[name], k))
                rows[name, k] = {**twin, "model": name} if twin else case(name, *model, k)
                append_row(path, rows[name, k])
    return int(any(row["verdict"] == "LOSS" for row in rows.values()))


def prepared(name):
    """Return the hypergraph, the graph and the costs of a model."""
    loaded = load_model(name)
    graph = capture(loaded.module, loaded.sample)
    profile = count_flops(graph, 32)
    return build(graph, profile, grain="coarse", blocks=64, fc="whole"), graph, profile


def _arrays(hypergraph):
    return tuple(getattr(hypergraph, name).tobytes() for name in ("offsets", "pins", "weights", "costs"))


def case(name, hypergraph, graph, profile, k):
    """Return the row of one model and k."""
    best = {
        "kahypar": _best(hypergraph, k, "kahypar", SEEDS),
        "mtkahypar": _best(hypergraph, k, "mtkahypar", SEEDS),
        "baseline": min(_best(hypergraph, k, baseline, (0,)) for baseline in BASELINES),
    }
    settings = Settings(
        model=name,
        k=k,
        imbalance=0.1,
        grain="coarse",
        partitioner="auto",
        costs="flops",
        batch=32,
        blocks=64,
        fc="whole",
    )
    start = time.perf_counter()
    if k <= 4:
        auto, found_by = _auto(graph, profile, settings, 20)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local, "search", partial(local.search, num_restarts=local.ROUNDS[0][0]))
            auto, found_by = _auto(graph, profile, settings, 2)
        if auto > min(best.values()):
            auto, found_by = _auto(graph, profile, settings, 2)
    seconds = time.perf_counter() - start
    verdict = "LOSS" if auto > min(best.values()) * (1 + 1e-9) else "ok" if auto < float("inf") else "infeasible"
    figures = [f"{value:.3f}" for value in best.values()]
    return dict(zip(COLUMNS, (name, k, f"{auto:.3f}", found_by, f"{seconds:.1f}", *figures, verdict), strict=True))


def _auto(graph, profile, settings, time_limit_s):
    """Return the MiB of the placement that is found, and by whom."""
    try:
        layout = search(graph, profile, settings, Watch(time_limit_s))
    except HyperplaceError:
        return float("inf"), "nobody"
    hypergraph = hypergraph_of(graph, profile, layout, settings)
    found = partition_of(layout, hypergraph)
    is_balanced = is_feasible(work_per_part(hypergraph, found), settings.imbalance)
    return volume_bytes(hypergraph, found) / MIB if is_balanced else float("inf"), found.found_by


def _best(hypergraph, k, name, seeds):
    """Return the least MiB of balanced partitions over some seeds."""
    volumes = [float("inf")]
    for seed in seeds:
        try:
            found = partition(hypergraph, k, 0.1, partitioner=name, seed=seed)
        except HyperplaceError:
            continue
        if is_feasible(work_per_part(hypergraph, found), 0.1):
            volumes.append(volume_bytes(hypergraph, found) / MIB)
    return min(volumes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or list(ZOO)))
