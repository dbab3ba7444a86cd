"""The figures of the table and the rounding facts, each as it is printed in textbooks and papers."""

import math

import numpy as np
import pytest
import torch

from truestep.errors import FormatError, UsageError
from truestep.formats import BLOCKS, FORMATS, named, share_flushed

# name: sign/exponent/mantissa, largest, smallest normal, smallest subnormal, eps, infinite codes, NaN codes
FIGURES = {
    "fp32": ((1, 8, 23), 3.4028234663852886e38, 2**-126, 2**-149, 2**-23, 2, 2**24 - 2),
    "tf32": ((1, 8, 10), (2 - 2**-10) * 2.0**127, 2**-126, 2**-136, 2**-10, 2, 2**11 - 2),
    "bf16": ((1, 8, 7), 3.3895313892515355e38, 2**-126, 2**-133, 2**-7, 2, 2**8 - 2),
    "fp16": ((1, 5, 10), 65504, 6.103515625e-05, 5.960464477539063e-08, 2**-10, 2, 2**11 - 2),
    "e4m3fn": ((1, 4, 3), 448, 2**-6, 2**-9, 2**-3, 0, 2),
    "e5m2": ((1, 5, 2), 57344, 2**-14, 2**-16, 2**-2, 2, 6),
    "e4m3fnuz": ((1, 4, 3), 240, 2**-7, 2**-10, 2**-3, 0, 1),
    "e5m2fnuz": ((1, 5, 2), 57344, 2**-15, 2**-17, 2**-2, 0, 1),
    "e2m3": ((1, 2, 3), 7.5, 1, 0.125, 2**-3, 0, 0),
    "e3m2": ((1, 3, 2), 28, 0.25, 0.0625, 2**-2, 0, 0),
    "e2m1": ((1, 2, 1), 6, 1, 0.5, 0.5, 0, 0),
    "e8m0": ((0, 8, 0), 2.0**127, 2**-127, None, 1, 0, 1),
}


def test_the_table_holds_these_formats_in_this_order():
    assert list(FORMATS) == list(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_the_figures_that_follow_from_the_fields_are_the_known_ones(name):
    each = named(name)
    assert FIGURES[name] == (
        (each.sign, each.exponent, each.mantissa),
        each.max,
        each.smallest_normal,
        each.smallest_subnormal,
        each.eps,
        each.infinities,
        each.nans,
    )


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(FormatError, match=r"'fp17'\n.*fp32, tf32, bf16"):
        named("fp17")


def test_a_block_pays_for_its_scale():
    assert {name: block.bits_per_element for name, block in BLOCKS.items()} == {
        "mxfp8-e5m2": 8.25,
        "mxfp8-e4m3": 8.25,
        "mxfp6-e3m2": 6.25,
        "mxfp6-e2m3": 6.25,
        "mxfp4-e2m1": 4.25,
    }


@pytest.mark.parametrize(
    ("name", "number", "rounded"),
    [
        ("fp16", 2**-24, 5.960464477539063e-08),
        ("fp16", 2**-25, 0),
        ("fp16", 2**-25 * (1 + 2**-10), 2**-24),
        ("fp16", 65519.996, 65504),
        ("fp16", 65520, math.inf),
        ("fp16", 1 + 2**-11, 1),
        ("fp16", 2048 + 1, 2048),
        ("bf16", 256 + 1, 256),
        ("fp32", 2**24 + 1, 2**24),
        ("bf16", 3.396e38, 3.3895313892515355e38),
        ("bf16", 3.3961775e38, math.inf),
        ("e5m2", 61439, 57344),
        ("e5m2", 61440, math.inf),
        ("e4m3fn", 464, 448),
        ("e4m3fn", 465, 448),
        ("e4m3fn", math.inf, 448),
    ],
)
def test_a_rounding_fact_about_float32_numbers(name, number, rounded):
    assert named(name).round(np.float32(number).item()) == rounded


def test_e4m3fn_gives_nan_from_465_where_ml_dtypes_policy_is_asked_for():
    assert named("e4m3fn").round(464.0, overflow="nan") == 448
    assert math.isnan(named("e4m3fn").round(465.0, overflow="nan"))
    assert math.isnan(named("e4m3fn").round(math.inf, overflow="nan"))


def test_torch_states_a_wrong_eps_for_e5m2fnuz():
    """torch.finfo says 0.125; the number after 1 is 1.25, by torch's own decoding too."""
    assert torch.finfo(torch.float8_e5m2fnuz).eps == 0.125
    after_one = torch.tensor([named("e5m2fnuz").encode(1.0) + 1], dtype=torch.uint8).view(torch.float8_e5m2fnuz)
    assert after_one.float().item() - 1 == named("e5m2fnuz").eps == 0.25


@pytest.mark.parametrize(("scale", "share"), [(1, 0.2343), (8, 0.0297)])
def test_the_share_of_normal_values_that_float16_flushes(scale, share):
    assert round(share_flushed(1e-7, scale), 4) == share


def test_the_share_flushed_is_the_share_that_torch_flushes():
    """Of n values the share deviates by sqrt(p (1 - p) / n): 2.0e-4 here, and 5 of these are allowed."""
    count = 1_000_000
    values = 1e-7 * 4 * torch.randn(count, generator=torch.Generator().manual_seed(0))
    expected = share_flushed(1e-7, 4)
    share = (values.half() == 0).double().mean().item()
    assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


@pytest.mark.parametrize(("sigma", "scale"), [(0, 1), (1, 0), (-1, 1), (math.nan, 1), (1, math.inf)])
def test_the_share_flushed_needs_positive_numbers(sigma, scale):
    with pytest.raises(UsageError, match="finite and above 0"):
        share_flushed(sigma, scale)
