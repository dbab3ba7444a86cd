"""A hand-written loop without a mistake is the engine's run; with one, its damage is the derived one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from truestep import ClipNorm, ClipValue, LossScale
from truestep.errors import UsageError
from truestep.ledger import outcomes
from truestep.run import Settings, train
from truestep.run.building import build
from truestep.run.faults import FAULTS, LABEL
from truestep.run.saving import Saving

CPU = Settings(device="cpu")
DEVICE = torch.device("cpu")
RISING = {"scheduler": lambda optimizer, ticks: LambdaLR(optimizer, lambda tick: 1.0 / (1 + tick))}
HUGE = LossScale.dynamic(2.0**127)


def moved(task: Any, settings: Settings, *, size: int) -> tuple[Any, torch.Tensor]:
    """The outcome of one update on a window of `size` examples a microbatch, and how far SGD moved the weight."""
    setup = build(task, settings, seed=3, device=DEVICE)
    data = setup.splits.train
    before = setup.model.weight.detach().clone()
    outcome = setup.update([data[0:size], data[size : 2 * size]])
    return outcome, setup.model.weight.detach() - before


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "fused AdamW"])
@pytest.mark.parametrize("scale", [None, LossScale.static(1024.0), LossScale.dynamic(64.0, interval=3)])
def test_without_a_mistake_it_is_the_engines_run_bit_for_bit(line_with: Any, optimizer: str, scale: LossScale | None) -> None:
    made = {
        "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
        "fused AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
    }
    settings = replace(CPU, scale=scale)
    ours, theirs = (
        train(line_with(optimizer=made[optimizer], **RISING), replace(settings, fault=fault), seed=3) for fault in (None, "none")
    )
    assert ours.weights_digest == theirs.weights_digest
    assert ours.counts == theirs.counts
    assert [each.quality for each in ours.evaluations] == [each.quality for each in theirs.evaluations]
    assert ours.test_quality == theirs.test_quality


def test_its_ledger_holds_the_same_rows_and_calls_it_what_it_is(line_with: Any, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    train(line_with(**RISING), replace(CPU, clip=ClipNorm(0.5)), seed=3, ledger=ours)
    train(line_with(**RISING), replace(CPU, clip=ClipNorm(0.5), fault="none"), seed=3, ledger=theirs)
    pairs = list(zip(outcomes(ours), outcomes(theirs), strict=True))
    for our, their in pairs:
        assert their.loss == pytest.approx(our.loss, rel=1e-5)
        assert their.grad_norm == pytest.approx(our.grad_norm, rel=1e-5)
        assert their.grad_norm_clipped == pytest.approx(our.grad_norm_clipped, rel=1e-5)
        assert (their.lr, their.counts, their.weight, their.examples) == (our.lr, our.counts, our.weight, our.examples)
        assert LABEL in their.weight_check
    assert len(pairs) == 9


def test_clipped_before_it_is_unscaled_the_update_is_the_limit_divided_by_the_scale(line_with: Any) -> None:
    settings = replace(CPU, scale=LossScale.static(1024.0), clip=ClipNorm(0.5))
    right, move = moved(line_with(), settings, size=2)
    wrong, short = moved(line_with(), replace(settings, fault="clip-before-unscale"), size=2)
    assert right.grad_norm > 0.5, "the clip has to bind"
    assert right.grad_norm_clipped == 0.5
    assert wrong.grad_norm == pytest.approx(right.grad_norm, rel=1e-6)
    assert wrong.grad_norm_clipped == pytest.approx(0.5 / 1024, rel=1e-5)
    assert short.norm().item() == pytest.approx(move.norm().item() / 1024, rel=1e-3)


def test_a_gradient_below_the_limit_is_clipped_by_its_scaled_length_all_the_same(line_with: Any) -> None:
    settings = replace(CPU, scale=LossScale.static(1024.0), clip=ClipNorm(100.0))
    right, _ = moved(line_with(), settings, size=2)
    wrong, _ = moved(line_with(), replace(settings, fault="clip-before-unscale"), size=2)
    assert right.grad_norm_clipped == right.grad_norm
    assert wrong.grad_norm_clipped == pytest.approx(100 / 1024, rel=1e-5)


def test_a_loss_that_is_not_divided_moves_sgd_as_many_times_as_far_as_there_are_microbatches(line_with: Any) -> None:
    right, move = moved(line_with(), CPU, size=2)
    wrong, far = moved(line_with(), replace(CPU, fault="loss-not-divided"), size=2)
    assert wrong.grad_norm == pytest.approx(2 * right.grad_norm, rel=1e-6)
    torch.testing.assert_close(far, 2 * move)
    assert wrong.loss == right.loss


def test_zeroed_at_every_microbatch_the_last_alone_arrives_at_its_share(line_with: Any) -> None:
    task = line_with()
    setup = build(task, CPU, seed=3, device=DEVICE)
    last = setup.splits.train[2:4]
    (gradient,) = torch.autograd.grad(task.loss(setup.model, last), [setup.model.weight])
    _, move = moved(line_with(), replace(CPU, fault="zero-every-microbatch"), size=2)
    torch.testing.assert_close(move, -0.1 * gradient / 2)


def test_a_mean_of_means_lets_a_small_microbatch_count_as_a_large_one(line_with: Any) -> None:
    task = line_with()
    setups = [build(task, replace(CPU, fault=fault), seed=3, device=DEVICE) for fault in ("none", "mean-of-means")]
    data = setups[0].splits.train
    window = [data[0:3], data[3:4]]
    large, small = (torch.autograd.grad(task.loss(setups[0].model, part), [setups[0].model.weight])[0] for part in window)
    for setup, expected in zip(setups, [(3 * large + small) / 4, (large + small) / 2], strict=True):
        before = setup.model.weight.detach().clone()
        setup.update(window)
        torch.testing.assert_close(setup.model.weight.detach() - before, -0.1 * expected)


def test_a_schedule_that_ticks_on_skips_runs_ahead_of_the_updates(line_with: Any) -> None:
    steep = {"loss": lambda model, batch: 10 * nn.functional.mse_loss(model(batch[0]), batch[1]), **RISING}
    settings = replace(CPU, scale=HUGE)
    right = train(line_with(**steep), replace(settings, fault="none"), seed=3)
    wrong = train(line_with(**steep), replace(settings, fault="scheduler-on-skip"), seed=3)
    assert right.counts.skipped > 0
    assert right.counts.ticks == right.counts.completed < right.counts.attempts
    assert wrong.counts.ticks == wrong.counts.attempts


def test_a_scale_that_is_never_updated_repeats_its_first_overflow(line_with: Any, tmp_path: Path) -> None:
    steep = {"loss": lambda model, batch: 10 * nn.functional.mse_loss(model(batch[0]), batch[1])}
    settings = replace(CPU, scale=HUGE, max_consecutive_skips=7)
    assert train(line_with(**steep), replace(settings, fault="none"), seed=3).counts.completed > 0
    stuck = train(line_with(**steep), replace(settings, fault="never-update"), seed=3, ledger=tmp_path / "a.jsonl")
    assert (stuck.status, stuck.counts.completed, stuck.counts.skipped) == ("stalled", 0, 7)
    assert {each.next_loss_scale for each in outcomes(tmp_path / "a.jsonl")} == {2.0**127}


@pytest.mark.parametrize("fused", [False, True])
def test_whether_an_attempt_completed_is_what_the_optimizer_did_and_not_what_the_gradient_looks_like(
    line_with: Any, fused: bool
) -> None:
    """The scaled gradient is finite, so that GradScaler finds nothing; unscaled it is not, and is stepped with."""

    def steep(model: Any, batch: Any) -> Any:
        difference = model(batch[0]) - model(batch[0]).detach()
        return (difference * 1e20 * 1e21).mean()

    made = {"optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=fused), "loss": steep}
    settings = replace(CPU, scale=LossScale.static(2.0**-20), clip=ClipNorm(1.0), fault="none")
    outcome, moved_by = moved(line_with(**made), settings, size=2)
    assert not moved_by.isfinite().any(), "the optimizer has stepped"
    assert outcome.completed
    assert outcome.counts.completed == 1
    right, still = moved(line_with(**made), replace(settings, scale=HUGE, clip=None), size=2)
    assert not right.completed
    assert not still.any(), "the optimizer has not"


@pytest.mark.parametrize(
    ("policy", "factor", "reason", "status"),
    [("fp16", 6e4, "forward overflow", "stalled"), ("fp32", 1e38, "non-finite loss", "diverged")],
)
def test_a_loss_that_overflowed_in_a_narrow_forward_may_be_sound_in_float32_and_stalls(
    line_with: Any, tmp_path: Path, policy: str, factor: float, reason: str, status: str
) -> None:
    far = {"loss": lambda model, batch: (model(batch[0]) * factor * factor).abs().mean()}
    settings = replace(CPU, policy=policy, scale=LossScale.dynamic(2.0), fault="none", max_consecutive_skips=3)
    record = train(line_with(**far), settings, seed=3, ledger=tmp_path / "a.jsonl")
    assert record.status == status
    assert {str(each.skip.reason) for each in outcomes(tmp_path / "a.jsonl") if each.skip is not None} == {reason}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"fault": "gremlin"}, "no fault is called 'gremlin'"),
        ({"fault": "clip-before-unscale", "scale": LossScale.static(8.0)}, "changes nothing"),
        ({"fault": "clip-before-unscale", "clip": ClipNorm(1.0)}, "changes nothing"),
        ({"fault": "never-update", "scale": LossScale.static(8.0)}, "changes nothing"),
        ({"fault": "scheduler-on-skip"}, "changes nothing"),
        ({"fault": "scheduler-on-skip", "scale": HUGE, "clock": "attempt"}, "changes nothing"),
        ({"fault": "loss-not-divided", "microbatches": 1}, "changes nothing"),
        ({"fault": "mean-of-means", "microbatches": 1}, "changes nothing"),
        ({"fault": "zero-every-microbatch", "microbatches": 1}, "changes nothing"),
        ({"fault": "none", "policy": "bf16-master"}, "trains float32 weights"),
        ({"fault": "none", "clip": ClipValue(1.0)}, "clips by norm"),
        ({"fault": "none", "on_oom": "accumulate"}, "cannot split a window again"),
    ],
)
def test_a_fault_that_could_not_show_itself_is_refused(line_with: Any, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named) as caught:
        train(line_with(), replace(CPU, **changes), seed=0)
    assert caught.value.hint


def test_its_run_is_not_saved(line_with: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not saved"):
        train(line_with(), replace(CPU, fault="none"), seed=0, checkpoints=Saving(folder=tmp_path))


def test_a_loss_of_several_terms_is_no_loss_for_it(line_with: Any) -> None:
    terms = {"loss": lambda model, batch: {"a": model(batch[0]).mean()}, "weight": lambda batch: {"a": 2}}
    record = train(line_with(**terms), replace(CPU, fault="none"), seed=0)
    assert record.status == "error"
    assert "one term" in str(record.detail)


def test_every_fault_says_what_it_does() -> None:
    assert all(fault.mistake and fault.damage and name == fault.name for name, fault in FAULTS.items())
