"""Number formats: the table, and exact reference rounding. Pure; torch's dtypes are in `torch_dtypes` alone."""

from truestep.formats.flush import share_flushed
from truestep.formats.format import Format, Overflow, Specials
from truestep.formats.table import BLOCKS, FORMATS, BlockFormat, named

__all__ = ["BLOCKS", "FORMATS", "BlockFormat", "Format", "Overflow", "Specials", "named", "share_flushed"]
