"""Batch normalisation couples the examples of a microbatch, and a skipped attempt leaves its running statistics alone."""

import pytest
import torch
from torch import Tensor, nn

import truestep
from truestep import LossScale
from truestep.tasks import Digits, DigitsConv

TASK = DigitsConv()
TRAIN = TASK.splits().train


def built(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return TASK.model()


def window(microbatches: int, first: int = 0) -> list[tuple[Tensor, Tensor]]:
    """64 images from the `first` on."""
    return [TASK.microbatch(TRAIN, part) for part in torch.arange(first, first + 64).tensor_split(microbatches)]


def buffers(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.named_buffers()}


def gradient_in_float64(microbatches: int, *, training: bool) -> Tensor:
    """Of the mean loss of 64 images, by hand: equal microbatches, each at its share."""
    model = built().double().train(training)
    for images, labels in window(microbatches):
        (TASK.loss(model, (images.double(), labels)) / microbatches).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


def test_the_data_are_those_of_the_digits() -> None:
    assert TASK.digest() == Digits().digest()


def test_accumulation_is_not_the_full_batch() -> None:
    # In float64 a gradient of these sizes is good to 1e-12 or so: what is left between the splits is no rounding.
    apart = gradient_in_float64(4, training=True) - gradient_in_float64(1, training=True)
    assert apart.norm() / gradient_in_float64(1, training=True).norm() > 0.01


def test_it_is_the_normalisation_over_the_microbatch_that_couples_the_images() -> None:
    apart = gradient_in_float64(4, training=False) - gradient_in_float64(1, training=False)
    # the sums of 64 images over 64 places: gamma(4096) of float64 is 5e-13; cancellation may cost a factor of 20
    assert apart.norm() / gradient_in_float64(1, training=False).norm() < 1e-11


@pytest.mark.parametrize("microbatches", [1, 4])
def test_the_running_statistics_move_once_a_microbatch(microbatches: int) -> None:
    model = built()
    update = truestep.Update(model, TASK.optimizer(model.parameters()), loss=TASK.loss)
    assert update(window(microbatches)).completed
    assert {int(value) for name, value in model.named_buffers() if name.endswith("num_batches_tracked")} == {microbatches}


@pytest.mark.parametrize("completed_before", [0, 2])
@pytest.mark.parametrize(
    ("policy", "scale", "poison"),
    [("fp32", None, float("nan")), ("bf16", None, float("inf")), ("fp16", LossScale.dynamic(init=2.0**40), None)],
)
def test_a_skipped_attempt_leaves_the_running_statistics_alone(
    policy: str, scale: LossScale | None, poison: float | None, completed_before: int
) -> None:
    model = built()
    update = truestep.Update(model, TASK.optimizer(model.parameters()), loss=TASK.loss, policy=policy, scale=scale)
    start = update.scale
    if scale is not None:
        update.scale = LossScale.dynamic()
    for each in range(completed_before):
        assert update(window(4, first=64 * each)).completed
    update.scale = start
    before, bad = buffers(model), window(4, first=256)
    if poison is not None:
        bad[3] = (bad[3][0].clone().fill_(poison), bad[3][1])  # three sound forwards have written statistics by then
    outcome = update(bad)
    assert outcome.skip is not None
    assert outcome.skip.reason == ("backward overflow" if poison is None else "non-finite input")
    after = buffers(model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    update.scale = LossScale.dynamic() if scale is not None else update.scale
    assert update(window(4, first=320)).completed
    assert not torch.equal(before["2.running_mean"], buffers(model)["2.running_mean"])
