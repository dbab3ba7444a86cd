"""The interactive pictures: name, title, what is done in each, and which lessons it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One interactive picture, whose table the record holds under its name."""

    name: str
    title: str
    lead: str
    facts: tuple[str, ...]
    """The rows of the lessons that it moves."""

    @property
    def file(self) -> str:
        """Its page. No lab's name begins like this."""
        return f"see-{self.name}.html"

    @property
    def stem(self) -> str:
        """Its template and script, without their endings."""
        return self.name.replace("-", "_")


PICTURES = (
    Picture(
        name="number-line",
        title="A gradient on the number line",
        lead="Move a gradient and a loss scale. See it underflow, become subnormal, round or overflow in four formats, and what "
        "comes back once it is unscaled.",
        facts=("C1", "C2", "C3", "A7"),
    ),
    Picture(
        name="clip-and-unscale",
        title="Swap clip and unscale",
        lead="The same two operations in either order, for short and long gradients: what reaches the optimizer.",
        facts=("A1", "A2", "A3", "A8"),
    ),
    Picture(
        name="token-means",
        title="The mean of means",
        lead="Move the token counts of two or three microbatches. The mean by token follows them; the mean of means does not.",
        facts=("B4", "B8"),
    ),
    Picture(
        name="scale-walk",
        title="Drop update() and watch the scale",
        lead="Make gradients large where you like. With update() the scale gives way and grows back; without it, it stays where "
        "it is and the attempts are skipped.",
        facts=("D5", "D6", "D1"),
    ),
    Picture(
        name="one-update",
        title="One effective update, stage by stage",
        lead="Step through a real update in float16: gradient, scale, weights, counts and learning rate after every stage, for "
        "an attempt that completes and for one that overflows.",
        facts=("A6", "B1", "D3"),
    ),
)
"""In the order in which they build up."""


def seen_in(facts: Iterable[str]) -> list[Picture]:
    """The pictures of any of these lessons.

    >>> [picture.name for picture in seen_in(["A6"])]
    ['one-update']
    """
    wanted = set(facts)
    return [picture for picture in PICTURES if wanted & set(picture.facts)]
