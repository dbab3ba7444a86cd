"""A sink sees what the file holds; one that fails is dropped, told and kept, and the run goes on."""

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import ready
from truestep import sinks
from truestep.cli.ledger import Command
from truestep.engine.outcome import Outcome, Reason
from truestep.errors import LedgerError, UsageError
from truestep.ledger import Ledger, SkipAlarm, outcomes, read, summarize
from truestep.ledger.records import attempt_record

Attempts = Callable[..., list[Outcome]]


class Recorder:
    """A sink of one's own that writes down its calls, and fails in `fails`."""

    def __init__(self, fails: str = "", error: BaseException | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._fails, self._error = fails, error or OSError("the tracker is away")

    def _call(self, name: str, *values: Any) -> None:
        self.calls.append((name, *values))
        if name == self._fails:
            raise self._error

    def open(self, header: dict[str, Any]) -> None:
        self._call("open", header["run_id"])

    def resume(self, attempts: int) -> None:
        self._call("resume", attempts)

    def attempt(self, attempt: int, scalars: sinks.Scalars) -> None:
        self._call("attempt", attempt, scalars["completed"])

    def close(self) -> None:
        self._call("close")


def test_a_sink_is_opened_shown_each_attempt_and_closed_in_this_order(tmp_path: Path, make_attempts: Attempts) -> None:
    sink = Recorder()
    ran = make_attempts([None, Reason.BACKWARD, None])
    with Ledger(tmp_path / "run.jsonl", run_id="a", environment={}, sinks=[sink]) as ledger:
        for outcome in ran:
            ledger.record(outcome)
    ledger.close()
    assert sink.calls == [("open", "a"), ("attempt", 1, 1.0), ("attempt", 2, 1.0), ("attempt", 3, 2.0), ("close",)]
    again = Recorder()
    with Ledger(tmp_path / "run.jsonl", environment={}, resume=True, sinks=[again]) as ledger:
        ledger.record(make_attempts([None], after=ran[0].counts)[0])
    assert again.calls == [("open", "a"), ("resume", 1), ("attempt", 2, 2.0), ("close",)]


def test_a_line_is_in_the_file_before_a_sink_sees_the_attempt(tmp_path: Path, make_attempts: Attempts) -> None:
    class Reader(Recorder):
        def attempt(self, attempt: int, scalars: sinks.Scalars) -> None:
            assert [outcome.counts.attempts for outcome in outcomes(path)][-1] == attempt
            super().attempt(attempt, scalars)

    path, sink = tmp_path / "run.jsonl", Reader()
    with Ledger(path, environment={}, sinks=[sink]) as ledger:
        ledger.record(make_attempts([None])[0])
    assert ("attempt", 1, 1.0) in sink.calls


def test_scalars_have_the_fields_names_and_leave_out_what_is_absent(make_attempts: Attempts, full_outcome: Outcome) -> None:
    skipped = make_attempts([None, Reason.BACKWARD], tokens=None)[1]
    assert sinks.scalars(attempt_record(skipped)) == {
        "train/loss": 1.5,
        "lr": 0.1,
        "amp/loss_scale": 4.0,
        "amp/skipped_total": 1.0,
        "completed": 1.0,
        "examples_seen": 16.0,
        "seconds": 0.5,
        "perf/examples_per_s": 0.0,
        "perf/skip_rate": 0.5,
    }
    completed = replace(full_outcome, skip=None, loss=float("-inf"))
    drawn = sinks.scalars(attempt_record(completed))
    assert drawn.keys() == {
        *("train/loss", "train/loss/text", "train/loss/image"),
        *("lr", "lr_1", "grad_norm", "grad_norm_clipped", "amp/loss_scale", "amp/skipped_total", "completed"),
        *("examples_seen", "tokens_seen", "seconds", "perf/examples_per_s", "perf/tokens_per_s", "perf/skip_rate"),
        *("perf/seconds/forward", "perf/seconds/bookkeeping"),
    }
    assert drawn["train/loss"] == float("-inf")
    assert drawn["lr_1"] == 1e-300
    assert (drawn["train/loss/text"], drawn["train/loss/image"]) == (0.1, float("-inf"))


@pytest.mark.parametrize("fails", ["resume", "attempt", "close"])
def test_a_sink_that_fails_is_dropped_told_and_kept_and_the_others_go_on(
    tmp_path: Path, make_attempts: Attempts, fails: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, bad, good = tmp_path / "run.jsonl", Recorder(fails), Recorder()
    ran = make_attempts([None] * 3)
    with Ledger(path, environment={}) as ledger:
        ledger.record(ran[0])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ledger = Ledger(path, environment={}, resume=True, sinks=[bad, good])
        for outcome in ran[1:]:
            ledger.record(outcome)
        ledger.close()
    taken = 2 if fails == "close" else 0
    (warning,) = told
    assert (warning.category, warning.filename) == (RuntimeWarning, __file__)
    assert (
        str(warning.message) == f"the sink Recorder failed and was dropped after {taken} attempts: OSError: the tracker is away"
    )
    assert [call[0] for call in bad.calls if call[0] == "attempt"] == ["attempt"] * max(taken, fails == "attempt")
    assert bad.calls[-1] == ("close",)
    assert good.calls[1:] == [("resume", 1), ("attempt", 2, 2.0), ("attempt", 3, 3.0), ("close",)]
    assert list(outcomes(path)) == ran
    (kept,) = [line for line in read(path) if line["kind"] == "sink" and line["error"]]
    assert (kept["attempts"], kept["error"]) == (taken, "OSError: the tracker is away")
    totals = summarize(read(path)).sinks["Recorder"]
    assert (totals.attempts, totals.errors) == (2 + taken, ["OSError: the tracker is away"])
    Command(file=path).run()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith(f"sink        Recorder took {2 + taken} attempts in ")
    assert lines[-1] == "            dropped: OSError: the tracker is away"


def test_the_time_that_a_sink_takes_is_kept(tmp_path: Path, make_attempts: Attempts, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(100))
    monkeypatch.setattr("truestep.ledger.fanout.time.perf_counter", lambda: float(next(ticks)))
    with Ledger(tmp_path / "run.jsonl", environment={}, sinks=[Recorder()]) as ledger:
        for outcome in make_attempts([None, None]):
            ledger.record(outcome)
    # one tick of the clock for each of two attempts, and one for the close
    assert [(line["attempts"], line["seconds"]) for line in read(ledger.path) if line["kind"] == "sink"] == [(2, 3.0)]


def test_where_warnings_are_errors_all_is_kept_before_one_is_raised(tmp_path: Path, make_attempts: Attempts) -> None:
    path, good = tmp_path / "run.jsonl", Recorder()
    ledger = Ledger(path, environment={}, sinks=[Recorder("close"), good])
    ledger.record(make_attempts([None])[0])
    with pytest.raises(RuntimeWarning):
        ledger.close()
    assert good.calls[-1] == ("close",)
    assert len([line for line in read(path) if line["kind"] == "sink"]) == 2


def test_ctrl_c_within_a_sink_is_no_failure_of_it(tmp_path: Path, make_attempts: Attempts) -> None:
    sink = Recorder("attempt", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), Ledger(tmp_path / "run.jsonl", environment={}, sinks=[sink]) as ledger:
        ledger.record(make_attempts([None])[0])
    assert sink.calls[-1] == ("close",)


@pytest.mark.parametrize("error", [OSError("no route"), KeyboardInterrupt()])
def test_a_sink_that_does_not_open_leaves_no_file_so_that_the_next_try_begins_afresh(
    tmp_path: Path, error: BaseException
) -> None:
    first = Recorder()
    with pytest.raises((LedgerError, KeyboardInterrupt), match=r"^$|the sink Recorder cannot be opened: OSError: no route"):
        Ledger(tmp_path / "run.jsonl", environment={}, sinks=[first, Recorder("open", error)])
    assert list(tmp_path.iterdir()) == []
    Ledger(tmp_path / "run.jsonl", environment={}).close()


def test_a_sink_that_does_not_open_leaves_an_earlier_ledger_and_closes_the_others(tmp_path: Path) -> None:
    Ledger(tmp_path / "run.jsonl", environment={}).close()
    before, first = (tmp_path / "run.jsonl").read_bytes(), Recorder()
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path / "run.jsonl", environment={}, resume=True, sinks=[first, Recorder("open")])
    assert (tmp_path / "run.jsonl").read_bytes() == before
    assert first.calls[-1] == ("close",)


@pytest.mark.parametrize(
    ("sink", "package", "extra"),
    [
        (sinks.TensorBoard("runs"), "tensorboard", "tensorboard"),
        (sinks.WandB(), "wandb", "wandb"),
        (sinks.Trackio("test"), "trackio", "trackio"),
        (sinks.MLflow("test"), "mlflow", "mlflow"),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: sinks.Sink, package: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package or name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"lacks its package(.|\n)*hint: pip install 'truestep\[{extra}\]'"):
        Ledger(tmp_path / "run.jsonl", environment={}, sinks=[sink])


def test_no_tracker_is_imported_before_a_ledger_opens_it() -> None:
    code = (
        "import sys, truestep; truestep.sinks.WandB(); print({'tensorboard', 'wandb', 'trackio', 'mlflow'} & sys.modules.keys())"
    )
    assert ready.run("-c", code).stdout == "set()\n"


class OwnRun:
    """A run of W&B's that the caller began."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self.axes: dict[str, str] = {}

    def define_metric(self, name: str, *, step_metric: str) -> None:
        assert name not in self.axes
        self.axes[name] = step_metric

    def log(self, row: dict[str, float]) -> None:
        self.rows.append(row)


def test_a_wandb_run_of_the_callers_gets_rows_keeps_its_other_axes_and_stays_open(
    tmp_path: Path, make_attempts: Attempts
) -> None:
    own = OwnRun()
    with Ledger(tmp_path / "run.jsonl", environment={}, sinks=[sinks.WandB(run=own)]) as ledger:
        for outcome in make_attempts([Reason.BACKWARD, None]):
            ledger.record(outcome)
    assert [row["attempt"] for row in own.rows] == [1, 2]
    assert own.axes == dict.fromkeys(own.rows[1].keys() - {"attempt"}, "attempt")
    assert not [line for line in read(ledger.path) if line.get("error")]  # OwnRun has no finish


def test_alarm_and_sinks_work_together_below_their_attempt(tmp_path: Path, make_attempts: Attempts) -> None:
    bad = replace(make_attempts([Reason.INPUT])[0], loss_scale=1.0, next_loss_scale=1.0)
    ledger = Ledger(tmp_path / "run.jsonl", environment={}, sinks=[Recorder("attempt")], alarm=SkipAlarm(0.0, 5))
    with pytest.warns(RuntimeWarning) as told:
        ledger.record(bad)
    ledger.close()
    assert [line["kind"] for line in read(ledger.path)] == ["header", "attempt", "sink", "alarm"]
    assert len(told) == 2
