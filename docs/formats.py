"""Writes docs/formats.md: the number formats and the figures that follow from their fields.

`make reference` runs this; tests/architecture/test_public.py fails where the page is not what it would write.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from truestep.formats import BLOCKS, FORMATS, Format

PAGE = Path(__file__).with_name("formats.md")

HEAD = """# Number formats

Computed from the fields of each format by `make reference`; `truestep formats --json` gives the same figures unrounded.
`e` and `m` are the bits of exponent and mantissa. Below the smallest normal a number has fewer and fewer of its bits; below half
of the smallest of all it becomes 0. The spacing is that of numbers between 1 and 2; the rounding error of a normal number is at
most half of it, relatively.
"""

LAST = """In a block format, elements of a block share a scale, which is a power of two. The block is what makes 4 and 6 bits
usable: a scale for each 32 numbers in place of one for a whole tensor.
"""


def text() -> str:
    """The whole page."""
    names = [
        "format",
        "e",
        "m",
        "largest",
        "smallest normal",
        "smallest of all",
        "spacing at 1",
        "NaN codes",
        "beyond the largest",
    ]
    fields = [
        [each.name, each.exponent, each.mantissa, *figures(each), each.nans or "none", each.overflow] for each in FORMATS.values()
    ]
    shared = [[each.name, each.element.name, each.scale.name, each.block, each.bits_per_element] for each in BLOCKS.values()]
    sources = [[each.name, each.source] for each in (*FORMATS.values(), *BLOCKS.values())]
    parts = [HEAD, table(names, fields), "## Block formats\n", LAST]
    parts += [table(["format", "element", "scale", "block", "bits an element"], shared)]
    return "\n".join([*parts, "## Sources\n", table(["format", "source"], sources)])


def figures(each: Format) -> list[str]:
    """Largest, smallest normal, smallest of all, and the spacing at 1."""
    least = each.smallest_normal if each.smallest_subnormal is None else each.smallest_subnormal
    return [figure(number) for number in (each.max, each.smallest_normal, least, each.eps)]


def figure(number: float) -> str:
    """Four digits, and the power of two where it is one."""
    mantissa, exponent = math.frexp(number)
    return f"2^{exponent - 1} = {number:.4g}" if mantissa == 0.5 else f"{number:.8g}"


def table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(text())
