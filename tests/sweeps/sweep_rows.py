"""The rows of a sweep in a CSV file, written one by one so that a stopped sweep goes on where it was."""

import csv


def read_rows(path):
    """Return the rows so far."""
    return list(csv.DictReader(path.open())) if path.exists() else []


def append_row(path, row):
    """Add a row, after the names of the columns if it is the first."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        if is_new:
            writer.writeheader()
        writer.writerow(row)
    print(*row.values(), flush=True)
