"""Write docs/models.md: what becomes of every habit, found by running all of them in all ways (a quarter of an hour).

Given names, only their lines are made anew. Exit code 1 if anything is wrong or an exception.

    python tests/corpus/table.py [--faults FILE] [NAME ...]

With --faults they are also written to a file, habit by habit with the ways they came in.
"""

import argparse
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from habit import BATCH
from habits import HABITS, THEMES
from harness import Subject
from verdicts import Outcome
from ways import WAYS, Way

PATH = Path(__file__).parents[2] / "docs" / "models.md"
COLUMNS = ("async", "sync", "async, other rows", "sync, other rows", "2 micro-batches")
GRAINS = ("coarse", "fine", "hybrid")
Outcomes = Mapping[Way, Outcome]
HEAD = f"""# What trains, and what is refused

Every line is a small model with one habit, in `tests/corpus/habits_<theme>.py`. Each is trained three steps in float64
on coarse, fine and hybrid plans of 2 and 3 parts, planned for {BATCH} rows from samples of {BATCH}, 2 and 1, run with
{BATCH} and with 4, 9 and 1, and compared with plain torch: losses, the whole state dict, predictions.

- **equal**: as plain torch, within round-off.
- **refused**: a `HyperplaceError` before anything is trained; the last column has its first words.
- **varies**: some plans or numbers of rows are equal, others refused.
- **torch fails**: plain torch raises as well. **trains**: plain torch raises (an assert on the rows, nothing to train)
  and hyperplace does not.
- **-**: rows depend on each other, so that micro-batches are by their nature another model.

Where a word holds for some grains only, they are named. This file is written by `python tests/corpus/table.py` and kept
true by `tests/corpus/test_table.py`.
"""


def main(arguments: list[str]) -> int:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    names = options.names or list(HABITS)
    found = {}
    for number, name in enumerate(names, 1):
        found[name] = outcomes(Subject(HABITS[name]), WAYS)
        print(f"{number}/{len(names)} {name}: {summary(found[name])}", file=sys.stderr, flush=True)
    before = lines_of(PATH.read_text()) if PATH.exists() else {}
    PATH.write_text(text(before | {name: line(name, each) for name, each in found.items()}))
    if options.faults:
        options.faults.write_text(faults_text(found))
    return int(any(one.is_fault for each in found.values() for one in each.values()))


def outcomes(subject: Subject, ways: Iterable[Way]) -> dict[Way, Outcome]:
    return {way: subject.outcome(way) for way in ways}


def text(lines: Mapping[str, str]) -> str:
    """Return the whole page from the lines of the habits."""
    pieces = [HEAD]
    for theme in THEMES:
        pieces.append(f"\n## {theme.__doc__.splitlines()[0].rstrip('.')}\n")
        pieces.append(f"| habit | {' | '.join(COLUMNS)} | why refused |")
        pieces.append("| --- " * (len(COLUMNS) + 2) + "|")
        own = theme.__name__.removeprefix("habits_")
        pieces += [lines[name] for name, habit in HABITS.items() if habit.theme == own and name in lines]
    return "\n".join(pieces) + "\n"


def lines_of(page: str) -> dict[str, str]:
    """Return the lines of a page by their habits."""
    lines = {row.strip("| ").partition(" | ")[0]: row for row in page.splitlines() if row.startswith("| ")}
    return {name: row for name, row in lines.items() if name in HABITS}


def line(name: str, each: Outcomes) -> str:
    """Return a habit's row."""
    cells = [cell({way: one for way, one in each.items() if column(way) == title}) for title in COLUMNS]
    why = next((one.detail for one in each.values() if one.kind == "refused"), "")
    return f"| {name} | {' | '.join(cells)} | {first_words(why)} |"


def column(way: Way) -> str:
    """Return the title of the column a way belongs to."""
    if way.micro_batches:
        return COLUMNS[4]
    return way.schedule if way.rows == BATCH else f"{way.schedule}, other rows"


def cell(each: Outcomes) -> str:
    """Return one word for all grains, or a word with the grains it holds for."""
    words = {grain: word(one for way, one in each.items() if way.grain == grain) for grain in GRAINS}
    if len(set(words.values())) == 1:
        return words["coarse"]
    kinds = dict.fromkeys(words.values())
    return "; ".join(f"{kind} ({', '.join(g for g in GRAINS if words[g] == kind)})" for kind in kinds)


FAULT = "FAULT"
SPOKEN = {"plain": "torch fails", "lax": "trains", "not asked": "-"}


def word(several: Iterable[Outcome]) -> str:
    """Return what holds for several outcomes; what plain torch cannot run counts only where nothing else does."""
    several = list(several)
    if any(one.is_fault for one in several):
        return FAULT
    kinds = {one.kind for one in several}
    for weak in ("not asked", "plain", "lax"):
        if len(kinds) > 1:
            kinds.discard(weak)
    kind = "varies" if len(kinds) > 1 else kinds.pop()
    return SPOKEN.get(kind, kind)


def first_words(message: str, limit: int = 70) -> str:
    """Return the beginning of a message, cut at a space."""
    short = message if len(message) <= limit else message[:limit].rpartition(" ")[0] + " ..."
    return short.replace("|", "\\|")


def expected(page: str) -> dict[str, dict[tuple[str, str], str]]:
    """Return what a page says: of every habit, by column and grain, the word."""
    found = {}
    for name, row in lines_of(page).items():
        cells = [part.strip() for part in row.strip("|").split(" | ")][1:]
        found[name] = {
            (title, grain): _word_for(grain, cells[n]) for n, title in enumerate(COLUMNS) for grain in GRAINS
        }
    return found


def _word_for(grain: str, cell: str) -> str:
    """Return the word of a cell that holds for a grain."""
    for clause in cell.split("; "):
        said, _, grains = clause.partition(" (")
        if not grains or grain in grains.rstrip(")").split(", "):
            return said
    raise ValueError(f"the cell {cell!r} says nothing of {grain}")


def allows(said: str, outcome: Outcome) -> bool:
    """Whether an outcome is what a word of the table says."""
    if outcome.kind in ("not asked", "plain", "lax"):
        return True  # plain torch decided this one; what hyperplace made of it is told by the other ways
    return said == outcome.kind or (said == "varies" and not outcome.is_fault)


def summary(each: Outcomes) -> str:
    """Return how often each kind came out."""
    kinds = [one.kind for one in each.values()]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def faults_text(found: Mapping[str, Outcomes]) -> str:
    """Return the faults, habit by habit: each kind of message once, with the ways it came in."""
    faulty = {name: each for name, each in found.items() if any(one.is_fault for one in each.values())}
    lax = {
        name: next(str(o) for o in each.values() if o.kind == "lax") for name, each in found.items() if _is_lax(each)
    }
    lines = [f"# {len(faulty)} of {len(found)} habits have faults\n"]
    for name, each in faulty.items():
        lines.append(f"## {HABITS[name].theme}: {name} ({summary(each)})")
        lines += [f"- {one}" for one in _merged(each)]
    lines += [f"\n# {len(lax)} habits train where plain torch raises\n", *(f"- {n}: {one}" for n, one in lax.items())]
    return "\n".join(lines) + "\n"


def _is_lax(each: Outcomes) -> bool:
    return any(one.kind == "lax" for one in each.values())


def _merged(each: Outcomes) -> list[str]:
    """Return each kind of fault with the ways it came in, the ways by schedule and rows."""
    ways: dict[str, list[Way]] = {}
    shown: dict[str, str] = {}
    for way, one in each.items():
        if one.is_fault:
            key = "".join(c for c in str(one) if not c.isdigit())[:60]
            shown.setdefault(key, str(one))
            ways.setdefault(key, []).append(way)
    return [f"{shown[key][:300]}\n  in {len(those)}: {_ways_text(those)}" for key, those in ways.items()]


def _ways_text(ways: list[Way]) -> str:
    """Return ways in short: per plan, the schedules and their rows."""
    plans: dict[str, dict[str, list[str]]] = {}
    for way in ways:
        run = way.schedule + (f"/{way.micro_batches}" if way.micro_batches else "")
        plans.setdefault(way.plan, {}).setdefault(run, []).append(str(way.rows))
    runs = {
        plan: ", ".join(f"{run} rows {'/'.join(rows)}" for run, rows in each.items()) for plan, each in plans.items()
    }
    same = dict.fromkeys(runs.values())
    return "; ".join(f"[{', '.join(plan for plan in runs if runs[plan] == one)}] {one}" for one in same)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
