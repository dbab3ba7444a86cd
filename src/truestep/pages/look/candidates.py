"""How a candidate is drawn, everywhere on a page alike: colour, dash and marker, so that colour is never the only sign.

The colours are Okabe and Ito's (*Color Universal Design*, 2008), which stay apart under the common kinds of colour
blindness; the style sheet holds one variant for light and one for dark paper. The baseline is drawn in ink.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

COLOURS = 7
"""How many `--series-N` colours the style sheet declares."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""plotly's names; more names than candidates of one colour, so that a pair of colour and dash does not come twice."""

MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")

_STROKES = {
    "solid": "",
    "dash": "5 3",
    "dot": "1.5 2.5",
    "dashdot": "5 2 1.5 2",
    "longdash": "8 3",
    "longdashdot": "8 2 1.5 2",
}
_SHAPES = {
    "circle": "M14 3.6a3.4 3.4 0 1 0 0 6.8a3.4 3.4 0 1 0 0-6.8z",
    "square": "M11 4h6v6h-6z",
    "diamond": "M14 2.6L18.4 7L14 11.4L9.6 7z",
    "triangle-up": "M14 2.8L18.2 10.2H9.8z",
    "cross": "M12.7 3h2.6v2.7H18v2.6h-2.7V11h-2.6V8.3H10V5.7h2.7z",
    "x": "M11.2 3L14 5.8L16.8 3L18 4.2L15.2 7L18 9.8L16.8 11L14 8.2L11.2 11L10 9.8L12.8 7L10 4.2z",
    "star": "M14 2.2L15.3 5.5L18.8 5.7L16.1 8L17 11.4L14 9.5L11 11.4L11.9 8L9.2 5.7L12.7 5.5z",
}


@dataclass(frozen=True, kw_only=True)
class Look:
    """One candidate's colour (a variable of the style sheet), dash and marker (plotly's names)."""

    slot: int
    """The candidate's place on the page, from 0, the baseline."""
    colour: str
    dash: str
    marker: str

    @property
    def swatch(self) -> Markup:
        """The look as a small drawing for legends and tables; it says nothing that the name beside it does not.

        >>> 'var(--series-1)' in looks(["fp32", "fp16"])["fp16"].swatch
        True
        """
        return Markup(
            '<svg class="swatch" viewBox="0 0 28 14" aria-hidden="true" focusable="false">'
            '<line x1="1" x2="27" y1="7" y2="7" stroke="{0}" stroke-width="2" stroke-dasharray="{1}"/>'
            '<path d="{2}" fill="{0}" stroke="var(--paper)"/></svg>'
        ).format(self.colour, _STROKES[self.dash], _SHAPES[self.marker])


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name in order, baseline first; up to 42 names all differ in colour or dash.

    >>> drawn = looks(f"candidate {k}" for k in range(42))
    >>> len({(look.colour, look.dash) for look in drawn.values()})
    42
    """
    return {
        name: Look(
            slot=slot,
            colour=f"var(--series-{slot % COLOURS})",
            dash=DASHES[slot % len(DASHES)],
            marker=MARKERS[(slot + slot // COLOURS) % len(MARKERS)],
        )
        for slot, name in enumerate(names)
    }
