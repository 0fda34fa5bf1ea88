"""Train a small CNN on Fashion-MNIST over two emulated hosts, and on threads: the same losses and accuracy.

    python results/smallcnn-hosts/train.py [IMAGES] > results/smallcnn-hosts/table.md

Needs root and iproute2 (emulated hosts), and the data (Debian's dataset-fashion-mnist). Start-up is from the call of
torchrun to the first loss in the first host's event file, which is written twice a second.
"""

import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hyperplace.bench.netns import Card, hosts

PORT = 29500
SHOWN = ("train_loss", "test_accuracy")
HEAD_BYTES = 64  # an event file that has more than its head has a loss in it


def trained(plan: Path, out: Path, images: int) -> list[str]:
    """Return the arguments of hyperplace that train the plan."""
    return [
        *("train", str(plan), "--data", "fashion-mnist", "--images", str(images), "--epochs", "1"),
        *("--out", str(out), "--tensorboard", str(out / "events")),
    ]


def on_hosts(plan: Path, out: Path, images: int) -> float:
    """Train on two hosts; return the seconds to the first event."""
    begin = time.time()
    with hosts(2, Card.parse("1gbit", None)) as made:
        started = [
            subprocess.Popen(
                [
                    *(*host.enter, "env", f"GLOO_SOCKET_IFNAME={host.interface}", "OMP_NUM_THREADS=1"),
                    *("taskset", "-c", str(number), sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"),
                    *("--node-rank", str(number), "--nproc-per-node", "1", "--master-addr", made[0].address),
                    *("--master-port", str(PORT), "-m", "hyperplace", *trained(plan, out, images)),
                ],
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            for number, host in enumerate(made)
        ]
        while not has_loss(out / "events") and all(one.poll() is None for one in started):
            time.sleep(0.05)
        first = time.time()
        codes = [one.wait(1200) for one in started]
    if any(codes):
        sys.exit(f"exit codes {codes}")
    return first - begin


def has_loss(events: Path) -> bool:
    return any(file.stat().st_size > HEAD_BYTES for file in events.glob("*"))


def row_of(out: Path) -> dict[str, str]:
    *_, last = csv.DictReader((out / "history.csv").open())
    return last


def main() -> None:
    images = int(sys.argv[1]) if len(sys.argv) > 1 else 60000
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        cli = [sys.executable, "-m", "hyperplace"]
        subprocess.run([*cli, "partition", "smallcnn", "--k", "2", "--out", base / "plan"], check=True, stdout=2)
        plan = base / "plan" / "plan.json"
        start_s = on_hosts(plan, base / "hosts", images)
        subprocess.run([*cli, *trained(plan, base / "threads", images)], check=True, stdout=2)
        rows = {where: row_of(base / where) for where in ("hosts", "threads")}
    names = [name for name in rows["hosts"] if name in SHOWN]
    print(f"```sh\npython results/smallcnn-hosts/train.py {images}\n```\n")
    print(f"smallcnn, {images} images of Fashion-MNIST, one epoch, two emulated hosts at 1 Gbit/s, a core each.")
    print(f"Start-up to the first finished mini-batch: {start_s:.1f} s.\n")
    print(f"| where | {' | '.join(names)} |\n| --- |{' ---: |' * len(names)}")
    for where, row in rows.items():
        print(f"| {where} | {' | '.join(row[name] for name in names)} |")


if __name__ == "__main__":
    main()
