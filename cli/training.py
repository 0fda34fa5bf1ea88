"""What `hyperplace train` does once its options are read: plan, train, write, say."""

import json as json_text
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hyperplace.errors import FileError, HyperplaceError, NotNeeded, UsageError

from .folder import check_folder, check_free, write_document
from .planned import PlanWish, Subject, make_plan
from .terminal import INTERRUPTED, EpochBar, say
from .watching import Watching

if TYPE_CHECKING:
    from hyperplace.training import Flow, Outcome, Sets, Snapshot, TrainSettings
    from hyperplace.values.history import HistoryRow
    from hyperplace.values.plan import Plan, Settings
    from hyperplace.values.timeline import Timeline

CHECKPOINT, PLAN, TRACE = "checkpoint.pt", "plan.json", "trace.json"


@dataclass
class Role:
    """What a process does beside training; where the first one was lost, another becomes the first."""

    is_first: bool


@dataclass(frozen=True)
class TrainingRun:
    """All that a run needs, found and checked."""

    subject: Subject
    plan: "Plan"
    settings: "TrainSettings"
    flow: "Flow"
    sets: "Sets"
    folder: Path
    resume: bool
    is_quiet: bool
    role: Role  # the first of the processes of the run writes the files, and speaks
    bar: EpochBar
    watch: Watching
    html: bool = False

    @property
    def is_first(self) -> bool:
        return self.role.is_first

    @classmethod
    def of(
        cls,
        subject: Subject,
        wish: PlanWish,
        settings: "TrainSettings",
        flow: "Flow",
        *,
        out: Path | None,
        resume: bool,
        is_quiet: bool,
        is_first: bool = True,
        watch: Watching,
        html: bool = False,
    ) -> "TrainingRun":
        """Check what can be checked before the search for a plan, then search; of several processes in the first."""
        from hyperplace.files.plan import parse_plan, plan_text
        from hyperplace.training import check_size, is_started, load_sets, plan_behind, shared_text

        loaded = subject.load()
        wanted = _plan_settings(loaded.name, wish, settings) if subject.plan is None else subject.plan.settings
        folder = out or Path("results") / f"{loaded.name}-k{wanted.k}-train"
        if is_first or flow.survive:
            check_folder(folder)
        if is_first:
            check_free(folder)
        flow.devices_for(wanted.k)
        if not flow.spare:
            check_size(wanted.k, flow.parts_per_process)
        sets = load_sets(settings, [tuple(x.shape[1:]) for x in loaded.sample])
        if is_first:
            _check_checkpoint(folder / CHECKPOINT, resume=resume)

        def found() -> "Plan":
            return (_saved_plan(folder, loaded, wish) if resume else None) or make_plan(loaded, wanted)

        if flow.spare:
            plan = parse_plan(plan_behind(flow.spare), "the plan of the run")
        elif subject.plan:
            plan = subject.plan
        elif is_started():
            plan = parse_plan(shared_text("plan", lambda: plan_text(found())), "the plan of rank 0")
        else:
            plan = found()
        role, bar = Role(is_first), EpochBar(is_shown=is_first)
        return cls(subject, plan, settings, flow, sets, folder, resume, is_quiet, role, bar, watch, html)

    def alone(self) -> None:
        """Train from one seed, with checkpoints."""
        from hyperplace.training import train

        try:
            outcome = train(
                self.subject.weighted(self.settings.seed).module,
                self.plan,
                self.settings,
                self.sets,
                flow=self.flow,
                checkpoint=self.folder / CHECKPOINT,
                resume=self.resume,
                on_ready=self._on_ready,
                on_step=self.bar.on_step,
                on_epoch=self._on_epoch,
                on_timeline=self._write_trace,
                on_change=self._on_change,
                on_reading=self.watch.on_reading if self.watch.wish.is_any else None,
            )
        except NotNeeded as reason:
            say(str(reason))
            return
        finally:
            self.bar.end()
        files = self._write_history(outcome.rows, with_figure=True) if outcome.rows else ()
        self._end(outcome, files)

    @property
    def _name(self) -> str:
        return f"{self.plan.settings.model} on {self.settings.data}, k={self.plan.settings.k}"

    def _on_ready(self) -> None:
        self._write_plan()
        if self.is_first:
            self._begin_watch()

    def _begin_watch(self) -> None:
        self.watch.open()
        self.watch.begin(f"{self._name}, {self.flow.schedule}", self.plan.settings.k)

    def _write_trace(self, timeline: "Timeline") -> None:
        from hyperplace.files.timeline import trace_text
        from hyperplace.files.write import write_text

        if self.is_first:
            write_text(self.folder / TRACE, trace_text(timeline))

    def _on_change(self, words: str, is_first: bool) -> None:
        """Say that a host was lost, and do what the first process does if this is it now."""
        self.bar.end()
        has_come = is_first and not self.is_first
        self.role.is_first = is_first
        if has_come:
            self._write_plan()
            try:
                self._begin_watch()
            except HyperplaceError as fault:  # such as a port that is not free here: no reason to end what was saved
                say(str(fault))
        if is_first:
            say(words)

    def beside_plain(self, seeds: Sequence[int]) -> None:
        """Train the split model and the plain loop by turns from several seeds."""
        from hyperplace.training import train_beside_plain

        try:
            rows = train_beside_plain(
                lambda seed: self.subject.weighted(seed).module,
                self.plan,
                self.settings,
                self.sets,
                flow=self.flow,
                seeds=seeds,
                on_step=self.bar.on_step,
                on_epoch=self._on_epoch,
            )
        except KeyboardInterrupt:
            say(f"interrupted; the epochs that were done, if any, are in {self.folder}/")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            self.bar.end()
        self._write_plan()
        files = self._write_history(rows, with_figure=True)
        if self.is_quiet:
            print(json_text.dumps(self._summary(rows)))
        say(f"written to {self.folder}/: {', '.join((PLAN, *files))}")

    def _write_history(self, rows: "Sequence[HistoryRow]", *, with_figure: bool = False) -> tuple[str, ...]:
        """Write the epochs that are done: after every epoch the tables, at the end the curve too."""
        if not self.is_first:
            return ()
        from hyperplace.report import history_document
        from hyperplace.values.history import History

        document = history_document(History(self._name, tuple(rows)))
        shown = document if with_figure else document.without_figures()
        return write_document(self.folder, "history", shown, html=self.html)

    def _write_plan(self) -> None:
        from hyperplace.api import save_plan

        if self.is_first:
            save_plan(self.plan, self.folder / PLAN)

    def _on_epoch(self, shown: "Snapshot", rows: "list[HistoryRow]") -> None:
        self.bar.end()
        if self.is_first and not self.is_quiet:
            print(f"{shown.method}  seed {shown.seed}  epoch {shown.epoch}/{shown.num_epochs}  {shown}", flush=True)
        self._write_history(rows)

    def _end(self, outcome: "Outcome", files: tuple[str, ...]) -> None:
        """Say what is where, and exit as a shell expects after Ctrl-C."""
        if self.is_first:
            for words in outcome.slow:
                say(f"slow: {words}")
        if self.is_first and self.is_quiet:
            print(json_text.dumps(self._summary(outcome.rows) | asdict(outcome)))
        done, checkpoint = len(outcome.rows), self.folder / CHECKPOINT
        how = "was interrupted" if outcome.is_interrupted else "has ended"
        self.watch.end = f"The run {how} after {done} epochs."
        if outcome.is_interrupted:
            if self.is_first:
                say(
                    f"interrupted after {done} epochs and {outcome.num_steps} mini-batches; saved in {checkpoint}: "
                    "the same command with --resume goes on"
                )
            raise typer.Exit(128 + (outcome.signal or signal.SIGINT))  # as a shell says it: 130 after Ctrl-C
        if self.is_first and not outcome.num_epochs:
            say(f"all {done} epochs were done before; give --epochs {done + 1} to go on")
        if self.is_first:
            say(f"written to {self.folder}/: {', '.join((PLAN, CHECKPOINT, *files))}")

    def _summary(self, rows: "Sequence[HistoryRow]") -> dict[str, Any]:
        planned = self.plan.settings
        settings = {name: value for name, value in self.settings.kept.items() if name != "seed"}
        return {
            "model": planned.model,
            "k": planned.k,
            "grain": planned.grain,
            "partitioner": planned.partitioner,
            **settings,
            **asdict(self.flow),
            "rows": [asdict(row) for row in rows],
            "folder": str(self.folder),
        }


def _plan_settings(name: str, wish: PlanWish, settings: "TrainSettings") -> "Settings":
    from hyperplace.values.plan import Settings

    usual = Settings(
        model=name,
        k=2,
        imbalance=0.1,
        grain="auto",
        partitioner="auto",
        costs="flops",
        batch=settings.batch,
        seed=settings.seed,
    )
    return wish.applied(usual)


def _check_checkpoint(path: Path, *, resume: bool) -> None:
    if resume and not path.exists():
        raise FileError(f"there is no {path} to go on from; leave --resume out, or give the --out it is in")
    if path.exists() and not resume:
        raise FileError(f"{path} is there already; go on from it with --resume, or choose another --out")


def _saved_plan(folder: Path, loaded: Any, wish: PlanWish) -> "Plan | None":
    """Return the plan the run was begun with, unless another one is asked for."""
    from hyperplace.api import load_plan

    if not (folder / PLAN).exists():
        return None
    plan = load_plan(folder / PLAN)
    if plan.settings.model != loaded.name or plan.inputs != tuple(tuple(x.shape[1:]) for x in loaded.sample):
        raise UsageError(f"{folder}/ holds a run of {plan.settings.model}, not of {loaded.name}; choose another --out")
    return plan if wish.applied(plan.settings) == plan.settings else None
