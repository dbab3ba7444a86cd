"""Counting tensors by their bits is counting their elements one by one; and rounding per block and per tensor, done by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from truestep.formats import BLOCKS, FORMATS
from truestep.formats.torch_dtypes import DTYPES
from truestep.inspection.bits import RAW, class_of
from truestep.inspection.counting import Counting, elements
from truestep.inspection.relative import BLOCK, PER_TENSOR, Relative
from truestep.inspection.spread import BOUNDS, NO_LOSSES, Losses, Spread, overflow_bound, split


def counted(tensor: torch.Tensor) -> Counting:
    counting = Counting()
    counting.add(tensor)
    return counting


def related(tensor: torch.Tensor) -> Relative:
    relative = Relative()
    relative.add(tensor)
    return relative


def same(tensor: torch.Tensor) -> bool:
    """Not an assertion on both, whose difference would fill pages."""
    return counted(tensor).spread() == Spread.of([float(x) for x in tensor.double().flatten()])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_of_sixteen_bits_is_counted_as_it_is(dtype: torch.dtype) -> None:
    assert same(torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edges_and_random_bits_are_counted_as_they_are(dtype: torch.dtype) -> None:
    draws = torch.Generator().manual_seed(0)
    wide = dtype is torch.float64
    bits = torch.randint(-(2**62), 2**62, (4000,), generator=draws).to(torch.int64 if wide else torch.int32)
    found = bits.view(dtype)
    places = [float(bound * Fraction(2) ** power) for bound, _ in BOUNDS for power in range(-30, 30)]
    near = [y for x in places for y in (math.nextafter(x, 0), x, math.nextafter(x, math.inf))]
    assert same(torch.cat([found[found.abs() > 2.0**-1022] if wide else found, torch.tensor(near, dtype=dtype)]))


def test_float32_below_its_normal_numbers_keeps_its_bits() -> None:
    assert same(torch.tensor([2.0**-149, 3 * 2.0**-149, 2.0**-127, 1.0, 0.0]))


@pytest.mark.parametrize("tensor", [torch.zeros(0), torch.zeros(3, 2), torch.tensor(-3.0), torch.tensor([math.inf, math.nan])])
def test_empty_scalar_zero_and_infinite_tensors_are_counted(tensor: torch.Tensor) -> None:
    counting = counted(tensor)
    assert counting.spread().elements == tensor.numel()
    assert all(each == NO_LOSSES or tensor.numel() == 1 for each in related(tensor).blocks().values())


def test_sparse_and_complex_gradients_are_counted_by_their_elements() -> None:
    sparse = torch.sparse_coo_tensor(
        torch.tensor([[1, 1]]), torch.tensor([[1.0, 2.0], [1.0, -2.0]]), (4, 2), check_invariants=True
    )
    assert elements(sparse).tolist() == [[2.0, 0.0]]
    assert elements(torch.tensor([1 + 2j])).tolist() == [[1.0, 2.0]]


def test_a_raw_class_lies_in_one_class_of_the_bounds() -> None:
    assert {class_of(raw) for raw in range(RAW)} == set(range(len(BOUNDS)))


def by_hand(values: list[float], name: str, scale: int) -> Losses:
    """Each value rounded by the reference, one after another."""
    stored, found = FORMATS[name], NO_LOSSES
    limit, held = overflow_bound(stored)
    for value in values:
        size = Fraction(abs(value)) * Fraction(2) ** scale
        over = size > limit if held else size >= limit
        result = stored.max if over else stored.round(size)
        low, subnormal = result == 0, 0 < result < stored.smallest_normal
        found += Losses(elements=int(value != 0), flushed=int(low and value != 0), subnormal=int(subnormal), overflowed=int(over))
    return found


SHAPES = [(5, 64), (3, 70), (4, 3, 5), (7,), (2, 33), (1, 1)]


def drawn(shape: tuple[int, ...]) -> torch.Tensor:
    draws = torch.Generator().manual_seed(len(shape))
    tensor = torch.randn(shape, generator=draws) * torch.exp2(torch.randint(-12, 12, shape, generator=draws).float())
    return tensor.masked_fill(tensor.abs() < 0.1, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_lose_what_their_elements_lose_at_the_blocks_own_scale(shape: tuple[int, ...]) -> None:
    tensor, losses = drawn(shape), related(drawn(shape)).blocks()
    for name, block_format in BLOCKS.items():
        expected = NO_LOSSES
        for values in (block.tolist() for row in tensor.reshape(-1, shape[-1]) for block in row.split(BLOCK)):
            top = max(map(abs, values))
            scale = split(Fraction(block_format.element.max))[0] - split(Fraction(top))[0] if top else 0
            expected += by_hand(values, block_format.element.name, scale)
        assert losses[name] == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_a_scaled_tensor_never_overflows_and_would_at_twice_its_scale(shape: tuple[int, ...]) -> None:
    tensor, losses = drawn(shape), related(drawn(shape)).per_tensor()
    values = tensor.flatten().tolist()
    for name in PER_TENSOR:
        scale = 60
        while by_hand(values, name, scale).overflowed:
            scale -= 1
        assert losses[name] == by_hand(values, name, scale)


@pytest.mark.parametrize("name", ["bf16", "fp16", "e5m2"])
def test_predicted_flushes_and_overflows_are_those_of_a_cast(name: str) -> None:
    draws = torch.Generator().manual_seed(3)
    tensor = torch.randn(4000, generator=draws) * torch.exp2(torch.randint(-60, 40, (4000,), generator=draws).float())
    cast = tensor.to(DTYPES[name])
    losses = counted(tensor).spread().losses(FORMATS[name])
    assert losses.flushed == int((cast.float() == 0).sum() - (tensor == 0).sum())
    assert losses.overflowed == int(cast.float().isinf().sum())
