"""The alarm sounds when too many of the last attempts were skipped: once, honestly, and not at a usual start."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import truestep
from truestep.cli.ledger import Command
from truestep.engine.outcome import Outcome, Reason
from truestep.errors import StateError, UsageError
from truestep.ledger import Alert, Ledger, SkipAlarm, read, summarize
from truestep.ledger.records import alarm_record, alert_of

Attempts = Callable[..., list[Outcome]]
Write = Callable[..., Path]
BAD, OTHER = Reason.BACKWARD, Reason.INPUT


def steady(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The same with a loss scale that does not move."""
    return [replace(outcome, loss_scale=8.0, next_loss_scale=8.0) for outcome in outcomes]


def alerts(alarm: SkipAlarm, outcomes: Sequence[Outcome]) -> list[Alert]:
    return [alert for outcome in outcomes if (alert := alarm(outcome))]


def test_it_sounds_at_the_first_skip_above_the_rate_and_not_at_it(make_attempts: Attempts) -> None:
    # 10 of 200 are 5 %; the 11th skip is above
    pattern = ([None] * 9 + [BAD]) * 20
    (alert,) = alerts(SkipAlarm(0.05, 200), steady(make_attempts(pattern)))
    assert (alert.attempt, alert.attempts, alert.skipped) == (110, 110, 11)


def test_a_rate_that_stays_at_the_limit_never_sounds(make_attempts: Attempts) -> None:
    # one skip in twenty: every window of 200 holds exactly 10; decimal fractions (0.29 * 100 < 29) do not decide it
    assert alerts(SkipAlarm(0.05, 200), steady(make_attempts(([None] * 19 + [BAD]) * 50))) == []
    assert alerts(SkipAlarm(0.29, 100), steady(make_attempts(([None] * 71 + [BAD] * 29) * 3))) == []


def test_what_it_has_not_seen_counts_as_completed(make_attempts: Attempts) -> None:
    outcomes = steady(make_attempts([BAD] * 11))
    assert alerts(SkipAlarm(0.05, 200), outcomes[:10]) == []
    (alert,) = alerts(SkipAlarm(0.05, 200), outcomes)
    assert (alert.attempts, alert.skipped, alert.rate) == (11, 11, 1.0)


def test_it_tells_reasons_by_count_the_last_place_and_diagnosis(make_attempts: Attempts) -> None:
    outcomes = steady(make_attempts([None, OTHER, BAD, BAD, None]))
    last = replace(outcomes[-2], skip=replace(outcomes[-2].skip, place="layers.3.weight", detail="inf in 3 of 4"))
    (alert,) = alerts(SkipAlarm(0.2, 10), [*outcomes[:3], last])
    assert alert == Alert(
        attempt=4,
        limit=0.2,
        attempts=4,
        skipped_by_reason={"backward overflow": 2, "non-finite input": 1},
        place="layers.3.weight",
        detail="inf in 3 of 4",
        next_loss_scale=8.0,
    )
    assert list(alert.skipped_by_reason) == ["backward overflow", "non-finite input"]
    assert str(alert) == (
        "3 of the last 4 attempts were skipped (75 %, limit 20 %): 2 backward overflow, 1 non-finite input. "
        "The last, attempt 4, at layers.3.weight: inf in 3 of 4. The loss scale stands at 8."
    )
    assert "attempt 4: inf" in str(replace(alert, place=None))


def test_skips_that_lie_behind_the_window_do_not_count(make_attempts: Attempts) -> None:
    assert alerts(SkipAlarm(0.2, 10), steady(make_attempts(([BAD] * 2 + [None] * 8) * 10))) == []


def test_it_sounds_again_only_after_the_rate_fell_to_half(make_attempts: Attempts) -> None:
    def sounded(between: int) -> list[int]:
        pattern = [None] + [BAD] * 5 + [None] * between + [BAD] * 5
        return [alert.attempt for alert in alerts(SkipAlarm(0.4, 10), steady(make_attempts(pattern)))]

    # above 4 of 10 it sounds, at 2 it falls silent: 3 of the 5 skips must have left the window of 10
    assert sounded(7) == [6]
    assert sounded(8) == [6, 19]


def settling(make_attempts: Attempts, pattern: Sequence[Reason | None], start: float = 2.0**24) -> list[Outcome]:
    """Outcomes whose loss scale halves on each skip."""
    outcomes, scale = [], start
    for outcome in make_attempts(pattern):
        after = scale if outcome.completed else scale / 2
        outcomes.append(replace(outcome, loss_scale=scale, next_loss_scale=after))
        scale = after
    return outcomes


def test_a_scale_that_comes_down_from_too_high_a_start_does_not_sound_however_far(make_attempts: Attempts) -> None:
    assert alerts(SkipAlarm(0.05, 20), settling(make_attempts, [BAD] * 30 + [None] * 20)) == []


def test_settling_is_over_with_the_first_completed_attempt(make_attempts: Attempts) -> None:
    outcomes = settling(make_attempts, [BAD] * 10 + [None] + [BAD] * 2)
    (alert,) = alerts(SkipAlarm(0.05, 20), outcomes)
    # the ten are no part of it: two of the last three, not twelve of thirteen
    assert (alert.attempt, alert.attempts, alert.skipped) == (13, 3, 2)


@pytest.mark.parametrize("change", [{"next_loss_scale": 2.0**30}, {"skip": "incurable"}])
def test_a_start_that_no_smaller_scale_cures_counts(make_attempts: Attempts, change: dict[str, object]) -> None:
    outcomes = settling(make_attempts, [BAD] * 2)
    if "skip" in change:
        change = {"skip": replace(outcomes[0].skip, curable=False)}
    assert alerts(SkipAlarm(0.05, 20), [replace(outcome, **change) for outcome in outcomes])


def test_a_training_in_float16_that_starts_as_they_do_is_silent(make_attempts: Attempts) -> None:
    # 2^16 down to 2^9 within the first 60 attempts, then one skip every 2000
    pattern = [BAD] * 3 + [None] * 5 + [BAD] * 2 + [None] * 20 + [BAD] + [None] * 30 + [BAD] + ([None] * 2000 + [BAD]) * 2
    assert alerts(SkipAlarm(), settling(make_attempts, pattern, 2.0**16)) == []


@given(pattern=st.lists(st.sampled_from([None, None, None, BAD, OTHER]), max_size=80), cut=st.integers(0, 80))
def test_a_state_restored_at_any_attempt_goes_on_as_if_nothing_had_been(pattern: list[Reason | None], cut: int) -> None:
    from tests.ledger.conftest import attempts  # noqa: PLC0415  # hypothesis refuses fixtures that live as long as a test

    outcomes = steady(attempts(pattern))
    whole = alerts(SkipAlarm(0.3, 12), outcomes)
    first, second = SkipAlarm(0.3, 12), SkipAlarm(0.3, 12)
    before = alerts(first, outcomes[:cut])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert before + alerts(second, outcomes[cut:]) == whole


def test_a_longer_windows_state_is_cut_to_its_last_attempts(make_attempts: Attempts) -> None:
    long, short = SkipAlarm(0.5, 10), SkipAlarm(0.5, 3)
    alerts(long, steady(make_attempts([BAD, BAD, None, None, BAD])))
    short.load_state_dict(long.state_dict())
    assert short.state_dict() == long.state_dict() | {"window": [None, None, "backward overflow"]}
    assert short(steady(make_attempts([BAD]))[0]) is not None


def test_a_foreign_state_is_refused() -> None:
    for state in ({}, {"window": 7, "settled": True, "sounding": True}):
        with pytest.raises(StateError, match="no state of a SkipAlarm"):
            SkipAlarm().load_state_dict(state)


@pytest.mark.parametrize("settings", [{"limit": 1.0}, {"limit": -0.1}, {"limit": float("nan")}, {"attempts": 0}])
def test_a_rate_or_window_that_is_none_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        SkipAlarm(**settings)


def test_a_ledger_keeps_the_alert_returns_it_and_warns(
    tmp_path: Path, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]
) -> None:
    *calm, bad = steady(make_attempts([None, BAD, BAD]))
    with Ledger(tmp_path / "run.jsonl", environment={}, alarm=SkipAlarm(0.1, 10)) as ledger:
        assert [ledger.record(outcome) for outcome in calm] == [None, None]
        with pytest.warns(RuntimeWarning, match=r"2 of the last 3 attempts were skipped") as caught:
            alert = ledger.record(bad)
    assert caught[0].filename == __file__
    summary = summarize(read(ledger.path))
    assert alert is not None
    assert (summary.alarms, summary.last_alert) == (1, alert)
    assert json.loads(json.dumps(summary.as_dict(), allow_nan=False))["last_alert"]["attempt"] == 3
    Command(file=ledger.path).run()
    assert f"alarm       once: {alert}" in capsys.readouterr().out.splitlines()


def test_every_field_of_an_alert_survives() -> None:
    alert = Alert(
        attempt=9,
        limit=1 / 3,
        attempts=7,
        skipped_by_reason={"forward overflow": 3},
        place="head",
        detail="inf",
        next_loss_scale=float("inf"),
    )
    assert alert_of(json.loads(json.dumps(alarm_record(alert), allow_nan=False))) == alert


def test_an_alarm_that_was_rolled_back_is_waste(tmp_path: Path, make_attempts: Attempts) -> None:
    outcomes = steady(make_attempts([None, BAD, None]))
    with Ledger(tmp_path / "run.jsonl", environment={}, alarm=SkipAlarm(0.0, 5)) as ledger:
        ledger.record(outcomes[0])
        with pytest.warns(RuntimeWarning):
            ledger.record(outcomes[1])
    again = steady(make_attempts([None], after=outcomes[0].counts))
    with Ledger(tmp_path / "run.jsonl", environment={}, resume=True) as ledger:
        ledger.record(again[0])
    assert [line["waste"] for line in read(ledger.path) if line["kind"] == "alarm"] == [True]
    assert summarize(read(ledger.path)).alarms == 0


def test_the_start_of_a_real_update_from_too_high_a_scale_is_silent_and_a_poisoned_one_is_not() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.01),
        loss=lambda model, batch: model(batch).square().mean(),
        weight=len,
        policy="fp16",
        scale=truestep.LossScale.dynamic(init=2.0**30),
    )
    alarm, good, poison = SkipAlarm(0.1, 20), torch.ones(4, 2), torch.full((4, 2), float("nan"))
    started = [update([good]) for _ in range(24)]
    assert not started[0].completed
    assert started[-1].completed
    assert alerts(alarm, started) == []
    (alert,) = alerts(alarm, [update([poison]) for _ in range(4)])
    # two of twenty are a tenth; the third is above
    assert (alert.skipped, alert.skipped_by_reason) == (3, {"non-finite input": 3})
