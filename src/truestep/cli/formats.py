"""`truestep formats`: the number formats and the figures that follow from their fields."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from truestep.cli._output import print_json, print_table
from truestep.formats import BLOCKS, FORMATS, BlockFormat, Format

_COLUMNS = ["format", "s/e/m", "largest", "normal", "least", "eps", "NaN", "overflow", "torch"]
_BLOCK_COLUMNS = ["format", "element", "scale", "block", "bits/element"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """Print the number formats: largest and smallest numbers, spacing at 1, special codes, overflow."""

    json: bool = False
    """Print one JSON document instead of tables."""

    def run(self) -> int:
        """Prints the tables, or the document."""
        from truestep.formats.torch_dtypes import dtype_of  # noqa: PLC0415 - torch is slow to import

        dtypes = {
            name: str(dtype).removeprefix("torch.") if (dtype := dtype_of(each)) else None for name, each in FORMATS.items()
        }
        if self.json:
            formats = [_format_record(each, dtypes[each.name]) for each in FORMATS.values()]
            print_json({"schema": 1, "formats": formats, "blocks": [_block_record(each) for each in BLOCKS.values()]})
            return 0
        rows = [_row(each, dtypes[each.name]) for each in FORMATS.values()]
        print_table("largest number, smallest normal, smallest of all, spacing at 1, codes that are NaN", _COLUMNS, rows)
        print()
        shared = [
            [each.name, each.element.name, each.scale.name, str(each.block), str(each.bits_per_element)]
            for each in BLOCKS.values()
        ]
        print_table("blocks whose elements share a scale", _BLOCK_COLUMNS, shared, words=3)
        return 0


def _row(each: Format, dtype: str | None) -> list[str]:
    """The figures in print: a power of two as one, five digits otherwise, - for none."""
    return [
        each.name,
        f"{each.sign}/{each.exponent}/{each.mantissa}",
        _figure(each.max),
        _figure(each.smallest_normal),
        _figure(each.smallest_subnormal or each.smallest_normal),
        _figure(each.eps),
        str(each.nans or "-"),
        each.overflow,
        dtype or "-",
    ]


def _figure(number: float) -> str:
    mantissa, exponent = math.frexp(number)
    return f"2^{exponent - 1}" if mantissa == 0.5 and not 0.1 < number < 10 else f"{number:.5g}"


def _format_record(each: Format, dtype: str | None) -> dict[str, Any]:
    """Every field and every figure, unrounded."""
    fields = ["name", "bits", "sign", "exponent", "mantissa", "bias", "specials", "max", "smallest_normal"]
    fields += ["smallest_subnormal", "eps", "infinities", "nans", "overflow", "source"]
    return {field: getattr(each, field) for field in fields} | {"torch": dtype}


def _block_record(each: BlockFormat) -> dict[str, Any]:
    return {
        "name": each.name,
        "element": each.element.name,
        "scale": each.scale.name,
        "block": each.block,
        "bits_per_element": each.bits_per_element,
        "source": each.source,
    }
