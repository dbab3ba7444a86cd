"""What the text of a script tells beside what it did: which `if` a call stands under, and what a value was made of."""

from __future__ import annotations


class Sources:
    """Files read once, as syntax trees; what cannot be read tells nothing."""
