"""bytes-lm counts what it scores: its weight is its loss's denominator, its tokens and its quality's."""

import math

import pytest
import torch
from torch import Tensor, nn

import truestep
from truestep.errors import WeightError
from truestep.tasks import BytesLM
from truestep.tasks.bytes_lm import Padded, padded

TASK = BytesLM()
SPLITS = TASK.splits()


def built(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return TASK.model()


def window(seed: int = 0) -> list[Padded]:
    """16 lines in 4 microbatches, as a run takes them."""
    lines = torch.randperm(len(SPLITS.train), generator=torch.Generator().manual_seed(seed))[:16]
    return [TASK.microbatch(SPLITS.train, part) for part in lines.tensor_split(4)]


def joined(microbatches: list[Padded]) -> Padded:
    """One microbatch of all their lines."""
    return padded([row[row >= 0] for microbatch in microbatches for row in microbatch.targets])


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten().double() for parameter in model.parameters() if parameter.grad is not None])


def gradient_in_float64(parts: list[Padded], shares: list[float]) -> Tensor:
    """Of the sum of the parts' mean losses, each times its share, by hand."""
    model = built().double()
    for part, share in zip(parts, shares, strict=True):
        (share * TASK.loss(model, part)).backward()
    return gradient(model)


def test_the_data_are_those_that_the_target_was_found_on() -> None:
    assert TASK.digest() == "4889268661fbe78b43d69e0b9161e6d92515157ae57383cc28d0eae8eab478a7"
    assert [len(split) for split in SPLITS.as_dict().values()] == [2037, 88, 86]


def test_lines_have_unequal_lengths_and_microbatches_unequal_counts() -> None:
    lengths = {len(line) for split in SPLITS.as_dict().values() for line in split}
    assert (min(lengths), max(lengths)) == (5, 128)
    order = torch.randperm(len(SPLITS.train), generator=torch.Generator().manual_seed(0))
    counts = torch.tensor([TASK.microbatch(SPLITS.train, part).scored for part in torch.split(order, 4)]).double()
    assert counts.min() < 250
    assert counts.max() > 500
    assert counts.std() / counts.mean() > 0.15


def test_padding_is_not_scored_and_every_byte_is() -> None:
    for microbatch in window():
        inputs, targets, scored = microbatch
        assert int((targets >= 0).sum()) == scored == TASK.weight(microbatch) == TASK.tokens(microbatch)
        assert bool((inputs[targets < 0] == 0).all())
        assert bool((inputs[:, 0] == 0).all())
        kept = targets[:, :-1] >= 0
        follows = targets[:, 1:] >= 0
        assert torch.equal(inputs[:, 1:][follows], targets[:, :-1][follows & kept])
        assert all(bytes(row[row >= 0].tolist()).endswith(b"\n") for row in targets)


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_the_weight_equals_the_losss_denominator_and_tokens_are_counted(policy: str) -> None:
    model, microbatches = built(), window()
    optimizer = TASK.optimizer(model.parameters())
    update = truestep.Update(model, optimizer, loss=TASK.loss, weight=TASK.weight, tokens=TASK.tokens, policy=policy)
    outcome = update(microbatches)
    assert outcome.completed
    assert outcome.weight_check == "equals the loss's denominator (NllLossBackward0)"
    assert outcome.examples == 16
    assert outcome.tokens == outcome.weight == sum(microbatch.scored for microbatch in microbatches)


def test_lines_are_refused_as_the_weight() -> None:
    model = built()
    update = truestep.Update(model, TASK.optimizer(model.parameters()), loss=TASK.loss)
    with pytest.raises(WeightError, match=rf"weight is 4, and the loss is a mean over {window()[0].scored}"):
        update(window())


def test_accumulation_by_scored_bytes_is_the_full_batch_and_an_equal_average_is_not() -> None:
    parts = window()
    total = sum(part.scored for part in parts)
    full = gradient_in_float64([joined(parts)], [1.0])
    by_bytes = gradient_in_float64(parts, [part.scored / total for part in parts])
    equal = gradient_in_float64(parts, [0.25] * 4)
    # float64 sums of about 1650 bytes: gamma(2000) is 2e-13, and cancellation may cost a factor of 50
    assert (by_bytes - full).norm() / full.norm() < 1e-11
    assert (equal - full).norm() / full.norm() > 0.01
    # the engine's float32 gradient: nearer to the full batch than a hundredth of what the equal average is off
    model = built()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    truestep.Update(model, optimizer, loss=TASK.loss, weight=TASK.weight)(parts)
    assert (gradient(model) - full).norm() < 0.01 * (equal - full).norm()


class Favours(nn.Module):
    """Gives one byte a logit of `logit` and all others 0, whatever came before."""

    def __init__(self, byte: int, logit: float) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(256, dtype=torch.float64))
        self.logits.data[byte] = logit

    def forward(self, inputs: Tensor) -> Tensor:
        return self.logits.expand(*inputs.shape, 256)


def test_knowing_nothing_costs_8_bits_a_byte() -> None:
    assert TASK.quality(Favours(0, 0.0), SPLITS.test) == pytest.approx(8.0, rel=1e-12)


def test_quality_is_the_mean_over_all_bytes_and_no_mean_of_means() -> None:
    newline, logit = 10, 3.0
    model = Favours(newline, logit)
    rare = math.log(255 + math.exp(logit))
    # each line has one newline, so that a mean over lines would give short lines' newlines more than their share
    bits = (rare - logit * len(SPLITS.test) / sum(map(len, SPLITS.test))) / math.log(2)
    by_line = sum((rare - logit / len(line)) / math.log(2) for line in SPLITS.test) / len(SPLITS.test)
    # sums of 8192 float64 terms: gamma(8192) is 1e-12
    assert TASK.quality(model, SPLITS.test) == pytest.approx(bits, rel=1e-11)
    assert abs(bits - by_line) > 0.01
