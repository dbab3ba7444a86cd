"""The byte transformer looks back only, by distance, and treats each example for itself."""

import pytest
import torch
from torch import nn

from truestep.tasks.transformer import ByteTransformer, distance_bias

# In float64 a forward of this size rounds to about 1e-15 of its logits; 1e-12 leaves a factor of a thousand.
ROUNDING = 1e-12


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return ByteTransformer(width=32, heads=4).double()


@pytest.fixture
def inputs() -> torch.Tensor:
    return torch.randint(1, 256, (3, 20), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("place", [1, 10, 19])
def test_an_input_changes_its_own_output_and_later_ones_but_none_before(
    model: nn.Module, inputs: torch.Tensor, place: int
) -> None:
    changed = inputs.clone()
    changed[:, place] = (changed[:, place] + 1) % 256
    apart = (model(inputs) - model(changed)).abs().amax(dim=(0, 2))
    assert apart[:place].max() < ROUNDING
    assert apart[place:].min() > 1e-6


def test_padding_at_the_end_changes_nothing_before_it(model: nn.Module, inputs: torch.Tensor) -> None:
    padded = nn.functional.pad(inputs, (0, 13))
    assert (model(padded)[:, :20] - model(inputs)).abs().max() < ROUNDING


def test_examples_are_independent(model: nn.Module, inputs: torch.Tensor) -> None:
    alone = torch.cat([model(row.unsqueeze(0)) for row in inputs])
    assert (model(inputs) - alone).abs().max() < ROUNDING


def test_the_order_of_what_came_before_matters(model: nn.Module, inputs: torch.Tensor) -> None:
    turned = torch.cat([inputs[:, :19].flip(1), inputs[:, 19:]], dim=1)
    assert (model(inputs) - model(turned))[:, 19].abs().max() > 1e-6


def test_the_bias_falls_with_distance_at_half_the_rate_from_head_to_head() -> None:
    bias = distance_bias(4, 6, torch.device("cpu"))
    for head in range(4):
        for row in range(6):
            assert bias[head, row].tolist() == [-(row - column) / 2**head for column in range(row + 1)] + [-torch.inf] * (5 - row)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_narrow_format_holds_the_bias_of_a_line_exactly(dtype: torch.dtype) -> None:
    bias = distance_bias(4, 128, torch.device("cpu"))
    assert torch.equal(bias.to(dtype).float(), bias)
