"""What a sink sent is what its tracker reads back: each against the tracker's own package, offline."""

import importlib
import math
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from truestep import sinks
from truestep.engine.outcome import Outcome, Reason
from truestep.ledger import Ledger, read
from truestep.ledger.records import attempt_record

Attempts = Callable[..., list[Outcome]]
Points = Mapping[str, Mapping[int, list[float]]]
"""A scalar's values at each attempt, in the order they were sent."""
NAMES = 'fp16 seed 3, it\'s "new" #1'  # every character here is forbidden in some tracker's identifiers


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is written outside of tmp_path, and nobody is called."""
    for name in ("HOME", "TMPDIR", "TRACKIO_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "WANDB_DIR", "WANDB_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_CONSOLE": "off",
        "WANDB_ERROR_REPORTING": "false",
        "MLFLOW_ALLOW_FILE_STORE": "true",  # the client alone has no other local store
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)  # it read its folder when it was imported
    return tmp_path


def run(path: Path, make_attempts: Attempts, sink: Callable[[], sinks.Sink]) -> dict[str, dict[int, list[float]]]:
    """Four attempts, a resume after the second, two more; returns all scalars that were handed on."""
    ran = make_attempts([None, Reason.BACKWARD, None, None])
    odd = replace(ran[1], loss=float("inf"), lr=(0.1, float("nan")))
    again = make_attempts([None, None], after=ran[1].counts)
    sent: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for part, resume in (([ran[0], odd, *ran[2:]], False), (again, True)):
        with Ledger(path, run_id=NAMES, resume=resume, environment={"cpu": "test"}, sinks=[sink()]) as ledger:
            for outcome in part:
                ledger.record(outcome)
                for name, value in sinks.scalars(attempt_record(outcome)).items():
                    sent[name][outcome.counts.attempts].append(value)
    assert [line["attempts"] for line in read(path) if line["kind"] == "sink"] == [4, 2]
    assert not [line for line in read(path) if line.get("error")]
    return sent


def assert_equal(found: Points, sent: Points, *, rounded: Callable[[float], float] = float) -> None:
    """The same names, attempts and values; repr tells NaN from nothing."""
    assert found.keys() == sent.keys()
    for name, points in sent.items():
        expected = {attempt: [repr(rounded(value)) for value in values] for attempt, values in points.items()}
        assert {attempt: [repr(float(value)) for value in values] for attempt, values in found[name].items()} == expected, name


def float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def test_tensorboard_reads_every_scalar_back_and_purges_what_was_rolled_back(at_home: Path, make_attempts: Attempts) -> None:
    sent = run(at_home / "run.jsonl", make_attempts, lambda: sinks.TensorBoard(at_home / "runs"))
    assert list(sent["train/loss"]) == [1, 2, 3, 4]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415  # slow to import

    events = EventAccumulator(str(at_home / "runs"), size_guidance={"scalars": 0}).Reload()
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in events.Tags()["scalars"]:
        for event in events.Scalars(name):
            found[name][event.step].append(event.value)
    # a resume after attempt 2 leaves one value at each attempt: the last
    last = {name: {attempt: values[-1:] for attempt, values in points.items()} for name, points in sent.items()}
    assert_equal(found, last, rounded=float32)
    assert events.Tags()["tensors"] == ["truestep/header/text_summary"]


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def rows(file: Path) -> Iterator[dict[str, Any]]:
    """The history rows of a .wandb file: LevelDB's log of protobuf records, in blocks of 32 KiB."""
    wandb_internal_pb2 = importlib.import_module("wandb.proto.wandb_internal_pb2")
    content, place, record = file.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:  # a header is never split
            place += 32768 - place % 32768
        size, kind = struct.unpack_from("<HB", content, place + 4)
        record += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            parsed = wandb_internal_pb2.Record.FromString(record)
            record = b""
            if parsed.HasField("history"):
                yield {item.key or "/".join(item.nested_key): item.value_json for item in parsed.history.item}


def test_wandb_reads_every_scalar_back_and_goes_on_under_the_same_id(at_home: Path, make_attempts: Attempts) -> None:
    wandb = importlib.import_module("wandb")
    folders = (at_home / "first", at_home / "second")  # W&B names a run's folder by the second that it began in
    begun = iter(folders)
    sent = run(at_home / "run.jsonl", make_attempts, lambda: sinks.WandB(project="test", dir=make(next(begun))))
    files = [file for folder in folders for file in folder.glob("wandb/offline-run-*/*.wandb")]
    wandb.teardown()
    assert len(files) == 2
    assert len({file.name for file in files}) == 1, "the id follows from run_id"
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        for row in rows(file):
            for name, value in row.items():
                if not name.startswith("_") and name != "attempt":
                    found[name][int(row["attempt"])].append(float(value))
    assert_equal(found, sent)


def test_trackio_reads_every_scalar_back_and_goes_on_in_the_same_run(
    at_home: Path, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = run(at_home / "run.jsonl", make_attempts, lambda: sinks.Trackio("test", auto_log_cpu=False, auto_log_gpu=False))
    assert capsys.readouterr().out == ""
    storage = importlib.import_module("trackio.sqlite_storage").SQLiteStorage
    assert storage.get_runs("test") == [NAMES]
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in storage.get_logs("test", NAMES):
        for name, value in row.items():
            if name not in ("step", "timestamp"):
                found[name][row["step"]].append(value)
    assert_equal(found, sent)


def test_mlflow_reads_every_scalar_back_and_goes_on_in_the_same_run(at_home: Path, make_attempts: Attempts) -> None:
    uri = (at_home / "mlruns").as_uri()
    sent = run(at_home / "run.jsonl", make_attempts, lambda: sinks.MLflow("test", tracking_uri=uri))
    client = importlib.import_module("mlflow").MlflowClient(tracking_uri=uri)
    (ran,) = client.search_runs([client.get_experiment_by_name("test").experiment_id])
    assert (ran.info.status, ran.data.tags["truestep.run_id"], ran.info.run_name) == ("FINISHED", NAMES, NAMES)
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in ran.data.metrics:
        for metric in client.get_metric_history(ran.info.run_id, name):
            found[name][metric.step].append(metric.value)
    assert_equal(found, sent)


def test_mlflow_sends_in_batches_that_its_server_takes(
    at_home: Path, make_attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sinks.MLflow("test", tracking_uri=(at_home / "mlruns").as_uri())
    sink.open({"run_id": "a", "environment": {}})
    sizes: list[int] = []
    monkeypatch.setattr(sink._client, "log_batch", lambda run_id, metrics: sizes.append(len(metrics)))
    values = sinks.scalars(attempt_record(make_attempts([None])[0]))
    monkeypatch.setattr("truestep.ledger.sinks.time.monotonic", lambda: sink._sent)
    for attempt in range(200):
        sink.attempt(attempt, values)
    full = 1000 // len(values) * len(values)
    assert sizes == [full] * (200 * len(values) // full)
    monkeypatch.setattr("truestep.ledger.sinks.time.monotonic", lambda: math.inf)
    sink.attempt(200, values)
    assert sum(sizes) == 201 * len(values)
