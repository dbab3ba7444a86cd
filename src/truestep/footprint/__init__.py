"""What memory an update takes: by formula, predicted from shapes, and measured, side by side."""

from truestep.footprint.asking import memory
from truestep.footprint.footprint import Footprint
from truestep.footprint.formula import Formula

__all__ = ["Footprint", "Formula", "memory"]
