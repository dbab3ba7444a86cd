"""Sinks: trackers that show a ledger's attempts while it is written, one class each.

`truestep.Ledger("run.jsonl", sinks=[truestep.sinks.TensorBoard("runs/1")])` hands each line on once it is in the file.

    TensorBoard(folder)                      event files; what a resume rolled back is purged
    WandB(project=..., run=..., ...)         Weights & Biases; other arguments go to wandb.init
    Trackio(project, ...)                    Trackio; other arguments go to trackio.init
    MLflow(experiment, tracking_uri=...)     MLflow, sent in batches

Each needs its package: `pip install 'truestep[tensorboard]'`, `[wandb]`, `[trackio]`, `[mlflow]`; it is imported when the
ledger opens. The MLflow extra is the client, for a server; a local database needs the whole of MLflow.

The horizontal axis is the attempt. The scalars are train/loss, train/loss/NAME of each term where a loss has several, lr
(lr_1, lr_2, ... for further parameter groups), grad_norm, grad_norm_clipped, amp/loss_scale, amp/skipped_total,
completed, examples_seen, tokens_seen, seconds, perf/examples_per_s, perf/tokens_per_s and beside them perf/skip_rate, which is
skipped / attempts of the whole run; and perf/seconds/STAGE of an update that times its stages. What an attempt does not have
(the norm of a skip) has no point. NaN and infinities are sent as they are, and all four keep them; but a database of MLflow's
holds the largest float for an infinity.

The file stays the truth. A sink that cannot be opened is an error before the run. One that fails later is dropped: the run
goes on, a RuntimeWarning says so, and so does a line of the ledger; what it missed can be sent again from the file. Nothing
bounds the time that a tracker takes, but the ledger has it: each sink's last line says how many attempts it took, in how many
seconds, and `truestep ledger` shows it. A resumed ledger goes on in the same run of the tracker, which it finds by the
ledger's run_id; attempts that were rolled back are purged in TensorBoard and stay beside the new ones in the others.

A sink of one's own is any object with the four methods of `Sink`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

from truestep.ledger.records import Record, decoded

Scalars = Mapping[str, float]


class Sink(Protocol):
    """Where a ledger's attempts also go. Any exception means that the sink is of no further use."""

    def open(self, header: Record) -> None:
        """Begin, or go on with, the run of this header; called once, before the first attempt."""

    def resume(self, attempts: int) -> None:
        """The run goes on from attempt `attempts`: later ones, if there were any, were rolled back."""

    def attempt(self, attempt: int, scalars: Scalars) -> None:
        """Show one attempt."""

    def close(self) -> None:
        """Send what is left; called once, where `open` returned."""


def _id(header: Record) -> str:
    """A name for the run in plain characters: run_id itself may hold some that a tracker does not take."""
    return hashlib.sha256(header["run_id"].encode(errors="surrogatepass")).hexdigest()[:16]


def scalars(record: Record) -> dict[str, float]:
    """The numbers of an attempt's line that a tracker draws, by their names; NaN and infinities included, absent ones not."""
    counts = record["counts"]
    values = {name: record[name] for name in _DRAWN}
    values |= {f"train/loss/{term}": loss for term, loss in (record["train/losses"] or {}).items()}
    values |= {f"perf/seconds/{stage}": seconds for stage, seconds in record.get("perf/seconds_by_stage", {}).items()}
    values |= {f"lr_{group}" if group else "lr": rate for group, rate in enumerate(record["lr"])}
    values |= {name: counts[name] for name in ("completed", "examples_seen", "tokens_seen")}
    values["perf/skip_rate"] = record["amp/skipped_total"] / counts["attempts"]
    return {name: number for name, value in values.items() if (number := decoded(value)) is not None}


_DRAWN = (
    "train/loss",
    "grad_norm",
    "grad_norm_clipped",
    "amp/loss_scale",
    "amp/skipped_total",
    "seconds",
    "perf/examples_per_s",
    "perf/tokens_per_s",
)


class TensorBoard:
    """Event files in a folder of their own."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self._writer: Any = None

    def open(self, header: Record) -> None:
        """Begin a new event file, with the header as text."""
        from torch.utils.tensorboard import FileWriter  # noqa: PLC0415  # slow to import
        from torch.utils.tensorboard.summary import text  # noqa: PLC0415  # likewise

        self._writer = FileWriter(self.folder)
        shown = f"```\n{json.dumps(header, indent=2)}\n```"
        self._writer.add_summary(text("truestep/header", shown), 0)  # type: ignore[no-untyped-call]  # torch's is untyped

    def resume(self, attempts: int) -> None:
        """TensorBoard drops the points that an earlier file holds from here on."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # noqa: PLC0415  # slow to import, and loaded by `open`

        self._writer.add_event(Event(session_log=SessionLog(status=SessionLog.START)), attempts + 1)

    def attempt(self, attempt: int, scalars: Scalars) -> None:
        """One event for all scalars: a SummaryWriter's one event each takes ten times as long."""
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415  # slow to import, and loaded by `open`

        points = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self._writer.add_summary(Summary(value=points), attempt)

    def close(self) -> None:
        """Write what is queued."""
        self._writer.close()


class WandB:
    """A run of Weights & Biases: `run`, which stays open, or one of its own from wandb.init(**options)."""

    def __init__(self, *, run: Any = None, **options: Any) -> None:
        self.options = options
        self._run, self._is_ours = run, run is None
        self._defined: set[str] = set()

    def open(self, header: Record) -> None:
        """Begin the run, or go on with it."""
        import wandb  # noqa: PLC0415  # slow to import

        if self._is_ours:
            options = {"id": _id(header), "name": header["run_id"], "resume": "allow", "config": header, **self.options}
            self._run = wandb.init(**options)

    def resume(self, attempts: int) -> None:
        """Nothing: wandb.init went on in the run."""

    def attempt(self, attempt: int, scalars: Scalars) -> None:
        """One row, whose axis is the attempt: W&B's own step cannot go back, as a resume may."""
        for name in scalars.keys() - self._defined:
            self._run.define_metric(name, step_metric="attempt")
        self._defined |= scalars.keys()
        self._run.log({"attempt": attempt, **scalars})

    def close(self) -> None:
        """Finish the run where it is ours."""
        if self._is_ours:
            self._run.finish()


class Trackio:
    """A run of Trackio, named by the ledger's run_id. It prints; that goes to standard error."""

    def __init__(self, project: str, **options: Any) -> None:
        self.options = {"project": project, **options}
        self._run: Any = None

    def open(self, header: Record) -> None:
        """Begin the run, or go on with it."""
        import trackio  # noqa: PLC0415  # slow to import

        with contextlib.redirect_stdout(sys.stderr):
            self._run = trackio.init(**{"name": header["run_id"], "resume": "allow", "config": header, **self.options})

    def resume(self, attempts: int) -> None:
        """Nothing: trackio.init went on in the run."""

    def attempt(self, attempt: int, scalars: Scalars) -> None:
        """One row, which a thread of Trackio's stores."""
        self._run.log(dict(scalars), step=attempt)

    def close(self) -> None:
        """Wait until all is stored."""
        from trackio.context_vars import current_run  # noqa: PLC0415  # slow to import, and loaded by `open`

        with contextlib.redirect_stdout(sys.stderr):
            self._run.finish()
        if current_run.get() is self._run:  # else Trackio finishes it again, and prints so, when the process ends
            current_run.set(None)


class MLflow:
    """A run of MLflow, found again by its tag truestep.id. Attempts are sent in batches, at the latest every five seconds."""

    _BATCH = 1000  # metrics: the most that a server takes at once
    _SECONDS = 5.0

    def __init__(self, experiment: str, *, tracking_uri: str | None = None) -> None:
        self.experiment, self.tracking_uri = experiment, tracking_uri

    def open(self, header: Record) -> None:
        """Begin the run, or go on with it; the header becomes its tags."""
        from mlflow.tracking import MlflowClient  # noqa: PLC0415  # slow to import

        self._client: Any = MlflowClient(tracking_uri=self.tracking_uri)
        found = self._client.get_experiment_by_name(self.experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(self.experiment)
        tags = {f"truestep.{name}": value if isinstance(value, str) else json.dumps(value) for name, value in header.items()}
        tags["truestep.id"] = _id(header)
        runs = self._client.search_runs([experiment], filter_string=f"tags.`truestep.id` = '{_id(header)}'", max_results=1)
        run = runs[0] if runs else self._client.create_run(experiment, run_name=header["run_id"], tags=tags)
        self._run_id = run.info.run_id
        self._client.set_terminated(self._run_id, status="RUNNING")
        self._metrics: list[Any] = []
        self._sent = time.monotonic()

    def resume(self, attempts: int) -> None:
        """Nothing: `open` went on in the run."""

    def attempt(self, attempt: int, scalars: Scalars) -> None:
        """Keep the attempt for the next batch, and send that where it is due."""
        from mlflow.entities import Metric  # noqa: PLC0415  # slow to import, and loaded by `open`

        now_ms = int(time.time() * 1000)
        self._metrics += [Metric(name, value, now_ms, attempt) for name, value in scalars.items()]
        if len(self._metrics) + len(scalars) > self._BATCH or time.monotonic() - self._sent > self._SECONDS:
            self._send()

    def close(self) -> None:
        """Send the rest and end the run."""
        self._send()
        self._client.set_terminated(self._run_id)

    def _send(self) -> None:
        while self._metrics:
            self._client.log_batch(self._run_id, metrics=self._metrics[: self._BATCH])
            self._metrics = self._metrics[self._BATCH :]
        self._sent = time.monotonic()
