"""Blocks that are drawn stand for those that are not, by the size of their tensor, and the error that is said is held."""

from __future__ import annotations

import torch

from truestep.inspection.relative import BLOCK, MOST, Relative


def blocks(count: int, lossy: torch.Tensor) -> torch.Tensor:
    """Blocks of a 1 beside 31 numbers: too small for any MX format where `lossy`, else 1."""
    tensor = torch.ones(count, BLOCK)
    tensor[lossy, 1:] = 2.0**-30
    return tensor


def test_a_tensor_counts_by_its_blocks_and_not_by_how_many_were_drawn() -> None:
    relative = Relative()
    relative.add(blocks(16 * MOST, torch.arange(16 * MOST)))  # all its blocks alike: no draw can err
    relative.add(torch.ones(MOST, BLOCK))
    losses = relative.blocks()["mxfp4-e2m1"]
    assert (losses.elements, losses.flushed) == (17 * MOST * BLOCK, 16 * MOST * (BLOCK - 1))
    fp8 = relative.per_tensor()["e4m3fn"]
    assert (fp8.elements, fp8.flushed) == (losses.elements, losses.flushed)


def test_a_share_is_within_the_error_that_is_said_in_19_of_20_draws() -> None:
    generator = torch.Generator().manual_seed(1)
    missed = 0
    for _ in range(200):
        relative = Relative()
        count = 3 * MOST
        relative.add(blocks(count, torch.randperm(count, generator=generator)[: count // 2]))
        relative.add(torch.ones(5, BLOCK))
        share, true = relative.blocks()["mxfp4-e2m1"].share("flushed"), count / 2 * (BLOCK - 1) / ((count + 5) * BLOCK)
        assert share is not None
        assert relative.error is not None
        assert relative.error < 0.02
        missed += abs(share - true) > relative.error
    assert 0 < missed <= 20  # of 200 draws 10 are expected at most; none, or more than 20, has a chance below 1 %


def test_where_every_block_was_counted_no_error_is_said() -> None:
    relative = Relative()
    relative.add(torch.ones(MOST, BLOCK))
    assert relative.error is None
    relative.add(torch.zeros(MOST + 1, BLOCK))
    relative.add(torch.ones(1))
    assert relative.error is not None
    assert relative.error <= 1


def test_where_only_zeros_were_drawn_anything_may_be() -> None:
    relative = Relative()
    relative.add(torch.zeros(MOST + 1, BLOCK))
    assert relative.error == 1
    assert relative.blocks()["mxfp4-e2m1"].elements == 0
