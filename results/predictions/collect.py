"""Predicted against measured: the rows of benches on hosts and on threads, their errors, and the order of methods.

Predictions are at the pace of each run, as its table has them: times what the plain loop took by what its layers had
taken alone. Benches from before that have them at the pace of their profiles.

python results/predictions/collect.py \\
    results/vgg16-{hosts,survive,four-hosts,unequal-hosts,unequal-links,bench}/bench.csv \\
    results/predictions/*/bench.csv > results/predictions/table.md
"""

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

ABOUT = """Predictions are at the pace of their own run, one turn per method where no spread is shown. What a message
waits in a card's queue and the pace of parts that take turns were added before these rows were measured, and after
others of the same models had been seen. So were what parts copy in memory and the pace of every host, but only for
the rows of vgg16-100mbit, -1gbit, -10gbit, -survive and -unequal-*, which are of another machine than the rest: the
errors of up to 22 % that were there before led to them. vgg16-unequal-links is a second run: in the first one two turns
of one method lay 24 % apart, and it was 19 % off. Benches of slower machines are left out but for threads
(`vgg16-bench`): their worst row was 27 % off, and with one disturbed probe data parallelism was three times too slow.
"""
APART = 1.10  # methods that differ by less are not put in order


@dataclass(frozen=True)
class Row:
    """Milliseconds of a mini-batch by one method, measured and predicted."""

    bench: str  # the folder of its results
    run: tuple[str, str]  # model, and where
    method: str
    schedule: str
    measured_ms: float
    spread: float
    predicted_ms: float

    @property
    def error(self) -> float:
        return self.predicted_ms / self.measured_ms - 1

    def __str__(self) -> str:
        figures = (
            f"{self.measured_ms:,.0f} | {100 * self.spread:.1f} | {self.predicted_ms:,.0f} | {100 * self.error:+.1f}"
        )
        return f"| {' | '.join((self.bench, *self.run, self.method, self.schedule))} | {figures} |"


def rows_of(path: Path) -> Iterator[Row]:
    """Yield the rows with a prediction."""
    for row in csv.DictReader(path.read_text().splitlines()):
        if row["predicted_us"] and row["median"] and row["schedule"] != "plain":
            yield Row(
                path.parent.name,
                (row["model"], row["network"] or "threads"),
                row["method"],
                row["schedule"],
                1e3 * int(row["batch"]) / float(row["median"]),
                float(row["spread"]),
                float(row.get("predicted_here_us") or row["predicted_us"]) / 1e3,
            )


def order(rows: list[Row]) -> tuple[int, int]:
    """Return of how many pairs of one run that are apart the prediction has the order right, and how many there are."""
    apart = [
        (one, other)
        for one, other in combinations(rows, 2)
        if one.bench == other.bench
        and max(one.measured_ms, other.measured_ms) > APART * min(one.measured_ms, other.measured_ms)
    ]
    right = sum((a.measured_ms < b.measured_ms) == (a.predicted_ms < b.predicted_ms) for a, b in apart)
    return right, len(apart)


def main(paths: list[str]) -> None:
    rows = [row for path in sorted(paths) for row in rows_of(Path(path))]
    print("```sh\npython results/predictions/collect.py", *sorted(paths), "\n```\n")
    print(ABOUT)
    print("| bench | model | where | method | schedule | measured ms | spread % | predicted ms | error % |")
    print("| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: |")
    print(*rows, sep="\n")
    errors, (right, apart) = [abs(row.error) for row in rows], order(rows)
    print(f"\n{len(rows)} rows: median error {100 * median(errors):.1f} %, worst {100 * max(errors):.1f} %.")
    print(f"Of pairs of one run that differ by more than 10 %, {right} of {apart} are predicted in the right order.")


if __name__ == "__main__":
    main(sys.argv[1:])
