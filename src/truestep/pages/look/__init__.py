"""The look that all pages share: base template, style sheet, script, figure style, words for numbers."""

from truestep.pages.look.candidates import Look, looks
from truestep.pages.look.figure import Figure, Panel, logarithmic, plot, scatter, six
from truestep.pages.look.page import render, write_page
from truestep.pages.look.table import Cell, Table

__all__ = ["Cell", "Figure", "Look", "Panel", "Table", "logarithmic", "looks", "plot", "render", "scatter", "six", "write_page"]
