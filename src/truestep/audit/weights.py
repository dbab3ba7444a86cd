"""The weights with which the microbatches of a window enter its gradient, as their losses' graphs tell them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from truestep.audit.events import Backward, Edited, Share
from truestep.audit.site import Site
from truestep.audit.story import Story, Window
from truestep.audit.windows import after_used, close, left_behind, unscaled_by_hand

ALONG = 1e-3
"""1 - cosine up to which gradients were rescaled and not changed otherwise."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """A window whose backwards are microbatches of one loss, all of which could be read."""

    window: Window
    backwards: tuple[Backward, ...]
    shares: tuple[Share, ...]
    aside: tuple[float, ...] = ()
    """Coefficients of the loss that the shares leave out, as what they divide by."""
    undone: float = 1.0
    """A scale of the script's own that the shares leave out, by which the gradients were divided, as that ratio."""

    @property
    def number(self) -> int:
        """How many microbatches it holds."""
        return len(self.backwards)

    @property
    def parts(self) -> tuple[float, ...]:
        """The weight of each microbatch as a whole: 1 for a mean that nothing divides."""
        return tuple(share.weight * share.elements for share in self.shares)

    @property
    def total(self) -> float:
        """Of all of them; 1 is a mean over the window."""
        return sum(self.parts)

    @property
    def rescaled(self) -> float:
        """What gradients were multiplied by afterwards, by hand, all alike; 1 where they were not."""
        if self.edits:
            return math.prod(ratios[0] for ratios in self.edits.values()) / self.undone
        judged = None if self.window.step is None else self.window.step.judged
        along = judged is not None and judged.cosine is not None and judged.cosine > 1 - ALONG and math.isfinite(judged.ratio)
        return judged.ratio if judged is not None and along and not close(judged.ratio, 1.0, 0.01) else 1.0

    @property
    def edits(self) -> dict[Site, tuple[float, ...]]:
        """For each line that rescaled gradients and left their direction, and did not unscale them, by what."""
        found: dict[Site, tuple[float, ...]] = {}
        for edit in after_used(self.window, self.window.of(Edited)):
            if isinstance(edit, Edited) and edit.site is not None and not (edit.reduced or unscaled_by_hand(edit)):
                along = edit.cosine is not None and edit.cosine > 1 - ALONG
                found[edit.site] = (*found.get(edit.site, ()), edit.ratio if along and edit.ratio is not None else math.nan)
        return {site: ratios for site, ratios in found.items() if all(close(ratio, ratios[0]) for ratio in ratios)}

    @property
    def even(self) -> bool:
        """Whether each microbatch has the same weight as a whole."""
        return close(max(self.parts), min(self.parts), 0.01)

    @property
    def reduced(self) -> bool:
        """Whether its gradients were added up over ranks by hand."""
        return any(edit.reduced for edit in self.window.of(Edited))

    def without(self, coefficients: tuple[float, ...]) -> Weighed:
        """As it would be if the loss had not been multiplied by the inverse of these."""
        return replace(self, shares=tuple(_without(share, coefficients) for share in self.shares), aside=coefficients)

    def without_own_scale(self) -> Weighed:
        """As it would be if the loss had not been multiplied by what one line divided the gradients by."""
        ratios = [found[0] for found in self.edits.values() if found[0] < 1.0]
        own = next((each for each in self.shares[-1].multiplied if any(close(each, ratio) for ratio in ratios)), None)
        alike = own is not None and all(own in share.divisors for share in self.shares)
        return replace(self.without((own,)), aside=self.aside, undone=own) if own is not None and alike else self

    def over_own_counts(self) -> Weighed:
        """With sums that were divided by a number of their own microbatch, as by its positives, as the means that they are."""
        given = [share.divisors for share in self.shares]
        if not all(share.summed for share in self.shares) or len({len(each) for each in given}) > 1:
            return self
        own = next((place for place, found in enumerate(zip(*given, strict=True)) if not close(max(found), min(found))), None)
        return self if own is None else replace(self, shares=tuple(_over(share, own) for share in self.shares))

    def divided_by(self, number: float) -> bool:
        """Whether the loss was divided by a number, alone or as a product of several."""
        return holds(self.shares[0], number)

    @property
    def divisions(self) -> int | None:
        """How often the loss was divided by the number of microbatches, as its weight tells; None where no whole number fits."""
        times = round(1 - math.log(self.total, self.number)) if self.total > 0 else -1
        told = times == 0 or self.divided_by(self.number)
        return times if times >= 0 and told and close(self.total, self.number ** (1 - times), 0.01) else None

    @property
    def right_by_some_terms(self) -> bool:
        """Whether some of the equal terms of the loss, taken for one loss, add up to a mean over the window.

        The mean of two losses and their sum, divided by two microbatches, have one graph: where terms are as many as
        microbatches, or a multiple of them, the graph does not tell what a divisor was meant for.
        """
        share = self.shares[0]
        parts = [count / share.joined for count in range(1, share.joined)] + list(range(2, share.alike + 1))
        return any(close(self.total * self.rescaled * part, 1.0, 0.01) for part in parts)


def holds_perhaps(share: Share, number: float) -> bool:
    """Whether a share may have been divided by a number, which then was read as that of its equal terms."""
    return holds(share, number) or share.joined % number == 0


def holds(share: Share, number: float) -> bool:
    """Whether a share was divided by a number, alone or as a product of several; by 1 it always was."""
    given = share.divisors[:6]
    runs = (group for length in range(1, len(given) + 1) for group in combinations(given, length))
    return number == 1 or any(close(math.prod(group), number) for group in runs)


def weighed(story: Story, optimizer: int) -> Iterator[Weighed]:
    """The optimizer's windows of one microbatch or more."""
    for window in story.windows_of(optimizer):
        step, used = window.step, window.used
        shares = tuple(backward.share for backward in used if backward.share is not None)
        if step is None or step.closure or not used or len(used) != len(step.backwards) or len(shares) != len(used):
            continue
        if (
            alike(used)
            and left_behind(window) is None
            and not _parts_of_one(story, used)
            and len({share.node for share in shares}) == 1
            and all(math.isfinite(each.weight) for each in shares)
        ):
            by_example = tuple(_by_example(share, backward, len(used)) for share, backward in zip(shares, used, strict=True))
            yield Weighed(window=window, backwards=used, shares=by_example)


def _by_example(share: Share, backward: Backward, microbatches: int) -> Share:
    """A sum that was divided by the examples of its microbatch, as `batchmean` does, as the mean over these that it is."""
    examples = float(backward.examples or 0)
    if not share.summed or examples not in share.divisors or examples == microbatches:
        return share
    return _over(share, share.divisors.index(examples))


def _over(share: Share, place: int) -> Share:
    """A sum as the mean over what its divisor at this place counts."""
    count, left = share.divisors[place], share.divisors[:place] + share.divisors[place + 1 :]
    return replace(share, weight=1 / count / math.prod(left), elements=count, divisors=left)


def _without(share: Share, coefficients: tuple[float, ...]) -> Share:
    left = tuple(each for each in share.divisors if each not in coefficients)
    multiplied = tuple(each for each in share.multiplied if each not in coefficients)
    weight = share.weight * math.prod(share.divisors) / math.prod(left)
    return replace(share, weight=weight, divisors=left, multiplied=multiplied)


def _parts_of_one(story: Story, backwards: tuple[Backward, ...]) -> bool:
    """Whether they are the real and the fake half of a discriminator's loss, or two views: what a loop lists in its own head."""
    site = backwards[0].site
    return len(backwards) > 1 and site is not None and story.sources.loop_over_parts(site)


def alike(backwards: tuple[Backward, ...]) -> bool:
    """Whether backwards are of one set of parameters and of one line, or of one forward's, each after a forward of its own."""
    lines = {None if each.site is None else each.site.place for each in backwards}
    forwards = {each.forward for each in backwards}
    same = len(lines) == 1 or (len(forwards) == 1 and None not in forwards)
    return same and len({each.reached for each in backwards}) == 1 and all(each.forwards for each in backwards)
