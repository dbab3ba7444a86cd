"""truestep tasks prints what there is to train."""

import json

import pytest

from truestep.cli.tasks import Command
from truestep.errors import TaskError
from truestep.tasks import NAMES, Digits, Splits


def test_json_tells_sizes_quality_and_target_of_every_built_in_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert Command(json=True).run() == 0
    document = json.loads(capsys.readouterr().out)
    assert [task["task"] for task in document["tasks"]] == list(NAMES)
    digits = document["tasks"][0]
    assert digits["splits"] == {"train": 1197, "validation": 300, "test": 300}
    assert (digits["quality"], digits["better"], digits["target"]) == ("accuracy", "higher", Digits.target)
    assert digits["data_digest"] == Digits().digest()


def test_the_table_has_a_line_for_each_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert Command().run() == 0
    lines = capsys.readouterr().out.splitlines()
    digits = next(line.split() for line in lines if line.startswith("digits "))
    assert digits == ["digits", "accuracy", "0.96", "higher", "1197", "300", "300", "64", "4", "1000"]
    assert [line.split()[0] for line in lines[2:]] == list(NAMES)


def test_a_task_whose_data_are_not_there_is_listed_with_the_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(self: Digits) -> Splits:
        raise TaskError("the task digits needs scikit-learn")

    monkeypatch.setattr(Digits, "splits", absent)
    assert Command().run() == 0
    printed = capsys.readouterr()
    digits = next(line.split() for line in printed.out.splitlines() if line.startswith("digits "))
    assert digits[3:7] == ["higher", "-", "-", "-"]
    assert "needs scikit-learn" in printed.err
