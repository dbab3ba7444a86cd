"""Formats and torch dtypes name each other, and torch.finfo states our figures (but for one known fault)."""

import pytest
import torch

from truestep.errors import FormatError
from truestep.formats import FORMATS, named
from truestep.formats.torch_dtypes import DTYPES, dtype_of, format_of


@pytest.mark.parametrize("name", DTYPES)
def test_a_format_is_found_again_through_its_dtype(name):
    dtype = dtype_of(named(name))
    assert dtype is not None
    assert format_of(dtype) is named(name)


def test_formats_that_torch_cannot_store_one_by_one_have_no_dtype():
    assert [name for name, each in FORMATS.items() if dtype_of(each) is None] == ["tf32", "e2m3", "e3m2", "e2m1"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.int8, torch.complex64, torch.float4_e2m1fn_x2])
def test_a_dtype_without_a_format_is_refused(dtype):
    with pytest.raises(FormatError, match=str(dtype)):
        format_of(dtype)


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "e8m0"])
def test_finfo_states_our_figures(name):
    ours, theirs = named(name), torch.finfo(dtype_of(named(name)))
    assert (ours.bits, ours.max, ours.smallest_normal) == (theirs.bits, theirs.max, theirs.smallest_normal)
    if name != "e5m2fnuz":  # tests/formats/test_table.py records what torch says there
        assert ours.eps == theirs.eps
