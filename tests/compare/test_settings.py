"""What a candidate makes of the protocol."""

import dataclasses

import pytest

from truestep import errors
from truestep.compare.settings import settings_of, warmup_of
from truestep.engine.clip import ClipNorm
from truestep.engine.clock import Every
from truestep.engine.scale import LossScale
from truestep.run import Settings, plan_of
from truestep.tasks import Digits


def test_a_bare_policy_takes_everything_from_the_protocol(declare):
    protocol = declare(candidates=("fp32", "bf16"), stop_at_target=False)
    assert settings_of(protocol, "bf16") == Settings(
        candidate="bf16",
        policy="bf16",
        clock="completed",
        microbatches=2,
        budget_attempts=400,
        budget_seconds=20.0,
        evaluate_every=320,
        target=0.95,
        stop_at_target=False,
        max_consecutive_skips=50,
        threads=2,
    )


def test_every_key_of_a_candidate_reaches_the_run(declare):
    protocol = declare()
    plain = settings_of(protocol, "fp16")
    changed = {
        "fp16 scale=static:1024": {"scale": LossScale.static(1024.0)},
        "fp16 scale=dynamic:8": {"scale": LossScale.dynamic(8.0)},
        "fp16 scale=dynamic": {"scale": LossScale.dynamic()},
        "fp16 scale=none": {"scale": LossScale.none()},
        "fp16 scale=none underflow=allowed": {"scale": LossScale.none(), "allow_underflow": True},
        "fp16 accumulate=8": {"microbatches": 8},
        "fp16 clip=0.5": {"clip": ClipNorm(0.5)},
        "fp16 clock=attempt": {"clock": "attempt"},
        "fp16 clock=examples:100": {"clock": Every(examples=100)},
        "fp16 clock=tokens:7": {"clock": Every(tokens=7)},
    }
    for text, fields in changed.items():
        assert settings_of(protocol, text) == dataclasses.replace(plain, candidate=text, **fields)


def test_the_baseline_again_runs_as_the_baseline_under_its_own_name(declare):
    protocol = declare(candidates=("fp32", "fp32 again"))
    again = settings_of(protocol, "fp32 again")
    assert again == dataclasses.replace(settings_of(protocol, "fp32"), candidate="fp32 again")


def test_a_scale_that_float32_cannot_hold_is_refused(declare):
    with pytest.raises(errors.PolicyError):
        settings_of(declare(), "fp16 scale=static:0.1")


def test_a_warm_up_is_short_evaluates_after_each_attempt_and_goes_to_its_end(declare):
    warm = warmup_of(declare(), "fp16")
    assert (warm.budget_attempts, warm.evaluate_every, warm.stop_at_target) == (4, 64, False)


def test_a_pilots_runs_have_no_target_where_the_task_has_one(declare):
    task = Digits()
    assert task.target is not None
    pilot = declare(target=None, stop_at_target=False)
    for settings in (settings_of(pilot, "fp32"), warmup_of(pilot, "fp32")):
        plan = plan_of(task, settings, examples=1197)
        assert plan.target is None
        assert not plan.meets_target(1.0)
    assert plan_of(task, settings_of(declare(), "fp32"), examples=1197).target == 0.95
    assert plan_of(task, Settings(), examples=1197).target == task.target


def test_a_target_of_a_run_that_races_to_none_is_refused():
    with pytest.raises(errors.UsageError, match="races to none"):
        Settings(races=False, target=0.5)
