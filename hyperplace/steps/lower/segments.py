"""Cut a part's steps into segments: runs that wait for nobody once they have started.

A segment ends before a step that needs a message not yet received, and after a step that sends, so that others wait
no longer than they must. All its messages are needed by its first step, so segments in the order of their first layers
depend only on earlier ones: every part can run its own in order, then backwards in reverse, without a deadlock.
"""

from dataclasses import dataclass

from hyperplace.steps.lower.steps import PartSteps, Stage, Step
from hyperplace.values.program import Message


@dataclass(frozen=True)
class Run:
    """The steps of one segment: what they take from outside, and what later segments and other parts get."""

    steps: tuple[Step, ...]
    takes: tuple[str, ...]
    keeps: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(sent.message for step in self.steps for sent in step.sends)


def cut(part: PartSteps) -> list[Run]:
    """Return the part's segments in order."""
    runs: list[list[Step]] = [[]]
    known: set[str] = set()
    for step in part.steps:
        news = {v for v in step.reads if v in part.received} - known
        if news and runs[-1]:
            runs.append([])
        known |= news
        runs[-1].append(step)
        if step.sends:
            runs.append([])
    runs = [run for run in runs if run]
    return [_segment(run, _read(runs[number + 1 :])) for number, run in enumerate(runs)]


def _read(runs: list[list[Step]]) -> set[str]:
    return {variable for run in runs for step in run for variable in step.reads}


def _segment(run: list[Step], read_later: set[str]) -> Run:
    made = {variable for step in run for variable in step.makes}
    reads = dict.fromkeys(variable for step in run for variable in step.reads if variable not in made)
    feeds = [variable for step in run if step.stage is Stage.INPUT for variable in step.makes]
    keeps = tuple(v for step in run for v in step.makes if v in read_later)
    return Run(tuple(run), (*feeds, *reads), keeps)
