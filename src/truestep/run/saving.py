"""When a run is saved, and how it goes on from what was saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from truestep.checkpoint import Checkpoints, Restored
from truestep.errors import CheckpointError, UsageError
from truestep.run.clocks import Clocks, resumed
from truestep.run.heartbeat import Heartbeat, last_beat
from truestep.run.record import Evaluation, ToTarget
from truestep.run.sampling import Position
from truestep.run.state import Run

SCHEMA = 1
HEARTBEAT = "clocks.json"


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Where and how often a run is saved: always between two attempts, at each evaluation and at its end.

    Raises:
        UsageError: a number that cannot be.
    """

    folder: Path
    """For nothing but the checkpoints of one run."""
    keep_last: int = 2
    """The best by quality is kept besides."""
    every_attempts: int | None = None
    """Save after each so many attempts too; None: at evaluations alone."""

    def __post_init__(self) -> None:
        """Validate once."""
        for name in ("keep_last", "every_attempts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}", hint=f"{name} is 1 or more", field=name, value=value)


class Saver:
    """Saves a run that is built, and puts it where its last checkpoint left it.

    Raises:
        CheckpointError: the folder cannot be used, or, without `resume`, is another run's.
    """

    def __init__(self, saving: Saving, run: Run, *, resume: bool) -> None:
        if run.settings.fault is not None:
            hint = "run it without checkpoints"
            raise UsageError("a demonstration fault's run is not saved: its GradScaler is no part of a checkpoint", hint=hint)
        self._saving, self._run = saving, run
        self._checkpoints = Checkpoints(saving.folder, keep_last=saving.keep_last, quality_better=run.ready.plan.quality_better)
        self._saved_at = 0  # before the first attempt there is nothing to save
        if not resume and any(saving.folder.glob("attempt-*")):
            raise CheckpointError(
                f"{saving.folder} holds checkpoints already",
                hint="resume the run, or give another folder",
                path=str(saving.folder),
            )
        self._checkpoints.reserve()
        self._earlier = last_beat(saving.folder / HEARTBEAT) if resume else (Clocks(), 0.0)
        self._heartbeat = Heartbeat(saving.folder / HEARTBEAT)

    def restore(self) -> Restored | None:
        """The run goes on from its newest whole checkpoint; None, and from the beginning, where there is none."""
        state = _State(self._run)
        try:
            restored = self._checkpoints.restore(self._run.ready.update, run=state)
        except CheckpointError as error:
            if isinstance(error.__cause__, CheckpointError):  # our own part's, which says more than that it was refused
                raise error.__cause__ from None
            raise
        last, self._run.earlier_cpu_seconds = self._earlier
        self._run.go_on(resumed(state.clocks, last))
        self._saved_at = 0 if restored is None else restored.attempts
        return restored

    def after_attempt(self, *, evaluated: bool) -> None:
        """Save where it is due, and note the clocks."""
        every, attempts = self._saving.every_attempts, self._run.ready.update.counts.attempts
        if self._run.status != "diverged" and (evaluated or (every is not None and attempts % every == 0)):
            self._save(quality=self._run.evaluations[-1].quality if evaluated else None)
        self._beat()

    def finish(self) -> None:
        """Save a run whose end leaves a model: what it made of its budget, or what it can go on from.

        One that failed can where it stands between two attempts, as the caller makes sure.
        """
        attempts = self._run.ready.update.counts.attempts
        if self._run.status not in ("diverged", "stalled") and self._saved_at != attempts:
            self._save(quality=None)
        self._beat()

    def _save(self, *, quality: float | None) -> None:
        before = self._run.watch.turn("checkpoint")
        self._checkpoints.save(self._run.ready.update, quality=quality, run=_State(self._run))
        self._saved_at = self._run.ready.update.counts.attempts
        self._run.watch.turn(before)

    def _beat(self) -> None:
        self._heartbeat.beat(self._run.watch.read(), self._run.cpu_seconds())


class _State:
    """A run's own state, beside that of its update: what a checkpoint holds of it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.clocks = Clocks()
        """Those of the state that was loaded."""

    def state_dict(self) -> dict[str, Any]:
        """Plain values."""
        run = self._run
        return {
            "schema": SCHEMA,
            "identity": _identity(run),
            "position": asdict(run.feed.position),
            "microbatches": run.feed.microbatches,
            "examples_seen": run.examples_seen,
            "evaluations": [asdict(each) for each in run.evaluations],
            "to_target": None if run.to_target is None else asdict(run.to_target),
            "notes": list(run.notes),
            "clocks": asdict(run.watch.read()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put the run there; CheckpointError for that of another run."""
        run = self._run
        if state["schema"] != SCHEMA:
            hint = "resume with the version of truestep that saved it"
            raise CheckpointError(f"a run's state of schema {state['schema']}, and {SCHEMA} is read here", hint=hint)
        ours = _identity(run)
        for name, theirs in state["identity"].items():
            if ours[name] != theirs:
                raise CheckpointError(
                    f"the checkpoint belongs to another run: its {name} is {theirs}, and here it is {ours[name]}",
                    hint="resume with the task and the settings that the run began with, or begin anew in another folder",
                    field=name,
                )
        run.feed.go_to(Position(**state["position"]), microbatches=state["microbatches"])
        run.examples_seen = state["examples_seen"]
        run.evaluations = [Evaluation(**each) for each in state["evaluations"]]
        run.to_target = None if state["to_target"] is None else ToTarget(**state["to_target"])
        run.notes = list(state["notes"])
        self.clocks = Clocks(**state["clocks"])


def _identity(run: Run) -> dict[str, Any]:
    """What a run that goes on has in common with the one that was saved."""
    return {
        "task": run.task.name,
        "seed": run.seed,
        "policy": run.policy.name,
        **{name: repr(getattr(run.settings, name)) for name in _SETTINGS},
        **asdict(run.ready.plan),
        "data": run.ready.data_digest,
        "initial weights": run.ready.initial_digest,
    }


_SETTINGS = (
    "scale",
    "clip",
    "clock",
    "optimizer",
    "fault",
    "budget_seconds",
    "stop_at_target",
    "max_consecutive_skips",
    "threads",
)
"""The settings that the plan does not hold, and that decide on bits or on the end."""
