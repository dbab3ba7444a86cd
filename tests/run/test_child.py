"""The program of a run's process: what it does for a job, and what it reports."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from truestep.run import Settings, child

WARMUP = Settings(device="cpu", budget_attempts=2)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a job on this task reports: told(task, **fields of the job)."""

    def build(task: Any, **changes: Any) -> list[dict[str, Any]]:
        fields = {"settings": Settings(device="cpu"), "ledger": None, "warmup": WARMUP} | changes
        job = child.Job(task="line", seed=3, protocol_hash=None, warmup_seed=4, **fields)
        monkeypatch.setattr(child, "load", lambda name: task)
        reports: list[dict[str, Any]] = []

        class Kept(child._Reports):
            def __init__(self) -> None:
                self._told = 0.0

            def __call__(self, **report: Any) -> None:
                reports.append(report)

        child._run(job, Kept())
        return reports

    return build


def test_a_process_touches_the_test_split_once_at_the_end_of_its_run(line: Any, told: Any) -> None:
    seen = []

    class Watched(line):  # type: ignore[misc]  # a fixture's class
        def quality(self, model: Any, dataset: Any) -> float:
            seen.append(len(dataset))
            return float(super().quality(model, dataset))

        def splits(self) -> Any:
            whole = super().splits()
            return replace(whole, test=type(whole.test)(*whole.test[:3]))

    reports = told(Watched())
    assert [report["kind"] for report in reports if report["kind"] != "attempt"] == ["ready", "begun", "record"]
    assert seen.count(3) == 1
    assert seen[-1] == 3
    assert reports[-1]["record"]["test_quality"] is not None


def test_a_job_without_a_warm_up_has_none(line: Any, told: Any, tmp_path: Path) -> None:
    reports = told(line(), warmup=None, ledger=tmp_path / "ledger.jsonl")
    assert [report["kind"] for report in reports if report["kind"] != "attempt"] == ["ready", "begun", "record"]
    assert reports[-1]["record"]["counts"]["attempts"] == 9


def test_the_devices_peak_begins_with_the_run_and_is_told_beside_the_machines(
    line: Any, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 12345 + 1000 * len(seen))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", seen.append)
    monkeypatch.setattr(child, "device_of", lambda asked: torch.device("cuda"))
    reports = told(line())
    assert seen == [torch.device("cuda")]
    assert reports[-1]["peak_device_bytes"] == 13345
    assert reports[-1]["peak_memory_bytes"] != 13345
    assert {report["peak_device_bytes"] for report in reports if report["kind"] == "attempt"} <= {13345}


def test_without_cuda_a_device_has_no_peak(line: Any, told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert told(line())[-1]["peak_device_bytes"] is None
