"""The formats that training meets, and the block formats made of them.

Only fields stand here; every figure follows from them (`truestep formats` prints the figures). Sources: IEEE 754-2019;
Kalamkar et al. 2019 (arXiv 1905.12322); Micikevicius et al. 2022 (arXiv 2209.05433); for the fnuz formats, Noune et al.
2022 (arXiv 2206.02915); OCP Microscaling Formats (MX) v1.0, 2023.

e4m3fn has no infinity, and what a cast does beyond 448 differs by stack: torch saturates, even infinity (2.13 and
later, on a CPU); ml_dtypes gives NaN from above 464. The default here is torch's, because a run that is judged here
runs on torch; `overflow="nan"` gives the other.

>>> named("e4m3fn").round(465.0), named("e4m3fn").round(465.0, overflow="nan")
(448.0, nan)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from truestep.errors import FormatError
from truestep.formats.format import Format

_KALAMKAR = "Kalamkar et al. 2019"
_OCP8 = "Micikevicius et al. 2022"
_FNUZ = "Noune et al. 2022"
_MX = "OCP MX v1.0, 2023"
# Below 2^-126 this tf32 keeps what rounding a float32's bit pattern to 10 bits gives; NVIDIA does not state it.
_TF32 = "NVIDIA A100 whitepaper, 2020; computed with, never stored"


@dataclass(frozen=True, kw_only=True)
class BlockFormat:
    """`block` numbers of one element format that share one scale.

    >>> BLOCKS["mxfp8-e4m3"].bits_per_element, BLOCKS["mxfp4-e2m1"].bits_per_element
    (8.25, 4.25)
    """

    name: str
    element: Format
    scale: Format
    block: int
    source: str

    @property
    def bits_per_element(self) -> float:
        """Bits of one number, with its share of the scale."""
        return self.element.bits + self.scale.bits / self.block


# fmt: off
_ROWS = (
    Format(name="fp32", sign=1, exponent=8, mantissa=23, specials="ieee", overflow="infinity", source="IEEE 754-2019"),
    Format(name="tf32", sign=1, exponent=8, mantissa=10, specials="ieee", overflow="infinity", source=_TF32),
    Format(name="bf16", sign=1, exponent=8, mantissa=7, specials="ieee", overflow="infinity", source=_KALAMKAR),
    Format(name="fp16", sign=1, exponent=5, mantissa=10, specials="ieee", overflow="infinity", source="IEEE 754-2019"),
    Format(name="e4m3fn", sign=1, exponent=4, mantissa=3, specials="fn", overflow="saturate", source=_OCP8),
    Format(name="e5m2", sign=1, exponent=5, mantissa=2, specials="ieee", overflow="infinity", source=_OCP8),
    Format(name="e4m3fnuz", sign=1, exponent=4, mantissa=3, specials="fnuz", overflow="nan", source=_FNUZ),
    Format(name="e5m2fnuz", sign=1, exponent=5, mantissa=2, specials="fnuz", overflow="nan", source=_FNUZ),
    Format(name="e2m3", sign=1, exponent=2, mantissa=3, specials="finite", overflow="saturate", source=_MX),
    Format(name="e3m2", sign=1, exponent=3, mantissa=2, specials="finite", overflow="saturate", source=_MX),
    Format(name="e2m1", sign=1, exponent=2, mantissa=1, specials="finite", overflow="saturate", source=_MX),
    Format(name="e8m0", sign=0, exponent=8, mantissa=0, specials="scale", overflow="nan", source=_MX),
)
# fmt: on

FORMATS: Mapping[str, Format] = MappingProxyType({row.name: row for row in _ROWS})
"""Every format by its name, widest first."""

_ELEMENTS = {
    "mxfp8-e5m2": "e5m2",
    "mxfp8-e4m3": "e4m3fn",
    "mxfp6-e3m2": "e3m2",
    "mxfp6-e2m3": "e2m3",
    "mxfp4-e2m1": "e2m1",
}

BLOCKS: Mapping[str, BlockFormat] = MappingProxyType(
    {
        name: BlockFormat(name=name, element=FORMATS[element], scale=FORMATS["e8m0"], block=32, source=_MX)
        for name, element in _ELEMENTS.items()
    }
)
"""The MX block formats by their names: 32 elements that share one power of two."""


def named(name: str) -> Format:
    """The format of that name.

    Raises FormatError, which lists the names, for any other.

    >>> named("bf16").max
    3.3895313892515355e+38
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise FormatError(f"no number format is called {name!r}", hint=f"there are: {', '.join(FORMATS)}") from None
