"""Stochastic rounding to bfloat16: right in the mean, whatever the size of an update."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

LOW_BITS = 0xFFFF
"""The bits of a float32 that bfloat16 does not hold."""


def stochastically_rounded(values: Tensor, generator: torch.Generator) -> Tensor:
    """`values`, float32 and of any shape, in bfloat16: each is one of its two neighbours, and in the mean itself.

    With u uniform on {0, ..., 2^16 - 1} added to the bits of x and the low 16 cut off, the neighbour away from zero is
    taken with the probability (|x| - |lower|) / ulp, so that E[result] = x exactly, subnormal numbers included. What is not
    finite stays what it is, and nothing finite becomes infinite: beyond the largest bfloat16 the result is that.

    Source: Zamirai et al. 2021, arXiv 2010.06192, for training in pure bfloat16.

    >>> draws = torch.Generator().manual_seed(0)
    >>> rounded = stochastically_rounded(torch.full((10000,), 1 + 2.0**-9), draws)
    >>> sorted(set(rounded.tolist()))
    [1.0, 1.0078125]
    """
    assert values.dtype is torch.float32
    bits = values.detach().contiguous().view(torch.int32)
    drawn = torch.randint(0, LOW_BITS + 1, bits.shape, generator=generator, device=values.device, dtype=torch.int32)
    # An exponent that the carry pushes to all ones is infinity: there the cut alone, hence the largest finite one, is right.
    rounded = drawn.add_(bits).bitwise_and_(~LOW_BITS).view(torch.float32)
    cut = bits.bitwise_and(~LOW_BITS).view(torch.float32)
    rounded = torch.where(rounded.isfinite(), rounded, cut)
    return torch.where(values.isfinite(), rounded, values).to(torch.bfloat16)


def generator_of(device: torch.device, *, seed: int, draw: int) -> torch.Generator:
    """The draws of one update: a function of `seed` and `draw` alone, so that a resumed run draws what it would have drawn."""
    number = hashlib.sha256(f"{seed}/{draw}".encode()).digest()[:4]  # a CPU generator takes 32 bits of a seed
    return torch.Generator(device).manual_seed(int.from_bytes(number, "big"))
