"""Which numbers of a loss's weight are its own coefficients, and which come of dividing by microbatches, as the text tells."""

from __future__ import annotations

from itertools import combinations

from truestep.audit.events import Backward, Share
from truestep.audit.story import Story
from truestep.audit.weights import Weighed
from truestep.audit.windows import close


def plain(story: Story, each: Weighed) -> Weighed:
    """The window without its loss's coefficients, where its weight is none that divisions by the window's number alone give.

    Without those that leave a mean, where some do: a coefficient may be the inverse of that number by chance.
    """
    each = each.over_own_counts().without_own_scale()
    if each.divisions is not None:
        return each
    own = [divisor for divisor in each.shares[-1].multiplied if _multiplies(story, each.backwards[-1], divisor)]
    some = [each.without(part) for length in range(1, len(own) + 1) for part in combinations(own, length)]
    means = (left for left in some if close(left.total * left.rescaled, 1.0, 0.01))
    return next(means, some[-1]) if some else each


def of_the_loss(story: Story, each: Weighed) -> bool:
    """Whether the loss was multiplied by a coefficient of its own."""
    return has_coefficient(story, each.backwards[-1], each.shares[-1])


def by_the_number(story: Story, each: Weighed) -> bool:
    """Whether the loss was only divided, or multiplied by what the script made by a division: no coefficient has a part in it."""
    return not each.shares[-1].multiplied or has_coefficient(story, each.backwards[-1], each.shares[-1], quotient=True)


def has_coefficient(story: Story, backward: Backward, share: Share, *, quotient: bool = False) -> bool:
    """Whether a term was multiplied by a number that the script has in its text, or, as a quotient, has made by a division."""
    return any(_multiplies(story, backward, divisor, quotient=quotient) for divisor in share.multiplied)


def _multiplies(story: Story, backward: Backward, divisor: float, *, quotient: bool = False) -> bool:
    sites = {site for site in (backward.site, backward.computed, backward.divided) if site is not None}
    return any(story.sources.multiplied_by(site, 1 / divisor, quotient=quotient) for site in sites)
