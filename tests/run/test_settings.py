"""What is asked is validated once, and the plan leaves nothing open."""

from typing import Any

import pytest

from truestep import Every
from truestep.errors import UsageError
from truestep.run import Plan, Settings, plan_of
from truestep.tasks import Digits


@pytest.mark.parametrize(
    "asked",
    [
        {"microbatches": 0},
        {"budget_attempts": 0},
        {"evaluate_every": -1},
        {"max_consecutive_skips": 0},
        {"threads": 0},
        {"budget_seconds": 0.0},
        {"budget_seconds": float("inf")},
        {"budget_seconds": float("nan")},
        {"target": float("nan")},
        {"target": float("-inf")},
    ],
)
def test_a_number_that_cannot_be_is_refused_by_name(asked: dict[str, Any]) -> None:
    (name,) = asked
    with pytest.raises(UsageError, match=name):
        Settings(**asked)


def test_a_run_is_called_after_its_policy_unless_it_has_a_name() -> None:
    assert Settings(policy="bf16").name == "bf16"
    assert Settings(policy="bf16", candidate="bf16 clip=1").name == "bf16 clip=1"


def test_what_is_not_asked_is_left_to_the_task() -> None:
    assert plan_of(Digits(), Settings(), examples=1197) == Plan(
        batch=64, microbatches=4, attempts=1000, ticks=1000, evaluate_every=320, target=0.96, quality_better="higher"
    )


def test_what_is_asked_overrides_the_task() -> None:
    asked = Settings(microbatches=8, budget_attempts=50, evaluate_every=64, target=0.0)
    plan = plan_of(Digits(), asked, examples=1197)
    assert (plan.microbatches, plan.attempts, plan.ticks, plan.evaluate_every, plan.target) == (8, 50, 50, 64, 0.0)


def test_evaluation_is_once_an_epoch_where_nobody_says(line_with: Any) -> None:
    assert plan_of(line_with(evaluate_every=None), Settings(), examples=10).evaluate_every == 10


def test_more_microbatches_than_examples_are_refused() -> None:
    with pytest.raises(UsageError, match="65 microbatches do not fit a batch of 64"):
        plan_of(Digits(), Settings(microbatches=65), examples=1197)


@pytest.mark.parametrize(
    ("clock", "attempts", "ticks"),
    [
        ("completed", 38, 38),
        ("attempt", 38, 38),
        ("epoch", 38, 2),  # 19 windows an epoch
        ("epoch", 39, 3),
        ("epoch", 1, 1),
        (Every(examples=100), 38, 23),  # 2 * 1197 examples
        (Every(examples=100), 39, 24),  # and 64 more
        (Every(examples=10_000), 1, 1),
    ],
)
def test_the_schedule_is_as_long_as_the_budget_in_the_clocks_own_ticks(clock: Any, attempts: int, ticks: int) -> None:
    assert plan_of(Digits(), Settings(clock=clock, budget_attempts=attempts), examples=1197).ticks == ticks


def test_a_schedule_by_tokens_has_no_length() -> None:
    with pytest.raises(UsageError, match="no length"):
        plan_of(Digits(), Settings(clock=Every(tokens=100)), examples=1197)


@pytest.mark.parametrize(("better", "meets"), [("higher", [False, True, True]), ("lower", [True, True, False])])
def test_a_quality_meets_the_target_from_its_better_side(line_with: Any, better: str, meets: list[bool]) -> None:
    plan = plan_of(line_with(quality_better=better, target=0.5), Settings(), examples=10)
    assert [plan.meets_target(quality) for quality in (0.4, 0.5, 0.6)] == meets


def test_without_a_target_nothing_meets_it(line_with: Any) -> None:
    assert not plan_of(line_with(target=None), Settings(), examples=10).meets_target(0.0)
