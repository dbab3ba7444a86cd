"""Which parameters an update is about, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence

from torch.nn import Parameter


def trained(params: Sequence[Parameter]) -> list[Parameter]:
    """What a backward has to reach: a loss may freeze parameters while it runs."""
    return [p for p in params if p.requires_grad]
