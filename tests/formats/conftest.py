"""Every code, value and rounding boundary of a small format, taken from ml_dtypes, torch and numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Outsider:
    """A format as other people's code knows it."""

    name: str
    numpy: np.dtype
    torch: torch.dtype | None
    bits: int

    @property
    def codes(self) -> NDArray[np.integer]:
        """Every bit pattern, in a word of one or two bytes."""
        return np.arange(2**self.bits).astype(np.uint16 if self.numpy.itemsize == 2 else np.uint8)

    def boundaries(self, working: type[np.floating]) -> Boundaries:
        """The rounding boundaries among the finite numbers that are not negative."""
        upper = self.numpy_values()[: 2 ** (self.bits - 1)]
        return Boundaries.of(upper[np.isfinite(upper)], working)

    def numpy_values(self) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):  # signalling NaNs are among the codes
            return self.codes.view(self.numpy).astype(np.float64)

    def numpy_codes(self, numbers: NDArray[np.floating]) -> list[int]:
        with np.errstate(all="ignore"):  # overflow is the subject here
            return numbers.astype(self.numpy).view(self.codes.dtype).tolist()

    def torch_values(self) -> NDArray[np.float64]:
        word = torch.uint16 if self.bits == 16 else torch.uint8
        return torch.from_numpy(self.codes).view(word).view(self.torch).to(torch.float64).numpy()

    def torch_codes(self, numbers: NDArray[np.floating]) -> list[int]:
        word = torch.uint16 if self.bits == 16 else torch.uint8
        return torch.from_numpy(numbers).to(self.torch).view(word).to(torch.int64).tolist()


@dataclass(frozen=True, kw_only=True)
class Boundaries:
    """Numbers at which rounding decides, and the code of the nearest one, by neighbours and evenness alone.

    The code after the last finite one stands for an overflow.
    """

    numbers: NDArray[np.floating]
    codes: NDArray[np.int64]
    overflow: int

    @classmethod
    def of(cls, values: NDArray[np.float64], working: type[np.floating]) -> Boundaries:
        """From the finite values that are not negative, in the order of their codes: each value, each midpoint, and the
        numbers of the working precision on either side of each midpoint."""
        ladder = np.append(values, 2 * values[-1] - values[-2])
        lower = np.arange(len(values))
        middles = ((ladder[:-1] + ladder[1:]) / 2).astype(working)
        assert np.array_equal(middles, (ladder[:-1] + ladder[1:]) / 2), "every midpoint is a number of the working precision"
        below, above = np.nextafter(middles, working(0)), np.nextafter(middles, working(np.inf))
        return cls(
            numbers=np.concatenate([values.astype(working), middles, below, above]),
            codes=np.concatenate([lower, lower + lower % 2, lower, lower + 1]),
            overflow=len(values),
        )

    def expected(self, beyond: int) -> list[int]:
        """The codes, with `beyond` for an overflow."""
        return np.where(self.codes == self.overflow, beyond, self.codes).tolist()


OUTSIDERS = {
    name: Outsider(name=name, numpy=np.dtype(numpy), torch=dtype, bits=bits)
    for name, numpy, dtype, bits in [
        ("fp16", np.float16, torch.float16, 16),
        ("bf16", ml_dtypes.bfloat16, torch.bfloat16, 16),
        ("e4m3fn", ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn, 8),
        ("e5m2", ml_dtypes.float8_e5m2, torch.float8_e5m2, 8),
        ("e4m3fnuz", ml_dtypes.float8_e4m3fnuz, torch.float8_e4m3fnuz, 8),
        ("e5m2fnuz", ml_dtypes.float8_e5m2fnuz, torch.float8_e5m2fnuz, 8),
        ("e8m0", ml_dtypes.float8_e8m0fnu, torch.float8_e8m0fnu, 8),
        ("e2m3", ml_dtypes.float6_e2m3fn, None, 6),
        ("e3m2", ml_dtypes.float6_e3m2fn, None, 6),
        ("e2m1", ml_dtypes.float4_e2m1fn, None, 4),
    ]
}


@pytest.fixture(params=OUTSIDERS)
def outsider(request: pytest.FixtureRequest) -> Outsider:
    """Each format; a test may name fewer with `parametrize(..., indirect=True)`."""
    return OUTSIDERS[request.param]


@pytest.fixture(params=[name for name in OUTSIDERS if name != "e8m0"])
def signed(request: pytest.FixtureRequest) -> Outsider:
    """Each format but that of scales, whose codes have no zero, no sign and no even significand."""
    return OUTSIDERS[request.param]
