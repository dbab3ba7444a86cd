"""A run between its attempts: how far it has come, what it has shown, and whether it is over."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from truestep.engine.counts import Counts
from truestep.engine.outcome import Outcome
from truestep.engine.policy import Policy
from truestep.engine.randomness import Drawn
from truestep.ledger import Alert, Ledger
from truestep.ledger.environment import environment
from truestep.run.building import Setup, weights_digest
from truestep.run.clocks import Clocks, Stopwatch
from truestep.run.evaluation import evaluate
from truestep.run.feed import Feed
from truestep.run.progress import Progress
from truestep.run.record import Evaluation, RunRecord, Status, ToTarget
from truestep.run.settings import Settings
from truestep.tasks import Task


class Run:
    """What `train` moves along. Its clocks begin with it."""

    def __init__(self, task: Task, settings: Settings, *, seed: int, device: torch.device, judged: bool = True) -> None:
        self.started, self.cpu_started = time.perf_counter(), time.process_time()
        self.watch = Stopwatch(synchronize=(lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None))
        self.task, self.settings, self.seed, self.device = task, settings, seed, device
        self.judged = judged
        """Whether the test split is touched at the end."""
        self.policy = Policy.named(settings.policy)
        self.environment = environment(device)
        self.setup: Setup | None = None
        self.is_open = False
        self.before: Drawn | None = None
        """The random state that an attempt which fails is taken back to; None where none is taken back."""
        self._feed: Feed | None = None
        self.earlier_seconds = self.earlier_cpu_seconds = 0.0
        self.ledger: str | None = None
        self.examples_seen = 0
        self.evaluations: list[Evaluation] = []
        self.to_target: ToTarget | None = None
        self.notes: list[str] = []
        self.test_quality: float | None = None
        self.status: Status | None = None
        self.detail: str | None = None
        self.hint: str | None = None

    @property
    def ready(self) -> Setup:
        """The setup, once it is built."""
        assert self.setup is not None
        return self.setup

    @property
    def feed(self) -> Feed:
        """The data, once the run is built."""
        if self._feed is None:
            plan = self.ready.plan
            self._feed = Feed(
                self.task, self.ready.splits.train, batch=plan.batch, microbatches=plan.microbatches, seed=self.seed
            )
        return self._feed

    def go_on(self, earlier: Clocks) -> None:
        """Count the seconds of earlier processes of this run."""
        self.watch.go_on(earlier)
        self.earlier_seconds = earlier.total

    def cpu_seconds(self) -> float:
        """CPU time of the run so far, earlier processes included."""
        return self.earlier_cpu_seconds + time.process_time() - self.cpu_started

    def keeping(
        self, path: Path | None, given: Path | None, protocol_hash: str | None, **more: Any
    ) -> Ledger | nullcontext[None]:
        """The ledger, begun or gone on in, or nothing; the record names it as it was `given`."""
        if path is None:
            return nullcontext()
        kept = Ledger(
            path,
            policy=self.policy.name,
            protocol_hash=protocol_hash,
            run_id=f"{self.settings.name} seed {self.seed}",
            **more,
            environment=self.environment,
        )
        self.ledger = str(given)
        return kept

    def can_take_back(self) -> bool:
        """Whether an exception fell in an attempt, and the update stands where the one before left it."""
        return self.before is not None and self.ready.update.plan.store.all_or_none.torn is None

    def take_back(self) -> None:
        """Undo what the attempt under way has drawn; the update has undone the rest."""
        assert self.before is not None
        self.before.restore()

    def advance(self, examples: int) -> bool:
        """Move on in the data by `examples`; whether an evaluation is due there."""
        every, before = self.ready.plan.evaluate_every, self.examples_seen
        self.examples_seen += examples
        return self.examples_seen // every > before // every

    def evaluate(self) -> None:
        """Judge the model on the validation split; note the target, and a model that is lost."""
        self.watch.turn("eval")
        clocks, counts = self.watch.read(), self.ready.update.counts
        quality = self._quality(self.ready.splits.validation)
        self.evaluations.append(
            Evaluation(examples=self.examples_seen, completed=counts.completed, quality=quality, train_seconds=clocks.train)
        )
        in_time = self.settings.budget_seconds is None or clocks.primary <= self.settings.budget_seconds
        if not math.isfinite(quality):
            self.end("diverged", f"the quality or the weights are not finite after {self.examples_seen} examples")
        elif self.to_target is None and in_time and self.ready.plan.meets_target(quality):
            self.to_target = ToTarget(
                seconds=clocks.primary,
                attempts=counts.attempts,
                completed=counts.completed,
                examples=self.examples_seen,
                tokens=counts.tokens_seen,
            )
            if self.settings.stop_at_target:
                self.end("reached", "; ".join(self.notes) or None)
        self.watch.turn("train")

    def is_over(self) -> bool:
        """Whether the run has ended, by its budget at the latest."""
        seconds = self.settings.budget_seconds
        spent = seconds is not None and self.watch.read().primary >= seconds
        spent |= self.to_target is not None and self.settings.stop_at_target  # resumed at its end
        if self.status is None and (spent or self.ready.update.counts.attempts >= self.ready.plan.attempts):
            self.end("budget" if self.to_target is None else "reached", "; ".join(self.notes) or None)
        return self.status is not None

    def test(self) -> None:
        """Touch the test split, once, for a run that came to its end and is to be judged."""
        if self.judged and self.status in ("reached", "budget"):
            self.watch.turn("eval")
            self.test_quality = self._quality(self.ready.splits.test)

    def end(self, status: Status, detail: str | None, hint: str | None = None) -> None:
        """The run ends so."""
        self.status, self.detail, self.hint = status, detail, hint

    def progress(self, outcome: Outcome, alert: Alert | None, *, evaluated: bool) -> Progress:
        """How far the run has come."""
        return Progress(
            candidate=self.settings.name,
            seed=self.seed,
            counts=self.ready.update.counts,
            budget_attempts=self.ready.plan.attempts,
            budget_seconds=self.settings.budget_seconds,
            clocks=self.watch.read(),
            quality=self.evaluations[-1].quality if self.evaluations else None,
            target=self.ready.plan.target,
            to_target=self.to_target,
            outcome=outcome,
            evaluation=self.evaluations[-1] if evaluated else None,
            alert=alert,
        )

    def record(self, protocol_hash: str | None) -> RunRecord:
        """The run as it ended; the digest of its weights is taken after the last clock."""
        self.watch.turn("eval")
        clocks = self.watch.read()
        total_seconds, cpu_seconds = self.earlier_seconds + time.perf_counter() - self.started, self.cpu_seconds()
        assert self.status is not None
        return RunRecord(
            candidate=self.settings.name,
            seed=self.seed,
            status=self.status,
            detail=self.detail,
            hint=self.hint,
            counts=Counts() if self.setup is None else self.setup.update.counts,
            clocks=clocks,
            total_seconds=total_seconds,
            cpu_seconds=cpu_seconds,
            to_target=self.to_target,
            evaluations=tuple(self.evaluations),
            test_quality=self.test_quality,
            data_digest=None if self.setup is None else self.setup.data_digest,
            initial_digest=None if self.setup is None else self.setup.initial_digest,
            weights_digest=None if self.setup is None else self._weights_digest(),
            ledger=self.ledger,
            device=str(self.device),
            emulated=self.policy.emulated(self.device),
            environment=self.environment,
            protocol_hash=protocol_hash,
        )

    def _quality(self, split: Any) -> float:
        with self.ready.update.in_float32():  # masters judge as they are, and narrow weights are no other model
            return evaluate(self.task, self.ready.model, split, seed=self.seed, device=self.device)

    def _weights_digest(self) -> str:
        with self.ready.update.in_float32():
            return weights_digest(self.ready.model)
