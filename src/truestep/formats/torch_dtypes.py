"""Number formats as torch dtypes: the one file of the room that knows torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from truestep.errors import FormatError
from truestep.formats.format import Format
from truestep.formats.table import FORMATS

DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {
        "fp32": torch.float32,
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "e4m3fn": torch.float8_e4m3fn,
        "e5m2": torch.float8_e5m2,
        "e4m3fnuz": torch.float8_e4m3fnuz,
        "e5m2fnuz": torch.float8_e5m2fnuz,
        "e8m0": torch.float8_e8m0fnu,
    }
)
"""The dtype of each format that torch can store one number of; torch packs e2m1 in pairs, which is none."""

_FORMATS = {dtype: FORMATS[name] for name, dtype in DTYPES.items()}


def dtype_of(number_format: Format) -> torch.dtype | None:
    """The torch dtype that stores a format; None where torch has none.

    >>> from truestep.formats import named
    >>> dtype_of(named("fp16")), dtype_of(named("tf32"))
    (torch.float16, None)
    """
    return DTYPES.get(number_format.name)


def format_of(dtype: torch.dtype) -> Format:
    """The format that a torch dtype stores.

    Raises FormatError for a dtype whose format is not in the table: integers, complex numbers, float64.

    >>> format_of(torch.bfloat16).name
    'bf16'
    """
    try:
        return _FORMATS[dtype]
    except KeyError:
        known = ", ".join(str(each) for each in _FORMATS)
        raise FormatError(f"{dtype} is no format of the table", hint=f"these are: {known}") from None
